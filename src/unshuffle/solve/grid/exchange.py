"""Tiles that are dearer than the seams they make leave the board, tiles beside it go where they are worth having, and those with weak seams change
places and states.

While the others stay, who stands in cells of which no two are neighbours, and in which state, is a linear assignment: solved exactly, so it finds
exchanges of many tiles at once, as among those of a plain sky.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from .affinity import Affinities

ROUNDS = 3  # of leaving and coming; each makes places for the next
WEAK = 0.1  # affinity of a seam that is wrong, or too plain to tell
ENOUGH = 1e-4  # of score: less is tiles exchanged that nobody can tell apart
PATIENCE = 10  # times in a row that putting tiles again may gain nothing
AT_ONCE = 200  # cells, so that the time does not grow with the board


def exchanged(board: np.ndarray, belief: Affinities, states: int, tiles: int, leave: bool) -> np.ndarray:
    """The board (the piece of each cell, or -1) after that. If none may ``leave``, all cells or tiles must be used in the end."""
    board = board.copy()
    for _ in range(ROUNDS):
        before = board.copy()
        if leave or tiles > board.size:
            _leave(board, belief)
        _come(board, belief, states, tiles, optional=leave)
        if (board == before).all():
            break
    return board


def reseated(
    board: np.ndarray, belief: Affinities, states: int, tiles: int, rng: np.random.Generator, *, leave: bool
) -> np.ndarray:
    """The board after tiles in some of the cells with weak seams, no two of them neighbours, have been put again, over and over."""
    best, failures = belief.total(board), 0
    while failures < PATIENCE:
        new = board.copy()
        new[_apart(_weak(board, belief), belief.shape, rng)] = -1
        _come(new, belief, states, tiles, optional=leave)
        total, failures = belief.total(new), failures + 1
        if total > best + ENOUGH:
            board, best, failures = new, total, 0
    return board


def _weak(board: np.ndarray, belief: Affinities) -> np.ndarray:
    """Of each cell the share of its seams that are weak."""
    weak, made = np.zeros((2, board.size))
    for matrix, there in _sides(board.reshape(belief.shape), (belief.right, belief.below)):
        seam = np.flatnonzero((board >= 0) & (there >= 0))
        weak[seam] += matrix[board[seam], there[seam]] < WEAK
        made[seam] += 1
    return weak / np.maximum(made, 1)


def _apart(weak: np.ndarray, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Cells with weak seams of which no two are neighbours, at random, but rather a tile that fits nobody than those around it."""
    free, chosen = np.ones((shape[0] + 2, shape[1] + 2), bool), []
    for cell in np.argsort(rng.random(weak.size) - weak):
        row, column = divmod(int(cell), shape[1])
        if weak[cell] > 0 and free[row + 1, column + 1] and len(chosen) < AT_ONCE:
            chosen.append(int(cell))
            free[row : row + 3, column + 1] = free[row + 1, column : column + 3] = False
    return np.sort(np.array(chosen, np.int64))


def _leave(board: np.ndarray, belief: Affinities) -> None:
    """The worst tile of all leaves, as long as its seams are worth less than none or it has none; the last one stays."""
    worth = seam_totals(board, belief)
    while worth.min() < 0 and (board >= 0).sum() > 1:
        board[int(worth.argmin())] = -1
        worth = seam_totals(board, belief)


def _come(board: np.ndarray, belief: Affinities, states: int, tiles: int, optional: bool) -> None:
    """Tiles beside the board into its empty cells, by linear assignment on what their seams would be worth."""
    holes = np.flatnonzero(board < 0)
    beside = np.setdiff1d(np.arange(tiles), board[board >= 0] // states)
    if not holes.size or not beside.size:
        return
    pieces = (beside[:, None] * states + np.arange(states)).reshape(-1)
    worth = contacts(board, belief.shape, belief.score, pieces, holes).reshape(len(beside), states, len(holes))
    state, worth = worth.argmax(1), worth.max(1)
    who, where = linear_sum_assignment(-np.maximum(worth, 0) if optional else -worth)
    if optional:
        kept = worth[who, where] > 0
        who, where = who[kept], where[kept]
    board[holes[where]] = beside[who] * states + state[who, where]


def contacts(
    board: np.ndarray,
    shape: tuple[int, int],
    seam: tuple[np.ndarray, np.ndarray],
    pieces: np.ndarray,
    cells: np.ndarray,
) -> np.ndarray:
    """Sum over the seams that each of the pieces would make in each of the cells."""
    total = np.zeros((len(pieces), len(cells)), seam[0].dtype)
    for matrix, there in _sides(board.reshape(shape), seam):
        neighbour = there[cells]
        known = neighbour >= 0
        total[:, known] += matrix[np.ix_(pieces, neighbour[known])]
    return total


def seam_totals(board: np.ndarray, belief: Affinities) -> np.ndarray:
    """Of each cell, the worth of the seams that its piece makes, just below nothing if it makes none; infinite where it is empty."""
    total, made = np.zeros(board.size), np.zeros(board.size, bool)
    for matrix, there in _sides(board.reshape(belief.shape), belief.score):
        seam = (board >= 0) & (there >= 0)
        total[seam] += matrix[board[seam], there[seam]]
        made |= seam
    return np.where(made, total, np.where(board >= 0, -1e-9, np.inf))


def _sides(board: np.ndarray, seam: tuple[np.ndarray, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each side: the worth of a piece (row) with its neighbour there (column), and who that is in every cell (-1: nobody)."""
    around = np.pad(board, 1, constant_values=-1)
    right, below = seam
    return [
        (right, around[1:-1, 2:].reshape(-1)),
        (right.T, around[1:-1, :-2].reshape(-1)),
        (below, around[2:, 1:-1].reshape(-1)),
        (below.T, around[:-2, 1:-1].reshape(-1)),
    ]
