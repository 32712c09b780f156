r"""Matrices that fit into the registers of one program: up to 128 x 128, and many at once when they are small.

Forward, $f_t = -\mathrm{LSE}_j(L + g_{t-1})$, $g_t = -\mathrm{LSE}_i(L + f_t)$, $g_0 = 0$, $P = e^{L + f_T + g_T}$. Backward, with
$M_t = e^{L + f_t + g_t}$ and $N_t = e^{L + f_t + g_{t-1}}$, whose entries never exceed 1: from $D = GP$, for t = T..1,
$\bar f \mathrel{-}= M_t \bar g$, $\bar g \leftarrow -N_t^T \bar f$, and D gives up both products on the way to $\partial L$.
"""

# Triton's language, which a type checker takes for Python's:
# pyright: reportArgumentType=false, reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from .entries import LOWEST_TOP, load_pair, logits, potential, shifted, store_pair

CHANGING = ["key_0", "key_1", "first", "total", "scale"]  # from call to call


@triton.jit
def _potentials(L, high, low, axis: tl.constexpr, sums, real):
    """log(sums) - LSE of L + (high + low) along an axis."""
    top = tl.maximum(tl.max(L + high, axis=axis, keep_dims=True), LOWEST_TOP)
    return potential(top, tl.sum(tl.exp(shifted(L, -top, 0.0, high, low)), axis=axis, keep_dims=True) / sums, real)


@triton.jit(do_not_specialize=[*CHANGING, "alike", "log_high", "log_low"])
def forward(
    scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, soft, potentials,
    matrices, batch, n, iterations, alike, log_high, log_low, scale, key_0, key_1, first, total, rows_at_once, items, positions,
    WITH_BETA: tl.constexpr, NOISY: tl.constexpr, SIDE: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)[:, None, None]
    i = tl.arange(0, SIDE)[None, :, None]
    j = tl.arange(0, SIDE)[None, None, :]
    inside = (m < matrices) & (i < n) & (j < n)
    in_rows, in_columns = (m < matrices) & (i < n), (m < matrices) & (j < n)
    L, _, _ = logits(
        scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, m, i, j, inside, batch, n,
        scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA, NOISY,
    )  # fmt: skip
    kept = potentials + m.to(tl.int64) * (2 * iterations + 1) * n
    f_high = tl.zeros([TOGETHER, SIDE, 1], tl.float32)
    f_low = tl.zeros([TOGETHER, SIDE, 1], tl.float32)
    # what rows and columns sum to: 1, but the last stand for several dummies, and start accordingly
    row_sums, column_sums = tl.where(i == n - 1, alike, 1.0), tl.where(j == n - 1, alike, 1.0)
    g_high = tl.zeros([TOGETHER, 1, SIDE], tl.float32) + tl.where(j == n - 1, log_high, 0.0)
    g_low = tl.zeros([TOGETHER, 1, SIDE], tl.float32) + tl.where(j == n - 1, log_low, 0.0)
    store_pair(kept + j, g_high, g_low, in_columns)
    for t in range(1, iterations + 1):
        f_high, f_low = _potentials(L, g_high, g_low, 2, row_sums, in_rows)
        store_pair(kept + (2 * t - 1) * n + i, f_high, f_low, in_rows)
        g_high, g_low = _potentials(L, f_high, f_low, 1, column_sums, in_columns)
        store_pair(kept + 2 * t * n + j, g_high, g_low, in_columns)
    P = tl.exp(shifted(L, f_high, f_low, g_high, g_low))
    tl.store(soft + m.to(tl.int64) * (n * n) + i * n + j, P, mask=inside)


@triton.jit(do_not_specialize=[*CHANGING, "alike"])
def backward(
    scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, grad, grad_m, grad_i, grad_j, potentials,
    to_scores, to_beta, matrices, batch, n, iterations, alike, scale, key_0, key_1, first, total, rows_at_once, items, positions,
    WITH_BETA: tl.constexpr, NOISY: tl.constexpr, TO_BETA: tl.constexpr, SIDE: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """TO_BETA: "none", "each" for one number a matrix, or "field"."""
    m = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)[:, None, None]
    i = tl.arange(0, SIDE)[None, :, None]
    j = tl.arange(0, SIDE)[None, None, :]
    inside = (m < matrices) & (i < n) & (j < n)
    in_rows, in_columns = (m < matrices) & (i < n), (m < matrices) & (j < n)
    L, x, factor = logits(
        scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, m, i, j, inside, batch, n,
        scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA, NOISY,
    )  # fmt: skip
    wide = m.to(tl.int64)
    kept = potentials + wide * (2 * iterations + 1) * n
    f_high, f_low = load_pair(kept + (2 * iterations - 1) * n + i, in_rows)
    g_high, g_low = load_pair(kept + 2 * iterations * n + j, in_columns)
    G = tl.load(grad + wide * grad_m + i * grad_i + j * grad_j, mask=inside, other=0.0).to(tl.float32)
    D = G * tl.exp(shifted(L, f_high, f_low, g_high, g_low))
    row_sums, column_sums = tl.where(i == n - 1, alike, 1.0), tl.where(j == n - 1, alike, 1.0)
    f_bar = tl.sum(D, axis=2, keep_dims=True)
    g_bar = tl.sum(D, axis=1, keep_dims=True)
    for back in range(iterations):
        t = iterations - back
        f_high, f_low = load_pair(kept + (2 * t - 1) * n + i, in_rows)
        w = tl.exp(shifted(L, f_high, f_low, g_high, g_low)) * (g_bar / column_sums)
        D -= w
        f_bar -= tl.sum(w, axis=2, keep_dims=True)
        g_high, g_low = load_pair(kept + (2 * t - 2) * n + j, in_columns)  # of the iteration before
        w = tl.exp(shifted(L, f_high, f_low, g_high, g_low)) * (f_bar / row_sums)
        D -= w
        g_bar = -tl.sum(w, axis=1, keep_dims=True)
        f_bar = tl.zeros([TOGETHER, SIDE, 1], tl.float32)
    entry = wide * (n * n) + i * n + j
    tl.store(to_scores + entry, D * factor, mask=inside)
    if TO_BETA == "field":
        tl.store(to_beta + entry, D * x, mask=inside)
    if TO_BETA == "each":
        whole = tl.sum(tl.sum(D * x, axis=2, keep_dims=True), axis=1, keep_dims=True)
        tl.store(to_beta + wide, whole, mask=m < matrices)
