"""Split a batch over threads. The kernels release the GIL, so Python may stand between them and the threads.

On Linux the threads are those of torch's own OpenMP, asked for by its public entry point ``GOMP_parallel``: they go on spinning
for some milliseconds after each operation of torch, so they start at once, where a thread of our own would have to be woken
(0.1 ms) and then share its core with one of them (measured on 2 cores: a third longer). Elsewhere, and in a forked child, in which
OpenMP would hang, plain Python threads do it.

numba's own ``parallel=True`` is avoided: its threading layers are not safe to call from several threads at once, or
after a fork (data loaders do both), and parallel kernels take several times longer to compile.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from .flushing import flushed

_Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pool: ThreadPoolExecutor | None = None
_workers = 0
_small = threading.local()  # .threads: those for our kernels while torch has one in this thread, in `small_steps`
_called: set[object] = set()  # code that has been here before
_counted = threading.Lock()
_inside = 0  # threads of Python in `small_steps`
_outside = 1  # torch's threads before the first of them came


def _team_of_torch() -> Any:
    """void GOMP_parallel(void (*task)(void *), void *data, unsigned threads, unsigned flags), if torch brought it."""
    try:
        return ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None


_team = _team_of_torch()


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _workers
    if _pool is None or _workers < workers:
        _pool, _workers = ThreadPoolExecutor(workers, thread_name_prefix="unshuffle"), workers
    return _pool


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _workers, _team
    _pool, _workers, _team = None, 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def small_steps(small: bool = True) -> Iterator[None]:
    """For loops of thousands of tiny operations: torch on one thread, our kernels on Python threads.

    Each parallel operation of OpenMP waits for all its threads, and on a machine where others work too one of them has to
    be given a core first: a tour of 100 cities took 52 s instead of 4 beside two busy processes.
    """
    if _apart() or not small:
        yield
        return
    global _inside, _outside
    with _counted:  # who comes second would take the 1 of the first for torch's own number, and leave it there
        if not _inside:
            _outside = torch.get_num_threads()
        _inside += 1
        _small.threads = _outside
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _counted:
            torch.set_num_threads(_small.threads)
            _inside -= 1
            _small.threads = 0


def _apart() -> int:
    """Threads for our kernels apart from torch's, if this thread is in `small_steps`; else 0."""
    return getattr(_small, "threads", 0)


def in_chunks(kernel: Callable[[int, int], object], count: int, work: float = 1e9) -> None:
    """Call ``kernel(low, high)`` on consecutive pieces of range(count), in several threads.

    ``work`` is a rough number of elementary operations; each piece should have some 10^5 of them. There are more pieces than
    threads, and who is done takes the next, because one of the cores may have other things to do.
    """
    threads = _apart() or torch.get_num_threads()
    pieces = max(1, min(4 * threads if threads > 1 else 1, count, int(work / 3e5)))
    if pieces == 1:
        flushed(lambda: kernel(0, count))
        return
    cuts = [count * k // pieces for k in range(pieces + 1)]
    todo = iter(list(itertools.pairwise(cuts)))  # next() on a list's iterator is atomic
    if (code := getattr(kernel, "__code__", None)) not in _called:
        _called.add(code)
        # alone, since it may have to be compiled: a team would be waited for, whoever presses Ctrl-C
        flushed(lambda: kernel(*next(todo)))
    failed: list[BaseException] = []

    def each() -> None:
        for low, high in todo:
            kernel(low, high)

    def take(_: object = None) -> None:
        try:
            flushed(each)
        except BaseException as error:  # must not leave a thread of OpenMP
            failed.append(error)

    if _team is not None and not _apart():
        _team(_Task(take), None, min(threads, pieces), 0)
    else:
        _in_python_threads(take, min(threads, pieces) - 1)
    if failed:
        raise failed[0]


def _in_python_threads(take: Callable[[], None], helpers: int) -> None:
    waiting = [_executor(helpers).submit(take) for _ in range(helpers)]
    take()
    for helper in waiting:
        if not helper.cancel():  # a thread that never got going has nothing left to do
            helper.result()
