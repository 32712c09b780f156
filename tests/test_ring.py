"""Tours on short lists of items: with all items in all lists the step is the dense one; a soft tour's cost is its energy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.solve.anneal import Pace, scattered
from unshuffle.solve.cycle.levels import Level, _kept, dense_pull
from unshuffle.solve.cycle.ring import LIGHT, Ring, RingPull, expected_cost, ring_steps
from unshuffle.solve.warm import WarmState, warm_step
from unshuffle.structure.layouts import Cycle

pytestmark = pytest.mark.skipif(not have_numba, reason="rings are numba kernels")


def _level(n: int, bins: int, symmetric: bool) -> Level:
    cost = torch.rand(1, n, n, generator=torch.Generator().manual_seed(n))
    cost = cost + cost.mT if symmetric else cost
    cost[:, torch.arange(n), torch.arange(n)] = 0
    return Level(cost, cost, symmetric, bins, 0.5, lambda beta: 0.1 * math.sqrt(beta), 1.0, Pace(), 0.9)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bins", [12, 30])
def test_full_lists_are_the_dense_step(symmetric, bins):
    n, betas = 30, np.linspace(1.0, 4.0, 12)
    level = _level(n, bins, symmetric)
    soft = scattered(2, bins, n, n / bins, torch.Generator().manual_seed(1), noise=0.3)
    state = WarmState(soft.clone(), row_mass=n / bins)
    pull = dense_pull(level, torch.empty_like(state.soft))
    for beta in betas:
        warm_step(state, pull(state.ahead, beta), beta, damping=0.4, momentum=0.8, sweeps=5)

    rings = [Ring.of(run, np.ones((bins, n), bool)) for run in soft.numpy()]
    after = level.cost.numpy()
    before = after if symmetric else np.ascontiguousarray(after.transpose(0, 2, 1))
    gammas = np.array([level.gamma(beta) for beta in betas])
    for part in np.split(np.arange(12), 3):  # in three calls: what one leaves the next goes on from
        ring_steps(
            rings, RingPull(after, before, level.weight), betas[part], gammas[part], damping=0.4, momentum=0.8, sweeps=5
        )
    for ring, run, purity in zip(rings, state.soft.numpy(), state.purity.tolist(), strict=True):
        np.testing.assert_allclose(ring.dense(), run, atol=100 * LIGHT)  # weights below LIGHT are left out of the pull
        assert ring.purity == pytest.approx(purity, abs=1e-2)
        np.testing.assert_allclose(ring.dense().sum(0), 1.0, atol=1e-4)


def test_lists_hold_what_is_seen_and_where_the_neighbours_stand():
    soft = np.zeros((10, 10), np.float32)
    soft[np.arange(10), np.arange(10)] = 0.9
    soft[5, 0] = 0.1
    near = np.full((10, 1), 7)
    keep = _kept(soft, near)
    assert set(np.flatnonzero(keep[:, 0])) == {9, 0, 1, 5, 6, 7, 8}
    assert set(np.flatnonzero(keep[:, 3])) == {2, 3, 4, 6, 7, 8}


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_expected_cost_of_a_hard_tour_is_its_length(symmetric):
    n = 20
    cost = _level(n, n, symmetric).cost[0]
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    hard = np.zeros((n, n), np.float32)
    hard[np.arange(n), order.numpy()] = 1
    ring = Ring.of(hard, np.ones((n, n), bool))
    assert expected_cost(ring, cost.numpy()) == pytest.approx(float(Cycle(n).energy(order, cost)), rel=1e-5)
    assert ring.entropy == pytest.approx(0.0, abs=1e-6)
    uniform = Ring.of(np.full((5, n), n / 5 / n, np.float32), np.ones((5, n), bool))
    assert uniform.entropy == pytest.approx(1.0, abs=1e-5)
    # n links, each between two items drawn at random
    assert expected_cost(uniform, cost.numpy()) == pytest.approx(n * float(cost.mean()), rel=1e-5)


@pytest.mark.parametrize("kind", ["one point", "pairs", "lattice", "clusters", "directed"])
def test_unusual_cities_give_a_tour_and_finite_numbers(kind):
    n, draw = 40, torch.Generator().manual_seed(3)
    points = {
        "one point": torch.ones(n, 2),
        "pairs": torch.rand(n // 2, 2, generator=draw).repeat(2, 1),
        "lattice": torch.cartesian_prod(torch.arange(8.0), torch.arange(5.0)),
        "clusters": torch.randint(3, (n, 1), generator=draw) * 100.0 + torch.rand(n, 2, generator=draw),
        "directed": torch.rand(n, 2, generator=draw),
    }[kind].double()
    cost = torch.cdist(points, points)
    cost = cost + torch.rand(n, n, generator=draw).double() if kind == "directed" else cost
    found = us.solve(us.Cycle(n), cost=cost)
    assert sorted(found.order.tolist()) == list(range(n))
    assert torch.isfinite(found.confidence).all()
    assert torch.isfinite(found.soft).all()
    if kind == "lattice":  # 40 unit steps
        assert found.energy < 1.1 * n
    if kind == "pairs":  # the way through half of the cities, each twice
        half = us.solve(us.Cycle(n // 2), cost=cost[: n // 2, : n // 2])
        assert found.energy < 1.15 * half.energy


def test_few_cities_are_as_sure_as_their_tour_is_better_than_others():
    """All tours are tried then, but the best of equal ones is no more certain than they are."""
    alike = us.solve(us.Cycle(6), cost=torch.zeros(6, 6)).confidence
    assert alike.amax() < 0.4
    angle = torch.arange(6) * (2 * torch.pi / 6)
    ring = torch.stack((angle.cos(), angle.sin()), 1)
    clear = us.solve(us.Cycle(6), cost=torch.cdist(ring, ring).square()).confidence
    assert clear.amin() > 0.8
    ring[1] = ring[0]  # whom of the two the others are beside, nothing tells
    doubtful = us.solve(us.Cycle(6), cost=torch.cdist(ring, ring).square()).confidence
    assert doubtful[:2].amax() < 0.7 < doubtful[3:5].amin()
