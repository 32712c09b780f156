"""Paths of items that may be turned round, and chains by their cheapest links."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.errors import BadInput
from unshuffle.solve.path.links import linked_chains


def joins(n: int, seed: int) -> np.ndarray:
    """Costs of joining two ends, seen from both sides: cost[i, s, k, t]."""
    ends = np.random.default_rng(seed).random((2 * n, 2 * n))
    ends = ends + ends.T
    cost = np.empty((n, 2, n, 2))
    for i, s, k, t in product(range(n), (0, 1), range(n), (0, 1)):
        cost[i, s, k, t] = ends[2 * i + 1 - s, 2 * k + t]
    return cost


def along(cost: np.ndarray, order: list[int], state: list[int]) -> float:
    return sum(cost[a, s, b, t] for (a, s), (b, t) in pairwise(zip(order, state, strict=True)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_of_all_orders_and_directions_is_found(seed: int) -> None:
    cost = joins(5, seed)
    best = min(along(cost, list(p), list(s)) for p in permutations(range(5)) for s in product((0, 1), repeat=5))
    found = us.solve(us.Path(5), cost=cost)
    assert found.state is not None
    assert found.energy == pytest.approx(best)
    assert along(cost, found.order.tolist(), found.state.tolist()) == pytest.approx(best)
    assert int(found.state.sum()) <= 2  # of the two ways to walk along it the one with fewer turned


def test_forty_items_with_clear_joins_come_back_as_they_were_but_for_the_whole() -> None:
    rng = np.random.default_rng(3)
    n, cost = 40, joins(40, 3)
    order, state = rng.permutation(n), rng.integers(0, 2, n)
    for a, b in pairwise(order):
        cost[a, state[a], b, state[b]] = cost[b, 1 - state[b], a, 1 - state[a]] = -1
    found = us.solve(us.Path(n), cost=torch.from_numpy(cost), polish=True)
    assert found.state is not None
    assert found.best_energy == pytest.approx(1 - n)
    ways = [(order, state[order]), (order[::-1], 1 - state[order[::-1]])]
    assert any((found.order.numpy() == o).all() and (found.state.numpy() == s).all() for o, s in ways)


def test_joins_must_look_the_same_from_both_sides() -> None:
    cost = joins(4, 0)
    cost[0, 0, 1, 1] += 0.5
    with pytest.raises(BadInput, match="one join, seen from both sides"):
        us.solve(us.Path(4), cost=cost)
    with pytest.raises(BadInput, match="as many"):
        us.solve(us.Path(5), cost=joins(4, 0))
    with pytest.raises(BadInput, match="leave out reach"):
        us.solve(us.Path(4, reach=2), cost=joins(4, 0))


def directed(n: int, seed: int) -> np.ndarray:
    """Links as clear as those of strips, from 0 to 1, 1 to 2 and so on, among pairs that are none."""
    rng = np.random.default_rng(seed)
    cost = rng.normal(-20, 7, (n, n))
    k = np.arange(n - 1)
    cost[k, k + 1] = rng.normal(-150, 30, n - 1)
    return cost


def test_chains_end_where_links_are_too_dear_and_keep_to_their_groups() -> None:
    cost = directed(30, 0)
    cost[9, 10] = cost[19, 20] = -25.0
    mixed = np.random.default_rng(1).permutation(30)
    chains = [mixed[chain].tolist() for chain in linked_chains(cost[np.ix_(mixed, mixed)], most=-60.0)]
    assert sorted(chains) == [list(range(10)), list(range(10, 20)), list(range(20, 30))]
    groups = np.where(np.arange(30) < 10, 0, np.where(np.arange(30) < 28, 1, -1))
    two = sorted(linked_chains(cost, groups=groups), key=lambda chain: len(chain))
    assert [len(chain) for chain in two] == [10, 20]
    assert sorted(two[0].tolist()) == list(range(10))


def test_a_directed_path_is_never_dearer_than_its_cheapest_links() -> None:
    cost = directed(80, 5)
    mixed = np.random.default_rng(6).permutation(80)
    found = us.solve(us.Path(80), cost=cost[np.ix_(mixed, mixed)])
    assert mixed[found.order.numpy()].tolist() == list(range(80))
    noise = np.random.default_rng(7).random((60, 60))
    linked = torch.from_numpy(linked_chains(noise)[0])
    assert us.solve(us.Path(60), cost=noise, time_limit=0.0).energy <= float(
        us.Path(60).energy(linked, torch.from_numpy(noise))
    )
