"""Kernels that only other kernels call: nothing is done for them that the one which calls them does again.

numba optimises each function in full and makes machine code of it, then copies what it was made from into every function that calls
it, optimises that in full and makes machine code of it. Only the last of these is ever run: the others take half of the time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Unfinished(JITCodeLibrary):
    """Code to be copied, neither optimised as a whole nor made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)


class _WithoutEnvironments:
    """There is no place yet to write down where a function's environment is; nor does one that is read from disk have it."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class Inner(Compiler):
    """For ``numba.njit(pipeline_class=Inner)``: what it compiles, Python cannot call."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, library or _Unfinished(targetctx.codegen(), "inner"), *rest)
