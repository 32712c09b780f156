"""Grids: recovery of known layouts, masks, starts, limits; the kernels against slow and obvious ones."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unshuffle as us
from unshuffle.operators.permutation import inverse
from unshuffle.solve.grid import crystal, dense, regrow, segments, solver
from unshuffle.solve.grid.affinity import Affinities
from unshuffle.solve.grid.evidence import Evidence
from unshuffle.solve.grid.frame import Frame
from unshuffle.solve.grid.reassembly import Effort, Reassembly, fill
from unshuffle.solve.grid.seams import NO_MASK, SIDES, Bonds, SeamScores
from unshuffle.solve.grid.solver import place_confidence
from unshuffle.solve.request import Request
from unshuffle.solve.warm import POWERS
from unshuffle.structure.layouts import Grid, Path
from unshuffle.structure.seams import affinity
from unshuffle.watch import Watch


def puzzle(
    height: int, width: int, seed: int = 0, noise: float = 0.1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Costs of a shuffled grid whose true seams are cheap, and the true order."""
    g = torch.Generator().manual_seed(seed)
    n = height * width
    right, below = (1 + 0.5 * torch.rand(n, n, generator=g) for _ in range(2))
    truth = torch.randperm(n, generator=g)
    for cost, pairs in zip((right, below), Grid(height, width).relations(), strict=True):
        cost[truth[pairs[:, 0]], truth[pairs[:, 1]]] = 0.3 + noise * torch.rand(len(pairs), generator=g)
    return right, below, truth


def score_of(order: np.ndarray, shape: tuple[int, int], right: np.ndarray, below: np.ndarray) -> float:
    """Seam by seam."""
    tiles = order.reshape(shape)
    total = 0.0
    for y in range(shape[0]):
        for x in range(shape[1]):
            total += right[tiles[y, x], tiles[y, x + 1]] if x + 1 < shape[1] else 0
            total += below[tiles[y, x], tiles[y + 1, x]] if y + 1 < shape[0] else 0
    return total


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 9), (9, 1), (2, 2), (1, 2), (1, 1)])
def test_recovers_a_known_layout(shape):
    right, below, truth = puzzle(*shape)
    s = us.solve(us.Grid(*shape), cost=(right, below))
    assert s.order.tolist() == truth.tolist()
    assert s.energy == pytest.approx(float(Grid(*shape).energy(truth, (right.double(), below.double()))))
    assert s.confidence.shape == (len(truth),)
    assert ((s.confidence >= 0) & (s.confidence <= 1)).all()
    assert s.soft.sum(1) == pytest.approx(np.ones(len(truth)), abs=1e-3)
    assert s.status == "finished"


