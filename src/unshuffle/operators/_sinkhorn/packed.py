"""Small matrices, eight at a time: lane k of every vector belongs to matrix k.

With n = 10 a row does not fill the vector registers twice and the sums across lanes are most of the time. Packed, entry (i, j) of
eight matrices is one vector, and no instruction ever crosses lanes. The arithmetic is that of `scaling`, that of dummies included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...compute.jit import njit
from ...compute.vector_math import LOG2E, exp_below, exp_with_power, times_power
from .lanes import FLAGS, WIDTH, Emit, intrinsic, transposed
from .logits import as_given, logits, new_words, spend
from .scaling import PACKED, UNUSABLE, bounds, fill, put, reach

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


class Side:
    """The rows or the columns of packed matrices: loops over them, written out if their number is known beforehand.

    ``alike``: how many the last of them stands for, a vector; None where each is one.
    """

    def __init__(self, emit: Emit, n: Any, alike: Any = None) -> None:
        self.emit, self.n, b = emit, n, emit.builder
        count = emit.number(n) if isinstance(n, int) else n
        self.width, self.last = b.mul(count, emit.number(WIDTH)), b.sub(count, emit.number(1))
        self.one, self.alike = ir.Constant(emit.vector, [1.0] * WIDTH), alike
        self.part = None if alike is None else b.fdiv(self.one, alike)

    def each(self, body: Callable[[Any], None]) -> None:
        if isinstance(self.n, int):
            for k in range(self.n):
                body(k)
        else:
            with cgutils.for_range(self.emit.builder, self.n, intp=self.emit.index) as loop:
                body(loop.index)

    def by_fours(self, body: Callable[[list[Any]], None]) -> None:
        """Four at a time: their chains of multiply-adds do not wait for each other."""
        if isinstance(self.n, int):
            for first in range(0, self.n, 4):
                body(list(range(first, min(self.n, first + 4))))
            return
        b, number = self.emit.builder, self.emit.number
        done, rest = b.and_(self.n, number(-4)), b.and_(self.n, number(3))
        with cgutils.for_range_slice(b, number(0), done, number(4), self.emit.index) as (first, _):
            body([b.add(first, number(k)) for k in range(4)])
        with b.if_then(b.icmp_signed("!=", rest, number(0))):
            self.emit.among(rest, [1, 2, 3], lambda few: body([b.add(done, number(k)) for k in range(few)]))

    def at(self, k: Any) -> Any:
        return self.emit.number(WIDTH * k) if isinstance(k, int) else self.emit.builder.mul(k, self.emit.number(WIDTH))

    def line(self, t: Any, k: Any) -> Any:
        """Entry k of row t of a (..., n, 8) array."""
        row = self.emit.number(t) if isinstance(t, int) else t
        return self.emit.builder.add(self.emit.builder.mul(row, self.width), self.at(k))

    def scaling(self, k: Any, total: Any) -> Any:
        """What makes the total 1, or as much as k stands for."""
        return self.emit.builder.fdiv(self._own(k, self.alike), total, flags=FLAGS)

    def shared(self, k: Any, x: Any) -> Any:
        """x by those that k stands for."""
        return x if self.alike is None else self.emit.builder.fmul(x, self._own(k, self.part), flags=FLAGS)

    def _own(self, k: Any, of_last: Any) -> Any:
        if of_last is None:
            return self.one
        if isinstance(k, int):
            return of_last if k == self.n - 1 else self.one
        b = self.emit.builder
        return b.select(b.icmp_signed("==", k, self.last), of_last, self.one)


def _sizes(emit: Emit, rows: Any, columns: Any, alike: Any, value: Any, body: Callable[[Side, Side], None]) -> None:
    """body(rows, columns). Of squares the sizes that many ask for are written out, and those with a border around them."""
    b, whole = emit.builder, isinstance(alike, types.NoneType)
    many = [None, None] if whole else [emit.splat(x, emit.vector) for x in cgutils.unpack_tuple(b, value)]
    square = b.select(b.icmp_signed("==", rows, columns), columns, emit.number(0))

    def of_size(n: int) -> None:
        """0: of any."""
        sides = zip((n or rows, n or columns), many, strict=True)
        body(*(Side(emit, count, alike) for count, alike in sides))

    emit.among(square, [*((4, 8, 10) if whole else (5, 9, 11)), 0], of_size)


def _iterations(
    emit: Emit, x: Any, rows: Side, columns: Side, us: Any, vs: Any, steps: Any, room: Any, seen: Any
) -> None:
    b = emit.builder
    sums, start = Cells(emit, columns.n, room), Cells(emit, columns.n, b.gep(room, [columns.width]))
    extremes_ = [cgutils.alloca_once(b, emit.vector) for _ in range(0 if seen is None else 4)]
    for place in extremes_:
        b.store(columns.one, place)

    def note(value: Any, k: int) -> None:
        for sign, place in zip("<>", extremes_[2 * k : 2 * k + 2], strict=False):
            best = b.load(place)
            b.store(b.select(b.fcmp_ordered(sign, value, best), value, best), place)

    columns.each(lambda j: start.set(j, emit.load(vs, columns.at(j), emit.vector)))
    with cgutils.for_range(b, steps, intp=emit.index) as loop:
        columns.each(lambda j: sums.set(j, ir.Constant(emit.vector, None)))

        def block(some: list[Any]) -> None:
            totals = [emit.zero(emit.vector) for _ in some]

            def dot(j: Any) -> None:
                for i, total in zip(some, totals, strict=True):
                    e = emit.load(x, columns.line(i, j), emit.vector)
                    b.store(emit.multiply_add(e, start.get(j), b.load(total)), total)

            columns.each(dot)
            scalings = []
            for i, total in zip(some, totals, strict=True):
                found = b.load(total)
                note(found, 0)
                scalings.append(rows.scaling(i, found))
                emit.store(scalings[-1], us, rows.line(loop.index, i))

            def spread(j: Any) -> None:
                for i, w in zip(some, scalings, strict=True):
                    sums.set(j, emit.multiply_add(emit.load(x, columns.line(i, j), emit.vector), w, sums.get(j)))

            columns.each(spread)

        rows.by_fours(block)
        after = b.add(loop.index, emit.number(1))

        def column(j: Any) -> None:
            note(sums.get(j), 1)
            start.set(j, columns.scaling(j, sums.get(j)))
            emit.store(start.get(j), vs, columns.line(after, j))

        columns.each(column)
    for k, place in enumerate(extremes_):
        emit.store(b.load(place), seen, emit.number(k * WIDTH))


@intrinsic
def packed_iterations(typing, X, rows, columns, alike, u, v, iterations, memory, seen):
    """u_t = 1 / (X v_{t-1}), v_t = 1 / (X^T u_t) for all t, v_0 given.

    alike: what the last row and the last column stand for; None in squares in which all stand for one.
    seen: least and largest of all X v and all X^T u, 8 each; None if nobody asks.
    """

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        x, us, vs, room = (emit.data(X, arguments[k]) for k in (0, 4, 5, 7))
        noted = None if isinstance(seen, types.NoneType) else emit.data(seen, arguments[8])

        def body(rows: Side, columns: Side) -> None:
            _iterations(emit, x, rows, columns, us, vs, arguments[6], room, noted)

        _sizes(emit, arguments[1], arguments[2], alike, arguments[3], body)
        return context.get_dummy_value()

    return types.void(X, rows, columns, alike, u, v, iterations, memory, seen), generate


def _pull_back(emit: Emit, rows: Side, columns: Side, steps: Any, arrays: list[Any]) -> None:
    b, (soft, grad, us, vs, room, out) = emit.builder, arrays
    pieces = [b.gep(room, [b.mul(columns.width, emit.number(k))]) for k in range(5)]
    g, s, c, sums = (Cells(emit, columns.n, piece) for piece in pieces[:4])
    f = Cells(emit, rows.n, pieces[4])
    zero = ir.Constant(emit.vector, None)
    last = b.sub(steps, emit.number(1))
    columns.each(lambda j: g.set(j, zero))

    def weigh(i: Any) -> None:
        total = emit.zero(emit.vector)

        def entry(j: Any) -> None:
            e = columns.line(i, j)
            x = emit.load(grad, e, emit.vector)
            emit.store(x, out, e)
            w = b.fmul(x, emit.load(soft, e, emit.vector), flags=FLAGS)
            b.store(emit.add(w, b.load(total)), total)
            g.set(j, emit.add(w, g.get(j)))

        columns.each(entry)
        f.set(i, b.load(total))

    rows.each(weigh)
    with cgutils.for_range(b, steps, intp=emit.index) as loop:
        t = b.sub(last, loop.index)
        after = b.add(t, emit.number(1))

        def column(j: Any) -> None:
            own = emit.load(vs, columns.line(after, j), emit.vector)
            s.set(j, columns.shared(j, b.fneg(b.fmul(own, g.get(j), flags=FLAGS))))
            c.set(j, emit.load(vs, columns.line(t, j), emit.vector))
            sums.set(j, zero)

        columns.each(column)

        def block(some: list[Any]) -> None:
            totals = [emit.zero(emit.vector) for _ in some]

            def dot(j: Any) -> None:
                for i, total in zip(some, totals, strict=True):
                    e = emit.load(soft, columns.line(i, j), emit.vector)
                    b.store(emit.multiply_add(e, s.get(j), b.load(total)), total)

            columns.each(dot)
            pulled = []
            for i, total in zip(some, totals, strict=True):
                a = emit.load(us, rows.line(t, i), emit.vector)
                r = b.fneg(b.fmul(a, emit.multiply_add(a, b.load(total), f.get(i)), flags=FLAGS))
                f.set(i, zero)
                pulled.append((i, a, rows.shared(i, r)))

            def spread(j: Any) -> None:
                for i, a, r in pulled:
                    e = columns.line(i, j)
                    sums.set(j, emit.multiply_add(emit.load(soft, e, emit.vector), r, sums.get(j)))
                    more = emit.multiply_add(a, s.get(j), emit.load(out, e, emit.vector))
                    emit.store(emit.multiply_add(r, c.get(j), more), out, e)

            columns.each(spread)

        rows.by_fours(block)
        columns.each(lambda j: g.set(j, b.fmul(c.get(j), sums.get(j), flags=FLAGS)))

    def finish(i: Any) -> None:
        def entry(j: Any) -> None:
            e = columns.line(i, j)
            emit.store(b.fmul(emit.load(soft, e, emit.vector), emit.load(out, e, emit.vector), flags=FLAGS), out, e)

        columns.each(entry)

    rows.each(finish)


@intrinsic
def packed_backward(typing, P, G, rows, columns, alike, u, v, iterations, memory, D):
    """D = dloss/dL from P and G = dloss/dP; the recursion and its gradient in one, with $u = a$, $v = c$, which the iterations on
    P = u_T K v_T instead of K give, from v_0 / v_T."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, P.dtype)
        arrays = [emit.data(P, arguments[k]) for k in (0, 1, 5, 6, 8, 9)]

        def body(rows: Side, columns: Side) -> None:
            _pull_back(emit, rows, columns, arguments[7], arrays)

        _sizes(emit, arguments[2], arguments[3], alike, arguments[4], body)
        return context.get_dummy_value()

    return types.void(P, G, rows, columns, alike, u, v, iterations, memory, D), generate


