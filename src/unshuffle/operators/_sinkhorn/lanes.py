"""The inner loops of the Sinkhorn kernels, written as vector instructions.

LLVM vectorises a plain loop 32 numbers at a time and leaves the rest to scalar code, which for n = 10 or 50 is most of the
work. Here a row is cut into chunks of 16, then 8, and the rest is one more chunk of 8 that ends with the row and overlaps the one
before: harmless where a result is written twice, and with the lanes that were there before set to zero where it is added. Rows go
four at a time, the last four in the same way: 16 columns are then eight independent chains of multiply-adds, enough to hide their
latency, and the four sums across lanes are taken together. Only below n = 8 numbers are done one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np import arrayobj

intrinsic: Any = extending.intrinsic  # for type checkers: it swallows the first parameter

WIDTH = 8
LINE = 64  # bytes of a line of the cache
FLAGS = ("reassoc", "contract", "nsz", "arcp")


class Emit:
    """An LLVM builder with the few things the loops below need."""

    def __init__(self, context: Any, builder: Any, real: Any) -> None:
        self.context, self.builder = context, builder
        self.real = context.get_value_type(real)
        self.vector = ir.VectorType(self.real, WIDTH)
        self.kinds = (ir.VectorType(self.real, 2 * WIDTH), self.vector, self.real)  # widest first
        self.index = context.get_value_type(types.intp)
        self.align = self.real.get_abi_size(context.target_data)

    def number(self, value: int) -> Any:
        return ir.Constant(self.index, value)

    def data(self, array_type: Any, value: Any) -> Any:
        return arrayobj.make_array(array_type)(self.context, self.builder, value).data

    def rows(self, array_type: Any, value: Any, first: Any, n: Any) -> list[Any]:
        """Pointers to four consecutive rows of a C-contiguous matrix with n columns."""
        b, base = self.builder, self.data(array_type, value)
        return [b.gep(base, [b.mul(b.add(first, self.number(r)), n)]) for r in range(4)]

    def load(self, pointer: Any, offset: Any, kind: Any) -> Any:
        place = self.builder.bitcast(self.builder.gep(pointer, [offset]), ir.PointerType(kind))
        return self.builder.load(place, align=self.align)

    def store(self, value: Any, pointer: Any, offset: Any) -> None:
        place = self.builder.bitcast(self.builder.gep(pointer, [offset]), ir.PointerType(value.type))
        self.builder.store(value, place, align=self.align)

    def splat(self, scalar: Any, kind: Any) -> Any:
        if kind == scalar.type:
            return scalar
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
        return self.builder.shuffle_vector(one, nothing, first)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=FLAGS)

    def narrow(self, parts: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
        """A wide vector and a vector, combined into one vector."""
        wide, lanes = (self.builder.load(part) for part in parts)
        halves = [self.shuffle(wide, wide, list(range(k * WIDTH, (k + 1) * WIDTH))) for k in range(2)]
        return combine(combine(*halves), lanes)

    def better(self, sign: str, a: Any, b: Any) -> Any:
        """The smaller (<) or larger (>) of a and b; b if one is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(sign, a, b), a, b)

    def best(self, sign: str, parts: list[Any]) -> Any:
        """The smallest or largest lane of a wide vector, a vector and a number."""
        best = self.narrow(parts[:2], lambda a, b: self.better(sign, a, b))
        for half in (4, 2, 1):
            best = self.better(sign, best, self.shuffle(best, best, [k ^ half for k in range(WIDTH)]))
        return self.better(sign, self.lane(best, 0), self.builder.load(parts[2]))

    def in_place(self, pointer: Any, n: Any, change: Callable[[Any, Any, Any], Any]) -> None:
        """pointer[j] = change(j, kind, pointer[j]); the last chunk is read before the others are written."""
        b, last = self.builder, cgutils.alloca_once(self.builder, self.vector)
        start = b.sub(n, self.number(WIDTH))
        with b.if_then(b.icmp_signed(">=", start, self.number(0)), likely=True):
            b.store(self.load(pointer, start, self.vector), last)
        self.chunks(
            n,
            lambda j, kind: self.store(change(j, kind, self.load(pointer, j, kind)), pointer, j),
            lambda j, _: self.store(change(j, self.vector, b.load(last)), pointer, j),
        )

    def each(
        self, n: Any, inputs: Sequence[Any], outputs: Sequence[Any], formula: Callable[..., Sequence[Any]]
    ) -> None:
        """outputs[j] = formula(*inputs[j]) for vectors of n numbers.

        The rest goes one by one: what was stored just now in chunks of 16 and 8 must not be loaded in others, which would stall.
        """

        def body(j: Any, kind: Any) -> None:
            found = formula(*(self.load(x, j, kind) for x in inputs))
            for value, out in zip(found, outputs, strict=True):
                self.store(value, out, j)

        self.chunks(n, body, overlap=False)

    def four_totals(self, parts: list[list[Any]]) -> Any:
        """A vector of four sums: each of all lanes of a wide vector, a vector and a number."""

        def pairs(x: Any, y: Any) -> Any:
            even, odd = (
                [0, 2, 8, 10, 4, 6, 12, 14],
                [1, 3, 9, 11, 5, 7, 13, 15],
            )  # no lane leaves its half of the register
            return self.add(self.shuffle(x, y, even), self.shuffle(x, y, odd))

        a, b, c, d = (self.narrow(part[:2], self.add) for part in parts)
        both = pairs(pairs(a, b), pairs(c, d))
        sums = self.add(*(self.shuffle(both, both, [4 * k + lane for lane in range(4)]) for k in range(2)))
        rest = ir.Constant(ir.VectorType(self.real, 4), ir.Undefined)
        for k, part in enumerate(parts):
            rest = self.builder.insert_element(rest, self.builder.load(part[2]), ir.Constant(ir.IntType(32), k))
        return self.add(sums, rest)

    def lane(self, vector: Any, k: int) -> Any:
        return self.builder.extract_element(vector, ir.Constant(ir.IntType(32), k))

    def at_least(self, first: Any, lanes: int, limit: Any) -> Any:
        """Which of first, first + 1, ... are not below the limit."""
        b, kind = self.builder, ir.VectorType(self.index, lanes)
        here = b.add(self.splat(first, kind), ir.Constant(kind, list(range(lanes))))
        return b.icmp_signed(">=", here, self.splat(limit, kind))

    def among(self, value: Any, numbers: Sequence[Any], body: Callable[[Any], None]) -> None:
        """body(number) for that of the numbers which the value is, each in a branch of its own; the last, if it is none of the others."""
        first, *others = numbers
        if not others:
            body(first)
            return
        with self.builder.if_else(self.builder.icmp_signed("==", value, self.number(first))) as (this, other):
            with this:
                body(first)
            with other:
                self.among(value, others, body)

    def zero(self, kind: Any) -> Any:
        """A local variable of that kind, set to zero here (alloca_once_value would set it in the entry block only)."""
        place = cgutils.alloca_once(self.builder, kind)
        self.builder.store(ir.Constant(kind, None), place)
        return place

    def chunks(
        self,
        n: Any,
        body: Callable[[Any, Any], None],
        end: Callable[[Any, Any], None] | None = None,
        overlap: bool = True,
    ) -> None:
        """body(start, kind) for chunks of 16, then 8; for the rest end(n - 8, start of the rest), or below 8 one by one."""
        b, low = self.builder, self.number(0)
        for kind in self.kinds[:2]:
            high = b.and_(n, self.number(-kind.count))
            with cgutils.for_range_slice(b, low, high, self.number(kind.count), self.index) as (start, _):
                body(start, kind)
            low = high

        def one_by_one() -> None:
            with cgutils.for_range_slice(b, low, n, self.number(1), self.index) as (one, _):
                body(one, self.real)

        if not overlap:
            one_by_one()
            return
        with b.if_then(b.icmp_signed("<", low, n), likely=True):
            start = b.sub(n, self.number(WIDTH))
            with b.if_else(b.icmp_signed(">=", start, self.number(0)), likely=True) as (last, few):
                with last:
                    body(start, self.vector) if end is None else end(start, low)
                with few:
                    one_by_one()


