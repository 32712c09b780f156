"""Many jobs in processes on this machine: one that fails or dies stops none of the others."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

POLL = 0.5  # seconds before a job is tried again
GRACE = 1.0  # seconds to save in, after Ctrl-C
DEATHS = 2  # of the process a job was in, before the job is given up: once may be another's fault

Tell = Callable[[Any, Any], object]
"""Called with a job and what came of it, its result or the exception; True: to be done again."""


class Lost(Exception):
    """The processes that a job was in died, each time."""


@dataclass(frozen=True)
class Processes:
    """So many at a time, each with its share of the cores. ``work`` must be importable, jobs and results are pickled."""

    workers: int = 1

    def __call__(
        self, work: Callable[[Any], Any], jobs: Iterable[Any], tell: Tell, deadline: float | None = None
    ) -> int:
        """``work(job)`` for every job. None begins after the ``deadline`` (a moment of `time.time()`); how many did not."""
        deaths, waiting = Counter[int](), deque(enumerate(jobs))
        running = dict[Future[Any], tuple[int, Any]]()
        others = multiprocessing.active_children()
        pool, broken = self._pool(), False
        try:
            while waiting or running:
                if broken and not running:
                    pool, broken = self._pool(), False
                late = deadline is not None and time.time() > deadline
                while waiting and len(running) < self.workers and not broken and not late:
                    one = waiting.popleft()
                    running[pool.submit(work, one[1])] = one
                if not running:
                    return len(waiting)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, job = running.pop(future)
                    found = future.exception()
                    if isinstance(
                        found, BrokenProcessPool
                    ):  # killed, or out of memory; every job in the pool ends like this
                        broken = True
                        deaths[number] += 1
                        if deaths[number] < DEATHS:
                            waiting.append((number, job))
                            continue
                        found = Lost(f"The process died {DEATHS} times; it was killed or out of memory.")
                    if tell(job, future.result() if found is None else found) is True:
                        waiting.append((number, job))
                        time.sleep(POLL)
            return 0
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            _ended([child for child in multiprocessing.active_children() if child not in others])
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        # spawned, not forked: torch's threads do not survive a fork
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, initializer=_prepare, initargs=(threads,))


def _ended(children: Iterable[multiprocessing.process.BaseProcess]) -> None:
    """Who trains or solves has heard Ctrl-C too, saves and ends; who does not, in the midst of something else, is killed."""
    until = time.monotonic() + GRACE
    for child in children:
        child.join(max(0.0, until - time.monotonic()))
        if child.is_alive():
            child.kill()


def _prepare(threads: int) -> None:
    """A process that computes: a fair share of the cores, unless the environment says otherwise; never left behind."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads)
    # what trains or solves takes Ctrl-C itself, and ends well; between jobs the parent does
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