@intrinsic
def packed_center(typing, X, rows, columns, best, seen):
    """X_ij -= max_j X_ij; best_j = max_i of what is left. seen: least of X before, and of best, 8 each."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, x, (m_, n_), eight = builder, emit.data(X, arguments[0]), arguments[1:3], emit.number(WIDTH)
        tops, found = emit.data(best, arguments[3]), emit.data(seen, arguments[4])
        nothing, everything = (ir.Constant(emit.vector, [limit] * WIDTH) for limit in (-float("inf"), float("inf")))
        least, weakest, top = (cgutils.alloca_once(b, emit.vector) for _ in range(3))
        b.store(everything, least)
        b.store(everything, weakest)

        def keep(sign, value, place):
            b.store(b.select(b.fcmp_ordered(sign, value, b.load(place)), value, b.load(place)), place)

        with cgutils.for_range(b, n_, intp=emit.index) as column:
            emit.store(nothing, tops, b.mul(column.index, eight))
        with cgutils.for_range(b, m_, intp=emit.index) as row:
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

    return types.void(X, rows, columns, best, seen), generate


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
def packed_scale(typing, X, rows, columns, u, v):
    """X_ij *= u_i v_j."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, eight = builder, emit.number(WIDTH)
        x, left, right = (emit.data(X, arguments[k]) for k in (0, 3, 4))
        with cgutils.for_range(b, arguments[1], intp=emit.index) as row:
            factor = emit.load(left, b.mul(row.index, eight), emit.vector)
            line = b.mul(row.index, b.mul(arguments[2], eight))
            with cgutils.for_range(b, arguments[2], intp=emit.index) as column:
                j = b.mul(column.index, eight)
                here = b.add(line, j)
                scale = b.fmul(factor, emit.load(right, j, emit.vector), flags=FLAGS)
                emit.store(b.fmul(emit.load(x, here, emit.vector), scale, flags=FLAGS), x, here)
        return context.get_dummy_value()

    return types.void(X, rows, columns, u, v), generate


