"""Local search: never worse than its input, keeps the mask, finds what small moves can find."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unshuffle.solve import local_search as search
from unshuffle.structure.layouts import Cycle, Graph, Grid, Path

LAYOUTS = ("tour", "path", "assignment", "grid")


def _case(kind, n, seed, symmetric, masked, batch=3):
    """A random problem: layout, its search as a function of orders, cost, orders, mask."""
    draw = torch.Generator().manual_seed(seed)
    D = torch.rand(n, n, generator=draw, dtype=torch.float64)
    D = D + D.T if symmetric else D
    W = torch.rand(n, n, generator=draw, dtype=torch.float64)
    orders = torch.stack([torch.randperm(n, generator=draw) for _ in range(batch)])
    allowed = torch.rand(n, n, generator=draw) < 0.5 if masked else None
    if allowed is not None:
        allowed[orders, torch.arange(n)] = True
    if kind == "tour":
        return Cycle(n), lambda o: search.improve_tour(o, D, allowed=allowed), D, orders, allowed
    if kind == "path":
        return Path(n), lambda o: search.improve_path(o, D, allowed=allowed), D, orders, allowed
    if kind == "assignment":
        return Graph(W), lambda o: search.improve_assignment(o, D, W, allowed=allowed), D, orders, allowed
    return Grid(1, n), lambda o: search.improve_grid(o, (D, W), 1, n, allowed=allowed), (D, W), orders, allowed


@pytest.mark.parametrize("kind", LAYOUTS)
@given(n=st.integers(1, 9), seed=st.integers(0, 10**6), symmetric=st.booleans(), masked=st.booleans())
@settings(max_examples=60, deadline=None)
def test_never_worse_and_still_a_permutation(kind, n, seed, symmetric, masked):
    layout, improve, cost, orders, allowed = _case(kind, n, seed, symmetric, masked)
    improved = improve(orders)
    assert torch.equal(improved.sort(dim=1).values, torch.arange(n).expand(3, n))
    assert bool((layout.energy(improved, cost) <= layout.energy(orders, cost) + 1e-12).all())
    if allowed is not None:
        assert bool(allowed[improved, torch.arange(n)].all())


@pytest.mark.parametrize("kind", LAYOUTS)
def test_no_improving_swap_of_neighbours_is_left(kind):
    """Swapping two adjacent positions is a move of every one of the searches."""
    layout, improve, cost, orders, _ = _case(kind, 8, 3, True, False)
    improved = improve(orders)
    found = layout.energy(improved, cost)
    for a in range(7):
        swapped = improved.clone()
        swapped[:, [a, a + 1]] = improved[:, [a + 1, a]]
        assert bool((layout.energy(swapped, cost) >= found - 1e-9).all())


def test_a_crossing_is_undone():
    points = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=torch.float64)
    D = torch.cdist(points, points)
    order = search.improve_tour(torch.tensor([0, 2, 1, 3]), D)
    assert float(Cycle(4).energy(order, D)) == pytest.approx(4.0)


def test_or_opt_moves_a_pair_that_no_single_reversal_can():
    """Points on a line with a block cut out and put elsewhere the right way round: one Or-opt move restores the order."""
    points = torch.arange(12, dtype=torch.float64)[:, None]
    D = torch.cdist(points, points)
    order = torch.tensor([0, 1, 5, 6, 2, 3, 4, 7, 8, 9, 10, 11])
    found = search.improve_path(order, D)
    assert float(Path(12).energy(found, D)) == 11.0


def test_a_directed_ring_is_kept_in_its_direction():
    """Costs 0 along the ring, 1 otherwise: 2-opt must charge the reversed stretch, or it would take this for symmetric."""
    n = 10
    D = torch.ones(n, n, dtype=torch.float64)
    D[torch.arange(n), (torch.arange(n) + 1) % n] = 0
    order = torch.arange(n)
    assert torch.equal(search.improve_tour(order, D).sort().values, order)
    assert float(Cycle(n).energy(search.improve_tour(order, D), D)) == 0.0
    moved = torch.tensor([0, 1, 2, 6, 3, 4, 5, 7, 8, 9])
    assert float(Cycle(n).energy(search.improve_tour(moved, D), D)) == 0.0


def test_tiny_scales_are_not_mistaken_for_rounding():
    torch.manual_seed(0)
    points = torch.rand(30, 2, dtype=torch.float64)
    D = torch.cdist(points, points)
    order = torch.randperm(30)
    assert torch.equal(search.improve_tour(order, D), search.improve_tour(order, D * 2**-40))