def transposed(emit: Emit, rows: list[Any]) -> list[Any]:
    """The 8 x 8 transpose of eight vectors: three rounds that swap ever larger blocks off the diagonal."""
    for d in (1, 2, 4):
        low = ir.Constant(
            ir.VectorType(ir.IntType(32), WIDTH), [k if not k & d else WIDTH + k - d for k in range(WIDTH)]
        )
        high = ir.Constant(low.type, [k + d if not k & d else WIDTH + k for k in range(WIDTH)])
        old = list(rows)
        for k in range(WIDTH):
            if not k & d:
                rows[k] = emit.builder.shuffle_vector(old[k], old[k + d], low)
                rows[k + d] = emit.builder.shuffle_vector(old[k], old[k + d], high)
    return rows


def _four_rows(
    emit: Emit, rows: list[Any], n: Any, other: Any, sums: Any, weigh: Callable[[Any], Any], row: Any, fresh: Any
) -> None:
    """found = X v for four rows of X, w = weigh(found), sums += X^T w with the rows from ``fresh`` on."""
    parts = [[emit.zero(kind) for kind in emit.kinds] for _ in rows]

    def dot(start: Any, kind: Any, x: Any) -> None:
        for part, data in zip(parts, rows, strict=True):
            place = part[emit.kinds.index(kind)]
            emit.builder.store(emit.multiply_add(emit.load(data, start, kind), x, emit.builder.load(place)), place)

    def last_dot(start: Any, rest: Any) -> None:
        x = emit.load(other, start, emit.vector)
        dot(start, emit.vector, emit.builder.select(emit.at_least(start, WIDTH, rest), x, ir.Constant(x.type, None)))

    emit.chunks(n, lambda start, kind: dot(start, kind, emit.load(other, start, kind)), last_dot)
    w = weigh(emit.four_totals(parts))
    w = emit.builder.select(emit.at_least(row, 4, fresh), w, ir.Constant(w.type, None))
    weights = [emit.lane(w, k) for k in range(4)]

    def add(start: Any, kind: Any, to: Any) -> None:
        x = ir.Constant(kind, None)
        for data, weight in zip(rows, weights, strict=True):
            x = emit.multiply_add(emit.load(data, start, kind), emit.splat(weight, kind), x)
        # the old sum comes in last: blocks of rows wait for each other no longer than one addition
        emit.store(emit.builder.fadd(emit.load(sums, to, kind), x, flags=("nsz",)), sums, to)

    # the last chunk has a place of its own behind the others: to load what was half stored just now would stall
    emit.chunks(n, lambda start, kind: add(start, kind, start), lambda start, _: add(start, emit.vector, n))


