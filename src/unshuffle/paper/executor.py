"""Carry out many runs: read what is there, compute the rest in processes, lose nothing, stop for nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from .run import Busy, Outcome, Planned, Unfinished, carry_out, keep, result_of
from .store import Result, Store

POLL = 0.5  # seconds, when another process is at the same run
DEATHS = 2  # of the process a run was in, before the run is given up: once may be another's fault


@dataclass(frozen=True)
class Local:
    """Processes on this machine. `limit` seconds after the start everything is saved and left for the next call."""

    workers: int = 1
    device: str | None = None
    limit: float | None = None

    def __call__(self, planned: Iterable[Planned], store: Store, tell: Callable[[Planned, Result], None]) -> int:
        """Compute and store; `tell` is called with each result. Returns how many runs are left undone."""
        deadline = None if self.limit is None else time.time() + self.limit
        commit, deaths, undone = commit_of_source(), Counter[str](), 0
        waiting, running = deque(planned), dict[Future[Result], Planned]()
        pool, broken = self._pool(), False
        try:
            while waiting or running:
                if broken and not running:
                    pool, broken = self._pool(), False
                late = deadline is not None and time.time() > deadline
                while waiting and len(running) < self.workers and not broken and not late:
                    one = waiting.popleft()
                    running[pool.submit(carry_out, one, store, self.device, deadline, commit)] = one
                if not running:
                    return undone + len(waiting)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    one = running.pop(future)
                    try:
                        tell(one, future.result())
                    except Unfinished:
                        undone += 1
                    except Busy:  # its result comes from elsewhere, or it is ours when that process is gone
                        waiting.append(one)
                        time.sleep(POLL)
                    except BrokenProcessPool:  # killed, or out of memory; every run in the pool ends like this
                        broken = True
                        deaths[one.key] += 1
                        if deaths[one.key] < DEATHS:
                            waiting.append(one)
                        else:
                            tell(one, _given_up(one, store, commit))
            return undone
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        # spawned, not forked: torch's threads do not survive a fork
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, initializer=_prepare, initargs=(threads,))


def _prepare(threads: int) -> None:
    """A process that computes: a fair share of the cores, unless the environment says otherwise; never left behind."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # training takes Ctrl-C itself, and saves; between runs the parent does
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _given_up(one: Planned, store: Store, commit: str | None) -> Result:
    error = f"The process died {DEATHS} times; it was killed or out of memory."
    result = result_of(one, 0.0, Outcome({}), commit, error)
    keep(result, store)
    return result


def not_yet_computed(planned: Iterable[Planned], store: Store, retry: bool) -> list[Planned]:
    """What is left to do; results that are there are noted in their tables. Failed ones count as done, unless `retry`."""
    missing: dict[str, Planned] = {}
    stored = store.by_task()
    for one in planned:
        found = one.found(stored)
        if found is None or (found.error is not None and retry):
            missing.setdefault(one.key, one)
        else:
            noted = store.add_place(found, one.place)
            stored[found.task][stored[found.task].index(found)] = noted
    return list(missing.values())


def commit_of_source() -> str | None:
    """The git commit this code is from, if it lies in a repository."""
    here = Path(__file__).parent
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
