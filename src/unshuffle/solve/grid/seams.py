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
        sides = (right, right.T, below, below.T)
        lists = [np.argsort(-side, axis=1, kind="stable")[:, :k] for side in sides]
        strengths = [np.take_along_axis(side, best, axis=1) for side, best in zip(sides, lists, strict=True)]
        return cls(np.stack(lists).astype(np.int32), np.stack(strengths).astype(np.float32))
