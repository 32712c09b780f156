"""Contacts in, chromosomes out: groups, order, directions; the files that people have; the command line."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from typer.testing import CliRunner

from unshuffle.cli.common import Clock, build
from unshuffle.cli.hic import lines
from unshuffle.errors import BadInput
from unshuffle.readers.contacts import Contacts, read_contacts
from unshuffle.solve.path.lags import joint_gaps, lag_energy
from unshuffle.tasks.chromosomes import told_apart
from unshuffle.tasks.hic import balanced, log_contacts, scaffold, weights


def genome(sizes: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Balanced contacts of chromosomes in true order, decaying with distance, with noise."""
    rng = np.random.default_rng(seed)
    chromosome = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    apart = np.abs(place[:, None] - place)
    expected = np.where(chromosome[:, None] == chromosome, 300 / (1 + apart), 1.5)
    counts = np.triu(expected * rng.lognormal(0, 0.15, expected.shape), 1)
    return counts + counts.T, chromosome


def neighbours(order: np.ndarray) -> float:
    return float((np.abs(np.diff(order)) == 1).mean())


def run(*arguments: str) -> dict:
    result = CliRunner().invoke(build("hic"), ["hic", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_shuffled_bins_of_three_chromosomes_come_apart_and_in_order(tmp_path) -> None:
    counts, chromosome = genome((14, 10, 8))
    mixed = np.random.default_rng(1).permutation(len(counts))
    np.save(tmp_path / "contacts.npy", counts[np.ix_(mixed, mixed)])
    result = run(str(tmp_path / "contacts.npy"), "--out", str(tmp_path / "out"))
    assert sorted(len(group) for group in result["groups"]) == [8, 10, 14]
    for group in result["groups"]:
        assert len(set(chromosome[mixed[group]])) == 1
        assert neighbours(mixed[group]) == 1.0
    assert result["order"] == [k for group in result["groups"] for k in group]
    assert result["left_out"] == []
    assert (tmp_path / "out" / "before-after.png").stat().st_size > 10_000
    told = (tmp_path / "out" / "order.csv").read_text().splitlines()
    assert len(told) == 33
    assert told[0].startswith("position,group,bin")


def test_contigs_find_their_order_and_direction_and_go_into_an_agp(tmp_path) -> None:
    counts, _ = genome((36,), seed=2)
    rng = np.random.default_rng(3)
    pieces = np.split(np.arange(36), [5, 9, 14, 22, 25, 31])
    turned = rng.random(len(pieces)) < 0.5
    shuffle = rng.permutation(len(pieces))
    bins = np.concatenate([pieces[k][::-1] if turned[k] else pieces[k] for k in shuffle])
    names = np.repeat([f"contig{k}" for k in shuffle], [len(pieces[k]) for k in shuffle])
    np.savez(tmp_path / "contacts.npz", contacts=counts[np.ix_(bins, bins)], contig=names)
    options = ("--chromosomes", "1", "--resolution", "1000", "--out", str(tmp_path / "out"))
    result = run(str(tmp_path / "contacts.npz"), *options)
    (placed,) = result["contigs"]
    forward = [(f"contig{k}", "-" if turned[k] else "+") for k in range(len(pieces))]
    other = {"+": "-", "-": "+"}
    found = [(p["name"], p["direction"]) for p in placed]
    assert found in (forward, [(name, other[way]) for name, way in forward[::-1]])
    agp = [line.split("\t") for line in (tmp_path / "out" / "scaffolds.agp").read_text().splitlines()[1:]]
    assert [line[5] for line in agp if line[4] == "W"] == [name for name, _ in found]
    assert int(agp[-1][2]) == 36_000 + 6 * 100
    assert all(int(b[1]) == int(a[2]) + 1 for a, b in itertools.pairwise(agp))


def test_one_chromosome_is_not_cut_and_fewer_can_be_asked_for() -> None:
    counts, _ = genome((15, 15))
    logs = np.log(balanced(counts) + 1.0)
    groups = told_apart(logs, np.arange(30), np.arange(30))
    assert [group.tolist() for group in groups] == [list(range(15)), list(range(15, 30))]
    assert len(told_apart(logs, np.arange(30), np.arange(30), 1)) == 1
    alone = logs[:15, :15]
    assert len(told_apart(alone, np.arange(15), np.arange(15))) == 1
    assert set(map(len, told_apart(logs, np.arange(30), np.repeat(np.arange(3), 10)))) == {30}  # never inside a contig


@pytest.mark.parametrize("back", [1, -1])
@pytest.mark.parametrize("wanted", [None, 2, 3])
def test_parts_of_one_chromosome_are_joined_again(back, wanted) -> None:
    counts, _ = genome((15, 15))
    logs = np.log(balanced(counts) + 1.0)
    order = np.r_[:9, 15:30, np.arange(9, 15)[::back]]  # as a search that was stopped leaves it
    groups = told_apart(logs, order, order, wanted)
    assert len(groups) == (wanted or 2)
    if len(groups) == 2:
        assert [group.tolist() for group in groups] == [list(range(15)), list(range(15, 30))]
    assert sorted(np.concatenate(groups)) == list(range(30))


def test_what_was_stopped_has_no_more_groups_than_chromosomes() -> None:
    counts, chromosome = genome((25,) * 8, seed=2)
    mixed = np.random.default_rng(2).permutation(len(counts))
    names = [str(k) for k in mixed]
    given = Contacts(
        counts[np.ix_(mixed, mixed)], names, np.arange(len(mixed)), names, np.ones(len(mixed), int), 1, balanced=True
    )
    steps = itertools.count(1)
    found = scaffold(given, callback=lambda _: next(steps) <= 20)
    assert found.status == "interrupted"
    assert len(found.groups) == 8
    assert all(len(set(chromosome[mixed[group]])) == 1 for group in found.groups)


def right(groups: list[np.ndarray], chromosome: np.ndarray) -> float:
    """The share of bins in the group that is best for their chromosome, each group for one."""
    shared = np.array([[(chromosome[group] == c).sum() for c in np.unique(chromosome)] for group in groups])
    return float(shared[linear_sum_assignment(-shared)].sum() / len(chromosome))


def test_what_was_hardly_begun_is_cut_rather_than_mixed() -> None:
    counts, chromosome = genome((30,) * 6)
    pairs = np.random.default_rng(0).permutation(90)
    order = (2 * pairs[:, None] + np.arange(2)).reshape(-1)  # bins stand beside one true neighbour
    assert right(told_apart(log_contacts(counts), order, order), chromosome) > 0.95
    sizes = tuple(np.random.default_rng(1).integers(20, 60, 12).tolist())
    counts, chromosome = genome(sizes, seed=1)
    noise = np.triu(np.random.default_rng(1).lognormal(0, 0.3, counts.shape), 1)
    mixed = np.random.default_rng(2).permutation(len(counts))
    noisy = ((counts + 8) * (noise + noise.T))[np.ix_(mixed, mixed)]
    names = [str(k) for k in mixed]
    bins = np.arange(len(mixed))
    first = itertools.count()
    found = scaffold(
        Contacts(noisy, names, bins, names, np.ones(len(mixed), int), 1, balanced=True),
        callback=lambda _: next(first) < 1,
    )
    assert found.status == "interrupted"
    assert right(found.groups, chromosome[mixed]) > 0.85


def test_balancing_removes_how_well_bins_are_seen(tmp_path) -> None:
    counts, _ = genome((12,))
    seen = np.random.default_rng(4).uniform(0.5, 2.0, 12)
    one, other = balanced(counts), balanced(counts * np.outer(seen, seen))
    assert np.allclose(one / one.mean(), other / other.mean(), rtol=1e-6)
    assert np.allclose(balanced(counts).sum(1), balanced(counts).sum(1).mean(), rtol=1e-3)
    np.save(tmp_path / "counted.npy", np.round(counts))
    np.save(tmp_path / "weighted.npy", counts)
    assert not read_contacts(tmp_path / "counted.npy").balanced
    assert read_contacts(tmp_path / "weighted.npy").balanced


def test_gaps_are_what_the_cheapest_move_costs_that_breaks_a_link() -> None:
    rng = np.random.default_rng(0)
    cost = rng.random((6, 6))
    cost = cost + cost.T
    w = weights()[:3]
    order = rng.permutation(6)
    gaps = joint_gaps(order, cost, w)
    base = lag_energy(order, cost, w)
    for link in range(5):  # every turn that breaks the link is a move, so none may be below the gap
        for low in range(6):
            for high in range(low + 2, 7):
                if link + 1 in (low, high) and (low == 0 or high == 6):
                    turned = np.r_[order[:low], order[low:high][::-1], order[high:]]
                    assert lag_energy(turned, cost, w) - base >= gaps[link] - 1e-9


def test_bins_without_contacts_are_left_out_and_joins_of_noise_are_doubtful() -> None:
    counts, _ = genome((16,))
    counts[4], counts[:, 4] = 0.0, 0.0
    contacts = _contacts(counts)
    found = scaffold(contacts, chromosomes=1)
    assert found.left_out.tolist() == [4]
    assert sorted(found.order.tolist()) == [k for k in range(16) if k != 4]
    noise = np.random.default_rng(0).uniform(1, 2, (16, 16))
    assert found.confidence[found.order].mean() > scaffold(_contacts(noise + noise.T), chromosomes=1).confidence.mean()


def _contacts(counts: np.ndarray):
    from unshuffle.readers.contacts import _labelled

    return _labelled(counts, None, None, 1, balanced=True)


def test_cool_files(tmp_path) -> None:
    h5py = pytest.importorskip("h5py")
    counts, chromosome = genome((8, 6))
    first, second = np.nonzero(np.triu(counts))
    with h5py.File(tmp_path / "a.mcool", "w") as file:
        group = file.create_group("resolutions/1000")
        group["chroms/name"] = np.array([b"one", b"two"])
        group["chroms/length"] = np.array([8000, 6000])
        place = np.concatenate([np.arange(8), np.arange(6)])
        group["bins/chrom"], group["bins/start"], group["bins/end"] = chromosome, place * 1000, place * 1000 + 1000
        group["pixels/bin1_id"], group["pixels/bin2_id"] = first, second
        group["pixels/count"] = counts[first, second]
    read = read_contacts(tmp_path / "a.mcool")
    assert np.array_equal(read.counts, counts)
    assert read.contigs == ["one", "two"]
    assert read.lengths.tolist() == [8000, 6000]
    assert read.bins[9] == "two:1000-2000"
    with pytest.raises(BadInput, match="1000"):
        read_contacts(tmp_path / "a.mcool", resolution=5000)
    with h5py.File(tmp_path / "a.mcool") as file, h5py.File(tmp_path / "a.cool", "w") as one:
        for name in file["resolutions/1000"]:
            file.copy(f"resolutions/1000/{name}", one)
        one.attrs["bin-size"] = 1000
    assert np.array_equal(read_contacts(tmp_path / "a.cool", resolution=1000).counts, counts)
    with pytest.raises(BadInput, match="bins of 1000 base pairs, not of 5000"):
        read_contacts(tmp_path / "a.cool", resolution=5000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: np.save(f / "x.npy", np.ones((3, 4))), "square"),
        (lambda f: np.save(f / "x.npy", np.triu(np.ones((4, 4))) - 2), "negative"),
        (lambda f: np.save(f / "x.npy", np.arange(16.0).reshape(4, 4)), "symmetric"),
        (lambda f: np.save(f / "x.npy", np.eye(5)), "contacts"),
        (lambda f: (f / "x.npy").write_bytes(b"hello"), "numpy"),
    ],
)
def test_what_is_refused(tmp_path, make, words) -> None:
    make(tmp_path)
    result = CliRunner().invoke(build("hic"), ["hic", str(tmp_path / "x.npy"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "out").exists()


def test_of_many_groups_the_largest_are_told(tmp_path) -> None:
    found: Any = SimpleNamespace(groups=[[0] * k for k in range(1, 101)], joins=[[1.0]], left_out=[])
    told = lines({"order": list(range(5050)), "status": "finished"}, found, Clock(), tmp_path)[0]
    assert told.startswith("5050 bins in 100 groups of 100, 99, 98, ")
    assert "71 and fewer, in" in told


def test_words_are_no_contacts(tmp_path) -> None:
    np.save(tmp_path / "words.npy", np.array([["a", "b", "c"]] * 3))
    refused = CliRunner().invoke(build("hic"), ["hic", str(tmp_path / "words.npy")])
    assert refused.exit_code == 2
    assert "must hold numbers of contacts" in refused.output
