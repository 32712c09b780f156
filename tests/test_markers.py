"""Genetic maps: the likelihood is its definition, groups and orders come back, errors do not fool it, files are read."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.readers.genotypes import Genotypes, on_its_side, read_genotypes
from unshuffle.solve.linkage import (
    BACKCROSS,
    INTERCROSS,
    LINES,
    Cross,
    cross_of,
    link_chances,
    messages,
    moves_at,
    readings,
    recombination,
    ripple,
)
from unshuffle.tasks import markers
from unshuffle.tasks.markers import pair_fractions


def cross(markers: int, individuals: int, r: float, seed: int, error: float = 0.0, missing: float = 0.0) -> np.ndarray:
    """An intercross: two chromosomes per individual, each changing strand with probability r between markers."""
    rng = np.random.default_rng(seed)
    strands = (
        rng.integers(0, 2, (2, individuals, 1))
        ^ np.cumsum(
            np.concatenate([np.zeros((2, individuals, 1), int), rng.random((2, individuals, markers - 1)) < r], 2), 2
        )
        % 2
    )
    values = strands.sum(0)
    wrong = rng.random(values.shape) < error
    values[wrong] = (values[wrong] + rng.integers(1, 3, wrong.sum())) % 3
    values[rng.random(values.shape) < missing] = -1
    return values


@pytest.mark.parametrize("kind", [INTERCROSS, BACKCROSS, LINES])
def test_the_likelihood_is_the_sum_over_all_true_genotypes(kind: Cross) -> None:
    values = np.array([[0, 1, -1, 2], [2, 2, 1, 0], [1, -1, 1, 1]])
    emit, r = readings(values, kind, 0.05), np.array([0.1, 0.3, 0.02])
    steps, prior = kind.moves(r), np.array(kind.prior)
    expected = 0.0
    for row in range(3):
        total = 0.0
        for path in itertools.product(range(len(kind.states)), repeat=4):
            p = prior[path[0]] * np.prod([emit[a, row, g] for a, g in enumerate(path)])
            total += p * np.prod([steps[a][path[a], path[a + 1]] for a in range(3)])
        expected += np.log(total)
    ahead, behind, found = messages(emit, steps, prior)
    assert found == pytest.approx(expected)
    assert np.allclose(steps.sum(2), 1)
    assert ahead.shape == behind.shape == emit.shape


def test_recombination_never_lowers_the_likelihood_and_finds_the_fractions() -> None:
    values = cross(6, 3000, 0.08, 1, error=0.02, missing=0.1)
    emit = readings(values, INTERCROSS, 0.02)
    values_of = [recombination(emit, INTERCROSS, 0.3, rounds)[1] for rounds in (1, 2, 4, 8)]
    assert values_of == sorted(values_of)
    assert np.abs(recombination(emit, INTERCROSS, 0.3, 20)[0] - 0.08).max() < 0.015


def test_ripple_never_lowers_the_likelihood_and_undoes_a_swap() -> None:
    values = cross(14, 300, 0.03, 2, error=0.03, missing=0.05)
    emit, step, prior = readings(values, INTERCROSS, 0.03), INTERCROSS.moves(np.array(0.03)), np.array(INTERCROSS.prior)

    def likelihood(order: np.ndarray) -> float:
        return messages(emit[order], np.repeat(step[None], 13, 0), prior)[2]

    start = np.array([0, 1, 3, 2, 4, 9, 8, 7, 6, 5, 10, 12, 11, 13])
    found = ripple(start, emit, step, prior)
    assert likelihood(found) >= likelihood(start)
    assert likelihood(found) >= likelihood(np.arange(14)) - 1e-6
    swapped = found.copy()
    swapped[[6, 7]] = swapped[[7, 6]]
    odds = np.exp(likelihood(swapped) - likelihood(found))
    moves = moves_at(found, emit, step, prior)
    chances = link_chances(14, moves)
    k = int(np.flatnonzero((moves.low == 6) & (moves.high == 8))[0])
    assert np.exp(moves.gain[k]) == pytest.approx(odds)
    assert moves.odds[k] == pytest.approx(np.sqrt(odds))
    assert moves.made(found, k).tolist() == swapped.tolist()
    assert (chances[[5, 7]] <= 1 / (1 + np.sqrt(odds)) + 1e-6).all()  # a rival that breaks these two links
    assert ((chances > 0) & (chances <= 1)).all()


def test_fractions_of_pairs_and_their_lod() -> None:
    values = cross(2, 4000, 0.2, 3)
    r, lod = pair_fractions(values, INTERCROSS)
    assert r[0, 1] == pytest.approx(0.2, abs=0.02)
    assert lod[0, 1] > 100
    free, none = pair_fractions(np.random.default_rng(0).integers(0, 3, (400, 2)), INTERCROSS)
    assert free[0, 1] > 0.4
    assert none[0, 1] < 3
    two = (cross(2, 4000, 0.1, 4) > 0).astype(int)
    assert cross_of(cross(5, 100, 0.1, 0)) == INTERCROSS
    assert cross_of(two) == BACKCROSS
    assert cross_of(2 * two) == LINES


def test_groups_and_orders_come_back_from_a_file(tmp_path) -> None:
    parts = [cross(12, 120, 0.05, 5, error=0.02, missing=0.05), cross(9, 120, 0.05, 6, error=0.02, missing=0.05)]
    values = np.concatenate(parts, axis=1)
    mixed = np.random.default_rng(7).permutation(21)
    words = np.array(["AA", "AB", "BB", "-"])[values[:, mixed]]
    lines = [",".join(["id", *(f"m{k}" for k in mixed)]), *(f"i{k}," + ",".join(row) for k, row in enumerate(words))]
    path = tmp_path / "geno.csv"
    path.write_text("# genotypes\n" + "\n".join(lines) + "\n")
    result = CliRunner().invoke(build("markers"), ["markers", str(path), "--json", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [len(group) for group in told["groups"]] == [12, 9]
    for group in told["groups"]:
        order = np.array([int(name[1:]) for name in group])
        assert len(set(order >= 12)) == 1
        assert (np.abs(np.diff(order)) == 1).mean() > 0.7
        assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) > 0.97
    assert 20 < told["centimorgans"][0][-1] < 110
    assert (tmp_path / "out" / "map.csv").read_text().splitlines()[0].startswith("group,position,marker,centimorgans")
    assert (tmp_path / "out" / "map.png").stat().st_size > 10_000


def test_ctrl_c_in_one_group_ends_them_all_with_an_order_of_each(monkeypatch) -> None:
    values = np.concatenate([cross(10, 150, 0.05, 5), cross(8, 150, 0.05, 6), cross(6, 150, 0.05, 7)], axis=1)
    calls = []

    def pressed(layout, **given):
        calls.append(layout)
        return replace(us.solve(layout, **given), status="interrupted")

    monkeypatch.setattr(markers, "solve", pressed)
    names = [f"m{k}" for k in range(24)], [f"i{k}" for k in range(150)]
    found = markers.linkage_map(Genotypes(values, *names, ("AA", "AB", "BB")))
    assert len(calls) == 1
    assert found.status == "interrupted"
    assert [sorted(group.order) for group in found.groups] == [
        list(range(10)),
        list(range(10, 18)),
        list(range(18, 24)),
    ]
    assert all((np.abs(np.diff(group.order)) == 1).mean() > 0.7 for group in found.groups)
    assert not any(group.joins.any() for group in found.groups), "nobody has looked at nearby orders"
    assert [len(group.alternatives(2)) for group in found.groups] == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,a,b\n1,AA,AB\n2,BB,-\n3,,BA\n", [[0, 1], [2, -1], [-1, 1]]),
        ("a,b\nA,H\nB,A\nH,NA\n", [[0, 1], [2, 0], [1, -1]]),
        ("id,a,b\nx,0,1\ny,2,NA\nz,1,2\n", [[0, 1], [2, -1], [1, 2]]),
        ("id;a;b\nx;1;2\ny;3;-\nz;1;3\n", [[0, 1], [2, -1], [0, 2]]),
        ("id,a,b\nx,SS,SB\ny,BB,-\nz,BS,SS\n", [[2, 1], [0, -1], [1, 2]]),
    ],
)
def test_genotypes_in_many_spellings(tmp_path, text: str, expected: list) -> None:
    path = tmp_path / "g.csv"
    path.write_text(text)
    read = read_genotypes(path)
    assert read.markers == ["a", "b"]
    assert read.values.tolist() == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,a,a\n1,AA,AB\n2,BB,AB\n", "own name"),
        ("id,a,b\n1,AA,XYZ\n2,BB,AB\n", "XYZ"),
        ("id,a,b\n1,5,7\n2,9,1\n", "genotypes must be"),
        ("id,a\n1,AA\n2,AB\n", "at least two"),
    ],
)
def test_genotypes_that_are_refused(tmp_path, text: str, words: str) -> None:
    path = tmp_path / "g.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        read_genotypes(path)


@pytest.mark.parametrize(
    ("count", "individuals", "r"), [(20, 100, 0.05), (12, 300, 0.25), (60, 40, 0.03), (30, 60, 0.1), (150, 150, 0.02)]
)
def test_markers_in_rows_are_noticed(count, individuals, r, tmp_path) -> None:
    for seed in range(3):
        values = cross(count, individuals, r, seed, error=0.01, missing=0.05)
        names = [str(k) for k in range(count)], [str(k) for k in range(individuals)]
        assert not on_its_side(Genotypes(values, *names, ("A", "H", "B")))
        assert on_its_side(Genotypes(values.T, *names[::-1], ("A", "H", "B")))


def test_a_file_with_markers_in_rows_gets_a_hint(tmp_path) -> None:
    values = cross(12, 40, 0.05, 1)
    rows = [",".join(["marker", *(f"i{k}" for k in range(40))])]
    rows += [",".join([f"m{k}", *("AHB"[v] for v in column)]) for k, column in enumerate(values.T)]
    (tmp_path / "geno.csv").write_text("\n".join(rows) + "\n")
    words = ["markers", str(tmp_path / "geno.csv"), "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(build("markers"), words)
    assert done.exit_code == 0, done.output
    assert "add --transposed" in done.output
    right = CliRunner().invoke(build("markers"), [*words, "--transposed", "--json"])
    assert "doubt" not in json.loads(right.stdout)
    assert len(json.loads(right.stdout)["groups"]) == 1
