"""Paths and tours without whole matrices: from coordinates or a sparse cost, by near neighbours and local search."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import Result
from scipy.sparse import csr_array, eye_array
from scipy.stats import kendalltau
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.readers.tsplib import RULES, matrix_of
from unshuffle.solve import kinds
from unshuffle.solve.local_search import improve_tour
from unshuffle.solve.near import circuit as circuits
from unshuffle.solve.near.circuit import Circuit
from unshuffle.solve.near.links import among_points, shortest_links
from unshuffle.solve.near.space import Space, nearest_points
from unshuffle.tasks import tour as tours
from unshuffle.watch import Watch


@pytest.fixture
def few(monkeypatch):
    """Hundreds of items are many."""
    monkeypatch.setattr(kinds, "WHOLE", 50)
    monkeypatch.setattr(tours, "WHOLE", 50)


def helix(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = rng.random(n)
    curve = np.stack((np.cos(12 * t) * (1 + t), np.sin(12 * t) * (1 + t), 3 * t), axis=1)
    return curve + noise * rng.standard_normal((n, 3)), t


def neighbours(points: np.ndarray, k: int = 10) -> csr_array:
    near = nearest_points(points, k)
    rows = np.repeat(np.arange(len(points)), k)
    apart = np.linalg.norm(points[rows] - points[near.ravel()], axis=1)
    return csr_array((apart, (rows, near.ravel())), shape=(len(points),) * 2)


def test_a_tour_from_coordinates_is_short_and_measured_right(few):
    points = torch.rand(400, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = us.solve(us.Cycle(400), items=points, seed=3)
    cost = torch.cdist(points, points)
    assert torch.equal(found.order.sort().values, torch.arange(400))
    assert found.energy == pytest.approx(float(us.Cycle(400).energy(found.order, cost)), rel=1e-9)
    # no reversal and no move of three helps any more, nearly: those that go to far items are not looked at
    polished = us.Cycle(400).energy(improve_tour(found.order, cost), cost)
    assert float(polished) > 0.99 * found.energy
    assert found.energy < 0.7124 * 20 * 1.1  # the best of 400 uniform points are about 5 % longer than the limit
    assert found.soft.is_sparse
    assert torch.equal(found.soft.coalesce().indices()[1], found.order.argsort())
    assert found.energies.shape == (1,)
    assert torch.equal(us.solve(us.Cycle(400), items=points, seed=3).order, found.order)


def test_a_path_follows_a_noisy_curve_that_the_shortest_one_folds(few):
    points, t = helix(1500, 0.05)
    found = us.solve(us.Path(1500), items=points)
    assert abs(kendalltau(found.order.argsort(), t).statistic) > 0.985
    space, tour = Space.of_points(points), None
    tour = shortest_links(1500, space.pairs(), among_points(points))
    free = Circuit.of_path(space, tour, np.random.default_rng(0))
    free.settle(Watch(), "")
    assert abs(kendalltau(np.argsort(free.way), t).statistic) < 0.9
    assert found.energy < 1.25 * free.length


def test_points_of_a_square_are_not_ordered_from_side_to_side(few):
    points = np.random.default_rng(0).random((900, 2))
    assert us.solve(us.Path(900), items=points).energy < 0.75 * 30  # from side to side it is more than twice as long


def test_a_sparse_cost_is_solved_like_the_points_it_comes_from(few):
    points, t = helix(600, 0.01, seed=4)
    found = us.solve(us.Path(600), cost=neighbours(points))
    assert abs(kendalltau(found.order.argsort(), t).statistic) > 0.99
    plane = np.random.default_rng(2).random((400, 2))
    by_points = us.solve(us.Cycle(400), items=plane)
    assert us.solve(us.Cycle(400), cost=neighbours(plane)).energy < 1.1 * by_points.energy


def test_few_items_become_a_whole_matrix():
    points = torch.rand(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cost = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(us.solve(us.Cycle(30), items=points).order, us.solve(us.Cycle(30), cost=cost).order)
    line = torch.randperm(9, generator=torch.Generator().manual_seed(0)).double()
    assert us.solve(us.Path(9), items=line).energy == 8.0
    graph = csr_array(([1.0, 2.0, 0.0, 5.0], ([0, 1, 2, 0], [1, 2, 3, 3])), shape=(4, 4))
    assert us.solve(us.Path(4), cost=graph).energy == 3.0  # a stored 0 is a cost, and not no edge


@pytest.mark.parametrize("closed", [True, False])
def test_search_in_stretches_counts_what_it_gains(monkeypatch, closed):
    monkeypatch.setattr(circuits, "STRETCH", 60)
    rng = np.random.default_rng(5)
    points = rng.random((500, 3))
    space = Space.of_points(points)
    start = rng.permutation(500)
    ring = Circuit(space, start, rng) if closed else Circuit.of_path(space, start, rng)
    lengths = [ring.length]
    for step in (ring.settle, lambda *rest: ring.kick(3000, *rest)):
        step(Watch(), "")
        assert ring.length == pytest.approx(space.length(ring.way, closed), rel=1e-9)
        assert np.array_equal(np.sort(ring.way), np.arange(500))
        lengths.append(ring.length)
    assert lengths[0] > 2 * lengths[1] > 2 * lengths[2]


def test_neighbours_by_tree_and_by_comparison_are_the_same():
    points = np.random.default_rng(0).standard_normal((300, 13))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2) + np.diag(np.full(300, np.inf))
    assert np.array_equal(nearest_points(points, 7), np.argsort(apart, axis=1)[:, :7])
    assert np.array_equal(nearest_points(points[:, :3], 7)[:, 0], np.argsort(
        np.linalg.norm(points[:, None, :3] - points[None, :, :3], axis=2) + np.diag(np.full(300, np.inf)), axis=1)[:, 0])  # fmt: skip
    same = np.zeros((30, 2))
    assert (nearest_points(same, 5) != np.arange(30)[:, None]).all()


@pytest.mark.parametrize("kind", ["identical", "lumps", "clusters", "line", "wide"])
def test_awkward_points_have_an_order(few, kind):
    rng = np.random.default_rng(0)
    points = {
        "identical": np.zeros((80, 2)),
        "lumps": rng.integers(0, 3, (200, 2)).astype(float),
        "clusters": 1e3 * rng.integers(0, 5, (200, 1)) + rng.random((200, 2)),
        "line": rng.random(100),
        "wide": rng.standard_normal((120, 40)),
    }[kind]
    for layout in (us.Cycle(len(points)), us.Path(len(points))):
        found = us.solve(layout, items=points)
        assert torch.equal(found.order.sort().values, torch.arange(len(points)))
        assert bool(((found.confidence >= 0) & (found.confidence <= 1)).all())
    if kind == "line":
        assert found.energy == pytest.approx(float(np.ptp(points)))
    if kind == "clusters":
        assert found.energy < 1.01 * 4000 * 2**0.5


def test_a_stopped_search_has_an_order(few):
    points = np.random.default_rng(0).random((500, 2))
    stopped = us.solve(us.Cycle(500), items=points, time_limit=0.0)
    assert stopped.status == "time limit"
    assert torch.equal(stopped.order.sort().values, torch.arange(500))
    assert np.isfinite(stopped.energy)
    stages = []
    found = us.solve(
        us.Cycle(500), items=points, callback=lambda step: stages.append(step.stage) or "kicks" not in step.stage
    )
    assert found.status == "interrupted"
    assert stages[-1] == "kicks"
    assert found.energy < stopped.energy / 5


N = 60
LINE = csr_array((np.ones(N - 1), (np.arange(N - 1), np.arange(1, N))), shape=(N, N))


@pytest.mark.parametrize(
    ("layout", "options", "words"),
    [
        (us.Cycle(N), {"items": np.zeros((N, 2)), "cost": np.zeros((N, N))}, "not both"),
        (us.Path(N), {}, "or items="),
        (us.Grid(6, 10), {"items": np.zeros((N, 2))}, "cost= alone"),
        (us.Path(N), {"items": np.zeros((N + 1, 2))}, f"{N + 1} came"),
        (us.Path(N), {"items": np.zeros((N, 2, 2))}, "coordinates"),
        (us.Path(N), {"items": np.full((N, 2), np.nan)}, "finite"),
        (us.Path(N), {"items": np.full((N, 2), 1e200)}, "power of ten"),
        (us.Path(N), {"items": LINE}, "given as cost="),
        (us.Path(N, reach=3), {"items": np.zeros((N, 2))}, "reach=3"),
        (us.Path(N), {"items": np.zeros((N, 2)), "reject": True}, "reject="),
        (us.Path(N), {"items": np.zeros((N, 2)), "init": np.zeros((N, N))}, "must be an order"),
        (us.Path(N), {"cost": eye_array(N)}, f"in {N} parts"),
        (us.Path(N + 1), {"cost": LINE}, "61 x 61, not 60 x 60"),
        (us.Path(N), {"cost": -LINE}, "negative"),
        (us.Path(N), {"cost": LINE * np.nan}, "finite"),
        (us.Path(N), {"cost": LINE + 2 * LINE.T}, "1, 0 and 0, 1 differ"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told(few, layout, options, words):
    with pytest.raises(us.BadInput, match=words):
        us.solve(layout, **options)


@pytest.mark.parametrize("rule", RULES)
def test_many_cities_are_measured_as_few(few, rule, tmp_path):
    rng = np.random.default_rng(0)
    points = rng.uniform(-80, 80, (70, 2)).round(2)
    lines = [f"{k + 1} {x} {y}" for k, (x, y) in enumerate(points)]
    head = f"NAME : some\nTYPE : TSP\nDIMENSION : 70\nEDGE_WEIGHT_TYPE : {rule}\nNODE_COORD_SECTION"
    file = tmp_path / "some.tsp"
    file.write_text("\n".join([head, *lines, "EOF", ""]))
    cities = tours.read_cities(file)
    assert cities.cost is None
    assert cities.places is not None
    found = tours.solve_tour(cities)
    measured = us.Cycle(70).energy(found.order, matrix_of(points, RULES[rule]))
    assert found.energy == float(measured) == tours.tour_length(cities, found.order)
    anyhow = us.Cycle(70).energy(torch.arange(70), matrix_of(points, RULES[rule]))
    assert found.energy < 0.4 * float(anyhow)


def test_many_places_on_the_globe_go_round_it(few, tmp_path):
    longitude = np.random.default_rng(0).uniform(-180, 180, 80)
    file = tmp_path / "globe.csv"
    file.write_text("lon,lat\n" + "\n".join(f"{x:.5f},60.0" for x in longitude))
    cities = tours.read_cities(file)
    found = tours.solve_tour(cities)
    assert found.energy == pytest.approx(2 * np.pi * 6371.009 * 0.5, rel=0.01)  # half of the equator at 60 degrees
    assert "great circles" in cities.understood
    assert len(tours.other_tours(cities, found, 2)) == 2


def command(*words: object) -> Result:
    return CliRunner().invoke(build(str(words[0])), [*map(str, words)])


def test_commands_take_this_way_by_themselves(tmp_path):
    points, t = helix(2100, 0.01)
    np.savetxt(tmp_path / "long.csv", points, delimiter=",", header="a,b,c", comments="", fmt="%.6f")
    done = command("seriate", tmp_path / "long.csv", "-o", tmp_path / "out", "--json", "--time-limit", 60)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert abs(kendalltau(np.argsort(result["order"]), t).statistic) > 0.98
    assert result["from"] == "near neighbours"
    assert (tmp_path / "out" / "before-after.png").stat().st_size > 10_000
    done = command("seriate", tmp_path / "long.csv", "--criterion", "two-sum", "-o", tmp_path / "no")
    assert done.exit_code == 2
    assert "too many" in done.stderr
    assert not (tmp_path / "no").exists()


def test_without_numba(tmp_path):
    code = (
        "import numpy as np, unshuffle as us; from unshuffle.solve import kinds; kinds.WHOLE = 20\n"
        "found = us.solve(us.Cycle(60), items=np.random.default_rng(0).random((60, 2)), time_limit=2)\n"
        "print(sorted(found.order.tolist()) == list(range(60)), found.energy < 7)"
    )
    run = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, env={**os.environ, "UNSHUFFLE_NUMBA": "0"}, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_confidence_says_whether_neighbours_can_be_told(few):
    for noise, low, high in ((0.0, 0.97, 1.0), (0.05, 0.0, 0.4)):
        points, t = helix(800, noise, seed=6)
        found = us.solve(us.Path(800), items=points)
        link = np.abs(np.diff(t.argsort().argsort()[found.order])) == 1
        right = np.r_[True, link] & np.r_[link, True]
        assert low <= float(found.confidence.mean()) <= high
        assert abs(float(found.confidence.mean()) - right.mean()) < 0.2


def test_a_long_chain_starts_from_a_given_order(few):
    x = np.sort(np.random.default_rng(0).random(80))[:, None]
    start = np.arange(80)
    start[30:50] = start[30:50][::-1]
    found = us.solve(us.Path(80), items=x, init=start, seed=1)
    assert found.energy == pytest.approx(x[-1, 0] - x[0, 0])
    around = us.solve(us.Cycle(80), items=x, init=start)
    assert around.energy == pytest.approx(2 * (x[-1, 0] - x[0, 0]))
    stopped = us.solve(us.Path(80), items=x, init=start, time_limit=0.0)
    assert stopped.energy <= np.abs(np.diff(x[start, 0])).sum() + 1e-12
    with pytest.raises(us.BadInput, match="each of the items"):
        us.solve(us.Path(80), items=x, init=np.zeros(80))
    with pytest.raises(us.BadInput, match="allowed= is a matrix"):
        us.solve(us.Path(80), items=x, allowed=np.ones((80, 80), bool))


def test_annealing_starts_from_a_given_order_too():
    x = torch.arange(20, dtype=torch.float64)[:, None]
    found = us.solve(us.Path(20), cost=torch.cdist(x, x), init=torch.arange(20).flip(0))
    assert found.energy == pytest.approx(19.0)
