"""Sets that hold the truth: the walk against all orders, the sets against known answers, and every kind of solution has them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.cli.doubts import sets_in
from unshuffle.errors import BadInput
from unshuffle.solve.path import walk
from unshuffle.solve.path.lags import lag_energy
from unshuffle.solve.path.walk import nearby_orders
from unshuffle.solve.sets import likeliest, near_orders


def boltzmann(cost: np.ndarray, weights: np.ndarray, temperature: float, closed: bool) -> np.ndarray:
    """How often each two items are neighbours, over all orders."""
    n = len(cost)
    orders = np.array(list(itertools.permutations(range(n))))
    energy = np.array([lag_energy(o, cost, weights) + closed * cost[o[-1], o[0]] for o in orders])
    chance = np.exp(-(energy - energy.min()) / temperature)
    share = np.zeros((n, n))
    for order, c in zip(orders, chance / chance.sum(), strict=True):
        ahead = np.roll(order, -1) if closed else order[1:]
        np.add.at(share, (order[: len(ahead)], ahead), c)
    return share + share.T


@pytest.mark.parametrize(("reach", "closed", "directed", "near"), [(1, False, False, 2), (3, False, False, 1), (1, True, False, 2), (1, False, True, 8)])  # fmt: skip
def test_the_walk_meets_orders_as_often_as_their_energy_says(reach, closed, directed, near, monkeypatch):
    monkeypatch.setattr(walk, "NEAR", near)  # fewer than all, so that there and back are drawn unequally often
    rng = np.random.default_rng(reach + closed)
    cost = rng.random((6, 6))
    cost = cost if directed else (cost + cost.T) / 2
    weights = np.array(us.Path(6, reach=reach).weights)
    orders = nearby_orders(np.arange(6), cost, weights, 0.4, rng, closed=closed, count=1500)
    ahead = np.roll(orders, -1, 1) if closed else orders[:, 1:]
    share = np.zeros((6, 6))
    np.add.at(share, (orders[:, : ahead.shape[1]].ravel(), ahead.ravel()), 1 / len(orders))
    assert np.abs(share + share.T - boltzmann(cost, weights, 0.4, closed)).max() < 0.05


def test_the_walk_keeps_pieces_whole_and_what_a_mask_holds():
    rng = np.random.default_rng(0)
    cost = rng.random((8, 8))
    cost = cost + cost.T
    cuts = np.array([True, False, True, False, True, False, True, False, True])
    for order in nearby_orders(np.arange(8), cost, np.ones(1), 10.0, rng, cuts=cuts, count=50):
        assert (np.abs(np.diff(order.reshape(4, 2))) == 1).all()
    allowed = np.ones((8, 8), bool)
    allowed[3], allowed[3, 3] = False, True
    orders = nearby_orders(np.arange(8), cost, np.ones(1), 10.0, rng, allowed=allowed, count=50)
    assert (orders[:, 3] == 3).all()
    assert len(np.unique(orders, axis=0)) > 20
    rings = nearby_orders(np.arange(8), cost, np.ones(1), 10.0, rng, closed=True, allowed=allowed, count=50)
    assert (rings[:, 3] == 3).all()
    assert len(np.unique(rings, axis=0)) > 20
    held = nearby_orders(np.arange(8), cost, np.ones(1), 10.0, rng, held=True, count=50)
    assert (held[:, [0, -1]] == [0, 7]).all()


def test_sets_are_the_fewest_that_make_up_the_level():
    shares = csr_array(np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 0.0], [0.1, 0.9, 0.0]]))
    assert [s.tolist() for s in likeliest(shares, 0.8)] == [[0, 1], [], [1]]
    assert [s.tolist() for s in likeliest(shares, 0.95)] == [[0, 1, 2], [], [1, 0]]


def test_sets_that_leave_the_last_out_by_chance_make_up_just_the_level():
    row, generator = [0.5, 0.3, 0.2], torch.Generator().manual_seed(0)
    shares = csr_array(np.array([row] * 20_000 + [[1.0, 0.0, 0.0]] * 20_000))
    sets = likeliest(shares, 0.6, generator)
    assert {tuple(s.tolist()) for s in sets} == {(0,), (0, 1), ()}
    held = [sum(row[k] for k in some.tolist()) for some in sets[:20_000]]
    assert abs(np.mean(held) - 0.6) < 0.005
    assert abs(np.mean([len(some) for some in sets[20_000:]]) - 0.6) < 0.015
    assert min(map(len, sets[:20_000])) == 1


@pytest.mark.parametrize(("noise", "right"), [(0.03, 0.8), (0.08, 0.4)])
def test_sets_of_noisy_curves_hold_the_truth_about_as_often_as_they_say(noise, right):
    """Also where the best order is much smoother than the truth."""
    places, partners, singles = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        t = np.linspace(0, 3, 60)
        points = np.stack([np.cos(t), np.sin(t)], 1) + noise * rng.standard_normal((60, 2))
        mixed = rng.permutation(60)
        cost = np.sqrt(np.square(points[mixed, None] - points[mixed]).sum(-1))
        found = us.solve_all(us.Path(60), cost=cost[None])[0]
        truth = mixed if np.corrcoef(np.argsort(found.order.numpy()), mixed)[0, 1] > 0 else 59 - mixed
        sets, at = found.sets(), np.argsort(truth)
        places += [truth[k] in sets.places[k].tolist() for k in range(60)]
        partners += [b in sets.partners[a].tolist() for a, b in itertools.pairwise(at.tolist())]
        singles += (truth[found.order.numpy()] == np.arange(60)).tolist()
    assert np.mean(singles) < right
    assert 0.88 <= np.mean(places) <= 0.98
    assert 0.88 <= np.mean(partners) <= 0.98


def test_a_walk_finds_a_long_stretch_that_lies_the_wrong_way_round():
    x = np.arange(300.0)
    cost = np.abs(x[:, None] - x)
    turned = np.r_[np.arange(150)[::-1], np.arange(150, 300)]
    met = np.argsort(nearby_orders(turned, cost, np.ones(1), 0.2, np.random.default_rng(0), count=5), 1)
    assert (np.abs(met[:, 149] - met[:, 150]) < 5).all()


def test_tours_have_the_partners_that_other_tours_of_the_solver_have():
    points = torch.rand(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = us.solve(us.Cycle(12), cost=torch.cdist(points, points))
    order = found.best_order
    far = order[torch.tensor([0, 6, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11])]  # a link that no walk keeps
    both = replace(found, tried=torch.stack((order, far)))
    a, b = order[[0, 6]].tolist()
    assert b not in replace(found, tried=None).sets(0.95).partners[a].tolist()
    assert b in both.sets(0.95).partners[a].tolist()


def test_every_solution_has_sets():
    g = torch.Generator().manual_seed(0)
    points = torch.rand(12, 2, generator=g, dtype=torch.float64)
    cost = torch.cdist(points, points)
    solved = {
        "path": us.solve(us.Path(7), cost=cost[:7, :7]),
        "lags": us.solve(us.Path(7, reach=3), cost=cost[:7, :7]),
        "few": us.solve(us.Path(3), cost=cost[:3, :3]),
        "one": us.solve(us.Path(1), cost=cost[:1, :1]),
        "tour": us.solve(us.Cycle(12), cost=cost, time_limit=0.5),
        "partial": us.solve(us.Path(5), cost=cost[:7, :7], reject=0.4),
        "directions": us.solve(us.Path(6), cost=torch.zeros(6, 2, 6, 2)),
        "grid": us.solve(us.Grid(3, 4), cost=(torch.rand(12, 12, generator=g), torch.rand(12, 12, generator=g))),
        "graph": us.solve(us.Graph(torch.rand(7, 7, generator=g)), cost=cost[:7, :7]),
        "loss": us.solve(lambda x: (x[1:] - x[:-1]).abs().sum(), items=points[:8]),
    }
    for name, found in solved.items():
        sets, n = found.sets(0.9), len(found.confidence)
        assert (not sets.places) == (name == "tour"), name
        assert (not sets.partners) == (name in ("graph", "loss")), name
        for some in (sets.places, sets.partners):
            assert not some or len(some) == n
        assert "90%" in repr(sets)
        fewer = found.sets(0.9, torch.Generator().manual_seed(0))
        for some, less in ((sets.places, fewer.places), (sets.partners, fewer.partners)):
            assert all(len(a) - len(b) in (0, 1) for a, b in zip(some, less, strict=True)), name
    with pytest.raises(BadInput, match="level"):
        found.sets(1.0)


def test_a_sure_order_has_single_places_and_an_unknown_one_all():
    x = torch.arange(20, dtype=torch.float64)
    sure = us.solve(us.Path(20), cost=(x[:, None] - x).abs())
    assert all(len(places) == 1 for places in sure.sets().places)
    nothing = us.solve(us.Path(20), cost=torch.ones(20, 20).double() - torch.eye(20).double())
    assert np.mean([len(places) for places in nothing.sets().places]) > 15
    unknown = replace(sure, weigh=None, soft=torch.full((20, 20), 0.05), confidence=torch.full((20,), 0.05))
    assert all(len(places) >= 18 for places in unknown.sets().places)


def test_places_of_a_picture_that_may_be_cut_elsewhere():
    """A torus without a border: every row may be the first."""
    tile = torch.arange(12)
    row, column = tile // 4, tile % 4
    right = torch.where((row[:, None] == row) & ((column[:, None] + 1) % 4 == column), 0.0, 1.0)
    below = torch.where((column[:, None] == column) & ((row[:, None] + 1) % 3 == row), 0.0, 1.0)
    found = us.solve(us.Grid(3, 4), cost=(right, below))
    sets = found.sets(0.95)
    assert all(len(places) == 12 for places in sets.places)
    assert all(len(partners) <= 4 for partners in sets.partners)


def test_shares_of_a_tempered_walk_are_wider():
    rng = np.random.default_rng(1)
    x = np.sort(rng.random(30))
    cost = np.abs(x[:, None] - x) + 0.01 * rng.random()
    walks = [near_orders(us.Path(30), cost, np.arange(30), t).places for t in (1e-4, 0.02, 0.2)]
    sizes = [0 if walk is None else walk.nnz for walk in walks]
    assert sizes[0] == 30 < sizes[1] < sizes[2]


def test_commands_write_sets(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["x,y", *(f"{a:.4f},{b:.4f}" for a, b in rng.random((12, 2)))]
    (tmp_path / "p.csv").write_text("\n".join(rows))
    for command, names in (("tour", {"level", "partners"}), ("seriate", {"level", "places", "partners"})):
        call = [command, str(tmp_path / "p.csv"), "--json", "--out", str(tmp_path / command)]
        ran = CliRunner().invoke(build(command), call)
        told = json.loads(ran.stdout)
        assert set(told["sets"]) == names
        assert len(told["sets"]["partners"]) == 12


def test_what_was_stopped_is_written_without_the_time_that_sets_take(monkeypatch):
    found = us.solve(us.Path(12), cost=torch.rand(12, 12, generator=torch.Generator().manual_seed(0)))
    assert set(sets_in(found)) == set(sets_in(replace(found, status="time limit"))) == {"sets"}
    assert sets_in(replace(found, status="interrupted")) == {}
    monkeypatch.setattr("unshuffle.cli.doubts.SOON", 10)
    assert sets_in(replace(found, status="time limit")) == {}


def test_alternatives_are_other_orders_the_best_first():
    g = torch.Generator().manual_seed(0)
    points = torch.rand(12, 2, generator=g, dtype=torch.float64)
    cost = torch.cdist(points, points)
    right, below = torch.rand(2, 12, 12, generator=g)
    pile = us.solve(us.Grid(2, 3), cost=(right[:5, :5], below[:5, :5]), reject=False)
    for found in (us.solve(us.Path(7), cost=cost[:7, :7]), us.solve(us.Grid(3, 4), cost=(right, below)), pile):
        others = found.alternatives(4)
        assert len(others) == 4
        energies = [found.best_energy, *(other.energy for other in others)]
        assert energies[1:] == sorted(energies[1:])
        orders = {tuple(other.order.tolist()) for other in others} | {tuple(found.best_order.tolist())}
        assert len(orders) == 5
        assert all(sorted(order) == sorted(found.best_order.tolist()) for order in orders)
    grid = us.solve(us.Grid(3, 4), cost=(right, below))
    for other in grid.alternatives(2):
        assert other.energy == pytest.approx(float(us.Grid(3, 4).energy(other.order, (right, below))))
    partial = us.solve(us.Path(5), cost=cost[:7, :7], reject=0.4)
    energies = [other.energy for other in partial.alternatives(2)]
    assert partial.best_energy <= energies[0] <= energies[1]
    assert grid.alternatives(0) == []


def test_groups_have_sets_and_alternatives():
    from unshuffle.readers.contacts import Contacts
    from unshuffle.tasks.hic import scaffold

    rng = np.random.default_rng(0)
    apart = np.abs(np.subtract.outer(np.arange(24), np.arange(24)))
    counts = 100.0 / (1 + apart) * np.exp(0.2 * np.triu(rng.standard_normal((24, 24)), 1))
    counts = np.triu(counts, 1) + np.triu(counts, 1).T
    contig = np.repeat(np.arange(6), 4)
    names = [str(k) for k in range(6)]
    found = scaffold(Contacts(counts, [str(k) for k in range(24)], contig, names, np.full(6, 4), 1, balanced=True), chromosomes=1)  # fmt: skip
    sets = found.sets(0.9)
    assert all(k in sets.places[k].tolist() or 23 - k in sets.places[k].tolist() for k in range(24))
    (others,) = found.alternatives(2)
    assert len(others) == 2
    assert others[0].energy <= others[1].energy
    for other in others:
        owners = contig[other.order.numpy()]
        assert (np.diff(owners) != 0).sum() == 5  # contigs stay whole
        assert not np.array_equal(other.order, found.groups[0])