def test_the_same_seed_gives_the_same_order():
    right, below, _ = puzzle(6, 6, noise=0.9)
    orders = [us.solve(us.Grid(6, 6), cost=(right, below), seed=4).order.tolist() for _ in range(2)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("kind", ["constant", "zero", "noise", "huge", "negative", "duplicates"])
def test_costs_that_tell_nothing_still_give_an_order(kind):
    n = 12
    g = torch.Generator().manual_seed(1)
    cost = {
        "constant": torch.ones(n, n),
        "zero": torch.zeros(n, n),
        "noise": torch.rand(n, n, generator=g),
        "huge": 1e30 * torch.rand(n, n, generator=g),
        "negative": -torch.rand(n, n, generator=g),
        "duplicates": torch.where(torch.rand(n, n, generator=g) < 0.7, 0.0, 1.0),
    }[kind]
    s = us.solve(us.Grid(3, 4), cost=(cost, cost.T.clone()))
    assert sorted(s.order.tolist()) == list(range(n))
    assert torch.isfinite(s.soft).all()
    assert torch.isfinite(s.confidence).all()


def test_a_duplicate_tile_is_less_sure_than_the_others():
    right, below, truth = puzzle(5, 5)
    first, second = truth[6], truth[18]
    for cost in (right, below):
        cost[second] = cost[first]
        cost[:, second] = cost[:, first]
    below[truth[1], first] = below[truth[1], second] = 0.3
    s = us.solve(us.Grid(5, 5), cost=(right, below))
    others = [i for i in range(25) if i not in (int(first), int(second))]
    assert max(s.confidence[first], s.confidence[second]) < s.confidence[others].median()


def test_anchors_hold_even_where_the_costs_disagree():
    right, below, truth = puzzle(5, 6)
    allowed = torch.ones(30, 30, dtype=torch.bool)
    for place, tile in ((0, int(truth[0])), (7, int(truth[29]))):  # one in its place, one far from it
        allowed[:, place] = False
        allowed[tile] = False
        allowed[tile, place] = True
    s = us.solve(us.Grid(5, 6), cost=(right, below), allowed=allowed)
    assert int(s.order[0]) == int(truth[0])
    assert int(s.order[7]) == int(truth[29])
    assert allowed[s.order, torch.arange(30)].all()
    assert (s.order == truth).float().mean() > 0.8


def test_one_anchor_settles_where_a_borderless_picture_starts():
    """On a cylinder no seam tells left from right; one anchor does."""
    height, width = 4, 6
    right, below, truth = puzzle(height, width)
    tiles = truth.reshape(height, width)
    right[tiles[:, -1], tiles[:, 0]] = 0.3  # the borders match better than the seams do
    allowed = torch.ones(24, 24, dtype=torch.bool)
    allowed[:, 9] = False
    allowed[truth[9]] = False
    allowed[truth[9], 9] = True
    assert us.solve(us.Grid(height, width), cost=(right, below), allowed=allowed).order.tolist() == truth.tolist()


def test_forbidden_pairs_are_kept():
    right, below, truth = puzzle(4, 4, noise=0.9)
    allowed = torch.rand(16, 16, generator=torch.Generator().manual_seed(0)) < 0.5
    allowed[truth, torch.arange(16)] = True
    s = us.solve(us.Grid(4, 4), cost=(right, below), allowed=allowed, polish=True)
    assert allowed[s.order, torch.arange(16)].all()
    assert allowed[s.best_order, torch.arange(16)].all()


@pytest.mark.parametrize("shift", [(0, 0), (2, 3), (4, 1)])
def test_a_start_is_used(shift):
    """On a torus of equal seams every shift of the picture costs the same: the start alone decides which one it is."""
    tiles = torch.randperm(25, generator=torch.Generator().manual_seed(3)).reshape(5, 5)
    right, below = torch.ones(25, 25), torch.ones(25, 25)
    right[tiles, tiles.roll(-1, 1)] = below[tiles, tiles.roll(-1, 0)] = 0.3
    wanted = tiles.roll(shift, (0, 1)).reshape(-1)
    scores = torch.zeros(25, 25)
    scores[wanted, torch.arange(25)] = 5.0
    s = us.solve(us.Grid(5, 5), cost=(right, below), init=scores)
    assert s.order.tolist() == wanted.tolist()


def test_runs_agree_if_they_end_at_the_same_picture(monkeypatch):
    """Two starts that differ, each with another block in the wrong place: reassembly mends both."""
    right, below, truth = puzzle(8, 8)
    starts = []
    for y, x in ((0, 0), (4, 4)):
        tiles = truth.reshape(8, 8).clone()
        tiles[y : y + 2, x : x + 2], tiles[y + 2 : y + 4, x : x + 2] = (
            tiles[y + 2 : y + 4, x : x + 2].clone(),
            tiles[y : y + 2, x : x + 2].clone(),
        )
        starts.append(tiles.reshape(-1).numpy())
    monkeypatch.setattr(solver, "_on_torus", lambda *_: starts)
    s = us.solve(us.Grid(8, 8), cost=(right, below))
    assert s.order.tolist() == truth.tolist()
    assert s.agreement == 1.0
    asked, as_they_are = Request(torch.Generator().manual_seed(0), Watch()), Effort(most=0)
    evidence = Evidence.of((right, below), Grid(8, 8))
    assert solver.solve_grid(Grid(8, 8), evidence, asked, as_they_are).agreement == 0.5


def test_time_limit_and_callback_return_the_best_so_far():
    right, below, _ = puzzle(12, 12, noise=0.9)
    s = us.solve(us.Grid(12, 12), cost=(right, below), time_limit=0.0)
    assert s.status == "time limit"
    assert sorted(s.order.tolist()) == list(range(144))
    s = us.solve(us.Grid(12, 12), cost=(right, below), callback=lambda step: step.stage != "reassemble")
    assert s.status == "interrupted"
    assert sorted(s.order.tolist()) == list(range(144))


def test_one_dissimilarity_for_both_directions():
    """Points of a plane arranged by likeness: far better than chance, and the corners are apart."""
    side = 5
    axis = torch.linspace(0, 1, side)
    points = torch.cartesian_prod(axis, axis)[torch.randperm(side * side, generator=torch.Generator().manual_seed(0))]
    cost = torch.cdist(points, points)
    s = us.solve(us.Grid(side, side), cost=cost)
    best = 2 * side * (side - 1) * 0.25
    assert s.energy < 1.15 * best
    assert s.energy == pytest.approx(float(Grid(side, side).energy(s.order, cost.double())))


def test_polish_is_never_worse_and_mends_swaps_and_shifts():
    right, below, truth = puzzle(6, 7)
    cost = (right.double(), below.double())
    layout = Grid(6, 7)
    swapped = truth.clone()
    swapped[[3, 30]] = truth[[30, 3]]
    shifted = truth.reshape(6, 7).roll(2, 0).reshape(-1)
    block = truth.reshape(6, 7).clone()
    block[0:2, 0:2], block[3:5, 4:6] = block[3:5, 4:6].clone(), block[0:2, 0:2].clone()
    orders = torch.stack((swapped, shifted, block.reshape(-1), torch.arange(42)))
    belief = Affinities.of(cost, (6, 7))
    polished = segments.improve_grid(orders, cost, belief.glue, belief.bonds)
    assert polished[:3].tolist() == [truth.tolist()] * 3
    assert (layout.energy(polished, cost) <= layout.energy(orders, cost) + 1e-9).all()
    assert [sorted(p) for p in polished.tolist()] == [list(range(42))] * 4


def test_bad_costs_are_refused_in_one_sentence():
    with pytest.raises(us.BadInput, match="20 x 20"):
        us.solve(us.Grid(4, 5), cost=(torch.rand(19, 19), torch.rand(19, 19)))
    with pytest.raises(us.BadInput, match="right, below"):
        us.solve(us.Grid(2, 2), cost=(torch.rand(4, 4),) * 3)


def test_affinity_shares_belief_between_equals():
    cost = torch.full((6, 6), 1.0)
    cost[0, 1] = 0.1
    cost[2, 3] = cost[2, 4] = 0.1
    A = affinity(cost)
    assert A.diagonal().max() == 0
    assert A[0, 1] > 0.9
    assert A[2, 3] == pytest.approx(float(A[2, 4]))
    assert A[2, 3] < 0.75
    assert torch.allclose(affinity(cost.T).T, A, atol=1e-6)  # both tiles of a seam have a say


def random_scores(n, seed):
    """Scores of right and lower neighbours, and an order."""
    rng = np.random.default_rng(seed)
    right, below = rng.random((2, n, n), np.float32)
    np.fill_diagonal(right, 0)
    np.fill_diagonal(below, 0)
    return right, below, rng.permutation(n)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_moves_keep_permutations_and_never_lose(h, w, seed):
    n = h * w
    right, below, order = random_scores(n, seed)
    bonds, seams = Bonds.of(right, below, 4), SeamScores(right, below, h, w)
    moved = segments.shift_segments(order, seams, seams, bonds)
    assert sorted(moved.tolist()) == list(range(n))
    assert score_of(moved, (h, w), right, below) >= score_of(order, (h, w), right, below) - 1e-4
    twisted = moved.copy()
    segments.unwind(twisted, seams, 0.0)
    assert sorted(twisted.tolist()) == list(range(n))
    assert score_of(twisted, (h, w), right, below) >= score_of(moved, (h, w), right, below) - 1e-4
    assert segments.total_score(order, seams) == pytest.approx(score_of(order, (h, w), right, below), abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.floats(0, 1), st.booleans(), st.integers(0, 10**6))
def test_growth_by_segments_places_every_tile_at_most_once(h, w, least, loops, seed):
    rng = np.random.default_rng(seed)
    n = h * w
    right, below = rng.random((n, n), np.float32) ** 2, rng.random((n, n), np.float32) ** 2
    belief = Affinities(right, below, Bonds.of(right, below, 5), (h, w), (right, below))
    order = rng.permutation(n)
    label = segments.segments(order, belief.glue, least, loops)
    board = regrow.regrow_by_segments(order, belief.glue, belief.bonds, label, NO_MASK, 0.1)
    placed = board[board >= 0]
    assert len(set(placed.tolist())) == len(placed) >= np.bincount(label).max()
    full = fill(board, belief)
    assert full is not None
    assert sorted(full.tolist()) == list(range(n))


@pytest.mark.parametrize("columns_first", [False, True])
def test_a_screw_is_unwound(columns_first):
    """A torus that closed one row too low is the raster order rolled by a tile."""
    right, below, truth = puzzle(4, 5)
    belief = Affinities.of((right, below), (4, 5))
    screw = truth.reshape(4, 5).T.reshape(-1).roll(1).reshape(5, 4).T.reshape(-1) if columns_first else truth.roll(1)
    order = screw.numpy().copy()
    segments.unwind(order, belief.glue, 0.3)
    assert order.tolist() == truth.tolist()


def turned_bands(order, h, w):
    """Every grid with one band of rows or columns turned along itself, the slow way."""
    grid = order.reshape(h, w)
    for axis, lines in ((0, h), (1, w)):
        for low in range(lines):
            for high in range(low + 1, lines + 1):
                for turn in range(1, (h, w)[1 - axis]):
                    new = grid.copy()
                    band = (slice(low, high), slice(None)) if axis == 0 else (slice(None), slice(low, high))
                    new[band] = np.roll(grid[band], -turn, axis=1 - axis)
                    yield new.reshape(-1)


def unwound_one_by_one(order: np.ndarray, seams: SeamScores) -> np.ndarray:
    """`unwind` by trying everything."""
    h, w = seams.h, seams.w
    best, improved = segments.total_score(order, seams), True
    while improved:
        improved = False
        for axis in range(2):
            grid = order.reshape(h, w).T if axis == 0 else order.reshape(h, w)
            winner = None
            for first in range(1, len(grid)):
                for case in range(2, 2 * grid.shape[1]):
                    parts = [grid[first:], grid[:first]]
                    parts[case % 2] = np.roll(parts[case % 2], -(case // 2), 1)
                    new = np.concatenate(parts)
                    new = np.ascontiguousarray(new.T if axis == 0 else new).reshape(-1)
                    if (found := segments.total_score(new, seams)) > best + 0.1:
                        best, winner, improved = found, new, True
            if winner is not None:
                order = winner
                break
    return order


@pytest.mark.parametrize(("h", "w"), [(1, 6), (6, 1), (3, 4), (5, 3)])
def test_screws_are_unwound_as_if_everything_were_tried(h, w):
    rng = np.random.default_rng(h)
    for _ in range(10):
        right, below = rng.random((2, h * w, h * w), np.float32)
        seams, order = SeamScores(right, below, h, w), rng.permutation(h * w)
        wanted = unwound_one_by_one(order, seams)
        segments.unwind(order, seams, 0.1)
        assert order.tolist() == wanted.tolist()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_no_band_is_left_that_turned_would_score_more(h, w, seed):
    n = h * w
    right, below, order = random_scores(n, seed)
    turned = order.copy()
    gain = segments.turn_bands(turned, SeamScores(right, below, h, w), 1e-4)
    score = score_of(turned, (h, w), right, below)
    assert sorted(turned.tolist()) == list(range(n))
    assert gain == pytest.approx(score - score_of(order, (h, w), right, below), abs=1e-3)
    assert all(score_of(other, (h, w), right, below) < score + 1e-3 for other in turned_bands(turned, h, w))


def test_only_a_window_is_taken_apart():
    right, below, truth = puzzle(20, 20)
    tiles = truth.reshape(20, 20).clone()
    tiles[3:5, 3:5], tiles[6:8, 3:5] = tiles[6:8, 3:5].clone(), tiles[3:5, 3:5].clone()
    belief = Affinities.of((right, below), (20, 20))
    search = Reassembly(tiles.reshape(-1).numpy(), belief, np.random.default_rng(0), Effort(most=1))
    search.order = tiles.reshape(-1).numpy()  # before any block was shifted back
    for _ in range(20):
        cells = search._held(np.arange(400))[search.order].reshape(20, 20)
        apart = cells != np.bincount(cells.reshape(-1)).argmax()
        y, x = np.nonzero(apart)
        assert 0 < np.ptp(y) <= 12
        assert 0 < np.ptp(x) <= 12
        assert apart[2:9, 2:6].any()  # around what is wrong
        assert len(np.unique(cells)) == apart.sum() + 1


def test_blocks_beside_their_place_find_it():
    right, below, truth = puzzle(8, 8)
    tiles = truth.reshape(8, 8).clone()
    tiles[0:3, 0:3], tiles[4:7, 5:8] = tiles[4:7, 5:8].clone(), tiles[0:3, 0:3].clone()
    belief = Affinities.of((right, below), (8, 8))
    search = Reassembly(tiles.reshape(-1).numpy(), belief, np.random.default_rng(0), Effort(most=5))
    search.advance(5)
    assert search.order.tolist() == truth.tolist()


def test_a_picture_regrows_from_the_piece_that_is_left():
    right, below, truth = puzzle(8, 8)
    tiles = truth.reshape(8, 8).numpy()
    order = np.full((8, 8), -1)
    order[2:5, 2:5] = tiles[2:5, 2:5]
    order[order < 0] = np.setdiff1d(np.random.default_rng(1).permutation(64), order)
    b = Affinities.of((right, below), (8, 8))
    label = segments.segments(order.reshape(-1), b.glue, 0.5, True)
    assert (label[tiles[2:5, 2:5]] == label[tiles[2, 2]]).all()
    assert len(set(label.tolist())) == 64 - 9 + 1
    board = regrow.regrow_by_segments(order.reshape(-1), b.glue, b.bonds, label, NO_MASK, 0.1)
    assert board.tolist() == truth.tolist()


def test_a_piece_beside_its_place_moves_the_frame():
    """Kept where it stands, three cells too far left and up, the large piece would cut the picture's other end off."""
    right, below, truth = puzzle(8, 9)
    tiles = truth.reshape(8, 9).numpy()
    order = np.full((8, 9), -1)
    order[0:5, 0:6] = tiles[3:8, 3:9]
    order[order < 0] = np.setdiff1d(np.random.default_rng(1).permutation(72), order)
    b = Affinities.of((right, below), (8, 9))
    label = segments.segments(order.reshape(-1), b.glue, 0.5, True)
    grown = (order.reshape(-1), b.glue, b.bonds, label)
    assert regrow.regrow_by_segments(*grown, NO_MASK, 0.1).tolist() == truth.tolist()
    anywhere = np.ones((72, 72), dtype=np.bool_)  # a mask speaks of cells: the frame stays
    assert regrow.regrow_by_segments(*grown, anywhere, 0.1).reshape(8, 9)[0, 0] == tiles[3, 3]


def test_the_rest_is_annealed_around_what_has_regrown(monkeypatch):
    right, below, truth = puzzle(8, 8)
    b = Affinities.of((right, below), (8, 8))
    frame = Frame.of(b, (right, below))
    order = np.random.default_rng(1).permutation(64)
    monkeypatch.setattr(Reassembly, "_shifted", lambda _self, order, passes=0: order)
    search = Reassembly(order, b, np.random.default_rng(0), Effort(most=3, anneal_every=3), frame=frame)
    board = np.full(64, -1)
    board[9:12] = truth[9:12]
    assert search._annealed(board).tolist() == truth.tolist()
    assert [search._anneals for search.round in (1, 2, 3)] == [False, False, True]
    anywhere = np.ones((64, 64), dtype=np.bool_)
    masked = Reassembly(order, b, np.random.default_rng(0), Effort(), allowed=anywhere, frame=frame)
    assert not any(masked._anneals for masked.round in (1, 2, 3))  # a torus knows nothing of cells


def test_lists_hold_what_whole_matrices_would():
    """Fields, Sinkhorn and shares of a few steps against matrices and loops."""
    shape, n = (4, 5), 20
    right, below, _ = puzzle(*shape, noise=0.9)
    b = Affinities.of((right, below), shape)
    board = np.full(n, -1)
    board[7] = 3
    run = crystal.Lists(board, 7, crystal.Room(*shape), replace(crystal.IN_LISTS, decided=0.0))
    for step in range(12):
        P = np.zeros((n, n))
        P[np.repeat(np.arange(n), np.diff(run.shares.first)), run.shares.seat] = run.shares.value
        beta, v = run.beta, run.column.copy()
        Q = 0.5 * P
        Q[3, 7] += 4.0
        for side, (dy, dx) in enumerate(SIDES):
            for i in range(n):
                for k, a in zip(b.bonds.partner[side, i], b.bonds.strength[side, i], strict=True):
                    kept = np.where(a * P[k] < crystal.LEAST, 0, a * P[k]) if a >= crystal.LEAST else 0 * P[k]
                    Q[i] += np.roll(kept.reshape(shape), (-dy, -dx), (0, 1)).reshape(-1)
        K = np.exp(beta * Q)
        for _ in range(5):
            u = 1 / (K @ v)
            v = 1 / (u @ K)
        run.grow(b.bonds, 1)
        expected = K * v / (K @ v)[:, None]
        expected[expected < crystal.LEAST] = 0
        found = np.zeros((n, n))
        found[np.repeat(np.arange(n), np.diff(run.shares.first)), run.shares.seat] = run.shares.value
        listed = found > 0
        assert found[listed] == pytest.approx(expected[listed], rel=1e-4), step
        assert (expected[~listed & (Q > 0)] == 0).all()
    assert run.scores().argmax(1)[3] == 7
    assert 0 < run.entropy < 1


@pytest.mark.parametrize("shape", [(20, 16), (1, 320)])
def test_large_grids_grow_in_lists(shape):
    right, below, truth = puzzle(*shape, noise=0.6 if shape[0] > 1 else 0.1)
    s = us.solve(us.Grid(*shape), cost=(right, below))
    assert s.order.tolist() == truth.tolist()
    betas = [step.beta for step in s.history if step.stage == "anneal"]
    assert betas == sorted(betas)


def test_a_round_that_gains_is_kept(monkeypatch):
    right, below, truth = puzzle(5, 5)
    b = Affinities.of((right, below), (5, 5))
    monkeypatch.setattr(Reassembly, "_shifted", lambda _self, order, passes=0: order)
    monkeypatch.setattr(Reassembly, "_regrown", lambda _self, _local: truth.numpy())
    search = Reassembly(np.arange(25), b, np.random.default_rng(0), Effort(most=3))
    search.advance(5)
    assert search.order.tolist() == truth.tolist()
    assert (search.round, search.last_success) == (3, 1)


def test_the_kind_of_round_that_succeeds_is_tried_more_often(monkeypatch):
    right, below, _ = puzzle(5, 5)
    b, tried = Affinities.of((right, below), (5, 5)), []

    def regrown(self, local):
        tried.append(local)
        self.total -= float(local)  # a round in a window gains, one on the whole does not
        return self.order.copy() if local else None

    monkeypatch.setattr(Reassembly, "_shifted", lambda _self, order, passes=0: order)
    monkeypatch.setattr(Reassembly, "_regrown", regrown)
    Reassembly(np.arange(25), b, np.random.default_rng(0), Effort(most=100, patience=100)).advance(100)
    assert sum(tried[20:]) > 60
    assert not all(tried[20:])  # the other kind is not given up


@pytest.mark.parametrize("torus", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (2, 5), (1, 6)])
def test_both_paths_of_a_step_agree(torus, shape):
    right, below, _ = puzzle(*shape)
    n = shape[0] * shape[1]
    belief = Affinities.of((right, below), shape)
    rng = np.random.default_rng(0)
    soft = rng.random((n, n)).astype(np.float32)
    soft /= soft.sum(1, keepdims=True)
    bias = 0.1 * rng.random((n, n)).astype(np.float32)
    results = []
    pace = dense.Rates(1.01, 25.0, 0.5, 0.0, 5)
    for kernel in (dense.anneal, dense.anneal_sparse):
        P, g = soft.copy(), np.zeros(n, np.float32)
        beta, entropy, done = np.array([2.0]), np.ones(1), np.zeros(1, np.bool_)
        run = dense.OneRun(P, g, bias, beta, entropy, done)
        kernel(run, belief.bonds, dense.Board(*shape, torus), pace, 3, POWERS)
        results.append((P, g, entropy[0], beta[0]))
    for a, b in zip(*results, strict=True):
        assert a == pytest.approx(b, abs=2e-5)


def test_the_field_is_the_sum_over_neighbours():
    """One step from a hard layout at a large beta: each tile goes where its neighbours want it."""
    right, below, truth = puzzle(4, 4)
    belief = Affinities.of((right, below), (4, 4))
    soft, confidence = place_confidence(truth.numpy(), belief)
    assert confidence.min() > 0.5
    assert inverse(truth)[0] == int(soft[0].argmax())
    wrong = truth.clone()
    wrong[[5, 10]] = truth[[10, 5]]
    _, doubt = place_confidence(wrong.numpy(), belief)
    assert doubt[truth[5]] < 0.1
    assert doubt[truth[10]] < 0.1


def test_works_without_numba():
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import sys; sys.path.insert(0, 'tests')\n"
        "import unshuffle as us\n"
        "from test_grid import puzzle\n"
        "right, below, truth = puzzle(4, 5)\n"
        "s = us.solve(us.Grid(4, 5), cost=(right, below), polish=True)\n"
        "print((s.order == truth).all().item(), (s.best_order == truth).all().item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "UNSHUFFLE_NUMBA": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr[-500:]


def test_a_grid_of_one_row_is_a_path():
    right, below, truth = puzzle(1, 12)
    s = us.solve(us.Grid(1, 12), cost=(right, below))
    assert s.order.tolist() == truth.tolist()
    assert s.energy == pytest.approx(float(Path(12).energy(s.order, right.double())))
