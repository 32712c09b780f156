"""Tiles that are dearer than the seams they make leave the board, and tiles beside it go where they are worth having."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from .affinity import Affinities

ROUNDS = 3  # of leaving and coming; each makes places for the next


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
