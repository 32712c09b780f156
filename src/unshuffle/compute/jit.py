"""numba if it is there and wanted, and otherwise nothing: the same functions then run as plain Python.

``UNSHUFFLE_NUMBA=0`` switches numba off. The Sinkhorn operators have a torch path for that case; local search and the
other loops run as they are written, slowly.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as waited
from typing import Any

from ..watch import Stopped, in_vain, not_awaited
from .stamps import stamp
from .turns import turn

# no nnan and no ninf: NaN and -inf must survive to be reported and to forbid entries
FASTMATH = {"reassoc", "contract", "nsz", "arcp", "afn"}

have_numba = os.environ.get("UNSHUFFLE_NUMBA", "1") not in ("0", "false", "off")
if have_numba:
    try:
        import numba
    except ImportError:
        have_numba = False
if not have_numba:
    warnings.warn(
        "numba is not in use: Sinkhorn runs through torch (about 10 to 25 times slower on a CPU) "
        "and local search through plain Python.",
        stacklevel=2,
    )


def njit(function: Callable[..., Any] | None = None, *, fastmath: bool | set[str] = False, counts: bool = True) -> Any:
    """Compile at first use, keep the machine code on disk, release the GIL (threads are ours, see ``threads``).

    ``fastmath=True`` is ``FASTMATH``; a set of flags of LLVM is that set. ``counts=False`` is for what other kernels call, and makes and
    returns no array: it does not count who uses those that it was given, which would take a lock of the processor for each row of one.
    Nor may it call one that counts and returns an array: nobody would let go of that again.
    """
    if function is None:
        return lambda f: njit(f, fastmath=fastmath, counts=counts)
    if not have_numba:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": FASTMATH if fastmath is True else fastmath,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,  # nobody calls them from C
    }
    try:
        kernel: Any = numba.njit(cache=True, **options)(function)  # pyright: ignore[reportPossiblyUnboundVariable]
    except RuntimeError:  # no writable place for the cache: compile in every process
        return _ours(numba.njit(**options)(function), options, counts)  # pyright: ignore[reportPossiblyUnboundVariable]
    # numba itself would compare the content of the function's own file alone, and no flags
    stored = kernel._cache._cache_file
    stored._source_stamp = (stamp(function.__code__.co_filename), sorted(options["fastmath"] or ()))
    stored._load_index = _or_nothing(stored._load_index)
    kernel.compile = _in_turn(kernel.compile, stored._cache_path, stored._index_name)
    return _ours(kernel, options, counts)


def _in_turn(compile_: Callable[..., Any], folder: str, name: str) -> Callable[..., Any]:
    """Or loading, if another process has compiled it meanwhile; also, two that store it at once would lose one of both."""
    from numba.core.compiler_lock import global_compiler_lock

    def call(signature: Any) -> Any:
        with global_compiler_lock, turn(folder, name):  # threads of one process first: a turn is of the process
            return compile_(signature)

    return call


def _ours(kernel: Any, options: dict[str, Any], counts: bool) -> Any:
    """What numba does otherwise when a kernel is compiled, for a call from Python or from another kernel.

    The other kernel has its own copy of it, which Python cannot call and which is not stored: what unpacks arguments that come from
    Python, the files, and machine code that is never run (`inner`) take most of the time that all is compiled in.
    """
    from .inner import Inner

    within: dict[str, Any] = options | {"no_cpython_wrapper": True, "pipeline_class": Inner, "_nrt": counts}
    inner: Any = numba.njit(**within)(kernel.py_func)  # pyright: ignore[reportPossiblyUnboundVariable]
    kernel._compile_for_args = _beside(kernel._compile_for_args, lambda: _stored(kernel))
    kernel.get_call_template, kernel.get_overload = _for_any_number(inner.get_call_template), inner.get_overload
    return kernel


def _for_any_number(template: Callable[..., Any]) -> Callable[..., Any]:
    """One kernel for all numbers. numba compiles another for each that is written in the call, and, while it finds out the types
    of a loop, for each that a counter begins with: a sixth of the time that it compiles, for what is never run.
    """
    from numba.core.types.misc import unliteral

    def call(args: Any, kws: Any) -> Any:
        return template([unliteral(one) for one in args], {name: unliteral(one) for name, one in kws.items()})

    return call


LISTENING = 0.2  # seconds between two looks at whether there is still anything to compile for
_compilers: set[threading.Thread] = set()


def still_compiling() -> bool:
    """Whether a kernel is being compiled that nobody waits for any more: a process must not end in the usual way meanwhile."""
    return any(thread.is_alive() for thread in _compilers)


def _beside(compile_: Callable[..., Any], stored: Callable[[], bool] = lambda: False) -> Callable[..., Any]:
    """Compiling in a thread of its own, so that the main thread hears Ctrl-C: LLVM itself is deaf for seconds. What nobody waits for
    any more is given up, or not begun; `Stopped` says so where it is `dispensable`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return compile_(*args, **kwargs)
        if not_awaited() and not stored():
            raise Stopped
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(compile_(*args, **kwargs))
            except BaseException as error:  # whatever it is, who called is told
                answer.set_exception(error)

        thread = threading.Thread(target=work, name="unshuffle compiles", daemon=True)
        _compilers.add(thread)
        thread.start()
        while not waited([answer], LISTENING).done:
            why = KeyboardInterrupt if in_vain() else Stopped if not_awaited() and not stored() else None
            if why is not None:
                _give_up(thread)
                raise why
        _compilers.discard(thread)
        return answer.result()

    return call


def _give_up(thread: threading.Thread) -> None:
    """Ends it at its next step in Python: it would take half of Python's time from whoever writes down what was found."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


def _stored(kernel: Any) -> bool:
    """Whether a process before this one has compiled it, for these arguments or others."""
    stored = getattr(kernel._cache, "_cache_file", None)
    return stored is not None and bool(stored._load_index())


def overload(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What a kernel that calls ``function`` is to call, chosen by the types of the arguments (numba's); without numba nothing."""
    if not have_numba:
        return lambda choose: choose
    from numba.extending import overload as by_types

    return by_types(function)


def _or_nothing(index: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """What is stored on disk; nothing, if that cannot be read: a type of an argument is gone from the files since, or it was cut."""

    def read() -> dict[Any, Any]:
        try:
            return index()
        except Exception:  # unpickling may raise anything
            return {}

    return read
