r"""One warm-started Sinkhorn step, the inner move of every annealer: $P \leftarrow \mathrm{Sinkhorn}(b - \beta \bar Q)$.

Between two steps of an annealer neither the pull Q nor beta moves much, so the column potentials of the last step are
almost right and a few sweeps suffice (measured on tours: 2, 5, 10 and 15 sweeps are equal within noise). Damping acts on
the pull, $\bar Q \leftarrow (1-\eta)\bar Q + \eta Q$, not on P: the fixed points stay and period-two oscillation goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..compute.jit import have_numba, njit
from ..compute.threads import in_chunks

TINY = 1e-30  # keeps an emptied column's scaling factor finite; its potential recovers within a few steps
NEVER = -3e38  # below every float32 logit

# 2^-k; the last entry is 0, so that everything below exp(-88), -inf included, is exactly zero
POWERS = np.array([2.0**-k for k in range(127)] + [0.0], dtype=np.float32)


@dataclass
class WarmState:
    """A batch of runs: soft assignments and what the next step starts from. Updated in place by `warm_step`.

    Rows are normalised first and columns last, to ``row_mass`` and ``column_mass``; the matrix need not be square.
    """

    soft: Float[Tensor, "runs rows columns"]
    bias: Float[Tensor, "rows columns"] | None = None
    """Added to the logits whatever beta is: log scores to start from, -inf for forbidden pairs."""
    row_mass: float = 1.0
    column_mass: float = 1.0

    def __post_init__(self) -> None:
        self.soft = self.soft.to(torch.float32).contiguous()
        self.ahead = self.soft.clone()
        """P + momentum (P - previous P): where to evaluate the next pull."""
        self.smooth: Tensor | None = None
        self.potential = self.soft.new_zeros(self.soft.shape[0], self.soft.shape[2])
        none = self.soft.new_zeros(1, 0)
        self._bias = none if self.bias is None else self.bias.to(self.soft).contiguous()
        self.purity = self.soft.square().sum((1, 2)) / (self.soft.shape[1] * self.row_mass)


def warm_step(
    state: WarmState,
    pull: Float[Tensor, "runs rows columns"],
    beta: float,
    *,
    damping: float = 0.4,
    momentum: float = 0.0,
    sweeps: int = 5,
) -> None:
    r"""$u \leftarrow r/(Kv)$, $v \leftarrow c/(K^Tu)$, ``sweeps`` times, on $K = \exp(b - \beta\bar Q + g)$; then $P = uKv$, $g \mathrel{+}= \log v$.

    Refreshes ``soft``, ``ahead``, ``purity`` ($\sum P^2$ over the mass: 1 when every row is decided).
    """
    compiled = have_numba and state.soft.device.type == "cpu"
    pull = pull.to(state.soft)
    if compiled:  # and its smoothed copy with it: another layout would be another kernel to compile
        pull = pull.contiguous()
    if state.smooth is None:
        state.smooth = pull.clone()
    if compiled:
        _step_numba(state, pull, beta, damping, momentum, sweeps)
    else:
        _step_torch(state, pull, beta, damping, momentum, sweeps)


def _step_torch(state: WarmState, pull: Tensor, beta: float, damping: float, momentum: float, sweeps: int) -> None:
    smooth = state.smooth
    if smooth is None:
        raise RuntimeError("warm_step fills the smoothed pull first.")
    smooth += damping * (pull - smooth)
    logits = state.potential.unsqueeze(1) - beta * smooth
    if state._bias.numel():
        logits = logits + state._bias
    K = (logits - logits.amax(2, keepdim=True).clamp_min(NEVER)).exp()
    v = K.new_ones(K.shape[0], 1, K.shape[2])
    for _ in range(sweeps):
        u = state.row_mass / (K * v).sum(2, keepdim=True).clamp_min(TINY)
        v = state.column_mass / (K * u).sum(1, keepdim=True).clamp_min(TINY)
    new = u * K * v  # pyright: ignore[reportPossiblyUnboundVariable]
    state.ahead = new + momentum * (new - state.soft)
    state.soft = new
    potential = state.potential + v.squeeze(1).log()
    state.potential = potential - potential.mean(1, keepdim=True)
    state.purity = new.square().sum((1, 2)) / (new.shape[1] * state.row_mass)


def _step_numba(state: WarmState, pull: Tensor, beta: float, damping: float, momentum: float, sweeps: int) -> None:
    if state.smooth is None:
        raise RuntimeError("warm_step fills the smoothed pull first.")
    parts = (pull, state.smooth, state.potential, state.soft, state.ahead, state._bias, state.purity)
    arrays = _Arrays(*(t.numpy() for t in parts))
    numbers = np.array([beta, damping, momentum, state.row_mass, state.column_mass], dtype=np.float32)

    def some(low: int, high: int) -> None:
        _steps(arrays, numbers, sweeps, POWERS, low, high)

    in_chunks(some, len(arrays.soft), float(arrays.soft.size) * (sweeps + 4))


class _Arrays(NamedTuple):
    """A `WarmState` and its pull, as the kernel sees them."""

    pull: np.ndarray
    smooth: np.ndarray
    potential: np.ndarray
    soft: np.ndarray
    ahead: np.ndarray
    bias: np.ndarray
    purity: np.ndarray


@njit(fastmath=True)
def falling_exp(x, powers):
    """exp(x) for x <= 0 to 1e-7, without a call, so that the loop around it becomes vector instructions."""
    t = min(max(x * np.float32(-1.4426950408889634), np.float32(0.0)), np.float32(127.0))
    whole = np.int32(t)
    f = np.float32(whole) - t
    p = np.float32(0.0013333558) + f * np.float32(0.000154035)
    p = np.float32(0.0555041087) + f * (np.float32(0.0096181291) + f * p)
    return (np.float32(1.0) + f * (np.float32(0.6931471806) + f * (np.float32(0.2402265070) + f * p))) * powers[
        whole & np.int32(127)
    ]  # a NaN must not read elsewhere


@njit(fastmath=True)
def _kernel_row(q, smooth, g, bias, beta, damping, K, powers):
    """One row of K = exp(g + bias - beta * smooth - maximum)."""
    top = np.float32(-3e38)
    for j in range(q.size):
        smooth[j] += damping * (q[j] - smooth[j])
        K[j] = g[j] - beta * smooth[j]
    for j in range(bias.size):
        K[j] += bias[j]
    for j in range(q.size):
        top = K[j] if K[j] > top else top
    for j in range(q.size):
        K[j] = falling_exp(K[j] - top, powers)


@njit(fastmath=True)
def _sweep(K, u, v, row_mass, column_mass, column):
    """u = row_mass / (K v), then v = column_mass / (K^T u); each row is read once while it is in cache."""
    column[:] = np.float32(0.0)
    for i in range(u.size):
        total = np.float32(0.0)
        for j in range(v.size):
            total += K[i, j] * v[j]
        u[i] = row_mass / max(total, np.float32(1e-30))
        for j in range(v.size):
            column[j] += K[i, j] * u[i]
    for j in range(v.size):
        v[j] = column_mass / max(column[j], np.float32(1e-30))


@njit(fastmath=True)
def _steps(arrays, numbers, sweeps, powers, low, high):
    """`warm_step` for runs low..high-1; X holds K on the way and the extrapolated P at the end."""
    Q, smooth, g, P, X, bias, purity = arrays
    beta, damping, momentum, row_mass, column_mass = numbers
    rows, columns = P.shape[1], P.shape[2]
    u, v = np.empty(rows, np.float32), np.empty(columns, np.float32)
    column = np.empty(columns, np.float32)
    for r in range(low, high):
        v[:] = np.float32(1.0)
        for i in range(rows):
            _kernel_row(Q[r, i], smooth[r, i], g[r], bias[i % len(bias)], beta, damping, X[r, i], powers)
        for _ in range(sweeps):
            _sweep(X[r], u, v, row_mass, column_mass, column)
        square = 0.0
        for i in range(rows):
            K, p = X[r, i], P[r, i]
            part = np.float32(0.0)
            for j in range(columns):
                new = u[i] * K[j] * v[j]
                K[j] = new + momentum * (new - p[j])
                p[j] = new
                part += new * new
            square += part
        purity[r] = square / (rows * row_mass)
        mean = np.float32(0.0)
        for j in range(columns):
            g[r, j] += np.log(v[j])
            mean += g[r, j]
        for j in range(columns):
            g[r, j] -= mean / columns
