"""How much of the time went into compiling kernels, which happens once, and not into the work."""

from __future__ import annotations

import threading
import time
from typing import Any

from .jit import have_numba

_lock = threading.Lock()
_depth, _since, _total = 0, 0.0, 0.0


def compiling_seconds() -> float:
    """Seconds that this process has spent compiling so far, beginning with the first call: ask before and after."""
    _listen()
    with _lock:
        return _total + (time.perf_counter() - _since if _depth else 0.0)


def compiling_now() -> bool:
    """Whether a kernel is being compiled at this moment; one that is only read from the disk is not."""
    return _depth > 0


def _begun(_event: Any) -> None:
    global _depth, _since
    with _lock:
        if _depth == 0:
            _since = time.perf_counter()
        _depth += 1  # kernels that call kernels compile inside one another


def _ended(_event: Any) -> None:
    global _depth, _total
    with _lock:
        _depth -= 1
        if _depth == 0:
            _total += time.perf_counter() - _since


_listening = False


def _listen() -> None:
    global _listening
    if _listening or not have_numba:
        return
    _listening = True
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            _begun(event)

        def on_end(self, event: Any) -> None:
            _ended(event)

    event.register("numba:compile", Listener())
