"""How sure assignments are: the walk against all orders, the information against closed forms, symmetries, twins, chance."""

import itertools
from math import log

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.solve.doubt import Assigned, information


def planted(n: int, noise: float, seed: int, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    draw = np.triu(rng.random((2, n, n)), 1)
    W, other = draw + draw.transpose(0, 2, 1)
    W = W if weights is None else weights
    return W, -W + noise * other


def solved(W: np.ndarray, D: np.ndarray, **options) -> us.Solution:
    return us.solve(us.Graph(torch.from_numpy(W)), cost=torch.from_numpy(D), **options)


def test_the_walk_meets_orders_as_often_as_their_energies_say():
    n = 5
    W, D = planted(n, 0.5, 0)
    orders = np.array(list(itertools.permutations(range(n))))
    mask = np.ones((n, n), bool)
    mask[0, 3] = False
    ways = np.array([[1, 2, 0, 3, 4], [2, 0, 1, 3, 4]])  # one the inverse of the other
    for allowed in (None, mask):
        fits = orders if allowed is None else orders[allowed[orders, np.arange(n)].all(1)]
        energies = np.array([(W * D[np.ix_(order, order)]).sum() for order in fits])
        chance = np.exp(-(energies - energies.min()) / 0.5)
        expected = np.zeros((n, n))
        for order, each in zip(fits, chance / chance.sum(), strict=True):
            expected[order, np.arange(n)] += each
        problem = Assigned(W, D, fits[energies.argmin()], n, n, allowed)
        met = problem.walk(0.5, ways, 8000, np.random.default_rng(0))
        found = np.stack([(met == item).mean(0) for item in range(n)])
        np.testing.assert_allclose(found, expected, atol=0.03)


def test_information_of_a_line_and_of_edges():
    x = np.random.default_rng(0).normal(size=4000)
    assert information(x, x, 0.5) == pytest.approx(-log(1 - 0.5**2) / 2, rel=0.05)
    edges = np.repeat([0.0, 1.0], [70, 30])
    assert information(edges, -edges, 1.0) == pytest.approx(-0.7 * log(0.7) - 0.3 * log(0.3), rel=0.02)
    assert information(x, x, 1e-9) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("n", [8, 14])
def test_what_fits_is_sure_and_what_has_nothing_to_do_with_it_is_not(n):
    W, D = planted(n, 0.05, 1)
    assert solved(W, D, runs=4).confidence.min() > 0.95
    unrelated, _ = planted(n, 0.0, 2)
    found = solved(W, unrelated, runs=4)
    assert found.confidence.mean() < 0.45
    assert found.sets(0.9).places
    assert np.mean([len(places) for places in found.sets(0.9).places]) > n / 2


def test_the_unit_of_costs_does_not_matter():
    W, D = planted(10, 0.4, 3)
    away = 1 - np.eye(10)
    plain, scaled = solved(W, D, runs=2), solved(W, (1000 * D + 77) * away, runs=2)
    assert torch.equal(plain.order, scaled.order)
    torch.testing.assert_close(plain.confidence, scaled.confidence, atol=0.06, rtol=0)


def test_a_mirrored_order_is_no_doubt():
    cells = np.stack(np.divmod(np.arange(12), 4), axis=1)
    streets = np.abs(cells[:, None] - cells).sum(-1).astype(float)
    W, D = planted(12, 0.3, 4, streets)
    order = np.arange(12)
    mirrored = order.reshape(3, 4)[:, ::-1].ravel()
    other = order[[1, 0, *range(2, 12)]]
    problem = Assigned(W, D, order, 12, 12)
    alone, both = (problem.shares(np.stack(orders)).diagonal() for orders in ((order, other), (order, mirrored, other)))
    assert alone.min() > 0.9
    np.testing.assert_allclose(both, alone, atol=0.05)


def test_items_that_nobody_could_tell_apart_are_in_doubt_and_places_are_not():
    n = 24
    W, _ = planted(n, 0.0, 5)
    same = np.r_[0, 0, 2:n]
    alike = W[np.ix_(same, same)]
    here = np.arange(n)
    items = Assigned(W, -alike, here, n, n).shares(here[None])
    assert items.diagonal()[2:].min() > 0.9
    np.testing.assert_allclose(items[:2, :2], 0.5, atol=0.15)
    places = Assigned(alike, -W, here, n, n).shares(here[None])
    assert places.diagonal().min() > 0.9


def test_two_orders_that_no_exchange_leads_between_share_their_confidence():
    """Two groups of items with the same costs, on two groups of positions that differ a little."""
    rng = np.random.default_rng(6)
    part = np.triu(rng.random((7, 7)), 1)
    part = part + part.T
    W, D = np.zeros((14, 14)), np.zeros((14, 14))
    W[:7, :7], W[7:, 7:] = part, part + 0.01 * np.ones((7, 7)) - 0.01 * np.eye(7)
    D[:7, :7] = D[7:, 7:] = -part
    order = np.arange(14)
    swapped = np.roll(order, 7)
    alone, both = (Assigned(W, D, order, 14, 14).shares(some) for some in (order[None], np.stack((order, swapped))))
    assert alone.diagonal().min() > 0.9
    np.testing.assert_allclose(both.diagonal(), 0.5, atol=0.1)
    np.testing.assert_allclose(both[swapped, order], 0.5, atol=0.1)


def test_forbidden_places_have_no_share():
    W, D = planted(9, 0.3, 7)
    allowed = torch.ones(9, 9, dtype=torch.bool)
    allowed[2, :5] = False
    found = solved(W, D, allowed=allowed, runs=2)
    assert allowed[found.order, torch.arange(9)].all()
    assert all(set(places.tolist()) <= {5, 6, 7, 8} for places in found.sets(0.99).places[2:3])


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_where_nothing_tells_orders_apart_every_place_is_as_likely(n):
    found = us.solve(us.Graph(torch.rand(n, n)), cost=torch.ones(n, n), runs=2)
    torch.testing.assert_close(found.confidence, torch.full((n,), 1 / n))


@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize("symmetric", [False, True])
def test_alternatives_of_graphs_are_the_best_of_all(n, symmetric):
    g = torch.Generator().manual_seed(n)
    W, D = torch.rand(2, n, n, generator=g, dtype=torch.float64)
    W, D = (W + W.T, D + D.T) if symmetric else (W, D)
    allowed = torch.ones(n, n, dtype=torch.bool)
    allowed[0, 1:3] = False
    orders = torch.tensor(list(itertools.permutations(range(n))))
    for mask, all_orders in ((None, orders), (allowed, orders[allowed[orders, torch.arange(n)].all(1)])):
        found = us.solve(us.Graph(W), cost=D, allowed=mask)
        energies = us.Graph(W).energy(all_orders, D).sort().values
        others = found.alternatives(6)
        assert [other.energy for other in others] == pytest.approx(energies[1:7].tolist())
        assert len({tuple(other.order.tolist()) for other in others}) == 6


def test_a_mirrored_order_is_no_alternative():
    step = (torch.arange(9)[:, None] - torch.arange(9)).abs().double()
    g = torch.Generator().manual_seed(0)
    D = torch.rand(9, 9, generator=g, dtype=torch.float64)
    found = us.solve(us.Graph(step), cost=D + D.T, runs=2)
    energies = [found.energy, *(other.energy for other in found.alternatives(5))]
    assert all(later > first + 1e-9 for first, later in itertools.pairwise(energies))


def test_what_chance_alone_could_make_as_good_is_less_sure():
    said, right = [], []
    for seed in range(100, 106):
        rng = np.random.default_rng([seed, 9, 1600])
        size = np.exp(rng.normal(size=(9, 3)))
        W = np.sqrt(size @ size.T) * (1 - np.eye(9))
        draw = np.triu(rng.normal(size=(9, 9)), 1)
        found = us.solve(us.Graph(torch.from_numpy(W)), cost=torch.from_numpy(-W + 1.6 * (draw + draw.T)), seed=seed)
        said.append(found.confidence.mean())
        right.append((found.order == torch.arange(9)).double().mean())
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.06)
