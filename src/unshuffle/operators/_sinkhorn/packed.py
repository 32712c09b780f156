"""Small matrices, eight at a time: lane k of every vector belongs to matrix k.

With n = 10 a row does not fill the vector registers twice and the sums across lanes are most of the time. Packed, entry (i, j) of
eight matrices is one vector, and no instruction ever crosses lanes. The arithmetic is that of `scaling`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...compute.jit import njit
from ...compute.vector_math import LOG2E, exp_below, exp_with_power, times_power
from .lanes import FLAGS, WIDTH, Emit, intrinsic, transposed
from .logits import as_given, logits, new_words, spend
from .scaling import PACKED, UNUSABLE, reach

# as in `one_by_one`
WEAK = -12.0


class Cells:
    """n vectors: local variables, which become registers, if n is known beforehand; else a piece of memory."""

    def __init__(self, emit: Emit, n: Any, memory: Any) -> None:
        self.emit, self.memory = emit, memory
        self.local = [cgutils.alloca_once(emit.builder, emit.vector) for _ in range(n)] if isinstance(n, int) else None

    def get(self, k: Any) -> Any:
        if self.local is not None:
            return self.emit.builder.load(self.local[k])
        return self.emit.load(self.memory, self.emit.builder.mul(k, self.emit.number(WIDTH)), self.emit.vector)

    def set(self, k: Any, value: Any) -> None:
        if self.local is not None:
            self.emit.builder.store(value, self.local[k])
        else:
            self.emit.store(value, self.memory, self.emit.builder.mul(k, self.emit.number(WIDTH)))


class Square:
    """Loops over packed vectors and matrices of one size, written out if it is known beforehand."""

    def __init__(self, emit: Emit, kind: Any, value: Any) -> None:
        self.emit = emit
        self.n = kind.literal_value if isinstance(kind, types.IntegerLiteral) else value
        self.width = emit.builder.mul(value, emit.number(WIDTH))

    def each(self, body: Callable[[Any], None]) -> None:
        if isinstance(self.n, int):
            for k in range(self.n):
                body(k)
        else:
            with cgutils.for_range(self.emit.builder, self.n, intp=self.emit.index) as loop:
                body(loop.index)

    def rows(self, body: Callable[[list[Any]], None]) -> None:
        """Four rows at a time where they are written out: their chains of multiply-adds do not wait for each other."""
        if isinstance(self.n, int):
            for first in range(0, self.n, 4):
                body(list(range(first, min(self.n, first + 4))))
        else:
            self.each(lambda i: body([i]))

    def at(self, k: Any) -> Any:
        return self.emit.number(WIDTH * k) if isinstance(k, int) else self.emit.builder.mul(k, self.emit.number(WIDTH))

    def entry(self, i: Any, j: Any) -> Any:
        row = self.emit.number(i) if isinstance(i, int) else i
        return self.emit.builder.add(self.emit.builder.mul(row, self.width), self.at(j))

    def line(self, t: Any, k: Any) -> Any:
        """Entry k of row t of a (T, n, 8) array."""
        return self.emit.builder.add(self.emit.builder.mul(t, self.width), self.at(k))


@intrinsic(prefer_literal=True)
def packed_iterations(typing, X, n, u, v, iterations, memory, seen):
    """u_t = 1 / (X v_{t-1}), v_t = 1 / (X^T u_t) for all t, v_0 given.

    seen: least and largest of all X v and all X^T u, 8 each; None if nobody asks.
    """
    noted = not isinstance(seen, types.NoneType)

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        size = Square(emit, n, arguments[1])
        x, us, vs, room = (emit.data(X, arguments[k]) for k in (0, 2, 3, 5))
        sums, start = Cells(emit, size.n, room), Cells(emit, size.n, builder.gep(room, [size.width]))
        one = ir.Constant(emit.vector, [1.0] * WIDTH)
        extremes_ = [cgutils.alloca_once(builder, emit.vector) for _ in range(4 if noted else 0)]
        for place in extremes_:
            builder.store(one, place)

        def note(value, k):
            for sign, place in zip("<>", extremes_[2 * k : 2 * k + 2], strict=False):
                best = builder.load(place)
                builder.store(builder.select(builder.fcmp_ordered(sign, value, best), value, best), place)

        size.each(lambda j: start.set(j, emit.load(vs, size.at(j), emit.vector)))
        with cgutils.for_range(builder, arguments[4], intp=emit.index) as loop:
            size.each(lambda j: sums.set(j, ir.Constant(emit.vector, None)))

            def block(rows):
                totals = [emit.zero(emit.vector) for _ in rows]

                def dot(j):
                    for i, total in zip(rows, totals, strict=True):
                        e = emit.load(x, size.entry(i, j), emit.vector)
                        builder.store(emit.multiply_add(e, start.get(j), builder.load(total)), total)

                size.each(dot)
                scalings = []
                for i, total in zip(rows, totals, strict=True):
                    found = builder.load(total)
                    note(found, 0)
                    scalings.append(builder.fdiv(one, found, flags=FLAGS))
                    emit.store(scalings[-1], us, size.line(loop.index, i))

                def spread(j):
                    for i, w in zip(rows, scalings, strict=True):
                        sums.set(j, emit.multiply_add(emit.load(x, size.entry(i, j), emit.vector), w, sums.get(j)))

                size.each(spread)

            size.rows(block)
            after = builder.add(loop.index, emit.number(1))

            def column(j):
                note(sums.get(j), 1)
                start.set(j, builder.fdiv(one, sums.get(j), flags=FLAGS))
                emit.store(start.get(j), vs, size.line(after, j))

            size.each(column)
        for k, place in enumerate(extremes_):
            emit.store(builder.load(place), emit.data(seen, arguments[6]), emit.number(k * WIDTH))
        return context.get_dummy_value()

    return types.void(X, n, u, v, iterations, memory, seen), generate


@intrinsic(prefer_literal=True)
def packed_backward(typing, P, G, n, u, v, iterations, memory, D):
    """D = dloss/dL from P and G = dloss/dP; the recursion and its gradient in one, with $u = a$, $v = c$: see `_again`."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, P.dtype)
        b, size, steps = builder, Square(emit, n, arguments[2]), arguments[5]
        soft, grad, us, vs, room, out = (emit.data(P, arguments[k]) for k in (0, 1, 3, 4, 6, 7))
        f, g, s, c, sums = (Cells(emit, size.n, b.gep(room, [b.mul(size.width, emit.number(k))])) for k in range(5))
        zero = ir.Constant(emit.vector, None)
        last = b.sub(steps, emit.number(1))
        size.each(lambda j: g.set(j, zero))

        def weigh(i):
            total = emit.zero(emit.vector)

            def entry(j):
                e = size.entry(i, j)
                x = emit.load(grad, e, emit.vector)
                emit.store(x, out, e)
                w = b.fmul(x, emit.load(soft, e, emit.vector), flags=FLAGS)
                b.store(emit.add(w, b.load(total)), total)
                g.set(j, emit.add(w, g.get(j)))

            size.each(entry)
            f.set(i, b.load(total))

        size.each(weigh)
        with cgutils.for_range(b, steps, intp=emit.index) as loop:
            t = b.sub(last, loop.index)
            after = b.add(t, emit.number(1))

            def column(j):
                own = emit.load(vs, size.line(after, j), emit.vector)
                s.set(j, b.fneg(b.fmul(own, g.get(j), flags=FLAGS)))
                c.set(j, emit.load(vs, size.line(t, j), emit.vector))
                sums.set(j, zero)

            size.each(column)

            def block(rows):
                totals = [emit.zero(emit.vector) for _ in rows]

                def dot(j):
                    for i, total in zip(rows, totals, strict=True):
                        e = emit.load(soft, size.entry(i, j), emit.vector)
                        b.store(emit.multiply_add(e, s.get(j), b.load(total)), total)

                size.each(dot)
                pulled = []
                for i, total in zip(rows, totals, strict=True):
                    a = emit.load(us, size.line(t, i), emit.vector)
                    r = b.fneg(b.fmul(a, emit.multiply_add(a, b.load(total), f.get(i)), flags=FLAGS))
                    f.set(i, zero)
                    pulled.append((i, a, r))

                def spread(j):
                    for i, a, r in pulled:
                        e = size.entry(i, j)
                        sums.set(j, emit.multiply_add(emit.load(soft, e, emit.vector), r, sums.get(j)))
                        more = emit.multiply_add(a, s.get(j), emit.load(out, e, emit.vector))
                        emit.store(emit.multiply_add(r, c.get(j), more), out, e)

                size.each(spread)

            size.rows(block)
            size.each(lambda j: g.set(j, b.fmul(c.get(j), sums.get(j), flags=FLAGS)))

        def finish(i):
            def entry(j):
                e = size.entry(i, j)
                emit.store(b.fmul(emit.load(soft, e, emit.vector), emit.load(out, e, emit.vector), flags=FLAGS), out, e)

            size.each(entry)

        size.each(finish)
        return context.get_dummy_value()

    return types.void(P, G, n, u, v, iterations, memory, D), generate


