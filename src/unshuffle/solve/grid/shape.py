"""The size of a picture that nobody knows: a crystal grows on a board with room to spare, and what it fills is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...structure.layouts import Grid
from ...watch import Watch, Where
from .crystal import IN_LISTS, Lists
from .pieces import Pieces, Whole
from .solver import CLOSELY, SLICE, as_soft

NEAR = 0.15
"""Of a side: how far a grid that holds exactly all tiles may be from what the crystal fills, beside one line."""

SURE = 1.0
"""Affinity to the best neighbours of the four sides, in sum. Of two photos with plain skies the tiles that the crystal left out have at most
0.1, of seven piles of several photos a quarter of those of the others 2.2 to 3 at the most."""


@dataclass(frozen=True)
class Outline:
    """What a crystal has put on a board that is larger (the piece in each cell, or -1), and which of all tiles are sure of a neighbour: plain
    ones are not."""

    board: np.ndarray
    sure: np.ndarray

    @cached_property
    def filled(self) -> np.ndarray:
        return self.board >= 0

    @cached_property
    def rectangle(self) -> tuple[slice, slice]:
        """Rows and columns of the rectangle whose filled cells outnumber its empty ones by most."""
        return _fullest(self.filled)

    @property
    def grid(self) -> Grid:
        rows, columns = self.rectangle
        return Grid(rows.stop - rows.start, columns.stop - columns.start)

    @property
    def beyond(self) -> float:
        """Of what is filled, how much is beside the rectangle."""
        return 1 - float(self.filled[self.rectangle].sum()) / max(int(self.filled.sum()), 1)

    def holding(self, n: int) -> Grid:
        """The same where it has room for n tiles that all belong; else the nearest grid of exactly as many cells, if it is near; else the
        rectangle made longer: plain tiles, that fit everywhere, have stayed away."""
        found = self.grid
        if found.n >= n:
            return found
        return _exactly(n, found.height, found.width) or self._longer(n)

    def _longer(self, n: int) -> Grid:
        """Beyond the side that is least like a border, until it has cells for all and for as many gaps among them as there are elsewhere."""
        rows, columns = self.rectangle
        wider = _straight(self.filled.T, columns, rows) < _straight(self.filled, rows, columns)
        inside = self.filled[rows, columns].T if wider else self.filled[rows, columns]
        lines, length = inside.shape
        shares = np.sort(inside.mean(1))
        dense = float(shares[lines // 2 :].mean())  # of the fuller half of the lines
        long = n // length if n % length == 0 and n * (1 / dense - 1) < length else round(n / dense / length)
        long = max(long, lines, math.ceil(n / length))
        return Grid(length, long) if wider else Grid(long, length)


def _straight(filled: np.ndarray, rows: slice, columns: slice) -> float:
    """How much more is filled in the first and last row of a rectangle than beyond it, of the two that which less is."""
    outside = np.pad(filled[:, columns], ((1, 1), (0, 0))).mean(1)
    first, last = outside[rows.start + 1] - outside[rows.start], outside[rows.stop] - outside[rows.stop + 1]
    return float(min(first, last))


def find_shape(pieces: Pieces, watch: Watch) -> tuple[Outline, Pieces]:
    """What a crystal of the surest tiles fills, and the pieces with their price on the board on which it grew."""
    n = pieces.tiles
    side = 2 * math.ceil(math.sqrt(n)) + 1
    price = pieces.cost.usual_price() if pieces.reject is None else pieces.reject
    free = replace(pieces, grid=Grid(side, side), reject=price)
    board, centre = np.full(side * side, -1), side * side // 2
    strength = free.strength() / free.states
    board[centre] = int(free.surest()[0]) * free.states
    crystal = Lists(board, centre, free.room, IN_LISTS)
    watch.where = Where(free.grid, watch.where and watch.where.items)
    looks: dict[str, Any] = {}
    if isinstance(pieces.cost, Whole):  # else all tiles in all cells are too many to look at
        looks = {"soft": lambda: as_soft(crystal.scores()), "states": lambda: crystal.likeliest()}
    on = True
    while on and not crystal.done:
        crystal.grow(free.belief.bonds, CLOSELY if watch.closely else SLICE)
        told = {"beta": float(crystal.beta), "entropy": float(crystal.entropy), "done": crystal.passed}
        on = watch(stage="find the size", **told, **looks)
    return Outline(_opened(crystal.worthwhile().reshape(side, side)), strength >= SURE), free


def _opened(board: np.ndarray) -> np.ndarray:
    """The torus cut open where least is filled."""
    rows, columns = (board >= 0).sum(1), (board >= 0).sum(0)
    return np.roll(board, (-int(rows.argmin()) - 1, -int(columns.argmin()) - 1), (0, 1))


def _fullest(filled: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns of the rectangle whose filled cells outnumber its empty ones by most."""
    sums = np.pad(np.where(filled, 1, -1).cumsum(0), ((1, 0), (0, 0)))
    best, found = 0, (slice(0, 1), slice(0, 1))
    for top in range(len(filled)):
        for bottom in range(top + 1, len(filled) + 1):
            columns = np.concatenate(([0], (sums[bottom] - sums[top]).cumsum()))
            lowest = np.minimum.accumulate(columns)
            right = int((columns - lowest).argmax())
            if columns[right] - lowest[right] > best:
                left = int(columns[: right + 1].argmin())
                best, found = columns[right] - lowest[right], (slice(top, bottom), slice(left, right))
    return found


def _exactly(n: int, height: int, width: int) -> Grid | None:
    """The grid of n cells that is nearest to height x width, if it is near."""
    grids = [Grid(h, n // h) for h in range(1, n + 1) if n % h == 0]
    nearest = min(grids, key=lambda g: abs(g.height - height) + abs(g.width - width))
    near = abs(nearest.height - height) <= 1 + NEAR * height and abs(nearest.width - width) <= 1 + NEAR * width
    return nearest if near else None
