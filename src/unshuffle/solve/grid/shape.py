"""The size of a picture that nobody knows: a crystal grows on a board with room to spare, and what it fills is looked at."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from ...operators.assignment import assign
from ...structure.layouts import Grid
from ...watch import Watch, Where
from .crystal import IN_LISTS, Lists
from .pieces import Pieces, usual_price
from .solver import CLOSELY, SLICE, as_soft

NEAR = (
    0.15  # of a side: how far a grid that holds exactly all tiles may be from what the crystal fills, beside one line
)


def find_shape(pieces: Pieces, watch: Watch) -> Grid:
    """The rectangle with most filled less empty cells."""
    n = pieces.tiles
    side = 2 * math.ceil(math.sqrt(n)) + 1
    price = usual_price(pieces.cost, pieces.states) if pieces.reject is None else pieces.reject
    free = replace(pieces, grid=Grid(side, side), reject=price)
    board, centre = np.full(side * side, -1), side * side // 2
    board[centre] = int(free.strength().argmax()) * free.states
    crystal = Lists(board, centre, free.room, IN_LISTS)
    watch.where = Where(free.grid, watch.where and watch.where.items)
    on = True
    while on and not crystal.done:
        crystal.grow(free.belief.bonds, CLOSELY if watch.closely else SLICE)
        on = watch(
            stage="find the size",
            beta=float(crystal.beta),
            entropy=float(crystal.entropy),
            soft=lambda: as_soft(crystal.scores()),
            states=lambda: crystal.likeliest(),
        )
    filled = assign(torch.from_numpy(crystal.gains()), reject=0.0).numpy().reshape(side, side) >= 0
    return Grid(*_fullest(_opened(filled)))


def for_all(n: int, found: Grid) -> Grid:
    """Where the rectangle is too small for n tiles that all belong: the nearest grid of exactly as many cells, if it is near."""
    return found if found.n >= n else _exactly(n, found.height, found.width) or found


def _opened(filled: np.ndarray) -> np.ndarray:
    """The torus cut open where least is filled."""
    rows, columns = filled.sum(1), filled.sum(0)
    return np.roll(filled, (-int(rows.argmin()) - 1, -int(columns.argmin()) - 1), (0, 1))


def _fullest(filled: np.ndarray) -> tuple[int, int]:
    """Height and width of the rectangle whose filled cells outnumber its empty ones by most."""
    sums = np.pad(np.where(filled, 1, -1).cumsum(0), ((1, 0), (0, 0)))
    best, shape = 0, (1, 1)
    for top in range(len(filled)):
        for bottom in range(top + 1, len(filled) + 1):
            columns = np.concatenate(([0], (sums[bottom] - sums[top]).cumsum()))
            lowest = np.minimum.accumulate(columns)
            right = int((columns - lowest).argmax())
            if columns[right] - lowest[right] > best:
                left = int(columns[: right + 1].argmin())
                best, shape = columns[right] - lowest[right], (bottom - top, right - left)
    return shape


def _exactly(n: int, height: int, width: int) -> Grid | None:
    """The grid of n cells that is nearest to height x width, if it is near."""
    grids = [Grid(h, n // h) for h in range(1, n + 1) if n % h == 0]
    nearest = min(grids, key=lambda g: abs(g.height - height) + abs(g.width - width))
    near = abs(nearest.height - height) <= 1 + NEAR * height and abs(nearest.width - width) <= 1 + NEAR * width
    return nearest if near else None
