r"""Soft tours that know where each item may stand: the steps of `warm` and `chain` on a short list of items per position.

Once an annealer has left its coarsest levels an item covers a few bins, and the rest of P is zero to working precision. A `Ring`
keeps, position by position, only the items that can matter there, so a step costs n times a few hundred operations instead
of n^2 times a few dozen; many steps are done in one call, one thread per run. With all items in all lists it is the dense step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32

from ...compute.jit import njit
from ...compute.threads import in_chunks
from ..warm import POWERS, falling_exp

LIGHT = 1e-4
"""Weights below this share of an item are skipped in the pull; up to 1e-3 tours of 300 cities do not change in length."""


@dataclass
class Ring:
    """One run: ``soft[e]`` is how much of item ``item[e]`` stands at the position a with start[a] <= e < start[a + 1]."""

    start: np.ndarray
    item: np.ndarray
    soft: Float32[np.ndarray, "entries"]
    items: int
    row_mass: float
    purity: float = 0.0
    ahead: Float32[np.ndarray, "entries"] = field(init=False)
    smooth: Float32[np.ndarray, "entries"] = field(init=False)
    potential: Float32[np.ndarray, "items"] = field(init=False)

    def __post_init__(self) -> None:
        self.ahead = self.soft.copy()
        self.smooth = np.empty_like(self.soft)
        self.fresh = True  # nothing to smooth with yet: the first pull is taken as it is
        self.potential = np.zeros(self.items, np.float32)

    @classmethod
    def of(cls, soft: Float32[np.ndarray, "positions items"], keep: Bool[np.ndarray, "positions items"]) -> Ring:
        """The entries of a dense soft tour that are to be kept."""
        positions, items = soft.shape
        row, item = np.nonzero(keep)
        start = np.zeros(positions + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=positions), out=start[1:])
        return cls(start, item.astype(np.int32), soft[row, item].astype(np.float32), items, items / positions)

    @property
    def entropy(self) -> float:
        """Mean entropy of a position, from 0 (decided) to 1 (uniform)."""
        share = self.soft / self.row_mass
        positions = len(self.start) - 1
        return float(-(share * np.log(np.maximum(share, 1e-30))).sum()) / (positions * np.log(max(self.items, 2)))

    def dense(self) -> Float32[np.ndarray, "positions items"]:
        positions = len(self.start) - 1
        full = np.zeros((positions, self.items), np.float32)
        full[np.repeat(np.arange(positions), np.diff(self.start)), self.item] = self.soft
        return full


@dataclass(frozen=True)
class RingPull:
    r"""The pull $Q_A = (D p_{A+1} + D^T p_{A-1} + \tfrac w2 (D + D^T) p_A)/s - \gamma p_A$ of a level with bins of s positions."""

    after: Float32[np.ndarray, "costs items items"]
    """``after[r, i, k]`` is paid by run r (or by all runs, if there is one matrix) for item k directly after item i."""
    before: Float32[np.ndarray, "costs items items"]
    """Its transpose; the same array if it is symmetric."""
    self_weight: float


def ring_steps(
    rings: list[Ring],
    pull: RingPull,
    betas: Float[np.ndarray, "steps"],
    gammas: Float[np.ndarray, "steps"],
    *,
    damping: float,
    momentum: float,
    sweeps: int,
) -> None:
    """One step per beta: pull, damped pull, ``sweeps`` warm sweeps of Sinkhorn, extrapolation; as `warm_step` does it."""
    symmetric = pull.after is pull.before
    work = float(len(betas)) * sum(len(ring.item) for ring in rings) * 60

    def some(low: int, high: int) -> None:
        for r in range(low, high):
            x, which = rings[r], r % len(pull.after)
            numbers = np.array([damping, momentum, x.row_mass, pull.self_weight], np.float32)
            lists = _Lists(x.start, x.item, x.soft, x.ahead, x.smooth, x.potential)
            costs = _Costs(pull.after[which], pull.before[which], symmetric)
            x.purity = _steps(lists, x.fresh, costs, betas, gammas, numbers, sweeps, POWERS)
            x.fresh = False

    in_chunks(some, len(rings), work)


def expected_cost(ring: Ring, cost: Float32[np.ndarray, "items items"]) -> float:
    r"""$\sum_A p_A^T D p_{A+1} + (s-1)\, p_A^T D p_A$ with $p_A = P_A / s$: the expected length of the soft tour."""
    return float(_expected(ring.start, ring.item, ring.soft, cost)) / ring.row_mass**2


class _Lists(NamedTuple):
    """A `Ring` as the kernels see it."""

    start: np.ndarray
    item: np.ndarray
    soft: np.ndarray
    ahead: np.ndarray
    smooth: np.ndarray
    potential: np.ndarray


class _Costs(NamedTuple):
    """A `RingPull` of one run as the kernels see it."""

    after: np.ndarray
    before: np.ndarray
    symmetric: bool


class _Weights(NamedTuple):
    """The items that pull at one position, each once, and how strongly; ``place[i]`` is where item i is in the list, or -1."""

    ids: np.ndarray
    total: np.ndarray
    place: np.ndarray


@njit(fastmath=True)
def _expected(start, item, x, cost):
    positions = start.size - 1
    inside = np.float32(cost.shape[0] / positions - 1)
    total = 0.0
    for a in range(positions):
        following = a + 1 if a + 1 < positions else 0
        for e in range(start[a], start[a + 1]):
            if x[e] > np.float32(LIGHT):
                costs = cost[item[e]]
                here = np.float32(0.0)
                for f in range(start[following], start[following + 1]):
                    here += x[f] * costs[item[f]]
                for f in range(start[a], start[a + 1]):
                    here += inside * x[f] * costs[item[f]]
                total += x[e] * here
    return total


@njit(fastmath=True)
def _gather(start, item, x, row, weight, weights, count):
    """Add weight * x of one position to the list of weights."""
    ids, total, place = weights
    for e in range(start[row], start[row + 1]):
        if abs(x[e]) * weight > np.float32(LIGHT):
            k = item[e]
            at = place[k]
            if at < 0:
                place[k] = at = count
                ids[at] = k
                total[at] = np.float32(0.0)
                count += 1
            total[at] += weight * x[e]
    return count


@njit(fastmath=True)
def _add(start, item, row, cost, weights, count, Q):
    """What the listed items ask of those at one position; the list is empty again afterwards."""
    ids, total, place = weights
    for e in range(start[row], start[row + 1]):
        costs = cost[item[e]]
        pulled = np.float32(0.0)
        for t in range(count):
            pulled += total[t] * costs[ids[t]]
        Q[e] += pulled
    for t in range(count):
        place[ids[t]] = -1


@njit(fastmath=True)
def _pull(start, item, x, costs, half, weights, Q):
    after, before, symmetric = costs
    positions = start.size - 1
    Q[:] = np.float32(0.0)
    one = np.float32(1.0)
    for a in range(positions):
        behind = a - 1 if a > 0 else positions - 1
        ahead = a + 1 if a + 1 < positions else 0
        count = _gather(start, item, x, ahead, one, weights, 0)
        count = _gather(start, item, x, a, half + half if symmetric else half, weights, count)
        if symmetric:
            count = _gather(start, item, x, behind, one, weights, count)
        _add(start, item, a, after, weights, count, Q)
        if not symmetric:
            count = _gather(start, item, x, behind, one, weights, 0)
            count = _gather(start, item, x, a, half, weights, count)
            _add(start, item, a, before, weights, count, Q)


@njit(fastmath=True)
def _balance(start, item, K, v, column, row_mass, sweeps):
    """u = row_mass / (K v), v = 1 / (K^T u), ``sweeps`` times; leaves u K v in K."""
    v[:] = np.float32(1.0)
    positions = start.size - 1
    for sweep in range(sweeps):
        column[:] = np.float32(0.0)
        for a in range(positions):
            total = np.float32(0.0)
            for e in range(start[a], start[a + 1]):
                total += K[e] * v[item[e]]
            u = row_mass / max(total, np.float32(1e-30))
            for e in range(start[a], start[a + 1]):
                column[item[e]] += K[e] * u
            if sweep == sweeps - 1:
                for e in range(start[a], start[a + 1]):
                    K[e] *= u
        for i in range(v.size):
            v[i] = np.float32(1.0) / max(column[i], np.float32(1e-30))
    for e in range(K.size):
        K[e] *= v[item[e]]


@njit(fastmath=True)
def _steps(lists, fresh, costs, betas, gammas, numbers, sweeps, powers):
    start, item, P, X, smooth, g = lists
    damping, momentum, row_mass, self_weight = numbers
    items = g.size
    scale = np.float32(1.0) / (row_mass * row_mass)
    weights = _Weights(np.empty(items, np.int32), np.empty(items, np.float32), np.full(items, -1, np.int32))
    v, column = np.empty(items, np.float32), np.empty(items, np.float32)
    K = np.empty(P.size, np.float32)
    for step in range(betas.size):
        beta, gamma = np.float32(betas[step]), np.float32(gammas[step])
        _pull(start, item, X, costs, np.float32(0.5) * self_weight, weights, K)
        if step == 0 and fresh:
            for e in range(K.size):
                smooth[e] = scale * K[e] - gamma / row_mass * X[e]
        for a in range(start.size - 1):
            low, high = start[a], start[a + 1]
            top = np.float32(-3e38)
            for e in range(low, high):
                smooth[e] += damping * (scale * K[e] - gamma / row_mass * X[e] - smooth[e])
                K[e] = g[item[e]] - beta * smooth[e]
                top = K[e] if K[e] > top else top
            for e in range(low, high):
                K[e] = falling_exp(K[e] - top, powers)
        _balance(start, item, K, v, column, row_mass, sweeps)
        for e in range(K.size):
            new = K[e]
            X[e] = new + momentum * (new - P[e])
            P[e] = new
        mean = np.float32(0.0)
        for i in range(items):
            g[i] += np.log(v[i])
            mean += g[i]
        for i in range(items):
            g[i] -= mean / items
    square = 0.0
    for e in range(P.size):
        square += P[e] * P[e]
    return square / items
