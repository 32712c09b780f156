r"""Larger matrices, in tiles: one program for some rows or some columns of a matrix, one launch for each half of an iteration.

L is written out once. A row step and a column step are one kernel with rows and columns exchanged: *own* is the side that is
found, *other* the side that is summed over. The gradient takes the vectors $\bar f_t$, $\bar g_t$ from such steps, and then
$\partial L = GP - \sum_t (M_t \bar g_t^T + \bar f_t N_t)$ tile by tile, with the exponentials of ``whole``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .entries import FORBIDDEN, LOWEST_TOP, load_pair, logits, potential, shifted, store_pair
from .whole import CHANGING


@triton.jit(do_not_specialize=CHANGING)
def write_logits(
    scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, out,
    batch, n, scale, key_0, key_1, first, total, rows_at_once, items, positions,
    WITH_BETA: tl.constexpr, NOISY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (i < n) & (j < n)
    L, _, _ = logits(
        scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, m, i, j, inside, batch, n,
        scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA, NOISY,
    )  # fmt: skip
    tl.store(out + (m.to(tl.int64) * n + i) * n + j, L, mask=inside)


@triton.jit(do_not_specialize=["found", "known", "alike"])
def half_step(
    logits, own_stride, other_stride, potentials, potentials_m, found, known, n, alike,
    OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """Vector ``found`` of the potentials from vector ``known``: -LSE over the other side; the last stands for ``alike``."""
    m = tl.program_id(0).to(tl.int64)
    own = tl.program_id(1) * OWN + tl.arange(0, OWN)[:, None]
    kept = potentials + m * potentials_m
    top = tl.full([OWN, 1], LOWEST_TOP, tl.float32)
    total = tl.zeros([OWN, 1], tl.float32)
    for low in range(0, n, OTHER):
        other = low + tl.arange(0, OTHER)[None, :]
        place = logits + m * n * n + own.to(tl.int64) * own_stride + other.to(tl.int64) * other_stride
        L = tl.load(place, mask=(own < n) & (other < n), other=FORBIDDEN)
        high, low_part = load_pair(kept + known * n + other, other < n)
        higher = tl.maximum(top, tl.max(L + high, axis=1, keep_dims=True))
        sums = tl.sum(tl.exp(shifted(L, -higher, 0.0, high, low_part)), axis=1, keep_dims=True)
        total = total * tl.exp(top - higher) + sums
        top = higher
    high, low_part = potential(top, total / tl.where(own == n - 1, alike, 1.0), own < n)
    store_pair(kept + found * n + own, high, low_part, own < n)


@triton.jit
def write_soft(logits, soft, potentials, potentials_m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """P from L and the last potentials; soft may be logits."""
    m = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (i < n) & (j < n)
    entry = (m * n + i) * n + j
    end = potentials + (m + 1) * potentials_m
    f_high, f_low = load_pair(end - 2 * n + i, i < n)
    g_high, g_low = load_pair(end - n + j, j < n)
    L = tl.load(logits + entry, mask=inside, other=FORBIDDEN)
    tl.store(soft + entry, tl.exp(shifted(L, f_high, f_low, g_high, g_low)), mask=inside)


@triton.jit(do_not_specialize=["of_own", "of_other"])
def pull(
    logits, own_stride, other_stride, potentials, potentials_m, of_own, of_other, weight, weight_m, weight_own, weight_other,
    out, out_m, n, sign, OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """out += sign * sum over the other side of e^(L + potential of_own + potential of_other) * weight."""
    m = tl.program_id(0).to(tl.int64)
    own = tl.program_id(1) * OWN + tl.arange(0, OWN)[:, None]
    wide = own.to(tl.int64)
    kept = potentials + m * potentials_m
    a_high, a_low = load_pair(kept + of_own * n + own, own < n)
    total = tl.zeros([OWN, 1], tl.float32)
    for low in range(0, n, OTHER):
        other = low + tl.arange(0, OTHER)[None, :]
        inside = (own < n) & (other < n)
        far = other.to(tl.int64)
        L = tl.load(logits + m * n * n + wide * own_stride + far * other_stride, mask=inside, other=FORBIDDEN)
        b_high, b_low = load_pair(kept + of_other * n + other, other < n)
        w = tl.load(weight + m * weight_m + wide * weight_own + far * weight_other, mask=inside, other=0.0)
        soft = tl.exp(shifted(L, a_high, a_low, b_high, b_low))
        total += tl.sum(soft * w.to(tl.float32), axis=1, keep_dims=True)
    place = out + m * out_m + own
    tl.store(place, tl.load(place, mask=own < n, other=0.0) + sign * total, mask=own < n)


@triton.jit(do_not_specialize=CHANGING)
def write_gradient(
    logits_then_to_scores, scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j,
    grad, grad_m, grad_i, grad_j, potentials, f_bar, g_bar, to_beta, batch, n, iterations,
    scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA: tl.constexpr, NOISY: tl.constexpr, TO_BETA: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of the scores in place of L; to_beta is a field, or one number for each tile of a matrix."""
    m = tl.program_id(0)
    wide = m.to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (i < n) & (j < n)
    L, x, factor = logits(
        scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, m, i, j, inside, batch, n,
        scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA, NOISY,
    )  # fmt: skip
    kept = potentials + wide * (2 * iterations + 1) * n
    f_high, f_low = load_pair(kept + (2 * iterations - 1) * n + i, i < n)
    g_high, g_low = load_pair(kept + 2 * iterations * n + j, j < n)
    far = i.to(tl.int64)
    G = tl.load(grad + wide * grad_m + far * grad_i + j * grad_j, mask=inside, other=0.0).to(tl.float32)
    D = G * tl.exp(shifted(L, f_high, f_low, g_high, g_low))
    for back in range(iterations):
        t = iterations - back
        pulled = (wide * iterations + t - 1) * n
        f_high, f_low = load_pair(kept + (2 * t - 1) * n + i, i < n)
        M = tl.exp(shifted(L, f_high, f_low, g_high, g_low))
        D -= M * tl.load(g_bar + pulled + j, mask=j < n, other=0.0)
        g_high, g_low = load_pair(kept + (2 * t - 2) * n + j, j < n)
        N = tl.exp(shifted(L, f_high, f_low, g_high, g_low))
        D -= N * tl.load(f_bar + pulled + i, mask=i < n, other=0.0)
    entry = (wide * n + i) * n + j
    tl.store(logits_then_to_scores + entry, D * factor, mask=inside)
    if TO_BETA == "field":
        tl.store(to_beta + entry, D * x, mask=inside)
    if TO_BETA == "each":
        tiles = tl.num_programs(1) * tl.num_programs(2)
        tile = tl.program_id(1) * tl.num_programs(2) + tl.program_id(2)
        tl.store(to_beta + wide * tiles + tile, tl.sum(tl.sum(D * x, axis=1), axis=0))
