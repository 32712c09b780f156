"""Split a batch over threads. The kernels release the GIL, so plain Python threads are enough.

numba's own ``parallel=True`` is avoided: its threading layers are not safe to call from several threads at once, or
after a fork (data loaders do both), and parallel kernels take several times longer to compile.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None
_workers = 0


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _workers
    if _pool is None or _workers < workers:
        _pool, _workers = ThreadPoolExecutor(workers, thread_name_prefix="unshuffle"), workers
    return _pool


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _workers
    _pool, _workers = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def in_chunks(kernel: Callable[[int, int], object], count: int, work: float = 1e9) -> None:
    """Call ``kernel(low, high)`` on consecutive pieces of range(count), in several threads.

    ``work`` is a rough number of elementary operations. To wake a thread takes about 0.1 ms, so each piece should have some
    10^6 of them. There are more pieces than threads, and who is done takes the next: torch's own threads go on spinning for
    some milliseconds after each of its operations, and a thread of ours that shares a core with one of them is slower.
    """
    threads = torch.get_num_threads()
    pieces = max(1, min(4 * threads if threads > 1 else 1, count, int(work / 1e6)))
    if pieces == 1:
        kernel(0, count)
        return
    cuts = [count * k // pieces for k in range(pieces + 1)]
    todo = iter(list(itertools.pairwise(cuts)))  # next() on a list's iterator is atomic

    def take() -> None:
        for low, high in todo:
            kernel(low, high)

    helpers = [_executor(threads - 1).submit(take) for _ in range(min(threads, pieces) - 1)]
    take()
    for helper in helpers:
        if not helper.cancel():  # a thread that never got going has nothing left to do
            helper.result()
