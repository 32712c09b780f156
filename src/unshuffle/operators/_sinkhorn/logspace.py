r"""Sinkhorn for the matrices that the scaling form cannot do: log potentials in double precision, exact at any spread.

$f_t = -\mathrm{LSE}_j(L + g_{t-1})$, $g_t = -\mathrm{LSE}_i(L + f_t)$, $P = e^{L + f_T + g_T}$. Backward, with
$M_t = e^{L + f_t + g_t}$ and $N_t = e^{L + f_t + g_{t-1}}$, whose entries never exceed 1: for t = T..1,
$\bar f \mathrel{-}= M_t \bar g$, $\bar g \leftarrow -N_t^T \bar f$, and $\partial L = G P - \sum_t (M_t \bar g^T + \bar f N_t)$.
Two exponentials per entry and iteration instead of two multiplications; the memory is the same plus the potentials in double.
"""

from __future__ import annotations

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import exp_below
from .scaling import logits, new_words, number_of, spend


@njit(fastmath={"nsz", "reassoc", "contract"})
def _row_potential(L, g):
    """-LSE_j(L_j + g_j), and NaN where the row is forbidden or not a number."""
    top = -np.inf
    for j in range(L.size):
        top = max(top, L[j] + g[j])
    total = 0.0
    for j in range(L.size):
        total += exp_below(L.dtype.type(L[j] + g[j] - top))
    return -(top + np.log(total))


@njit(fastmath={"nsz", "reassoc", "contract"})
def _column_potentials(L, f, out, tops, totals):
    """out_j = -LSE_i(L_ij + f_i), row by row."""
    n = f.size
    for j in range(n):
        tops[j] = -np.inf
        totals[j] = 0.0
    for i in range(n):
        for j in range(n):
            tops[j] = max(tops[j], L[i, j] + f[i])
    for i in range(n):
        for j in range(n):
            totals[j] += exp_below(L.dtype.type(L[i, j] + f[i] - tops[j]))
    for j in range(n):
        out[j] = -(tops[j] + np.log(totals[j]))


@njit
def _forward_one(L, f, g, tolerance, tops, totals):
    """All iterations, then P in place of L. Row t+1 of g is $g_t$; row 0 is the start. Returns the iterations used, 0 if bad."""
    n, T = L.shape[0], f.shape[0]
    g[0] = 0.0
    used = T
    for t in range(T):
        worst = 0.0
        for i in range(n):
            f[t, i] = _row_potential(L[i], g[t])
            if not np.isfinite(f[t, i]):
                return 0
            if t:
                worst = max(worst, abs(np.exp(f[t - 1, i] - f[t, i]) - 1.0))
        if t and worst <= tolerance:
            used = t
            break
        _column_potentials(L, f[t], g[t + 1], tops, totals)
        if not np.isfinite(g[t + 1]).all():
            return 0
    for i in range(n):
        for j in range(n):
            L[i, j] = exp_below(L.dtype.type(L[i, j] + f[used - 1, i] + g[used, j]))
    return used


@njit
def forward_hard(scores, beta, field, noise, stream, tolerance, soft, which, f, g, used, low, high):
    """The matrices which[low:high]; used[k] is the iterations of which[k], 0 if its scores are unusable."""
    batch, n = scores.shape[0], soft.shape[1]
    tops, totals = np.empty(n), np.empty(n)
    words = new_words(n)
    nothing = scores[0, :0]
    for k in range(low, high):
        m = which[k]
        b = m % batch
        own = field[b % field.shape[0]] if field.shape[0] else nothing
        logits(soft[m].reshape(n * n), scores[b], beta[b], own, noise, words, number_of(m, batch, stream), stream)
        used[k] = _forward_one(soft[m], f[k], g[k], tolerance, tops, totals)


@njit(fastmath={"nsz", "reassoc", "contract"})
def _backward_step(L, D, f, g, before, f_bar, g_bar, sums, first):
    """One iteration back: takes the gradients of f and g off D; g_bar becomes that of the iteration before."""
    n = f.size
    for j in range(n):
        sums[j] = 0.0
    for i in range(n):
        pulled = f_bar[i] if first else 0.0
        for j in range(n):
            w = exp_below(L.dtype.type(L[i, j] + f[i] + g[j])) * g_bar[j]
            D[i, j] -= w
            pulled -= w
        for j in range(n):
            w = exp_below(L.dtype.type(L[i, j] + f[i] + before[j])) * pulled
            D[i, j] -= w
            sums[j] -= w
    for j in range(n):
        g_bar[j] = sums[j]


@njit
def backward_hard(
    scores, beta, field, noise, stream, soft, grad, which, starts, f, g, used, to_scores, to_beta, to_field, low, high
):
    """Hard matrices of the groups low..high-1: which[starts[group]:starts[group + 1]] have one batch entry in common.

    The gradients are added to what the easy matrices left; no two threads meet in one batch entry.
    """
    batch, n = scores.shape[0], soft.shape[1]
    L = np.empty((n, n), soft.dtype)
    D = np.empty((n, n), np.float64)
    f_bar, g_bar, sums = np.empty(n), np.empty(n), np.empty(n)
    x = np.empty(n * n if to_beta.size + to_field.size else 0, soft.dtype)
    words = new_words(n)
    nothing = x[:0]
    for k in range(starts[low], starts[high]):
        m = which[k]
        b = m % batch
        own = field[b % field.shape[0]] if field.shape[0] else nothing
        logits(L.reshape(n * n), scores[b], beta[b], own, noise, words, number_of(m, batch, stream), stream)
        D[:] = grad[m] * soft[m]
        f_bar[:] = D.sum(1)
        g_bar[:] = D.sum(0)
        for t in range(used[k] - 1, -1, -1):
            _backward_step(L, D, f[k, t], g[k, t + 1], g[k, t], f_bar, g_bar, sums, t == used[k] - 1)
        L[:] = D
        spend(
            L.reshape(n * n), scores[b], beta[b], own, noise, words, x, number_of(m, batch, stream), stream, to_scores[0, b],
            to_beta[0, b : b + 1] if to_beta.shape[0] else nothing,
            to_field[0, b] if to_field.shape[0] else nothing, False,
        )  # fmt: skip