@intrinsic
def packed_center(typing, X, n, best, seen):
    """X_ij -= max_j X_ij; best_j = max_i of what is left. seen: least of X before, and of best, 8 each."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, x, n_, eight = builder, emit.data(X, arguments[0]), arguments[1], emit.number(WIDTH)
        tops, found = emit.data(best, arguments[2]), emit.data(seen, arguments[3])
        nothing, everything = (ir.Constant(emit.vector, [limit] * WIDTH) for limit in (-float("inf"), float("inf")))
        least, weakest, top = (cgutils.alloca_once(b, emit.vector) for _ in range(3))
        b.store(everything, least)
        b.store(everything, weakest)

        def keep(sign, value, place):
            b.store(b.select(b.fcmp_ordered(sign, value, b.load(place)), value, b.load(place)), place)

        with cgutils.for_range(b, n_, intp=emit.index) as column:
            emit.store(nothing, tops, b.mul(column.index, eight))
        with cgutils.for_range(b, n_, intp=emit.index) as row:
            line = b.mul(row.index, b.mul(n_, eight))
            b.store(emit.load(x, line, emit.vector), top)
            with cgutils.for_range(b, n_, intp=emit.index) as column:
                value = emit.load(x, b.add(line, b.mul(column.index, eight)), emit.vector)
                keep(">", value, top)
                keep("<", value, least)
            with cgutils.for_range(b, n_, intp=emit.index) as column:
                j = b.mul(column.index, eight)
                here = b.add(line, j)
                value, so_far = b.fsub(emit.load(x, here, emit.vector), b.load(top)), emit.load(tops, j, emit.vector)
                emit.store(value, x, here)
                emit.store(b.select(b.fcmp_ordered(">", value, so_far), value, so_far), tops, j)
        with cgutils.for_range(b, n_, intp=emit.index) as column:
            keep("<", emit.load(tops, b.mul(column.index, eight), emit.vector), weakest)
        emit.store(b.load(least), found, emit.number(0))
        emit.store(b.load(weakest), found, eight)
        return context.get_dummy_value()

    return types.void(X, n, best, seen), generate


def _copy_transposed(emit: Emit, separate: Any, packed: Any, count: Any, pack: bool) -> None:
    """Between eight matrices one after the other and one packed, 64 numbers at a time; the last block may overlap."""
    b, eight = emit.builder, emit.number(WIDTH)
    last = b.sub(count, eight)
    with cgutils.for_range_slice(b, emit.number(0), count, eight, emit.index) as (start, _):
        e = b.select(b.icmp_signed("<", start, last), start, last)
        alone = [b.add(b.mul(emit.number(k), count), e) for k in range(WIDTH)]
        together = [b.mul(b.add(e, emit.number(k)), eight) for k in range(WIDTH)]
        source, target = ((separate, alone), (packed, together)) if pack else ((packed, together), (separate, alone))
        rows = transposed(emit, [emit.load(source[0], place, emit.vector) for place in source[1]])
        for row, place in zip(rows, target[1], strict=True):
            emit.store(row, target[0], place)


@intrinsic
def packed_from(typing, matrices, X, count):
    """X (count, 8) from matrices (8, count); count >= 8."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        _copy_transposed(emit, emit.data(matrices, arguments[0]), emit.data(X, arguments[1]), arguments[2], True)
        return context.get_dummy_value()

    return types.void(matrices, X, count), generate


