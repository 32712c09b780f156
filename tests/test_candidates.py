"""Puzzles of so many tiles that only likely partners are kept: the same costs, beliefs and pictures as with whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from test_turned import mixed, texture
from unshuffle.compute.jit import have_numba, njit
from unshuffle.errors import BadInput
from unshuffle.operators.assignment import assign
from unshuffle.operators.permutation import inverse
from unshuffle.solve.grid import listed, solver
from unshuffle.solve.grid.crystal import Lists, Room, Rows
from unshuffle.solve.grid.evidence import Evidence
from unshuffle.solve.grid.exchange import contacts
from unshuffle.solve.grid.harvest import harvest
from unshuffle.solve.grid.pieces import Whole
from unshuffle.solve.grid.seams import Bonds, Listed, SeamScores, at, best_matching
from unshuffle.structure.layouts import Grid
from unshuffle.tasks import candidates
from unshuffle.tasks.candidates import MOST, Comparison, ListedCosts, listed_evidence
from unshuffle.tasks.jigsaw import as_float, cut, join, reassemble, seam_costs
from unshuffle.tasks.piles import reassemble_several
from unshuffle.tasks.turned import turned_seams, turns_of
from unshuffle.watch import Step, Watch

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
    assert np.array_equal(everything(lists.T.lists, 9), whole.T)
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


@pytest.mark.parametrize(("height", "width"), [(12, 12), (12, 14), (0, 0)])
def test_pieces_in_lists_are_those_of_whole_matrices(height: int, width: int) -> None:
    """Turned by quarters, by halves, and upright: partners of sides that are not compared again, prices and beliefs."""
    grid = Grid(3, 3)
    tiles = as_float(cut(texture(3 * (height or 12), 3 * (width or 12)), grid)[0])
    turns = turns_of((height, width)) if height else (0,)
    seams = turned_seams(tiles) if height else seam_costs(tiles)
    whole = Whole((seams.right, seams.below), len(turns), seams.border)
    with Watch() as watch:
        ours = ListedCosts.of(Comparison(tiles, turns), watch)
        for k in range(4):
            straight = ours.compared.side(k, watch)
            assert np.allclose(ours.sides[k].cost, straight.cost, rtol=1e-4)
            told = np.isfinite(straight.cost)  # the others are of the tile itself
            assert (ours.sides[k].partner == straight.partner)[told].mean() > 0.99
    pieces = np.arange(9 * len(turns))
    a, b = np.nonzero(pieces[:, None] // len(turns) != pieces // len(turns))
    unit = ours.pairs(0, a, b) / whole.pairs(0, a, b)
    assert unit.std() < 1e-3 * unit.mean()
    assert ours.usual_price() == pytest.approx(unit.mean() * whole.usual_price(), rel=0.1)
    for price in (None, whole.usual_price()):
        listed_ = ours.affinities((3, 3), None if price is None else price * unit.mean())
        dense = whole.affinities((3, 3), price)
        close = 1e-3 if price is None else 0.1  # what is usual is the mean of both relations there
        assert np.allclose(listed_.right[a, b], dense.right[a, b], atol=close)
        assert np.allclose(listed_.below[a, b], dense.below[a, b], atol=close)
    board, holes = np.arange(9) * len(turns), np.array([4, 8])
    board[holes] = -1
    theirs = contacts(board, (3, 3), (dense.right, dense.below), pieces, holes)
    assert np.allclose(contacts(board, (3, 3), (listed_.right, listed_.below), pieces, holes), theirs, atol=4 * close)


def test_a_matching_of_lists_is_the_linear_assignment_of_what_is_worth_something() -> None:
    whole, _ = some_listed()
    worth = whole - 0.3 * (whole > 0)
    who, where = best_matching(csr_array(worth))
    assert len(set(who)) == len(set(where)) == len(who)
    one, other = linear_sum_assignment(-np.maximum(worth, 0))
    assert worth[who, where].sum() == pytest.approx(np.maximum(worth, 0)[one, other].sum())
    assert (worth[who, where] > 0).all()


@pytest.mark.parametrize("states", [1, 3])
def test_who_is_worth_a_place_is_a_linear_assignment(states: int) -> None:
    rng, (tiles, cells) = np.random.default_rng(states), (8, 6)
    crystal = Lists(np.array([0, -1, -1, -1, -1, -1]), 0, Room(2, 3, states, cells, tiles, 0.3))
    pull = rng.normal(0.3, 0.3, (tiles, cells * states)) * (rng.random((tiles, cells * states)) < 0.6)
    entries = [np.flatnonzero(row) for row in pull]
    value = np.concatenate([np.exp(crystal.beta * row[e]) - 1 for row, e in zip(pull, entries, strict=True)])
    crystal.excess = Rows(np.cumsum([0, *map(len, entries)]), np.concatenate(entries).astype(np.int32), value)
    gains = pull.reshape(tiles, cells, states).max(2) - 0.3
    board = crystal.worthwhile()
    used = np.flatnonzero(board >= 0)
    assert len(set((board[used] // states).tolist())) == len(used)
    best = assign(torch.from_numpy(gains), reject=0.0).numpy()
    placed = np.flatnonzero(best >= 0)
    assert pull[board[used] // states, used * states + board[used] % states].sum() - 0.3 * len(used) == pytest.approx(
        gains[best[placed], placed].sum()
    )


def test_what_is_better_in_another_layout_is_taken_over() -> None:
    """One layout has two tiles of a corner exchanged and one of the middle; the other has the corner right and much else wrong."""
    rng, n = np.random.default_rng(0), GRID.n
    cells = np.arange(n).reshape(GRID.height, GRID.width)
    right, below = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    right[cells[:, :-1], cells[:, 1:]] = below[cells[:-1], cells[1:]] = 1
    seams = SeamScores(right, below, GRID.height, GRID.width)
    order, other = np.arange(n), np.arange(n)
    order[[0, 1]], order[[24, 38]] = order[[1, 0]], order[[38, 24]]
    lower = cells[3:].reshape(-1)
    other[lower] = rng.permutation(other[lower])
    other[[13, 40]] = other[[40, 13]]  # a tile that another region wants
    before = order.copy()
    gain = harvest(order, other, seams, 1e-4)
    assert order[:2].tolist() == [0, 1]
    assert sorted(order.tolist()) == list(range(n))
    assert gain == pytest.approx(total(order, seams) - total(before, seams))
    assert order[cells[:3]].tolist() == cells[:3].tolist()
    for seed in range(20):  # never worse, whatever comes
        one, two = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (2, 1)), axis=1)
        start = total(one, seams)
        assert harvest(one, two, seams, 1e-4) == pytest.approx(total(one, seams) - start)
        assert sorted(one.tolist()) == list(range(n))
        assert total(one, seams) >= start


def total(order: np.ndarray, seams: SeamScores) -> float:
    tiles = order.reshape(seams.h, seams.w)
    return float(seams.right[tiles[:, :-1], tiles[:, 1:]].sum() + seams.below[tiles[:-1], tiles[1:]].sum())  # pyright: ignore


@pytest.mark.skipif(not have_numba, reason="without numba whole matrices are faster")
def test_turned_tiles_of_two_pictures_in_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared in lists, and what the first picture has left in whole matrices."""
    monkeypatch.setattr(listed, "LISTED", 150)
    monkeypatch.setattr(candidates, "MOST", 12)
    grid = Grid(4, 6)
    pictures = [texture(12 * 4, 12 * 6, seed) for seed in (3, 4)]
    tiles = np.concatenate([mixed(picture, grid)[0] for picture in pictures])
    found = reassemble_several(as_float(tiles), turned=True, all_belong=True)
    joined = [join(tiles, one.solution.order, one.grid, one.solution.state) for one in found]
    assert len(joined) == 2
    for picture in pictures:
        assert any(np.array_equal(np.rot90(ours, k), picture) for ours in joined for k in range(4))
    stages: list[str] = []

    def until_compared_again(step: Step) -> bool:
        stages.append(step.stage)
        return len(stages) < 3 or stages[-1] != "compare the seams" or set(stages) == {"compare the seams"}

    monkeypatch.setattr(listed, "LISTED", 90)
    stopped = reassemble_several(as_float(tiles), turned=True, all_belong=True, callback=until_compared_again)
    assert len(stopped) == 1
    assert int((stopped[0].solution.order >= 0).sum()) >= 24


def test_costs_of_a_plain_region_count_in_units_of_their_own() -> None:
    cost = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) * 0.5 + 0.1
    cost.fill_diagonal_(torch.inf)

    def scored(scale: float) -> np.ndarray:
        after, before = (
            listed.Side(*(part.numpy() for part in listed.best_partners(c * scale, 3, 1e-3 * scale)))
            for c in (cost, cost.T.contiguous())
        )
        return listed.listed_affinities((after, before, after, before), 1.0, (2, 4)).score[0].sparse.toarray()

    assert scored(0.1) == pytest.approx(scored(1.0), abs=1e-5)
    assert scored(0.1).min() < -1
