"""exp and log that the compiler can run in vector registers.

numba calls the C library for these, one number at a time. Range reduction and a polynomial, with the exponent put in place as
bits, is what the vector libraries do. The coefficients are Chebyshev fits of (exp(r) - 1 - r)/r^2 and
(log(1 + r) - r + r^2/2)/r^3 on the reduced ranges (``mpmath.chebyfit``). float32 is accurate to about 2 units in the last place, float64 uses the C library
(it is there for checking, not for speed).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import extending, float32, int32, types
from numba.extending import overload

from ._jit import FASTMATH

intrinsic: Any = extending.intrinsic  # for type checkers: it swallows the first parameter

# a call in the middle of a loop would keep the loop scalar
INLINE: Any = {"forceinline": True, "fastmath": FASTMATH, "error_model": "numpy"}

LOG2E = np.float32(1.4426950408889634)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
LOWEST = np.float32(-87.0)  # below, exp is 0 as far as float32 is concerned
SQRT_HALF_BITS = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
ONE_BITS = np.int32(0x3F800000)


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
        scale = bits_to_float((np.int32(k) + np.int32(127)) << np.int32(23))
        return p * scale if x > LOWEST else (np.float32(0.0) if x <= LOWEST else x)  # the last is NaN

    return polynomial


def log_of(x, minus_one):
    """log(x) for x > 0; ``minus_one`` is x - 1 to full precision where x is close to 1 (used where |x - 1| < 1/4)."""
    return np.log1p(minus_one) if abs(minus_one) < 0.25 else np.log(x)


@overload(log_of, jit_options=INLINE)
def _log_of(x, minus_one):
    if x != types.float32:
        return lambda x, minus_one: np.log1p(minus_one) if abs(minus_one) < 0.25 else np.log(x)

    def polynomial(x, minus_one):
        shifted = float_to_bits(x) - SQRT_HALF_BITS
        exponent = shifted >> np.int32(23)
        mantissa = bits_to_float((shifted & np.int32(0x007FFFFF)) + SQRT_HALF_BITS)
        close = abs(minus_one) < np.float32(0.25)  # then exponent is 0 (x between sqrt(1/2) and sqrt(2))
        r = minus_one if close else mantissa - np.float32(1.0)
        k = np.float32(exponent)
        z = r * r
        p = np.float32(6.97161147145e-2)
        p = p * r + np.float32(-1.14797338466e-1)
        p = p * r + np.float32(1.16854199235e-1)
        p = p * r + np.float32(-1.24256873315e-1)
        p = p * r + np.float32(1.42490576457e-1)
        p = p * r + np.float32(-1.66678023195e-1)
        p = p * r + np.float32(2.00007157489e-1)
        p = p * r + np.float32(-2.49999969580e-1)
        p = p * r + np.float32(3.33333311800e-1)
        p = p * r * z + k * LN2_LOW - np.float32(0.5) * z
        return r + p + k * LN2_HIGH

    return polynomial
