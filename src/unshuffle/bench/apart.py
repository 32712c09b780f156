"""A process of its own for a measurement of memory: its allocator has nothing left over to give."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def apart(function: Callable[..., T], *given: object) -> T:
    """``function`` there. The process comes from one that has loaded the code and computed nothing, so that it starts at once."""
    context = multiprocessing.get_context("forkserver")
    # the second is what an optimiser loads at its first step
    context.set_forkserver_preload(["unshuffle.bench.step", "torch._dynamo"])
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *given).result()
