"""Carry out many runs: read what is there, compute the rest in processes, lose nothing, stop for nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..compute.processes import Lost, Processes
from .run import Busy, Outcome, Planned, Unfinished, carry_out, keep, result_of
from .store import Result, Store


@dataclass(frozen=True)
class Local:
    """Processes on this machine. `limit` seconds after the start everything is saved and left for the next call."""

    workers: int = 1
    device: str | None = None
    limit: float | None = None

    def __call__(self, planned: Iterable[Planned], store: Store, tell: Callable[[Planned, Result], None]) -> int:
        """Compute and store; `tell` is called with each result. Returns how many runs are left undone."""
        deadline = None if self.limit is None else time.time() + self.limit
        commit, interrupted = commit_of_source(), 0

        def told(one: Planned, found: Result | BaseException) -> bool:
            nonlocal interrupted
            if isinstance(found, Busy):  # its result comes from elsewhere, or it is ours when that process is gone
                return True
            if isinstance(found, Unfinished):
                interrupted += 1
            elif isinstance(found, Lost):
                tell(one, _given_up(one, store, commit, str(found)))
            elif isinstance(found, BaseException):
                raise found
            else:
                tell(one, found)
            return False

        work = partial(carry_out, store=store, device=self.device, deadline=deadline, commit=commit)
        undone = Processes(self.workers)(work, planned, told, deadline)
        return undone + interrupted


def _given_up(one: Planned, store: Store, commit: str | None, error: str) -> Result:
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