@intrinsic
def sweep_four(typing, K, row, v, beside, totals, u, sums, n, fresh):
    """For rows row..row+3: totals = K v + beside, u = 1 / totals; and sums += K^T u with those from ``fresh`` on. Nothing is beside K: None."""
    alone = isinstance(beside, types.NoneType)

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, K.dtype)
        first, n_ = arguments[1], arguments[7]
        other, out_totals, out, to = (emit.data(v, arguments[k]) for k in (2, 4, 5, 6))

        def weigh(found):
            if not alone:
                found = emit.add(found, emit.load(emit.data(beside, arguments[3]), first, found.type))
            emit.store(found, out_totals, first)
            w = builder.fdiv(ir.Constant(found.type, [1.0] * 4), found, flags=FLAGS)
            emit.store(w, out, first)
            return w

        _four_rows(emit, emit.rows(K, arguments[0], first, n_), n_, other, to, weigh, first, arguments[8])
        return context.get_dummy_value()

    return types.void(K, row, v, beside, totals, u, sums, n, fresh), generate


@intrinsic
def pull_four(typing, P, row, s, a, f, r, sums, n, fresh):
    """For rows row..row+3: r = -a (f + a (P s)); and sums += P^T r with those from ``fresh`` on."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, P.dtype)
        first, n_ = arguments[1], arguments[7]
        other, scale, begin, out, to = (emit.data(s, arguments[k]) for k in (2, 3, 4, 5, 6))

        def weigh(found):
            factor = emit.load(scale, first, found.type)
            w = emit.multiply_add(factor, found, emit.load(begin, first, found.type))
            w = builder.fneg(builder.fmul(factor, w, flags=FLAGS))
            emit.store(w, out, first)
            return w

        _four_rows(emit, emit.rows(P, arguments[0], first, n_), n_, other, to, weigh, first, arguments[8])
        return context.get_dummy_value()

    return types.void(P, row, s, a, f, r, sums, n, fresh), generate


def _rank_rows(
    emit: Emit, start: Any, kind: Any, sums: list[Any], first: Any, width: Any, factors: Any, steps: Any
) -> list[Any]:
    """sums + sum_t a_t s_t^T + r_t c_t^T, for four rows from ``first`` and a chunk of columns; factors: a, s, r, c, (T, width) each."""
    builder, (a, s, r, c) = emit.builder, factors
    others = [emit.zero(kind) for _ in sums]  # chains of their own: four would wait for each other
    with cgutils.for_range(builder, steps, intp=emit.index) as loop:
        line = builder.mul(loop.index, width)
        here = builder.add(line, start)
        x, y = emit.load(s, here, kind), emit.load(c, here, kind)
        for k, (total, other) in enumerate(zip(sums, others, strict=True)):
            place = builder.add(builder.add(line, first), emit.number(k))
            left, right = emit.load(a, place, emit.real), emit.load(r, place, emit.real)
            builder.store(emit.multiply_add(emit.splat(left, kind), x, builder.load(total)), total)
            builder.store(emit.multiply_add(emit.splat(right, kind), y, builder.load(other)), other)
    return [emit.add(builder.load(total), builder.load(other)) for total, other in zip(sums, others, strict=True)]


@intrinsic
def gradient_rows(typing, D, add, K, G, row, a, s, r, c, iterations, n, stride, fresh):
    """Rows row..row+3 of D = K (G + sum_t a_t s_t^T + r_t c_t^T); or, if ``add``, of D += that, those from ``fresh`` on.

    D, K, G have n columns, a, s, r, c are (T, stride); None stands for a G of zeros.
    """
    alone = isinstance(G, types.NoneType)

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, K.dtype)
        adds, first, (steps, width, line, start_row) = arguments[1], arguments[4], arguments[9:]
        out, kernel = (emit.rows(kind, arguments[k], first, width) for k, kind in ((0, D), (2, K)))
        grad = [] if alone else emit.rows(G, arguments[3], first, width)
        factors = [emit.data(kind, value) for kind, value in zip((a, s, r, c), arguments[5:9], strict=True)]

        def body(start, kind, rest=None):
            sums = [emit.zero(kind) for _ in out]
            for total, data in zip(sums, grad, strict=False):
                builder.store(emit.load(data, start, kind), total)
            found = _rank_rows(emit, start, kind, sums, first, line, factors, steps)
            found = [
                builder.fmul(x, emit.load(k, start, kind), flags=FLAGS) for x, k in zip(found, kernel, strict=True)
            ]
            with builder.if_else(adds) as (adding, setting):
                with adding:
                    for k, (more, target) in enumerate(zip(found, out, strict=True)):
                        if rest is not None:  # the lanes before were done in the chunk before
                            more = builder.select(emit.at_least(start, WIDTH, rest), more, ir.Constant(kind, None))
                        with builder.if_then(builder.icmp_signed(">=", builder.add(first, emit.number(k)), start_row)):
                            emit.store(emit.add(emit.load(target, start, kind), more), target, start)
                with setting:
                    for value, target in zip(found, out, strict=True):
                        emit.store(value, target, start)

        emit.chunks(width, body, lambda start, rest: body(start, emit.vector, rest))
        return context.get_dummy_value()

    return types.void(D, add, K, G, row, a, s, r, c, iterations, n, stride, fresh), generate


@intrinsic
def times(typing, x, y, out, n):
    """out = x y, of vectors of n numbers; a plain loop would leave a third of 50 of them to scalar code."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, x.dtype)
        a, b, to = (emit.data(kind, value) for kind, value in zip((x, y, out), arguments[:3], strict=True))
        emit.each(arguments[3], (a, b), (to,), lambda a, b: (builder.fmul(a, b),))
        return context.get_dummy_value()

    return types.void(x, y, out, n), generate


