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


def in_chunks(kernel: Callable[[int, int], object], count: int, work: float = 1e9) -> list[object]:
    """Call ``kernel(low, high)`` on consecutive pieces of range(count), one piece per thread.

    ``work`` is a rough number of elementary operations; to wake a thread takes about 0.1 ms,
    so each should have some 10^6 of them to do.
    """
    threads = max(1, min(torch.get_num_threads(), count, int(work / 1e6)))
    if threads == 1:
        return [kernel(0, count)]
    cuts = [count * k // threads for k in range(threads + 1)]
    pool = _executor(threads - 1)
    rest = [pool.submit(kernel, low, high) for low, high in itertools.pairwise(cuts[1:])]
    first = kernel(cuts[0], cuts[1])
    return [first, *(job.result() for job in rest)]
