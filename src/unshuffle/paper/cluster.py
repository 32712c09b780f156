"""The same runs as tasks of a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..compute.cluster import Tasks
from ..compute.processes import Lost
from .executor import commit_of_source
from .run import Outcome, Planned, Unfinished, computed, keep, result_of
from .store import Result, Store


@dataclass(frozen=True)
class OnRay:
    """An existing cluster by its address, or one on this machine.

    Workers send results back and this process alone writes them, so machines need no common disk; with one, a run that
    lost its worker goes on from its last checkpoint, and without one it starts again. Each run is one task and its result
    one file: a task that ran twice is counted once.
    """

    address: str | None = None
    device: str | None = None
    limit: float | None = None
    cpus: float = 1.0  # that a run occupies
    gpus: float = 0.0

    def __call__(self, planned: Iterable[Planned], store: Store, tell: Callable[[Planned, Result], None]) -> int:
        """Compute and store; `tell` is called with each result. Returns how many runs are left undone."""
        deadline = None if self.limit is None else time.time() + self.limit
        commit, interrupted = commit_of_source(), 0

        def told(job: tuple[Planned, Path], found: Result | Lost | None) -> None:
            nonlocal interrupted
            if found is None:
                interrupted += 1
                return
            if isinstance(found, Lost):
                found = result_of(job[0], 0.0, Outcome({}), commit, str(found))
            keep(found, store)
            tell(job[0], found)

        jobs = ((one, store.work_folder(one.run.task, one.key).resolve()) for one in planned)
        work = partial(_computed, device=self.device, deadline=deadline, commit=commit)
        undone = Tasks(self.address, self.cpus, self.gpus)(work, jobs, told, deadline)
        return undone + interrupted


def _computed(
    job: tuple[Planned, Path], device: str | None, deadline: float | None, commit: str | None
) -> Result | None:
    """On a worker; None: interrupted, to be continued."""
    try:
        return computed(*job, device, deadline, commit)
    except Unfinished:
        return None
