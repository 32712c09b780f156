"""Puzzles of so many tiles that only likely partners are kept: the same costs, beliefs and pictures as with whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from test_turned import texture
from unshuffle.compute.jit import have_numba, njit
from unshuffle.errors import BadInput
from unshuffle.operators.permutation import inverse
from unshuffle.solve.grid import listed, solver
from unshuffle.solve.grid.evidence import Evidence
from unshuffle.solve.grid.seams import Bonds, Listed, at, block
from unshuffle.structure.layouts import Grid
from unshuffle.tasks import candidates
from unshuffle.tasks.candidates import MOST, Comparison, listed_evidence
from unshuffle.tasks.jigsaw import as_float, cut, reassemble, seam_costs
from unshuffle.watch import Watch

GRID = Grid(6, 7)


@pytest.fixture(scope="module")
def tiles() -> torch.Tensor:
    return as_float(cut(texture(12 * GRID.height, 12 * GRID.width), GRID)[0])


def some_listed() -> tuple[np.ndarray, Listed]:
    rng = np.random.default_rng(0)
    whole = np.where(rng.random((9, 9)) < 0.4, rng.random((9, 9)), 0).astype(np.float32)
    rows, columns = np.nonzero(whole)
    first = np.searchsorted(rows, np.arange(10))
    return whole, Listed.of(first, columns, whole[rows, columns], np.zeros(9, np.float32))


@njit
def everything(matrix, n):
    total = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            total[i, k] = at(matrix, i, k)
    return total


def test_lists_are_read_like_the_matrix_they_are_of() -> None:
    whole, lists = some_listed()
    i, k = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
    assert np.array_equal(lists[i, k], whole)
    assert np.array_equal(everything(lists.lists, 9), whole)
    assert np.array_equal(everything(whole, 9), whole)
    assert np.array_equal(block(lists, np.array([3, 1]), np.arange(9)), whole[[3, 1]])
    for axis in (0, 1):
        assert np.array_equal(lists.max(axis), whole.max(axis))
    ours, dense = Bonds.of_lists(lists, lists, 4), Bonds.of(whole, whole, 4)
    assert np.array_equal(ours.strength, dense.strength)
    assert np.array_equal(ours.partner[ours.strength > 0], dense.partner[dense.strength > 0])


def test_costs_and_beliefs_are_those_of_whole_matrices(tiles: torch.Tensor) -> None:
    compared, seams = Comparison(tiles), seam_costs(tiles)
    i, k = np.nonzero(~np.eye(GRID.n, dtype=bool))
    for relation, (cost, border) in enumerate(((seams.right, seams.border[0]), (seams.below, seams.border[1]))):
        ratio = compared.cost(relation, i, k) / cost.numpy()[i, k]
        assert ratio.std() < 1e-3 * ratio.mean()  # in other units, the same for all
        assert np.allclose(compared.inside(relation, i, k), border.numpy()[i, k], atol=1e-3)
    with Watch() as watch:
        found = listed_evidence(tiles, GRID, watch)
    assert GRID.n < MOST  # so that the lists hold everybody
    ours, theirs = found.belief, Evidence.of((seams.right, seams.below), GRID, seams.border).belief
    for a, b in ((ours.right[i, k], theirs.right[i, k]), (ours.below[i, k], theirs.below[i, k])):
        assert np.allclose(a, b, atol=1e-3)
    order = np.arange(GRID.n)
    assert ours.total(order) == pytest.approx(theirs.total(order), rel=0.05)


@pytest.mark.skipif(not have_numba, reason="without numba whole matrices are faster")
def test_the_picture_comes_back(tiles: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "LISTED", 40)
    monkeypatch.setattr(solver, "MANY", 40)
    monkeypatch.setattr(candidates, "MOST", 8)
    shuffle = torch.randperm(GRID.n, generator=torch.Generator().manual_seed(1))
    found = reassemble(tiles[shuffle], GRID)
    assert found.order.tolist() == inverse(shuffle).tolist()
    assert found.soft.is_sparse
    assert found.soft.shape == (GRID.n, GRID.n)
    assert float(found.confidence.min()) > 0.5
    stopped = reassemble(tiles[shuffle], GRID, callback=lambda step: step.stage == "compare the seams")
    assert stopped.status == "interrupted"
    assert sorted(stopped.order.tolist()) == list(range(GRID.n))
    with pytest.raises(BadInput, match="Polish compares all"):
        reassemble(tiles, GRID, polish=True)
