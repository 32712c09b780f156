"""Arrays into parts of other arrays, inside kernels: item by item.

``order[low:high] = block`` and ``place[order] = numbers`` would do the same, but with the first of them numba also compiles the sentence
of the error for lengths that differ, and all that it takes to make text of numbers: seconds of every first run.
"""

from __future__ import annotations

import numpy as np

from .jit import njit


@njit
def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """The items of the source into the first of the target; they must not overlap unless the target begins first."""
    for k in range(source.size):
        target[k] = source[k]


@njit
def places_into(place: np.ndarray, order: np.ndarray) -> None:
    """Of each item, where it stands: the inverse of the order."""
    for k in range(order.size):
        place[order[k]] = k


@njit
def reverse(order: np.ndarray) -> None:
    """The last item first."""
    for k in range(order.size // 2):
        order[k], order[-1 - k] = order[-1 - k], order[k]
