"""The energy that those who look on are told while tiles anneal: the definition, the limit, and that asking changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.solve.grid.crystal import Lists, Room
from unshuffle.solve.grid.expected import energy_of_lists, expected_energy


def costs(n: int, states: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(n)
    return torch.rand(n * states, n * states, generator=random), torch.rand(n * states, n * states, generator=random)


def by_definition(P, cost, shape, tile, price=None) -> float:
    """Seam after seam of the torus, then without the dearest column and row of seams."""
    height, width = shape
    total = 0.0
    for C, (down, across), lines in ((cost[0], (0, 1), width), (cost[1], (1, 0), height)):
        sums = np.zeros(lines)
        for y in range(height):
            for x in range(width):
                c, d = y * width + x, (y + down) % height * width + (x + across) % width
                pairs = np.outer(P[:, c], P[:, d])
                worth = (pairs * np.where(tile[:, None] == tile, 0, C.numpy())).sum()
                worth += 0 if price is None else price * (1 - P[:, c].sum() * P[:, d].sum())
                sums[x if across else y] += worth
        total += sums.sum() - sums.max()
    return total


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 2)])
@pytest.mark.parametrize("states", [1, 2])
def test_it_is_the_mean_cost_of_tiles_that_stand_independently(shape, states):
    cells = shape[0] * shape[1]
    tiles, random = cells - 1, np.random.default_rng(1)
    cost, tile = costs(tiles, states), np.arange(tiles * states) // states
    P = 0.5 * random.dirichlet(np.ones(tiles * states), cells).T
    rest = random.random(tiles * states) / (10 * tiles)
    wanted = by_definition(P + rest[:, None], cost, shape, tile, price=0.7)
    assert expected_energy(P.T, rest, cost, shape, states, 0.7) == pytest.approx(wanted, rel=1e-5)


def test_of_a_decided_layout_it_is_the_energy_of_the_picture_wherever_the_torus_is_cut():
    grid = us.Grid(3, 4)
    cost = costs(12)
    cost[0].mul_(0.1), cost[1].mul_(0.1)
    for y in range(3):  # seams across the border are dear
        cost[0][4 * y + 3, 4 * y] = 5.0
    cost[1][torch.arange(8, 12), torch.arange(4)] = 5.0
    wanted = float(grid.energy(torch.arange(12), cost))
    moved = np.roll(np.arange(12).reshape(3, 4), (1, 2), (0, 1)).reshape(-1)
    P = np.eye(12)[moved]
    assert expected_energy(P, np.zeros(12), cost, (3, 4)) == pytest.approx(wanted, rel=1e-5)
    crystal = Lists(moved, 0, Room(3, 4))
    assert energy_of_lists(crystal, cost) == pytest.approx(wanted, rel=1e-5)


def test_before_anything_stands_it_is_the_mean_of_all_seams():
    cost = costs(30)
    board = np.full(30, -1)
    board[0] = 0
    apart = ~torch.eye(30, dtype=torch.bool)
    mean = 5 * 5 * cost[0][apart].mean() + 4 * 6 * cost[1][apart].mean()
    assert energy_of_lists(Lists(board, 0, Room(5, 6)), cost) == pytest.approx(float(mean), rel=0.15)


def test_who_looks_on_is_told_an_energy_that_falls_and_changes_nothing_by_asking():
    random = torch.Generator().manual_seed(0)
    n, told = 24, []
    cost = costs(n)
    order = torch.randperm(n, generator=random)
    for C, pairs in zip(cost, us.Grid(4, 6).relations(), strict=True):
        C[order[pairs[:, 0]], order[pairs[:, 1]]] = 0.02 * torch.rand(len(pairs), generator=random)

    def asked(step):
        told.append((step.stage, step.energy if step.expected is None else step.expected()))

    seen = us.solve(us.Grid(4, 6), cost=cost, callback=asked)
    alone = us.solve(us.Grid(4, 6), cost=cost)
    assert torch.equal(seen.order, alone.order)
    assert torch.equal(seen.soft, alone.soft)
    annealed = [energy for stage, energy in told if stage == "anneal"]
    assert all(math.isfinite(energy) for energy in annealed)
    assert annealed[-1] < annealed[0] / 3
    assert annealed[-1] == pytest.approx(seen.energy, abs=0.3)
    assert all(math.isnan(step.energy) for step in seen.history if step.stage == "anneal"), (
        "the history is the solver's"
    )
