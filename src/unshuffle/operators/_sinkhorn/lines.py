"""Matrices of middle size once more, in even lines: filled up with zeros to whole lines of the cache, so that no load takes two of these.

Up to n = 64 with their transpose: both products of an iteration are then weighted sums of rows, which need no sum across lanes and fit
the vector registers, so that no part is stored on the way. Up to n = 128, where there are 32 wide registers (AVX-512), two rows at a time
stay in these between their product with v and their share of $K^T u$: every number is loaded once an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...compute.jit import njit
from .lanes import FLAGS, LINE, WIDTH, Emit, intrinsic, transposed

# the transpose is made of blocks of 8; beyond 64 there are not registers enough, nor room in the nearest cache
WITH_TRANSPOSE = (8, 64)
HELD = 128
LONGEST = HELD if llvm.get_host_cpu_features().get("avx512f") else 64
CHUNK = 2 * WIDTH


@njit
def new_lines(m, n, like):
    """Room for K (m x n) and K^T, in rows of whole numbers of 16; no rows, where one of them is done otherwise."""
    if min(m, n) < WITH_TRANSPOSE[0] or max(m, n) > WITH_TRANSPOSE[1]:
        return _even_lines(0, n, like), _even_lines(0, m, like)
    return _even_lines(m, n, like), _even_lines(n, m, like)


@njit
def new_square_lines(n, like):
    """The same for a square K; K alone, where only that is of use."""
    if WITH_TRANSPOSE[1] < n <= LONGEST:
        return _even_lines(n, n, like), _even_lines(0, n, like)
    return new_lines(n, n, like)


@njit
def _even_lines(count, n, like):
    width = (n + CHUNK - 1) // CHUNK * CHUNK
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


@njit(counts=False)
def lay_out(K, lines):
    """K and K^T into the lines, as far as there are any."""
    across, down = lines
    if down.shape[0]:
        _lay_out(K, across, down, K.shape[0], K.shape[1], across.shape[1], down.shape[1])
        return
    for i in range(across.shape[0]):
        row, line = K[i], across[i]
        for j in range(row.size):
            line[j] = row[j]


def _sum_of_lines(emit: Emit, data: Any, scale: Any, to: Any, rows: Any, width: Any, chunks: int) -> None:
    """Two lines at a time, each with sums of its own."""
    b, (wide, odd) = emit.builder, divmod(chunks, 2)
    pieces = [(2 * WIDTH * k, emit.kinds[0]) for k in range(wide)] + [(2 * WIDTH * wide, emit.vector)] * odd
    sums = [[emit.zero(kind) for _, kind in pieces] for _ in range(2)]

    def add(row: Any, parts: list[Any]) -> None:
        weight, line = emit.load(scale, row, emit.real), b.mul(row, width)
        for (start, kind), place in zip(pieces, parts, strict=True):
            x = emit.load(data, b.add(line, emit.number(start)), kind)
            b.store(emit.multiply_add(x, emit.splat(weight, kind), b.load(place)), place)

    even = b.and_(rows, emit.number(-2))
    with cgutils.for_range_slice(b, emit.number(0), even, emit.number(2), emit.index) as (row, _):
        for k, parts in enumerate(sums):
            add(b.add(row, emit.number(k)), parts)
    with b.if_then(b.icmp_signed("<", even, rows)):
        add(even, sums[0])
    for (start, _), one, other in zip(pieces, *sums, strict=True):
        emit.store(emit.add(b.load(one), b.load(other)), to, emit.number(start))


@intrinsic
def _weighted(typing, lines, weights, out, rows, width, chunks):
    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, lines.dtype)
        data, scale, to = (emit.data(k, x) for k, x in zip((lines, weights, out), arguments[:3], strict=True))
        rows_, width_, chunks_ = arguments[3:]
        # each number of chunks in registers of its own
        sizes = range(1, WITH_TRANSPOSE[1] // WIDTH + 1)
        emit.among(chunks_, sizes, lambda count: _sum_of_lines(emit, data, scale, to, rows_, width_, count))
        return context.get_dummy_value()

    return types.void(lines, weights, out, rows, width, chunks), generate


@njit(counts=False)
def weighted_rows(lines, weights, out, columns):
    """The sum of the lines, each with its weight, as far as there are columns; ``out`` has room for 8 more numbers."""
    _weighted(lines, weights, out, lines.shape[0], lines.shape[1], (columns + 7) // 8)


def _held(emit: Emit, X: Any, v: Any, to: Any, size: Any, weigh: Callable[[Any, Any], Any]) -> None:
    """found = X v, w = weigh(row, found), to = X^T w, two lines at a time. ``size``: rows, numbers in v, and room for them in a line."""
    chunks = emit.builder.udiv(size[2], emit.number(CHUNK))
    known = range(WITH_TRANSPOSE[1] // CHUNK + 1, HELD // CHUNK + 1)
    emit.among(chunks, known, lambda count: _held_in(emit, X, v, to, size, count, weigh))


def _held_in(emit: Emit, X: Any, v: Any, to: Any, size: Any, chunks: int, weigh: Callable[[Any, Any], Any]) -> None:
    b, kind, (rows, n, width) = emit.builder, emit.kinds[0], size
    places = [emit.number(CHUNK * k) for k in range(chunks)]
    padded = b.bitcast(cgutils.alloca_once(b, ir.ArrayType(kind, chunks)), emit.real.as_pointer())
    emit.store(ir.Constant(kind, None), padded, places[-1])
    for place in (*places[:-1], b.sub(n, emit.number(CHUNK))):
        emit.store(emit.load(v, place, kind), padded, place)
    sums = [emit.zero(kind) for _ in places]

    def block(row: Any, count: int) -> None:
        lines = [b.gep(X, [b.mul(b.add(row, emit.number(k)), width)]) for k in range(count)]
        held = [[emit.load(line, place, kind) for place in places] for line in lines]
        totals = [ir.Constant(kind, None)] * count
        for k, place in enumerate(places):
            x = emit.load(padded, place, kind)
            totals = [emit.multiply_add(line[k], x, total) for line, total in zip(held, totals, strict=True)]
        w = weigh(row, _sums_of_lanes(emit, totals))
        weights = [emit.splat(emit.lane(w, k), kind) for k in range(count)]
        for k, total in enumerate(sums):
            x = b.load(total)
            for line, weight in zip(held, weights, strict=True):
                x = emit.multiply_add(line[k], weight, x)
            b.store(x, total)

    even = b.and_(rows, emit.number(-2))
    with cgutils.for_range_slice(b, emit.number(0), even, emit.number(2), emit.index) as (row, _):
        block(row, 2)
    with b.if_then(b.icmp_signed("<", even, rows)):
        block(even, 1)
    for place, total in zip(places, sums, strict=True):
        emit.store(b.load(total), to, place)


def _sums_of_lanes(emit: Emit, wide: list[Any]) -> Any:
    """A vector of the sums of one or two wide ones."""
    narrow = wide
    for half in (8, 4, 2):
        narrow = [emit.add(*(emit.shuffle(x, x, list(range(k, k + half))) for k in (0, half))) for x in narrow]
    even, odd = ([2 * k + one for k in range(len(wide))] for one in (0, 1))
    return emit.add(emit.shuffle(narrow[0], narrow[-1], even), emit.shuffle(narrow[0], narrow[-1], odd))


@intrinsic
def _sweep_held(typing, lines, v, totals, u, sums, rows, n, width):
    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, lines.dtype)
        X, (other, found_at, out, to) = emit.data(lines, arguments[0]), (emit.data(v, x) for x in arguments[1:5])

        def weigh(row, found):
            emit.store(found, found_at, row)
            w = builder.fdiv(ir.Constant(found.type, [1.0] * found.type.count), found, flags=FLAGS)
            emit.store(w, out, row)
            return w

        _held(emit, X, other, to, arguments[5:8], weigh)
        return context.get_dummy_value()

    return types.void(lines, v, totals, u, sums, rows, n, width), generate


@intrinsic
def _pull_held(typing, lines, s, a, f, r, sums, rows, n, width):
    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, lines.dtype)
        X, (other, scale, begin, out, to) = emit.data(lines, arguments[0]), (emit.data(s, x) for x in arguments[1:6])

        def weigh(row, found):
            factor = emit.load(scale, row, found.type)
            w = emit.multiply_add(factor, found, emit.load(begin, row, found.type))
            w = builder.fneg(builder.fmul(factor, w, flags=FLAGS))
            emit.store(w, out, row)
            return w

        _held(emit, X, other, to, arguments[6:9], weigh)
        return context.get_dummy_value()

    return types.void(lines, s, a, f, r, sums, rows, n, width), generate


@njit(counts=False)
def sweep_held(lines, v, totals, u, sums, rows):
    """totals = K v and u = 1 / totals for the first ``rows``, sums = K^T u of these; ``sums`` has room for a whole line."""
    _sweep_held(lines, v, totals, u, sums, rows, lines.shape[0], lines.shape[1])


@njit(counts=False)
def pull_held(lines, s, a, f, r, sums, rows):
    """r = -a (f + a (P s)) for the first ``rows``, sums = P^T r of these; ``sums`` has room for a whole line."""
    _pull_held(lines, s, a, f, r, sums, rows, lines.shape[0], lines.shape[1])
