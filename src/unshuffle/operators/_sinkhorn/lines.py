"""Matrices of middle size once more, in even lines and with their transpose: both products of an iteration are then weighted sums of rows.

A sum of rows needs no sum across lanes, and up to n = 64 it fits the vector registers: no part of it is stored on the way. The lines are
filled up with zeros to whole lines of the cache, so that no load takes two of these.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core import cgutils

from ...compute.jit import njit
from .lanes import WIDTH, Emit, intrinsic, transposed

SIZES = (
    8,
    64,
)  # the transpose is made of blocks of 8; beyond 64 there are not registers enough, nor room in the nearest cache
LINE = 64  # bytes


@njit
def new_lines(m, n, like):
    """Room for K (m x n) and K^T, in rows of whole numbers of 16; no rows, where one of them is done otherwise."""
    if min(m, n) < SIZES[0] or max(m, n) > SIZES[1]:
        return _even_lines(0, n, like), _even_lines(0, m, like)
    return _even_lines(m, n, like), _even_lines(n, m, like)


@njit
def _even_lines(count, n, like):
    width = (n + 15) // 16 * 16
    flat = np.zeros(count * width + LINE // like.itemsize, like.dtype)
    first = (-flat.ctypes.data % LINE) // like.itemsize
    return flat[first : first + count * width].reshape(count, width)


@intrinsic
def _lay_out(typing, K, across, down, m, n, width, height):
    def generate(context, builder, signature, arguments):
        emit, b = Emit(context, builder, K.dtype), builder
        source, target, turned = (
            emit.data(kind, value) for kind, value in zip((K, across, down), arguments[:3], strict=True)
        )
        m_, n_, width_, height_ = arguments[3:]
        eight = emit.number(WIDTH)

        def within(start, size):
            last = b.sub(size, eight)
            return b.select(b.icmp_signed("<", start, last), start, last)  # the last block may overlap

        def place(i, k, j, stride):
            return b.add(b.mul(b.add(i, emit.number(k)), stride), j)

        with cgutils.for_range_slice(b, emit.number(0), m_, eight, emit.index) as (top, _):
            i = within(top, m_)
            with cgutils.for_range_slice(b, emit.number(0), n_, eight, emit.index) as (left, _):
                j = within(left, n_)
                rows = [emit.load(source, place(i, k, j, n_), emit.vector) for k in range(WIDTH)]
                for k, row in enumerate(rows):
                    emit.store(row, target, place(i, k, j, width_))
                for k, row in enumerate(transposed(emit, rows)):
                    emit.store(row, turned, place(j, k, i, height_))
        return context.get_dummy_value()

    return types.void(K, across, down, m, n, width, height), generate


@njit
def lay_out(K, lines):
    """K and K^T into the lines, if there are any."""
    across, down = lines
    if across.shape[0]:
        _lay_out(K, across, down, K.shape[0], K.shape[1], across.shape[1], down.shape[1])


@intrinsic(prefer_literal=True)
def _weighted(typing, K, weights, out, n, width, chunks):
    """out = K^T weights, in that many chunks of 8; two rows at a time, each with sums of its own."""

    def generate(context, builder, signature, arguments):
        emit, b, n_, width_ = Emit(context, builder, K.dtype), builder, arguments[3], arguments[4]
        data, scale, to = (emit.data(kind, value) for kind, value in zip((K, weights, out), arguments[:3], strict=True))
        wide, odd = divmod(chunks.literal_value, 2)
        pieces = [(2 * WIDTH * k, emit.kinds[0]) for k in range(wide)] + [(2 * WIDTH * wide, emit.vector)] * odd
        sums = [[emit.zero(kind) for _, kind in pieces] for _ in range(2)]

        def add(row, parts):
            weight, line = emit.load(scale, row, emit.real), b.mul(row, width_)
            for (start, kind), place in zip(pieces, parts, strict=True):
                x = emit.load(data, b.add(line, emit.number(start)), kind)
                b.store(emit.multiply_add(x, emit.splat(weight, kind), b.load(place)), place)

        even = b.and_(n_, emit.number(-2))
        with cgutils.for_range_slice(b, emit.number(0), even, emit.number(2), emit.index) as (row, _):
            for k, parts in enumerate(sums):
                add(b.add(row, emit.number(k)), parts)
        with b.if_then(b.icmp_signed("<", even, n_)):
            add(even, sums[0])
        for (start, _), one, other in zip(pieces, *sums, strict=True):
            emit.store(emit.add(b.load(one), b.load(other)), to, emit.number(start))
        return context.get_dummy_value()

    return types.void(K, weights, out, n, width, chunks), generate


@njit
def weighted_rows(lines, weights, out, columns):
    """The sum of the lines, each with its weight, as far as there are columns; ``out`` has room for 8 more numbers."""
    n, width = lines.shape
    chunks = (columns + 7) // 8
    if chunks == 1:
        _weighted(lines, weights, out, n, width, 1)
    elif chunks == 2:
        _weighted(lines, weights, out, n, width, 2)
    elif chunks == 3:
        _weighted(lines, weights, out, n, width, 3)
    elif chunks == 4:
        _weighted(lines, weights, out, n, width, 4)
    elif chunks == 5:
        _weighted(lines, weights, out, n, width, 5)
    elif chunks == 6:
        _weighted(lines, weights, out, n, width, 6)
    elif chunks == 7:
        _weighted(lines, weights, out, n, width, 7)
    else:
        _weighted(lines, weights, out, n, width, 8)
