r"""Annealing on a grid of positions: pulls from short lists of likely neighbours, many steps in one call.

For tile i and cell c the pull is the affinity that i would share with what now stands around c,
$Q_{ic} = \sum_{\text{sides}} \sum_k A_{ik} P_{k, c + \text{side}}$, and one step is
$P \leftarrow \mathrm{Sinkhorn}(\beta\,(Q + \gamma P + b))$ with the column potentials of the step before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...compute.jit import have_numba, njit
from ...compute.threads import in_chunks
from ..warm import POWERS, falling_exp
from .cooling import Cooling
from .seams import SIDES, Bonds

FORBIDDEN = -1e4  # a bias no sum of affinities can outweigh, and small enough for float32 logits
SETTLED = 0.9999  # share of a tile in one cell from which on the rest of its row is left out of the others' pulls


class Board(NamedTuple):
    """Rows, columns, and whether opposite borders touch."""

    h: int
    w: int
    torus: bool


class OneRun(NamedTuple):
    """One run of a batch, as views that are written to; beta, entropy and done are arrays of one number."""

    soft: np.ndarray
    potential: np.ndarray
    bias: np.ndarray
    beta: np.ndarray
    entropy: np.ndarray
    done: np.ndarray


class Rates(NamedTuple):
    """What a kernel needs of `Cooling`."""

    rate: float
    last: float
    self_amplification: float
    decided: float
    sweeps: int


class Crystal:
    """The state of a batch of runs: soft permutations, column potentials, betas. `grow` moves it on in place."""

    def __init__(self, soft: np.ndarray, bias: np.ndarray, beta: float) -> None:
        self.soft = np.ascontiguousarray(soft, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        runs, n, _ = self.soft.shape
        self.potential = np.zeros((runs, n), np.float32)
        self.beta = np.full(runs, beta, np.float64)
        self.entropy = np.ones(runs)
        self.done = np.zeros(runs, dtype=np.bool_)


def grow(crystal: Crystal, bonds: Bonds, board: Board, cooling: Cooling, steps: int) -> None:
    """``steps`` steps of every run that is not done; on a torus, or on a grid with open borders."""
    c = crystal
    pace = Rates(cooling.rate, cooling.last, cooling.self_amplification, cooling.decided, cooling.sweeps)
    kernel = anneal if have_numba else anneal_sparse

    def some(low: int, high: int) -> None:
        for r in range(low, high):
            if not c.done[r]:
                one = slice(r, r + 1)
                kernel(
                    OneRun(c.soft[r], c.potential[r], c.bias[r], c.beta[one], c.entropy[one], c.done[one]),
                    bonds,
                    board,
                    pace,
                    steps,
                    POWERS,
                )

    in_chunks(some, len(c.soft))


@njit(fastmath=True)
def _pull(i, P, settled, bonds, board, total, Q):
    """Add to Q the pull of tile i. Rows of P are summed first and shifted once, so that the long loop is plain.

    A tile that has found its cell (``settled``, else -1) adds one number instead of a row.
    """
    partner, strength = bonds
    h, w, torus = board
    n = h * w
    for side in range(4):
        total[:] = np.float32(0.0)
        for m in range(partner.shape[2]):
            a = strength[side, i, m]
            if a < np.float32(1e-6):
                break
            k = partner[side, i, m]
            if settled[k] >= 0:
                total[settled[k]] += a
                continue
            row = P[k]
            for c in range(n):
                total[c] += a * row[c]
        if side == 0:
            for y in range(h):
                for x in range(w - 1):
                    Q[y * w + x] += total[y * w + x + 1]
                if torus:
                    Q[y * w + w - 1] += total[y * w]
        elif side == 1:
            for y in range(h):
                for x in range(1, w):
                    Q[y * w + x] += total[y * w + x - 1]
                if torus:
                    Q[y * w] += total[y * w + w - 1]
        elif side == 2:
            for c in range(n - w):
                Q[c] += total[c + w]
            if torus:
                for x in range(w):
                    Q[n - w + x] += total[x]
        else:
            for c in range(w, n):
                Q[c] += total[c - w]
            if torus:
                for x in range(w):
                    Q[x] += total[n - w + x]


@njit(fastmath=True)
def _balance(K, v, column, sweeps):
    """Sinkhorn in scaling form; v is left so that the columns of u K v sum to one."""
    n = v.size
    v[:] = np.float32(1.0)
    for _ in range(sweeps):
        column[:] = np.float32(0.0)
        for i in range(n):
            total = np.float32(0.0)
            for c in range(n):
                total += K[i, c] * v[c]
            u = np.float32(1.0) / max(total, np.float32(1e-30))
            for c in range(n):
                column[c] += K[i, c] * u
        for c in range(n):
            v[c] = np.float32(1.0) / max(column[c], np.float32(1e-30))


@njit(fastmath=True)
def anneal(run, bonds, board, pace, steps, powers):
    """``steps`` steps of one run, or fewer if it is done before."""
    P, g, bias, beta, entropy, done = run
    gamma = np.float32(pace.self_amplification)
    n = board.h * board.w
    K = np.empty((n, n), np.float32)
    total, v, column = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    settled = np.full(n, -1, np.int64)
    for _ in range(steps):
        b = np.float32(beta[0])
        for i in range(n):
            q, p = K[i], P[i]
            for c in range(n):
                q[c] = gamma * p[c] + bias[i, c]
            _pull(i, P, settled, bonds, board, total, q)
            top = np.float32(-3e38)
            for c in range(n):
                q[c] = b * (q[c] + g[c])
                top = q[c] if q[c] > top else top
            for c in range(n):
                q[c] = falling_exp(q[c] - top, powers)
        _balance(K, v, column, pace.sweeps)
        spread = 0.0
        for i in range(n):
            row = np.float32(0.0)
            for c in range(n):
                K[i, c] *= v[c]
                row += K[i, c]
            row = np.float32(1.0) / max(row, np.float32(1e-30))
            settled[i] = -1
            for c in range(n):
                p_ic = K[i, c] * row
                P[i, c] = p_ic
                if p_ic > np.float32(SETTLED):
                    settled[i] = c
                if p_ic > np.float32(1e-9) and p_ic < np.float32(0.9999):
                    spread -= p_ic * np.log(p_ic)
        mean = np.float32(0.0)
        for c in range(n):
            g[c] += np.log(v[c]) / b
            mean += g[c]
        for c in range(n):
            g[c] -= mean / n
        entropy[0] = spread / (n * np.log(max(n, 2)))
        beta[0] *= pace.rate
        if entropy[0] < pace.decided or beta[0] > pace.last:
            done[0] = True
            return


def anneal_sparse(run: OneRun, bonds: Bonds, board: Board, pace: Rates, steps: int, _powers: np.ndarray) -> None:
    """The same steps without numba: sparse products and whole-matrix operations."""
    P, g, bias, beta, entropy, done = run
    (partner, strength), (h, w, torus) = bonds, board
    n = h * w
    rows = np.repeat(np.arange(n), partner.shape[2])
    sides = [csr_array((strength[s].ravel(), (rows, partner[s].ravel())), shape=(n, n)) for s in range(4)]
    for _ in range(steps):
        Q = np.float64(pace.self_amplification) * P + bias
        for side, (dy, dx) in zip(sides, SIDES, strict=True):
            moved = np.roll((side @ P).reshape(n, h, w), (-dy, -dx), (1, 2))
            if not torus:
                edge = (slice(None), -1 if dy == 1 else 0) if dy else (slice(None), slice(None), -1 if dx == 1 else 0)
                moved[edge] = 0
            Q += moved.reshape(n, n)
        K = np.float32(beta[0]) * (Q + g)
        K = np.exp(np.maximum(K - K.max(1, keepdims=True), np.float32(-87)))
        K[K < 2e-38] = 0
        v = np.ones(n, np.float32)
        for _ in range(pace.sweeps):
            u = 1 / np.maximum(K @ v, 1e-30)
            v = (1 / np.maximum(u @ K, 1e-30)).astype(np.float32)
        K *= v
        P[:] = K / np.maximum(K.sum(1, keepdims=True), 1e-30)
        g += np.log(v) / np.float32(beta[0])
        g -= g.mean()
        mixed = P[(P > 1e-9) & (P < 0.9999)].astype(np.float64)
        entropy[0] = -(mixed * np.log(mixed)).sum() / (n * np.log(max(n, 2)))
        beta[0] *= pace.rate
        if entropy[0] < pace.decided or beta[0] > pace.last:
            done[0] = True
            return
