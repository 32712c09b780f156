"""The same runs as tasks of a Ray cluster: Ray places them, and starts those of a lost worker again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput
from .executor import commit_of_source
from .run import Outcome, Planned, Unfinished, computed, keep, result_of
from .store import Result, Store

RETRIES = 3  # of a run whose worker or node died
PATIENCE = 1.0  # seconds between looks at the clock


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
        ray = _ray()
        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
        deadline = None if self.limit is None else time.time() + self.limit
        commit = commit_of_source()
        task = ray.remote(max_retries=RETRIES, num_cpus=self.cpus, num_gpus=self.gpus)(_computed)
        running = {}
        try:
            for one in planned:
                folder = store.work_folder(one.run.task, one.key).resolve()
                running[task.remote(one, folder, self.device, deadline, commit)] = one
            return self._collect(ray, running, store, tell, deadline, commit)
        finally:
            for reference in running:  # after Ctrl-C
                ray.cancel(reference)
            if mine:
                ray.shutdown()

    def _collect(
        self,
        ray,
        running: dict,
        store: Store,
        tell: Callable[[Planned, Result], None],
        deadline: float | None,
        commit: str | None,
    ) -> int:
        undone, late = 0, False
        while running:
            for reference in ray.wait(list(running), timeout=PATIENCE)[0]:
                one = running.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.TaskCancelledError:
                    result = None
                except ray.exceptions.RayError as error:
                    message = f"The workers of this run died {RETRIES + 1} times: {type(error).__name__}."
                    result = result_of(one, 0.0, Outcome({}), commit, message)
                if result is None:
                    undone += 1
                    continue
                keep(result, store)
                tell(one, result)
            if not late and deadline is not None and time.time() > deadline:
                late = True
                for reference in running:  # those under way save and stop, the others do not begin
                    ray.cancel(reference)
        return undone


def _computed(
    one: Planned, folder: Path, device: str | None, deadline: float | None, commit: str | None
) -> Result | None:
    """On a worker; None: interrupted, to be continued."""
    try:
        return computed(one, folder, device, deadline, commit)
    except Unfinished:
        return None


def _ray():
    try:
        import ray
    except ImportError as error:
        raise BadInput("Ray is not installed: pip install 'unshuffle[ray]', or take --executor local.") from error
    return ray