@intrinsic
def packed_into(typing, X, matrices, count):
    """matrices (8, count) from X (count, 8); count >= 8."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        _copy_transposed(emit, emit.data(matrices, arguments[1]), emit.data(X, arguments[0]), arguments[2], False)
        return context.get_dummy_value()

    return types.void(X, matrices, count), generate


@intrinsic(prefer_literal=True)
def fetch_ahead(typing, matrices, count, write):
    """Have that many numbers from the start of ``matrices`` on their way from main memory, while others are computed with."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, matrices.dtype)
        number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        declared = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, declared, "llvm.prefetch.p0i8")
        start, line = emit.data(matrices, arguments[0]), emit.number(64 // emit.align)
        hints = [ir.Constant(number, value) for value in (write.literal_value, 3, 1)]  # keep it near; it is data
        with cgutils.for_range_slice(builder, emit.number(0), arguments[1], line, emit.index) as (place, _):
            builder.call(prefetch, [builder.bitcast(builder.gep(start, [place]), byte), *hints])
        return context.get_dummy_value()

    return types.void(matrices, count, write), generate


@intrinsic
def packed_scale(typing, X, n, u, v):
    """X_ij *= u_i v_j."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, eight = builder, emit.number(WIDTH)
        x, left, right = (emit.data(X, arguments[k]) for k in (0, 2, 3))
        with cgutils.for_range(b, arguments[1], intp=emit.index) as row:
            factor = emit.load(left, b.mul(row.index, eight), emit.vector)
            line = b.mul(row.index, b.mul(arguments[1], eight))
            with cgutils.for_range(b, arguments[1], intp=emit.index) as column:
                j = b.mul(column.index, eight)
                here = b.add(line, j)
                scale = b.fmul(factor, emit.load(right, j, emit.vector), flags=FLAGS)
                emit.store(b.fmul(emit.load(x, here, emit.vector), scale, flags=FLAGS), x, here)
        return context.get_dummy_value()

    return types.void(X, n, u, v), generate


@njit(fastmath=True)
def _exp_all(x):
    for e in range(x.size):
        x[e] = exp_below(x[e])


@njit(fastmath=True)
def _iterate(X, n, u, v, room, seen, limits):
    """As `scaling.iterate`, for eight matrices; False if any of them is hard. Sizes that many ask for are written out."""
    T = u.shape[0]
    flat_u, flat_v = u.reshape(-1), v.reshape(-1)
    if n == 4:
        packed_iterations(X, 4, flat_u, flat_v, T, room, seen)
    elif n == 8:
        packed_iterations(X, 8, flat_u, flat_v, T, room, seen)
    elif n == 10:
        packed_iterations(X, 10, flat_u, flat_v, T, room, seen)
    else:
        packed_iterations(X, n, flat_u, flat_v, T, room, seen)
    fine = near = 0
    for k in range(WIDTH):  # counted, not decided: so the compiler takes all eight at once
        low_row, high_row, low_column, high_column = seen[k], seen[8 + k], seen[16 + k], seen[24 + k]
        fine += (low_row * low_column > limits[0]) & (max(high_row, high_column) < limits[1])
        near += high_row * high_column < limits[2] * low_row * low_column
    numbers = 0
    for j in range(u.shape[1]):
        numbers += v[T, j] == v[T, j]
    return fine == WIDTH and numbers == u.shape[1] and (near == WIDTH or reach(u, v[1:], v[0]) < limits[2])


@njit
def _again(P, n, u, v, room):
    """u_t / u_T and v_t / v_T, from v_0 / v_T: the iterations on P = u_T K v_T instead of K."""
    T = u.shape[0]
    flat_u, flat_v = u.reshape(-1), v.reshape(-1)
    if n == 4:
        packed_iterations(P, 4, flat_u, flat_v, T, room, None)
    elif n == 8:
        packed_iterations(P, 8, flat_u, flat_v, T, room, None)
    elif n == 10:
        packed_iterations(P, 10, flat_u, flat_v, T, room, None)
    else:
        packed_iterations(P, n, flat_u, flat_v, T, room, None)


@njit(fastmath=True)
def _with_powers(X, n, start):
    """X = e^X 2^(E_i + H_j) with the largest entry of each row and column about 1, and the start 1 in terms of H: as in `moving`."""
    E, H = np.empty(n * WIDTH, np.int32), np.empty(n * WIDTH, np.int32)
    width, log2e = n * WIDTH, X.dtype.type(LOG2E)
    for i in range(n):
        for k in range(WIDTH):
            top = X[i * width + k]
            for j in range(n):
                top = max(top, X[i * width + j * WIDTH + k])
            E[i * WIDTH + k] = -np.int32(np.floor(top * log2e))
    for e in range(width):
        top = X.dtype.type(-np.inf)
        for i in range(n):
            top = max(top, X[i * width + e] * log2e + E[i * WIDTH + e % WIDTH])
        H[e] = -np.int32(np.floor(top))
        start[e] = times_power(X.dtype.type(1), np.int32(-H[e]))
    for i in range(n):
        for e in range(width):
            X[i * width + e] = exp_with_power(X[i * width + e], np.int32(E[i * WIDTH + e % WIDTH] + H[e]))


@njit
def _read(given, m, tmp, X, words):
    """The logits of matrices m..m+7, packed."""
    count, b = tmp.shape[1], m % given.scores.shape[0]
    plain = given.noise == 0
    for k in range(WIDTH):
        plain = plain and as_given(given, b + k)
    if plain:
        packed_from(given.scores[b : b + WIDTH], X, count)
        return
    for k in range(WIDTH):
        logits(tmp[k], given, m + k, words)
    packed_from(tmp, X, count)


@njit
def forward_packed(given, soft, state, limits, low, high):
    """Groups low..high-1 of eight neighbours in the batch; group g of a sample is batch entries 8g..8g+7. Where any is hard, none is done."""
    batch, n, T = given.scores.shape[0], soft.shape[1], state.u.shape[1]
    groups = batch // WIDTH
    tmp = np.empty((WIDTH, n * n), soft.dtype)
    X = np.empty(n * n * WIDTH, soft.dtype)
    room, best, seen = (
        np.empty(2 * n * WIDTH, soft.dtype),
        np.empty(n * WIDTH, soft.dtype),
        np.empty(4 * WIDTH, soft.dtype),
    )
    u, v = np.empty((T, n * WIDTH), soft.dtype), np.empty((T + 1, n * WIDTH), soft.dtype)
    first, words = state.first.reshape(-1), new_words(n)
    for job in range(low, high):
        m = (job // groups) * batch + (job % groups) * WIDTH
        _read(given, m, tmp, X, words)
        if job + 1 < high:
            fetch_ahead(given.scores[(m + WIDTH) % batch :], WIDTH * n * n, 0)
            fetch_ahead(soft[m + WIDTH :], WIDTH * n * n, 1)
        packed_center(X, n, best, seen)
        if seen[:WIDTH].min() == -np.inf:
            state.forbidden[0] = True
        weakest = seen[WIDTH : 2 * WIDTH].min()
        if WEAK > weakest > -np.inf:
            _read(given, m, tmp, X, words)
            _with_powers(X, n, v[0])
        else:
            v[0] = 1
            _exp_all(X)
        if _iterate(X, n, u, v, room, seen, limits):
            packed_scale(X, n, u[T - 1], v[T])
            packed_into(X, soft[m : m + WIDTH], n * n)
            for e in range(n * WIDTH):
                first[m * n + e] = v[0, e] / v[T, e]
            state.used[m : m + WIDTH] = T
            state.kind[m : m + WIDTH] = PACKED
        else:
            state.kind[m : m + WIDTH] = UNUSABLE


@njit
def _pull_back(P, G, n, u, v, T, room, D):
    if n == 4:
        packed_backward(P, G, 4, u, v, T, room, D)
    elif n == 8:
        packed_backward(P, G, 8, u, v, T, room, D)
    elif n == 10:
        packed_backward(P, G, 10, u, v, T, room, D)
    else:
        packed_backward(P, G, n, u, v, T, room, D)


@njit
def backward_packed(given, soft, grad, state, outs, samples, low, high):
    """Packed groups of jobs low..high-1 = (share of the samples, group)."""
    batch, n, T = given.scores.shape[0], soft.shape[1], state.u.shape[1]
    groups, shares = batch // WIDTH, outs.scores.shape[0]
    room = np.empty(5 * n * WIDTH, soft.dtype)
    u, v = np.empty((T, n * WIDTH), soft.dtype), np.empty((T + 1, n * WIDTH), soft.dtype)
    P, G = np.empty(n * n * WIDTH, soft.dtype), np.empty(n * n * WIDTH, soft.dtype)
    D = np.empty(n * n * WIDTH, soft.dtype)
    x, tmp = np.empty(n * n, soft.dtype), np.empty((WIDTH, n * n), soft.dtype)
    wanted = outs.beta.shape[0] + outs.field.shape[0] > 0
    words = new_words(n)
    for job in range(low, high):
        share, b = job // groups, (job % groups) * WIDTH
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            if state.kind[m] != PACKED:
                continue
            packed_from(soft[m : m + WIDTH], P, n * n)
            packed_from(grad[m : m + WIDTH], G, n * n)
            if job + 1 < high:
                fetch_ahead(soft[m + WIDTH :], WIDTH * n * n, 0)
                fetch_ahead(grad[m + WIDTH :], WIDTH * n * n, 0)
                fetch_ahead(outs.scores[share, b + WIDTH :], WIDTH * n * n, 1)
            v[0] = state.first[m : m + WIDTH].reshape(n * WIDTH)
            _again(P, n, u, v, room)
            _pull_back(P, G, n, u.reshape(-1), v.reshape(-1), T, room, D)
            at_once = not wanted and not outs.filled[share, b]
            for k in range(WIDTH):
                at_once = at_once and as_given(given, b + k)
            if at_once:
                packed_into(D, outs.scores[share, b : b + WIDTH], n * n)
                outs.filled[share, b : b + WIDTH] = True
                continue
            packed_into(D, tmp, n * n)
            for k in range(WIDTH):
                spend(tmp[k], given, m + k, share, outs, words, x)