@njit(fastmath=True, counts=False)
def exp_all(x):
    for e in range(x.size):
        x[e] = exp_below(x[e])


@njit(fastmath=True, counts=False)
def iterate(X, alike, u, v, room, seen, limits):
    """As `scaling.iterate`, for eight matrices; False if any of them is hard."""
    T = u.shape[0]
    packed_iterations(
        X, u.shape[1] // WIDTH, v.shape[1] // WIDTH, alike, u.reshape(-1), v.reshape(-1), T, room, seen
    )  # fmt: skip
    fine = near = 0
    for k in range(WIDTH):  # counted, not decided: so the compiler takes all eight at once
        low_row, high_row, low_column, high_column = seen[k], seen[8 + k], seen[16 + k], seen[24 + k]
        fine += (low_row * low_column > limits[0]) & (max(high_row, high_column) < limits[1])
        near += high_row * high_column < limits[2] * low_row * low_column
    numbers = 0
    for j in range(v.shape[1]):
        numbers += v[T, j] == v[T, j]
    return fine == WIDTH and numbers == v.shape[1] and (near == WIDTH or reach(u, v[1:], v[0]) < limits[2])


@njit(counts=False)
def pull_back(P, G, alike, u, v, room, D):
    """D = dloss/dL of eight matrices; v[0] is v_0 / v_T, all else of u and v is found again."""
    T, m, n = u.shape[0], u.shape[1] // WIDTH, v.shape[1] // WIDTH
    flat_u, flat_v = u.reshape(-1), v.reshape(-1)
    packed_iterations(P, m, n, alike, flat_u, flat_v, T, room, None)
    packed_backward(P, G, m, n, alike, flat_u, flat_v, T, room, D)


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


