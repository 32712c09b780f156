"""Layouts crossed with each other: what they share stays, and their children climb higher than they did."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unshuffle.compute.jit import have_numba
from unshuffle.solve.grid import solver
from unshuffle.solve.grid.affinity import Affinities
from unshuffle.solve.grid.crossing import Crossing, in_common
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float, cut, evidence_of, reassemble, seam_costs

needs_kernels = pytest.mark.skipif(not have_numba, reason="without numba nothing is crossed: it would take minutes")


def worn(gap: int, grid: Grid, name: str, size: int = 20) -> torch.Tensor:
    photo = Path(str(files("unshuffle") / "data" / name))
    pixels = np.asarray(Image.open(photo).convert("RGB"))[: size * grid.height, : size * grid.width]
    return as_float(cut(pixels, grid)[0])[:, gap : size - gap, gap : size - gap]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_tiles_are_joined_exactly_by_the_seams_that_both_layouts_have(h, w, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.permutation(h * w), rng.permutation(h * w)
    other[: h * w // 2] = np.setdiff1d(one, other[h * w // 2 :], assume_unique=True)  # some neighbours in common

    def seams(order: np.ndarray) -> set[tuple[int, int, bool]]:
        t = order.reshape(h, w)
        beside = {(int(a), int(b), True) for a, b in zip(t[:, :-1].flat, t[:, 1:].flat, strict=True)}
        return beside | {(int(a), int(b), False) for a, b in zip(t[:-1].flat, t[1:].flat, strict=True)}

    label = np.arange(h * w)
    for a, b, _ in seams(one) & seams(other):
        label[label == label[b]] = label[a]
    ours = in_common(one, other, (h, w))
    assert ((ours[:, None] == ours) == (label[:, None] == label)).all()


def test_layouts_right_in_different_halves_have_a_child_that_is_right() -> None:
    grid = Grid(4, 6)
    evidence = evidence_of(seam_costs(worn(0, grid, "coffee.jpg")), grid)
    truth = np.arange(grid.n)
    left, right = truth.reshape(4, 6).copy(), truth.reshape(4, 6).copy()
    left[:, 3:], right[:, :3] = left[::-1, 3:], right[::-1, :3]
    crossing = Crossing([left.reshape(-1), right.reshape(-1)], evidence.belief, np.random.default_rng(0))
    assert crossing.best.score < evidence.belief.total(truth)
    crossing.advance()
    assert crossing.best.order.tolist() == truth.tolist()


def test_layouts_that_are_all_the_same_have_no_children() -> None:
    tiles = np.random.default_rng(0).random((9, 9), np.float32)
    belief = Affinities.of((torch.from_numpy(tiles), torch.from_numpy(tiles.T.copy())), (3, 3))
    crossing = Crossing([np.arange(9)], belief, np.random.default_rng(0))
    crossing.join([np.arange(9)], more=lambda: False)  # no time: nothing joins
    assert len(crossing.members) == 1
    assert crossing.done


def test_the_same_random_numbers_give_the_same_children() -> None:
    grid = Grid(5, 6)
    evidence = evidence_of(seam_costs(worn(2, grid, "coffee.jpg", 12), gap=2), grid)
    starts = [np.random.default_rng(k).permutation(grid.n) for k in range(3)]

    def grown() -> list[tuple[float, list[int]]]:
        crossing = Crossing(starts, evidence.belief, np.random.default_rng(7))
        crossing.advance()
        assert all(sorted(member.order.tolist()) == list(range(grid.n)) for member in crossing.members)
        return [(member.score, member.order.tolist()) for member in crossing.members]

    assert len(grown()) > len(starts)
    assert grown() == grown()


@needs_kernels
def test_a_doubtful_puzzle_is_solved_better_than_without_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is searched for; tiles of nine pixels say too little for the best layout to be the true one."""
    grid, gap = Grid(8, 8), 2
    tiles = worn(gap, grid, "coffee.jpg", 13)
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(0))
    belief = evidence_of(seam_costs(tiles[shuffle], gap=gap, full=True), grid).belief
    likely = []
    for doubt in (solver.DOUBT, 1.0):
        monkeypatch.setattr(solver, "DOUBT", doubt)
        likely.append(belief.total(reassemble(tiles[shuffle], grid, gap=gap).order.numpy()))
    assert likely[0] > likely[1] + 1
