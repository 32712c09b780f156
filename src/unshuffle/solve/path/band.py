r"""A soft permutation near a given order: item k may stand at most ``reach`` positions from place k.

Everything is written in the frame of that order (item k is the one that stands at position k in it), so P is a band
around the diagonal: n (2 reach + 1) numbers instead of n^2, and the pull of a path costs n (2 reach + 1)^2 instead of n^3.
With ``reach = n - 1`` the band is the whole matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32

from ...compute.jit import njit
from ...compute.threads import in_chunks

LEAST = 1e-30  # keeps the mass of an emptied row or column finite


@dataclass
class Band:
    """``soft[k, c]`` is how much of item k stands at position ``k - reach + c``. Updated in place by `band_step`."""

    cost: Float32[np.ndarray, "n n"]
    """``cost[i, k]`` is paid for item k directly after item i."""
    soft: Float32[np.ndarray, "n width"]
    fits: Bool[np.ndarray, "n width"]
    """Where an item may stand: not off the path, and where the mask allows it."""
    symmetric: bool
    smooth: Float32[np.ndarray, "n width"] | None = None
    potential: Float[np.ndarray, "n"] = field(init=False)

    def __post_init__(self) -> None:
        n, width = self.soft.shape
        pad = (width + 1) // 2
        self.potential = np.zeros(n)
        self.after = np.zeros((n, n + 2 * pad), np.float32)
        self.after[:, pad : pad + n] = self.cost
        self.before = self.after
        if not self.symmetric:
            self.before = np.zeros_like(self.after)
            self.before[:, pad : pad + n] = self.cost.T
        self._next, self._last = np.zeros((2, n, width + 2), np.float32)
        self._pull, self._kernel = np.zeros((2, n, width), np.float32)

    @property
    def reach(self) -> int:
        return self.soft.shape[1] // 2


def band_around(
    cost: Float32[np.ndarray, "n n"], reach: int, spread: float, allowed: Bool[np.ndarray, "n n"] | None = None
) -> Band:
    """A band around the given order, with a bell of ``spread`` positions around every item's own place."""
    n = len(cost)
    reach = max(1, min(reach, n - 1))
    offset = np.arange(2 * reach + 1) - reach
    place = np.arange(n)[:, None] + offset
    fits = (place >= 0) & (place < n)
    if allowed is not None:
        fits &= allowed[np.arange(n)[:, None], place.clip(0, n - 1)]
    soft = np.where(fits, np.exp(-0.5 * (offset / spread) ** 2), 0.0)
    soft /= np.maximum(soft.sum(1, keepdims=True), LEAST)
    return Band(cost, soft.astype(np.float32), fits, bool(np.array_equal(cost, cost.T)))


def band_step(
    band: Band, beta: float, gamma: float, *, self_weight: float = 0.5, damping: float = 0.4, sweeps: int = 5
) -> float:
    r"""$P \leftarrow \mathrm{Sinkhorn}(-\beta\,\bar Q)$ with $Q_a = D p_{a+1} + D^T p_{a-1} + \tfrac w2 (D + D^T) p_a - \gamma p_a$.

    $\bar Q$ is the damped pull. The ends reflect (position -1 repeats position 0), so that the slowest mode of the path
    is the monotone one. Returns the purity, the mean of $\sum_a P_{ia}^2$: 1 when everything is decided.
    """
    n, width = band.soft.shape
    _neighbours(band.soft, band.reach, np.float32(self_weight / 2), band._next, band._last)
    if band.symmetric:
        band._next += band._last

    near = _Near(band.after, band.before, band._next, band._last, band.reach, band.symmetric)

    def some(low: int, high: int) -> None:
        _pull(near, band._pull, low, high)

    in_chunks(some, n, float(n) * width * width)
    band._pull -= np.float32(gamma) * band.soft
    if band.smooth is None:
        band.smooth = band._pull.copy()
    band.smooth += np.float32(damping) * (band._pull - band.smooth)
    return float(
        _sinkhorn(band.smooth, band.fits, np.float32(beta), band.reach, sweeps, band.potential, band._kernel, band.soft)
    )


def band_places(band: Band) -> Float[np.ndarray, "n"]:
    """The mean position of every item."""
    n, width = band.soft.shape
    offset = np.arange(width) - band.reach
    total = np.maximum(band.soft.sum(1), LEAST)
    return np.arange(n) + (band.soft @ offset.astype(np.float32)) / total