@njit(counts=False)
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
        logits(tmp[k], given, m + k, words, given.scores[0, :0])
    packed_from(tmp, X, count)


class Room(NamedTuple):
    """For eight matrices after the other: packed, separate, and what is found on the way."""

    X: np.ndarray
    tmp: np.ndarray
    u: np.ndarray
    v: np.ndarray
    vectors: np.ndarray
    best: np.ndarray
    seen: np.ndarray
    words: np.ndarray


@njit
def forward_packed(given, soft, state, limits, low, high):
    """Groups low..high-1 of eight neighbours in the batch; group g of a sample is batch entries 8g..8g+7. Where any is hard, none is done."""
    n, T, real = soft.shape[1], state.u.shape[1], soft.dtype
    X, tmp = np.empty(n * n * WIDTH, real), np.empty((WIDTH, n * n), real)
    u, v = np.empty((T, n * WIDTH), real), np.empty((T + 1, n * WIDTH), real)
    vectors, best, seen = np.empty(2 * n * WIDTH, real), np.empty(n * WIDTH, real), np.empty(4 * WIDTH, real)
    _each_forward(given, soft, state, limits, Room(X, tmp, u, v, vectors, best, seen, new_words(n)), low, high)


@njit(counts=False)
def _each_forward(given, soft, state, limits, room, low, high):
    batch, n = given.scores.shape[0], soft.shape[1]
    groups = batch // WIDTH
    for job in range(low, high):
        m = (job // groups) * batch + (job % groups) * WIDTH
        _read(given, m, room.tmp, room.X, room.words)
        if job + 1 < high:
            fetch_ahead(given.scores[(m + WIDTH) % batch :], WIDTH * n * n, 0)
            fetch_ahead(soft[m + WIDTH :], WIDTH * n * n, 1)
        easy = _forward_group(given, m, soft[m : m + WIDTH], state, limits, room)
        fill(state.kind[m : m + WIDTH], PACKED if easy else UNUSABLE)


@njit(counts=False)
def _forward_group(given, m, soft, state, limits, room):
    """The soft permutations of matrices m..m+7, whose logits are there already; whether all of them are easy."""
    n, T, alike = soft.shape[1], state.u.shape[1], soft.dtype.type(given.block[2])
    X, u, v, seen, first = room.X, room.u, room.v, room.seen, state.first.reshape(-1)
    packed_center(X, n, n, room.best, seen)
    if bounds(seen[:WIDTH])[0] == -np.inf:
        state.forbidden[0] = True
    if WEAK > bounds(seen[WIDTH : 2 * WIDTH])[0] > -np.inf:
        _read(given, m, room.tmp, X, room.words)
        _with_powers(X, n, v[0])
    else:
        fill(v[0], 1)
        exp_all(X)
    if alike == 1:
        easy = iterate(X, None, u, v, room.vectors, seen, limits)
    else:
        for e in range((n - 1) * WIDTH, n * WIDTH):
            v[0, e] *= alike
        easy = iterate(X, (alike, alike), u, v, room.vectors, seen, limits)
    if easy:
        packed_scale(X, n, n, u[T - 1], v[T])
        packed_into(X, soft, n * n)
        for e in range(n * WIDTH):
            first[m * n + e] = v[0, e] / v[T, e]
        fill(state.used[m : m + WIDTH], T)
    return easy


class BackRoom(NamedTuple):
    """The same for gradients."""

    P: np.ndarray
    G: np.ndarray
    D: np.ndarray
    tmp: np.ndarray
    u: np.ndarray
    v: np.ndarray
    vectors: np.ndarray
    x: np.ndarray
    words: np.ndarray


@njit
def backward_packed(given, soft, upon, state, outs, samples, low, high):
    """Packed groups of jobs low..high-1 = (share of the samples, group)."""
    n, T, real = soft.shape[1], state.u.shape[1], soft.dtype
    P, G, D = np.empty(n * n * WIDTH, real), np.empty(n * n * WIDTH, real), np.empty(n * n * WIDTH, real)
    u, v = np.empty((T, n * WIDTH), real), np.empty((T + 1, n * WIDTH), real)
    tmp, vectors, x = np.empty((WIDTH, n * n), real), np.empty(5 * n * WIDTH, real), np.empty(n * n, real)
    room = BackRoom(P, G, D, tmp, u, v, vectors, x, new_words(n))
    _each_backward(given, soft, upon.whole, state, outs, samples, room, low, high)


@njit(counts=False)
def _each_backward(given, soft, grad, state, outs, samples, room, low, high):
    batch, n = given.scores.shape[0], soft.shape[1]
    groups, shares = batch // WIDTH, outs.scores.shape[0]
    for job in range(low, high):
        share, b = job // groups, (job % groups) * WIDTH
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            if state.kind[m] != PACKED:
                continue
            packed_from(soft[m : m + WIDTH], room.P, n * n)
            packed_from(grad[m : m + WIDTH], room.G, n * n)
            if job + 1 < high:
                fetch_ahead(soft[m + WIDTH :], WIDTH * n * n, 0)
                fetch_ahead(grad[m + WIDTH :], WIDTH * n * n, 0)
                fetch_ahead(outs.scores[share, b + WIDTH :], WIDTH * n * n, 1)
            _backward_group(given, state, m, b, share, outs, room)


@njit(counts=False)
def _backward_group(given, state, m, b, share, outs, room):
    """The gradient of matrices m..m+7, of batch entries b..b+7, whose P and G are there already."""
    P, G, D, tmp, u, v, vectors, x, words = room
    n, alike = state.u.shape[2], P.dtype.type(given.block[2])
    put(state.first.reshape(-1)[m * n : (m + WIDTH) * n], v[0])
    if alike == 1:
        pull_back(P, G, None, u, v, vectors, D)
    else:
        pull_back(P, G, (alike, alike), u, v, vectors, D)
    at_once = outs.beta.shape[0] + outs.field.shape[0] == 0 and not outs.filled[share, b]
    for k in range(WIDTH):
        at_once = at_once and as_given(given, b + k)
    if at_once:
        packed_into(D, outs.scores[share, b : b + WIDTH], n * n)
        fill(outs.filled[share, b : b + WIDTH], True)
        return
    packed_into(D, tmp, n * n)
    for k in range(WIDTH):
        spend(tmp[k], given, m + k, share, outs, words, x)
