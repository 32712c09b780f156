"""numba if it is there and wanted, and otherwise nothing: the same functions then run as plain Python.

``UNSHUFFLE_NUMBA=0`` switches numba off. The Sinkhorn operators have a torch path for that case; local search and the
other loops run as they are written, slowly.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from .stamps import stamp

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


def njit(function: Callable[..., Any] | None = None, *, fastmath: bool | set[str] = False) -> Any:
    """Compile at first use, keep the machine code on disk, release the GIL (threads are ours, see ``threads``).

    ``fastmath=True`` is ``FASTMATH``; a set of flags of LLVM is that set.
    """
    if function is None:
        return lambda f: njit(f, fastmath=fastmath)
    if not have_numba:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": FASTMATH if fastmath is True else fastmath,
        "error_model": "numpy",
    }
    try:
        kernel: Any = numba.njit(cache=True, **options)(function)  # pyright: ignore[reportPossiblyUnboundVariable]
    except RuntimeError:  # no writable place for the cache: compile in every process
        return numba.njit(**options)(function)  # pyright: ignore[reportPossiblyUnboundVariable]
    # numba itself would compare the content of the function's own file alone, and no flags
    stored = kernel._cache._cache_file
    stored._source_stamp = (stamp(function.__code__.co_filename), sorted(options["fastmath"] or ()))
    stored._load_index = _or_nothing(stored._load_index)
    return kernel


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
