r"""The energy that a soft layout on the torus would have as a picture: for those who look on, the annealing itself does without.

If tiles stood independently of each other, the seam of the cells c and d would cost $\sum_{ik} P_{ic} C_{ik} P_{kd}$ on average. The torus is cut
open at the column and the row of seams that cost most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from torch import Tensor

    from .crystal import Lists


def expected_energy(
    shares: csr_array | np.ndarray,
    rest: np.ndarray,
    cost: tuple[Tensor, Tensor],
    shape: tuple[int, int],
    states: int = 1,
    price: float | None = None,
) -> float:
    """``shares`` are cells x pieces; every piece has ``rest`` more of itself in each cell. With a ``price``, that of seams that are not made."""
    shares, total = csr_array(shares), 0.0
    cells, tile = np.arange(shape[0] * shape[1]).reshape(shape), np.arange(len(rest)) // states
    filled = np.asarray(shares.sum(1)).reshape(-1) + rest.sum()
    for axis, matrix in ((1, cost[0]), (0, cost[1])):
        if shape[axis] < 2:
            continue
        C = np.where(tile[:, None] == tile, 0, matrix.numpy())  # a tile is never its own neighbour
        there = np.roll(cells, -1, axis).reshape(-1)
        spread = C @ rest
        pulled = shares @ C + rest @ C
        seam = np.asarray(shares[there].multiply(pulled).sum(1)).reshape(-1) + shares @ spread + rest @ spread
        if price is not None:
            seam += price * (1 - np.minimum(filled * filled[there], 1))
        lines = seam.reshape(shape).sum(1 - axis)
        total += float(lines.sum() - lines.max())
    return total


def energy_of_lists(crystal: Lists, cost: tuple[Tensor, Tensor], price: float | None = None) -> float:
    """What is in no list counts as spread over all seats, as for the entropy."""
    first, seat, value = crystal.shares
    room, tiles = crystal.room, len(crystal.base)
    row = np.repeat(np.arange(tiles), np.diff(first))
    cell, piece = seat // room.states, row * room.states + seat % room.states
    cells = room.h * room.w
    shares = csr_array((value.astype(np.float64), (cell, piece)), shape=(cells, tiles * room.states))
    here = min(1.0, cells / tiles) if room.outside else 1.0  # of a tile that is nowhere yet, some may be left out
    left = here * (1 - np.bincount(row, value, tiles)).clip(0)
    return expected_energy(
        shares, np.repeat(left / (cells * room.states), room.states), cost, (room.h, room.w), room.states, price
    )
