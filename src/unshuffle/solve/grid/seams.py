"""Seams between tiles as the kernels see them: what each pair of neighbours is worth, and who the likely ones are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SIDES = ((0, 1), (0, -1), (1, 0), (-1, 0))  # where the partner stands: right, left, below, above
LEAST_BOND = 0.02  # affinities below this propose no place
NO_MASK = np.zeros((0, 0), dtype=np.bool_)


class SeamScores(NamedTuple):
    """``right[i, k]``: the worth of k directly right of i, ``below[i, k]`` of k directly below i; on h rows of w cells."""

    right: np.ndarray
    below: np.ndarray
    h: int
    w: int


class Bonds(NamedTuple):
    """The few likely neighbours of every tile on each side, best first: (4 sides, n tiles, k) numbers and affinities."""

    partner: np.ndarray
    strength: np.ndarray

    @classmethod
    def of(cls, right: np.ndarray, below: np.ndarray, most: int) -> Bonds:
        """``right[i, k]``: affinity of k directly right of i; the lists hold the ``most`` strongest of each row."""
        k = max(1, min(most, len(right) - 1))
        lists = [_strongest(side, k) for side in (right, right.T, below, below.T)]
        partners, strengths = zip(*lists, strict=True)
        return cls(np.stack(partners), np.stack(strengths))


def _strongest(side: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest of each row, best first, and of equal ones the first: columns and affinities.

    The bits of floats that are not negative are in the order of the floats; with the column below them no two are equal.
    """
    n = side.shape[1]
    keys = side.astype(np.float32).view(np.int32).astype(np.int64) << 32 | np.arange(n)[::-1]
    top = np.sort(np.partition(keys, n - k, axis=1)[:, n - k :], axis=1)[:, ::-1]
    columns = (n - 1 - (top & 0xFFFFFFFF)).astype(np.int32)
    return columns, (top >> 32).astype(np.int32).view(np.float32)
