r"""What every Triton kernel starts from: the entries of $L = \beta (S + \sigma g)$, and sums of L with potentials that do not round.

Potentials may be thousands where the sum that is exponentiated is near 0, so a potential is a pair of floats, high + low, and
``shifted`` adds with two-sums (Knuth): 48 bits without double precision, which most GPUs are slow at. The launchers forbid the
compiler to fuse products into sums (``enable_fp_fusion=False``), so that forward and backward see the same L, bit for bit.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.random import philox_impl

# Stands for -inf, which has no two-sum: anything below is forbidden, and exp of it is exactly 0.
FORBIDDEN = tl.constexpr(-1e30)
LOWEST_TOP = tl.constexpr(-5e29)  # of a row or column in which everything is forbidden
NOTHING = tl.constexpr(float("-inf"))  # which every dtype has


@triton.jit
def two_sum(a, b):
    """a + b as a float and what it rounded off."""
    high = a + b
    from_b = high - a
    return high, (a - (high - from_b)) + (b - from_b)


@triton.jit
def shifted(L, f_high, f_low, g_high, g_low):
    """L + f + g, rounded once."""
    s, lost = two_sum(L, f_high)
    s, lost_too = two_sum(s, g_high)
    return s + ((lost + lost_too) + (f_low + g_low))


@triton.jit
def potential(top, total, real):
    """-(top + log total) as a pair; NaN where everything is forbidden, 0 outside the matrix."""
    some = top > LOWEST_TOP
    high, low = two_sum(-top, -tl.log(tl.where(some, total, 1.0)))
    return tl.where(some, high, tl.where(real, float("nan"), 0.0)), tl.where(some, low, 0.0)


@triton.jit
def load_pair(pointer, mask):
    """A stored potential, 0 outside."""
    value = tl.load(pointer, mask=mask, other=0.0)
    high = value.to(tl.float32)
    return high, (value - high.to(tl.float64)).to(tl.float32)


@triton.jit
def store_pair(pointer, high, low, mask):
    tl.store(pointer, high.to(tl.float64) + low.to(tl.float64), mask=mask)


@triton.jit
def random_bits(number, entry, m, n, rows_at_once, key_0, key_1):
    """31 bits for an entry of the m x n matrix with this number: which word of which Philox block, see ``noise``."""
    entry = tl.minimum(entry, m * n - 1)  # outside the matrix any word will do
    width = rows_at_once * n
    group = entry // width
    place = entry - group * width
    quarter = (tl.minimum(width, m * n - group * width) + 3) // 4
    zero = (number * 0 + entry * 0).to(tl.uint32)  # in the shape of both
    block, group, matrix = (
        zero + (place % quarter).to(tl.uint32),
        zero + group.to(tl.uint32),
        zero + number.to(tl.uint32),
    )
    x0, x1, x2, x3 = philox_impl(block, group, matrix, zero, key_0.to(tl.uint32), key_1.to(tl.uint32))
    word = place // quarter
    x = tl.where(word == 0, x0, tl.where(word == 1, x1, tl.where(word == 2, x2, x3)))
    return (x >> 1).to(tl.int32)


@triton.jit
def gumbel(bits):
    """-log(-log(1 - w)) for w uniform in (0, 1), from 31 bits."""
    w = (bits.to(tl.float32) + 0.5) * (2.0**-31)
    rest = tl.maximum(1.0 - w, 2.0**-26)
    exact = rest == 1.0
    # where w is small, 1 - w has lost digits that the logarithm needs; the quotient puts them back (Kahan)
    return -tl.log(tl.where(exact, w, -tl.log(rest) * (w / tl.where(exact, 1.0, 1.0 - rest))))


@triton.jit
def logits(
    scores, scores_m, scores_i, scores_j, beta, beta_m, beta_i, beta_j, m, i, j, inside, batch, n,
    scale, key_0, key_1, first, total, rows_at_once, items, positions, WITH_BETA: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """L = beta * x, x = scores + scale * g, and beta, at entries (i, j) of matrices m; L is FORBIDDEN outside and where scores are -inf."""
    b = (m % batch).to(tl.int64)
    wide = i.to(tl.int64)
    x = tl.load(scores + b * scores_m + wide * scores_i + j * scores_j, mask=inside, other=NOTHING).to(tl.float32)
    forbidden = x <= FORBIDDEN
    x = tl.where(forbidden, 0.0, x)
    if NOISY:
        number = m // batch * total + first + m % batch
        g = gumbel(random_bits(number, i * positions + j, items, positions, rows_at_once, key_0, key_1))
        x += scale * tl.where((i < items) & (j < positions), g, 0.0)  # dummies have none
    factor = 1.0
    if WITH_BETA:
        factor = tl.load(beta + b * beta_m + wide * beta_i + j * beta_j, mask=inside, other=1.0).to(tl.float32)
    L = x * factor
    return tl.where(forbidden | (L < FORBIDDEN), FORBIDDEN, L), tl.where(forbidden, 0.0, x), factor
