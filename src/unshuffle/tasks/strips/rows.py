"""Rows of a page of shreds as wholes: which is above which, and where each begins.

Shreds side by side hold together well, one above the other hardly: a cut between two lines of print says nothing. But all shreds of a
row together do.
"""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
from jaxtyping import Float, Int

MOST = 6  # rows, of which all orders are tried


def rows_arranged(
    board: Int[np.ndarray, "height width"], right: Float[np.ndarray, "n n"], below: Float[np.ndarray, "n n"]
) -> Int[np.ndarray, "height width"]:
    """The same rows in the order, and each as a ring cut open at the place, that cost least."""
    height, width = board.shape
    if not 1 < height <= MOST or (board < 0).any():
        return board
    turns = (np.arange(width)[:, None] + np.arange(width)) % width  # [start, column]
    opened = -np.stack([right[row, np.roll(row, -1)][turns[:, -1]] for row in board])  # what cutting a ring there saves
    beneath = np.stack(
        [[[below[upper, lower[start]].sum() for start in turns] for lower in board] for upper in board]
    )  # [upper, lower, start of the lower one if the upper begins at 0]
    later = (np.arange(width) - np.arange(width)[:, None]) % width  # start of the lower one after that of the upper

    def along(order: tuple[int, ...]) -> tuple[float, list[int]]:
        """The least that this order costs, and where its rows begin."""
        best, back = opened[order[0]], []
        for upper, lower in pairwise(order):
            ways = best[:, None] + beneath[upper, lower][later]
            back.append(ways.argmin(0))
            best = ways.min(0) + opened[lower]
        starts = [int(best.argmin())]
        for step in reversed(back):
            starts.append(int(step[starts[-1]]))
        return float(best.min()), starts[::-1]

    order = min(permutations(range(height)), key=lambda order: along(order)[0])
    return np.stack([board[row][turns[start]] for row, start in zip(order, along(order)[1], strict=True)])
