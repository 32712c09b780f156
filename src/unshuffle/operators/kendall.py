"""Kendall's tau-b of integer ranks, in O(n log n)."""

from __future__ import annotations

import numpy as np


def tau_b(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the rows of dense ranks x and y (Knight 1966: sort by x, count what a merge sort by y swaps).

    In numpy: a kernel with a sort in it takes seconds to compile, for whoever calls this for the first time.
    """
    n = x.shape[1]
    joint = np.sort(x * n + y, axis=1)  # by x, ties by y
    both = np.zeros_like(joint)
    np.cumsum(joint[:, 1:] != joint[:, :-1], axis=1, out=both[:, 1:])
    pairs = n * (n - 1) // 2
    ties_x, ties_y, ties_both = (_ties(ranks) for ranks in (x, y, both))
    discordant = _inversions(joint % n)
    untied = (pairs - ties_x).astype(float) * (pairs - ties_y)  # in int64 it overflows beyond n = 50,000
    balance = pairs - ties_x - ties_y + ties_both - 2 * discordant
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(untied > 0, balance / np.sqrt(untied), np.nan)


def _ties(ranks: np.ndarray) -> np.ndarray:
    """Pairs of equal ranks in each row."""
    rows, n = ranks.shape
    apart = ranks + n * np.arange(rows)[:, None]
    counts = np.bincount(apart.reshape(-1), minlength=rows * n).reshape(rows, n)
    return (counts * (counts - 1) // 2).sum(1)


def _inversions(lists: np.ndarray) -> np.ndarray:
    """Pairs out of order in each row of ranks, by merge sort, one width of all rows after the other.

    In two sorted halves of w, merged, a value of the right half has passed so many of the left one as it stands further left than
    behind all of them; equal ones it has not passed.
    """
    rows, n = lists.shape
    width = 1 << (n - 1).bit_length()
    full = np.full((rows, width), n)
    full[:, :n] = lists
    count, w = np.zeros(rows, np.int64), 1
    while w < width:
        halves = full.reshape(rows, width // (2 * w), 2 * w)
        merged = halves.argsort(-1, kind="stable")
        full = np.take_along_axis(halves, merged, -1)
        behind = w * w + w * (w - 1) // 2  # the places of a right half that has passed nothing, in sum
        count += full.shape[1] * behind - ((merged >= w) * np.arange(2 * w)).sum((1, 2))
        w *= 2
    return count
