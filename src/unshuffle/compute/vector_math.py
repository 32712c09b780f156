"""exp and log that the compiler can run in vector registers.

numba calls the C library for these, one number at a time. Range reduction and a polynomial, with the exponent put in place as
bits, is what the vector libraries do. The coefficients are Chebyshev fits of (exp(r) - 1 - r)/r^2 and
(log(1 + r) - r + r^2/2)/r^3 on the reduced ranges (``mpmath.chebyfit``). float32 is accurate to about 2 units in the last place, float64 uses the C library
(it is there for checking, not for speed).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import extending, float32, int32, njit, types
from numba.extending import overload

from .jit import FASTMATH

intrinsic: Any = extending.intrinsic  # for type checkers: it swallows the first parameter

# a call in the middle of a loop would keep the loop scalar
INLINE: Any = {"forceinline": True, "fastmath": FASTMATH, "error_model": "numpy"}

LOG2E = np.float32(1.4426950408889634)
LN2 = np.float32(0.6931471805599453)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
LN2_DOUBLE = 0.6931471805599453
LOWEST = np.float32(-87.0)  # below, exp is 0 as far as float32 is concerned
FARTHEST = np.float32(-1e6)  # stands for -inf where a power of two is to come
SQRT_HALF_BITS = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)


@intrinsic
def bits_to_float(typing, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return float32(int32), generate


@intrinsic
def float_to_bits(typing, value):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return int32(float32), generate


def exp_below(x):
    """exp(x) for x not far above 0; exactly 0 for -inf and for anything that float32 cannot hold."""
    return np.exp(x)


@overload(exp_below, jit_options=INLINE)
def _exp_below(x):
    if x != types.float32:
        return lambda x: np.exp(x)

    def polynomial(x):
        y = max(x, LOWEST)
        k = np.floor(y * LOG2E + np.float32(0.5))
        r = y - k * LN2_HIGH - k * LN2_LOW
        p = np.float32(1.98910804640e-4)
        p = p * r + np.float32(1.39337307158e-3)
        p = p * r + np.float32(8.33331084465e-3)
        p = p * r + np.float32(4.16664641974e-2)
        p = p * r + np.float32(1.66666666817e-1)
        p = p * r + np.float32(5.00000001354e-1)
        p = p * r * r + r + np.float32(1.0)
        scale = bits_to_float(np.int32((np.int32(k) + np.int32(127)) << np.int32(23)))
        return p * scale if x > LOWEST else (np.float32(0.0) if x <= LOWEST else x)  # the last is NaN

    return polynomial


def exp_with_power(x, k):
    """exp(x) 2^k; exactly 0 for -inf and where the result is below what floats can hold well.

    The power goes into the exponent as an integer: with x = 5000 and k = -7000 nothing is lost, where exp(x + k log 2) would be
    off by the rounding of 5000.
    """
    return np.exp(x + k * LN2_DOUBLE)


@overload(exp_with_power, jit_options=INLINE)
def _exp_with_power(x, k):
    if x != types.float32:
        return lambda x, k: np.exp(x + k * LN2_DOUBLE)

    def polynomial(x, k):
        y = max(x, FARTHEST)
        q = np.floor(y * LOG2E + np.float32(0.5))
        r = y - q * LN2_HIGH - q * LN2_LOW
        p = np.float32(1.98910804640e-4)
        p = p * r + np.float32(1.39337307158e-3)
        p = p * r + np.float32(8.33331084465e-3)
        p = p * r + np.float32(4.16664641974e-2)
        p = p * r + np.float32(1.66666666817e-1)
        p = p * r + np.float32(5.00000001354e-1)
        p = p * r * r + r + np.float32(1.0)
        return times_power(p, np.int32(np.int32(q) + k))

    return polynomial


def times_power(x, k):
    """x 2^k; 0 where 2^k is below what floats can hold well."""
    return np.ldexp(x, k)


@overload(times_power, jit_options=INLINE)
def _times_power(x, k):
    if x != types.float32:
        return lambda x, k: x * 2.0 ** max(min(k, 1000), -2000)

    def by_bits(x, k):
        e = min(np.int32(k), np.int32(127))
        e = e if e > np.int32(-126) else np.int32(-127)
        return x * bits_to_float(np.int32(np.int32(e + np.int32(127)) << np.int32(23)))

    return by_bits


def power_of(x):
    """The k with 2^k <= x < 2^(k+1), x > 0."""
    return np.frexp(x)[1] - 1


@overload(power_of, jit_options=INLINE)
def _power_of(x):
    if x != types.float32:
        return lambda x: np.int32(np.floor(np.log2(x)))
    return lambda x: np.int32(np.int32(float_to_bits(x) >> np.int32(23)) - np.int32(127))


def log_of(x):
    """log(x) for x > 0."""
    return np.log(x)


@overload(log_of, jit_options=INLINE)
def _log_of(x):
    if x != types.float32:
        return lambda x: np.log(x)

    def polynomial(x):
        r, exponent = _reduced(x)
        return _log1p_reduced(r) + exponent * LN2

    return polynomial


def gumbel_of(bits, real):
    """Standard Gumbel noise from 31 random bits, in the precision of ``real``: -log(-log(1 - w)), w uniform in (0, 1)."""
    w = (bits + 0.5) * 2.0**-31
    return -np.log(-np.log1p(-w))


@overload(gumbel_of, jit_options=INLINE)
def _gumbel_of(bits, real):
    if real != types.float32:
        return lambda bits, real: -np.log(-np.log1p(-((np.float64(bits) + 0.5) * 2.0**-31)))

    def two_logarithms(bits, real):
        w = (np.float32(bits) + np.float32(0.5)) * np.float32(2.0**-31)
        # of 1 - w; where w is small, 1 - w would round off what matters, and the reduced argument is -w itself
        reduced, exponent = _reduced(max(np.float32(1.0) - w, np.float32(2.0**-26)))
        r = -w if w < np.float32(0.25) else reduced
        exponential = -(_log1p_reduced(r) + exponent * LN2)
        r, exponent = _reduced(exponential)
        return -(_log1p_reduced(r) + exponent * LN2)

    return two_logarithms


@njit(**INLINE)
def _reduced(x):
    """r and k with x = (1 + r) 2^k and 1 + r between sqrt(1/2) and sqrt(2). Every step is cut to 32 bits: numba makes 64 of them."""
    shifted = np.int32(float_to_bits(x) - SQRT_HALF_BITS)
    mantissa = bits_to_float(np.int32((shifted & np.int32(0x007FFFFF)) + SQRT_HALF_BITS))
    return mantissa - np.float32(1.0), np.float32(np.int32(shifted >> np.int32(23)))


@njit(**INLINE)
def _log1p_reduced(r):
    """log(1 + r) for 1 + r between sqrt(1/2) and sqrt(2), to 2e-7: neither noise nor entropies need more."""
    q = np.float32(-0.101885864741)
    q = q * r + np.float32(0.159840959834)
    q = q * r + np.float32(-0.171323872974)
    q = q * r + np.float32(0.199290571336)
    q = q * r + np.float32(-0.249824512067)
    q = q * r + np.float32(0.333341136041)
    q = q * r + np.float32(-0.500000912423)
    return q * (r * r) + r
