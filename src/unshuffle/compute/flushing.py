"""While kernels run, numbers too small for a float of full precision are 0: the processor takes many times as long for each of them.

Soft permutations of networks in training, and of annealings that come to an end, are full of them (in float32 from $10^{-38}$ down to $10^{-45}$),
and a gradient reads each 2T times.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from .jit import have_numba, njit

SWITCH = platform.machine().lower() in (
    "x86_64",
    "amd64",
)  # others take no longer for small numbers than for large ones
TO_ZERO = 0x8040  # of the register MXCSR: small results are 0, and so are small numbers that are read


def flushed(run: Callable[[], object]) -> None:
    """``run()``, with small numbers 0 in this thread; afterwards as it was, since what torch does is the user's to decide."""
    if not (SWITCH and have_numba):
        run()
        return
    before = _flush()
    try:
        run()
    finally:
        _restore(before)


if have_numba:
    from llvmlite import ir
    from numba import extending, types
    from numba.core import cgutils

    intrinsic: Any = extending.intrinsic  # for type checkers: it swallows the first parameter

    def _call(builder: Any, name: str, place: Any) -> None:
        byte = ir.PointerType(ir.IntType(8))
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [byte]), name)
        builder.call(function, [builder.bitcast(place, byte)])

    @intrinsic
    def _read_register(typing):
        def generate(context, builder, signature, arguments):
            place = cgutils.alloca_once(builder, ir.IntType(32))
            _call(builder, "llvm.x86.sse.stmxcsr", place)
            return builder.load(place)

        return types.int32(), generate

    @intrinsic
    def _write_register(typing, value):
        def generate(context, builder, signature, arguments):
            _call(builder, "llvm.x86.sse.ldmxcsr", cgutils.alloca_once_value(builder, arguments[0]))
            return context.get_dummy_value()

        return types.void(types.int32), generate

    @njit
    def _flush():
        before = _read_register()
        _write_register(types.int32(before | TO_ZERO))
        return before

    @njit
    def _restore(before):
        _write_register(types.int32(before))