def band_entropy(band: Band) -> float:
    """Mean entropy of an item, from 0 (decided) to 1 (anywhere)."""
    n = len(band.soft)
    return float(-(band.soft * np.log(np.maximum(band.soft, LEAST))).sum()) / (n * np.log(max(n, 2)))


def band_dense(band: Band) -> Float32[np.ndarray, "n n"]:
    """The band as a full matrix, items x positions, still in the frame of its order."""
    n, width = band.soft.shape
    place = np.arange(n)[:, None] + np.arange(width) - band.reach
    fits = (place >= 0) & (place < n)
    dense = np.zeros((n, n), np.float32)
    dense[np.nonzero(fits)[0], place[fits]] = band.soft[fits]
    return dense


@njit(fastmath=True)
def _neighbours(soft, reach, half, following, preceding):
    """What the neighbours of each position hold, item by item, in a window one wider than the band."""
    n, width = soft.shape
    following[:] = np.float32(0.0)
    preceding[:] = np.float32(0.0)
    for k in range(n):
        for c in range(max(0, reach - k), min(width, n + reach - k)):
            a = k - reach + c
            here = k - a + reach + 1
            p = soft[k, c]
            following[a, here] += half * p
            preceding[a, here] += half * p
            if a > 0:
                following[a - 1, here + 1] += p
            else:
                preceding[a, here] += p
            if a + 1 < n:
                preceding[a + 1, here - 1] += p
            else:
                following[a, here] += p


class _Near(NamedTuple):
    """Padded costs, and what the neighbours of each position hold."""

    after: np.ndarray
    before: np.ndarray
    following: np.ndarray
    preceding: np.ndarray
    reach: int
    symmetric: bool


@njit(fastmath=True)
def _pull(near, out, low, high):
    after, before, following, preceding, reach, symmetric = near
    n, width = out.shape
    window = width + 2
    for k in range(low, high):
        for c in range(max(0, reach - k), min(width, n + reach - k)):
            a = k - reach + c
            d, x = after[k, a : a + window], following[a]
            total = np.float32(0.0)
            for t in range(window):
                total += d[t] * x[t]
            if not symmetric:
                e, y = before[k, a : a + window], preceding[a]
                for t in range(window):
                    total += e[t] * y[t]
            out[k, c] = total


@njit(fastmath=True)
def _sinkhorn(smooth, fits, beta, reach, sweeps, potential, kernel, soft):
    """``sweeps`` warm-started sweeps, rows last; returns the purity."""
    n, width = smooth.shape
    for k in range(n):
        low, high = max(0, reach - k), min(width, n + reach - k)
        top = np.float32(-3e38)
        for c in range(low, high):
            x = np.float32(potential[k - reach + c]) - beta * smooth[k, c]
            x = x if fits[k, c] else np.float32(-3e38)
            kernel[k, c] = x
            top = x if x > top else top
        for c in range(low, high):
            kernel[k, c] = np.exp(kernel[k, c] - top) if fits[k, c] else np.float32(0.0)
    v = np.ones(n)
    column = np.empty(n)
    for _ in range(sweeps):
        column[:] = 0.0
        for k in range(n):
            low, high = max(0, reach - k), min(width, n + reach - k)
            total = 0.0
            for c in range(low, high):
                total += kernel[k, c] * v[k - reach + c]
            u = 1.0 / max(total, 1e-30)
            for c in range(low, high):
                column[k - reach + c] += kernel[k, c] * u
        for a in range(n):
            v[a] = 1.0 / max(column[a], 1e-30)
    square, mean = 0.0, 0.0
    for k in range(n):
        low, high = max(0, reach - k), min(width, n + reach - k)
        total = 0.0
        for c in range(low, high):
            total += kernel[k, c] * v[k - reach + c]
        u = 1.0 / max(total, 1e-30)
        for c in range(low, high):
            p = kernel[k, c] * v[k - reach + c] * u
            soft[k, c] = p
            square += p * p
    for a in range(n):
        potential[a] += np.log(v[a])
        mean += potential[a]
    for a in range(n):
        potential[a] = min(max(potential[a] - mean / n, -1e6), 1e6)  # an emptied column must find back
    return square / n