@intrinsic
def inverse_of(typing, x, out, n):
    """out = 1 / x."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, x.dtype)
        source, to = (emit.data(kind, value) for kind, value in zip((x, out), arguments[:2], strict=True))

        def formula(a):
            one = emit.splat(ir.Constant(emit.real, 1.0), a.type)
            return (builder.fdiv(one, a, flags=FLAGS),)

        emit.each(arguments[2], (source,), (to,), formula)
        return context.get_dummy_value()

    return types.void(x, out, n), generate


@intrinsic
def pulled(typing, found, a, f, r, n):
    """r = -a (f + a found)."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, found.dtype)
        kinds = zip((found, a, f, r), arguments[:4], strict=True)
        *inputs, to = (emit.data(kind, value) for kind, value in kinds)

        def formula(x, scale, begin):
            return (builder.fneg(builder.fmul(scale, emit.multiply_add(scale, x, begin), flags=FLAGS)),)

        emit.each(arguments[4], inputs, (to,), formula)
        return context.get_dummy_value()

    return types.void(found, a, f, r, n), generate


@intrinsic
def one_before(typing, sums, v, over, c, s, n):
    """c = v over, and s = -c (c sums) of the iteration before."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, sums.dtype)
        kinds = zip((sums, v, over, c, s), arguments[:5], strict=True)
        *inputs, to_c, to_s = (emit.data(kind, value) for kind, value in kinds)

        def formula(x, scaling, last):
            ratio = builder.fmul(scaling, last)
            return ratio, builder.fneg(
                builder.fmul(ratio, builder.fmul(ratio, x))
            )  # the square of one may be too large

        emit.each(arguments[5], inputs, (to_c, to_s), formula)
        return context.get_dummy_value()

    return types.void(sums, v, over, c, s, n), generate


@intrinsic
def fetch(typing, x, first, last):
    """Asks for x[first : last], x flat, to be brought near; goes on at once."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, x.dtype)
        data, byte, number = emit.data(x, arguments[0]), ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        with cgutils.for_range_slice(
            builder, arguments[1], arguments[2], emit.number(LINE // emit.align), emit.index
        ) as (j, _):
            place = builder.bitcast(builder.gep(data, [j]), byte)
            # to be read (0), into the second cache (2 of 0 ... 3), data (1)
            builder.call(ask, [place, *(ir.Constant(number, value) for value in (0, 2, 1))])
        return context.get_dummy_value()

    return types.void(x, first, last), generate


@intrinsic
def extremes(typing, x, first, n):
    """The smallest and the largest of x[first : first + n], x flat; NaN is not seen."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, x.dtype)
        data = builder.gep(emit.data(x, arguments[0]), [arguments[1]])
        start = builder.load(data)
        found = []
        for sign in ("<", ">"):
            parts = [cgutils.alloca_once(builder, kind) for kind in emit.kinds]
            for part, kind in zip(parts, emit.kinds, strict=True):
                builder.store(emit.splat(start, kind), part)

            def body(j, kind, sign=sign, parts=parts):
                part = parts[emit.kinds.index(kind)]
                builder.store(emit.better(sign, emit.load(data, j, kind), builder.load(part)), part)

            emit.chunks(arguments[2], body)
            found.append(emit.best(sign, parts))
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(x.dtype, 2)(x, first, n), generate


@intrinsic
def highest_of_rows(typing, X, tops, rows, n):
    """tops_i = max_j X_ij, and the least of all is returned; NaN is not seen."""

    def generate(context, builder, signature, arguments):
        emit, b = Emit(context, builder, X.dtype), builder
        data, out = emit.data(X, arguments[0]), emit.data(tops, arguments[1])
        most, least = ([cgutils.alloca_once(b, kind) for kind in emit.kinds] for _ in range(2))
        for place, kind in zip(least, emit.kinds, strict=True):
            b.store(emit.splat(b.load(data), kind), place)
        with cgutils.for_range(b, arguments[2], intp=emit.index) as loop:
            row = b.gep(data, [b.mul(loop.index, arguments[3])])
            for place, kind in zip(most, emit.kinds, strict=True):
                b.store(emit.splat(b.load(row), kind), place)

            def body(j, kind, row=row):
                x, k = emit.load(row, j, kind), emit.kinds.index(kind)
                b.store(emit.better(">", x, b.load(most[k])), most[k])
                b.store(emit.better("<", x, b.load(least[k])), least[k])

            emit.chunks(arguments[3], body)
            emit.store(emit.best(">", most), out, loop.index)
        return emit.best("<", least)

    return X.dtype(X, tops, rows, n), generate


@intrinsic
def highest_of_columns(typing, X, tops, best, rows, n, step):
    """best_j = max_i X_ij - tops_i over every step-th row. They stay in registers: what is stored in part and loaded again would stall."""

    def generate(context, builder, signature, arguments):
        emit, b = Emit(context, builder, X.dtype), builder
        data, lower, out = (emit.data(kind, value) for kind, value in zip((X, tops, best), arguments[:3], strict=True))

        def body(start, kind):
            place, limit = cgutils.alloca_once(b, kind), ir.Constant(emit.real, -float("inf"))
            b.store(emit.splat(limit, kind), place)
            with cgutils.for_range_slice(b, emit.number(0), arguments[3], arguments[5], emit.index) as (i, _):
                x = emit.load(data, b.add(b.mul(i, arguments[4]), start), kind)
                x = b.fsub(x, emit.splat(emit.load(lower, i, emit.real), kind))
                b.store(emit.better(">", x, b.load(place)), place)
            emit.store(b.load(place), out, start)

        emit.chunks(arguments[4], body)
        return context.get_dummy_value()

    return types.void(X, tops, best, rows, n, step), generate


@intrinsic
def lower_row(typing, K, row, top, n):
    """K[row] -= top."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, K.dtype)
        target = emit.rows(K, arguments[0], arguments[1], arguments[3])[0]

        def change(_, kind, x):
            return builder.fsub(x, emit.splat(arguments[2], kind))

        emit.in_place(target, arguments[3], change)
        return context.get_dummy_value()

    return types.void(K, row, top, n), generate


@intrinsic
def scale_row(typing, K, row, factor, v, n):
    """K[row] *= factor * v."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, K.dtype)
        target, other = emit.rows(K, arguments[0], arguments[1], arguments[4])[0], emit.data(v, arguments[3])

        def change(j, kind, x):
            scale = builder.fmul(emit.splat(arguments[2], kind), emit.load(other, j, kind), flags=FLAGS)
            return builder.fmul(x, scale, flags=FLAGS)

        emit.in_place(target, arguments[4], change)
        return context.get_dummy_value()

    return types.void(K, row, factor, v, n), generate


@intrinsic
def times_sums(typing, X, first, scores, noise, row, columns, factor, n):
    """x = (scores + noise x) ((row + columns) factor) for the n numbers x of X from the first on; without scores x *= the rest."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        target, other = builder.gep(emit.data(X, arguments[0]), [arguments[1]]), emit.data(columns, arguments[5])
        given = (
            None if isinstance(scores, types.NoneType) else builder.gep(emit.data(scores, arguments[2]), [arguments[1]])
        )

        def change(j, kind, x):
            if given is not None:
                x = emit.multiply_add(emit.splat(arguments[3], kind), x, emit.load(given, j, kind))
            # without flags: to the last bit what the field would be as a matrix
            total = builder.fadd(emit.splat(arguments[4], kind), emit.load(other, j, kind))
            return builder.fmul(builder.fmul(total, emit.splat(arguments[6], kind)), x)

        emit.in_place(target, arguments[7], change)
        return context.get_dummy_value()

    return types.void(X, first, scores, noise, row, columns, factor, n), generate
