"""The inner loops of the Sinkhorn kernels, written as vector instructions.

LLVM vectorises a plain loop 32 numbers at a time and leaves the rest to scalar code, which for n = 10 or 50 is most of the
work. Here a row is cut into chunks of 16, then 8, and only what is left after them is done one by one. With four rows at a time,
16 columns are eight independent chains of multiply-adds, enough to hide their latency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np import arrayobj

intrinsic: Any = extending.intrinsic  # for type checkers: it swallows the first parameter

WIDTH = 8
FLAGS = ("reassoc", "contract", "nsz", "arcp")


class _Emit:
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
        if kind == self.real:
            return scalar
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
        return self.builder.shuffle_vector(one, nothing, first)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)

    def total(self, parts: list[Any]) -> Any:
        """The sum of all lanes of a wide vector, a vector and a number."""
        wide, lanes, rest = (self.builder.load(part) for part in parts)
        for k in range(2):
            half = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), list(range(k * WIDTH, (k + 1) * WIDTH)))
            lanes = self.builder.fadd(lanes, self.builder.shuffle_vector(wide, wide, half), flags=FLAGS)
        name = f"llvm.vector.reduce.fadd.v{WIDTH}f{8 * self.align}"
        kind = ir.FunctionType(self.real, [self.real, self.vector])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [rest, lanes], fastmath=FLAGS)

    def zero(self, kind: Any) -> Any:
        """A local variable of that kind, set to zero here (alloca_once_value would set it in the entry block only)."""
        place = cgutils.alloca_once(self.builder, kind)
        self.builder.store(ir.Constant(kind, None), place)
        return place

    def chunks(self, n: Any, body: Callable[[Any, Any], None]) -> None:
        """body(start, kind) for each chunk of 16, then of 8, then for each number that is left."""
        low = self.number(0)
        for kind in self.kinds:
            step = getattr(kind, "count", 1)
            high = self.builder.and_(n, self.number(-step))
            with cgutils.for_range_slice(self.builder, low, high, self.number(step), self.index) as (start, _):
                body(start, kind)
            low = high


@intrinsic
def four_dots(typing, matrix, row, vector, n):
    """The products of rows row..row+3 of a C-contiguous matrix with n columns and a vector."""

    def generate(context, builder, signature, arguments):
        emit = _Emit(context, builder, matrix.dtype)
        rows = emit.rows(matrix, arguments[0], arguments[1], arguments[3])
        other = emit.data(vector, arguments[2])
        sums = {kind: [emit.zero(kind) for _ in rows] for kind in emit.kinds}

        def body(start, kind):
            x = emit.load(other, start, kind)
            for total, data in zip(sums[kind], rows, strict=True):
                builder.store(emit.multiply_add(emit.load(data, start, kind), x, builder.load(total)), total)

        emit.chunks(arguments[3], body)
        found = [emit.total([sums[kind][k] for kind in emit.kinds]) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(matrix.dtype, 4)(matrix, row, vector, n), generate


@intrinsic
def add_four(typing, sums, matrix, row, weights, n):
    """sums += weights[0] * matrix[row] + ... + weights[3] * matrix[row + 3]."""

    def generate(context, builder, signature, arguments):
        emit = _Emit(context, builder, matrix.dtype)
        rows = emit.rows(matrix, arguments[1], arguments[2], arguments[4])
        out = emit.data(sums, arguments[0])
        weight = [builder.extract_value(arguments[3], k) for k in range(4)]
        factors = {kind: [emit.splat(w, kind) for w in weight] for kind in emit.kinds}

        def body(start, kind):
            x = ir.Constant(kind, None)
            for data, factor in zip(rows, factors[kind], strict=True):
                x = emit.multiply_add(emit.load(data, start, kind), factor, x)
            # the old sum comes in last: blocks of rows wait for each other no longer than one addition
            emit.store(builder.fadd(emit.load(out, start, kind), x, flags=("nsz",)), out, start)

        emit.chunks(arguments[4], body)
        return context.get_dummy_value()

    return types.void(sums, matrix, row, weights, n), generate


@intrinsic
def four_gradient_rows(typing, D, P, G, row, a, s, r, c, iterations, n):
    """Rows row..row+3 of D = P (G + sum_t a_t s_t^T + r_t c_t^T); a, s, r, c are (T, n)."""

    def generate(context, builder, signature, arguments):
        emit = _Emit(context, builder, P.dtype)
        first, steps, width = arguments[3], arguments[8], arguments[9]
        out, soft, grad = (
            emit.rows(kind, value, first, width) for kind, value in zip((D, P, G), arguments[:3], strict=True)
        )
        a_data, s_data, r_data, c_data = (
            emit.data(kind, value) for kind, value in zip((a, s, r, c), arguments[4:8], strict=True)
        )

        def body(start, kind):
            sums = [emit.zero(kind) for _ in out]
            for total, data in zip(sums, grad, strict=True):
                builder.store(emit.load(data, start, kind), total)
            with cgutils.for_range(builder, steps, intp=emit.index) as loop:
                line = builder.mul(loop.index, width)
                here = builder.add(line, start)
                x, y = emit.load(s_data, here, kind), emit.load(c_data, here, kind)
                for k, total in enumerate(sums):
                    place = builder.add(builder.add(line, first), emit.number(k))
                    left, right = emit.load(a_data, place, emit.real), emit.load(r_data, place, emit.real)
                    z = emit.multiply_add(emit.splat(left, kind), x, builder.load(total))
                    builder.store(emit.multiply_add(emit.splat(right, kind), y, z), total)
            for total, data, target in zip(sums, soft, out, strict=True):
                emit.store(builder.fmul(builder.load(total), emit.load(data, start, kind), flags=FLAGS), target, start)

        emit.chunks(width, body)
        return context.get_dummy_value()

    return types.void(D, P, G, row, a, s, r, c, iterations, n), generate
