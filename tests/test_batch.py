"""Many instances of one layout at once."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

import unshuffle as us


def distances(b: int, n: int, seed: int = 0) -> torch.Tensor:
    points = torch.rand(b, n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


@pytest.mark.parametrize("layout", [us.Cycle(8), us.Path(8)])
def test_each_instance_of_a_batch_is_solved(layout):
    cost = distances(6, 8)
    every = torch.tensor(list(permutations(range(8))))
    found = us.solve_all(layout, cost=cost, seed=1)
    best = torch.stack([layout.energy(every, one).min() for one in cost])
    assert torch.allclose(found.energy, best)
    assert found.order.shape == (6, 8) == found.confidence.shape
    assert len(found) == len(list(found)) == 6
    assert all(float(layout.energy(s.order, one)) == s.energy for s, one in zip(found, cost, strict=True))
    assert torch.equal(us.solve_all(layout, cost=list(cost), seed=1).order, found.order)


def test_a_batch_is_as_short_as_one_by_one():
    cost = distances(3, 40, seed=2)
    found = us.solve_all(us.Cycle(40), cost=cost)
    alone = [us.solve(us.Cycle(40), cost=one).energy for one in cost]
    assert float(found.energy.mean()) <= sum(alone) / 3 + 1e-9
    assert "3 instances" in repr(found)


def test_what_has_a_direction_or_is_no_chain_is_solved_too():
    cost = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for layout in (us.Cycle(6), us.Path(6), us.Grid(2, 3)):
        assert us.solve_all(layout, cost=cost)[1].energy == us.solve(layout, cost=cost[1]).energy


def test_a_stopped_batch_has_all_orders():
    points = torch.rand(130, 20, 2, generator=torch.Generator().manual_seed(0))
    found = us.solve_all(us.Cycle(20), items=points, callback=lambda step: "instance 1 of" in step.stage)
    assert found.status == "interrupted"
    assert torch.equal(found.order.sort(1).values, torch.arange(20).expand(130, 20))
    full = us.solve_all(us.Cycle(20), items=points)
    assert torch.equal(full.order[:64], found.order[:64])
    assert float(full.energy[64:].mean()) < 0.95 * float(found.energy[64:].mean())


@pytest.mark.parametrize(
    ("layout", "options", "words"),
    [
        (us.Cycle(8), {}, "one of them"),
        (us.Cycle(8), {"cost": torch.zeros(2, 8, 8), "items": torch.zeros(2, 8, 2)}, "one of them"),
        (us.Cycle(8), {"cost": torch.zeros(8, 8)}, "instances, 8, 8"),
        (us.Cycle(8), {"cost": torch.zeros(2, 9, 9)}, "2, 9, 9"),
        (us.Cycle(8), {"cost": [torch.zeros(8, 8), torch.zeros(9, 9)]}, "differ"),
        (us.Cycle(8), {"cost": torch.full((2, 8, 8), torch.nan)}, "finite"),
        (us.Cycle(8), {"items": torch.zeros(8, 2)}, "instances, 8, d"),
        (us.Grid(2, 4), {"items": torch.zeros(2, 8, 2)}, "cost= alone"),
        (len, {"cost": torch.zeros(2, 8, 8)}, "takes a layout"),
        (us.Cycle(8), {"cost": torch.zeros(2, 8, 8), "seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_used_is_told(layout, options, words):
    with pytest.raises(us.BadInput, match=words):
        us.solve_all(layout, **options)
    with pytest.raises(us.BadInput, match="solve_all"):
        us.solve(us.Cycle(8), cost=torch.zeros(2, 8, 8))
