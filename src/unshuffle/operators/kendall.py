"""Kendall's tau-b of integer ranks, in O(n log n)."""

from __future__ import annotations

import numpy as np

from ..compute.jit import njit


@njit
def _ties(counts):
    total = 0
    for c in counts:
        total += c * (c - 1) // 2
    return total


@njit
def _inversions(values, spare):
    """Pairs out of order, by merge sort; sorts ``values`` on the way."""
    n, swaps, width = values.size, 0, 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or values[i] <= values[j]):
                    spare[k] = values[i]
                    i += 1
                else:
                    spare[k] = values[j]
                    swaps += middle - i
                    j += 1
        values[:] = spare
        width *= 2
    return swaps


@njit
def tau_kernel(x, y, tau, low, high):
    """tau[low:high] of the rows of x and y (Knight 1966: sort by x, count what a merge sort by y swaps)."""
    n = x.shape[1]
    spare = np.empty(n, np.int64)
    for row in range(low, high):
        joint = x[row] * n + y[row]
        joint.sort()  # by x, ties by y
        pairs = n * (n - 1) // 2
        ties_x = _ties(np.bincount(x[row], minlength=1))
        ties_y = _ties(np.bincount(y[row], minlength=1))
        ties_both, run = 0, 1
        for k in range(1, n):
            run = run + 1 if joint[k] == joint[k - 1] else 1
            ties_both += run - 1
        by_x = joint % n
        discordant = _inversions(by_x, spare)
        untied = np.float64(pairs - ties_x) * np.float64(pairs - ties_y)  # in int64 it overflows beyond n = 50,000
        balance = pairs - ties_x - ties_y + ties_both - 2 * discordant
        tau[row] = balance / np.sqrt(untied) if untied > 0 else np.nan
