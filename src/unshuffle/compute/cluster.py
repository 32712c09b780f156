"""The same jobs as tasks of a Ray cluster: Ray places them, and starts those of a lost worker again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import BadInput
from .processes import Lost, Tell

RETRIES = 3  # of a job whose worker or node died
PATIENCE = 1.0  # seconds between looks at the clock


@dataclass(frozen=True)
class Tasks:
    """On an existing cluster by its address, or one on this machine. Only jobs and results travel: machines need no common disk."""

    address: str | None = None
    cpus: float = 1.0  # that a job occupies
    gpus: float = 0.0

    def __call__(
        self, work: Callable[[Any], Any], jobs: Iterable[Any], tell: Tell, deadline: float | None = None
    ) -> int:
        """As `Processes`; at the deadline tasks under way get Ctrl-C, to save and stop, and the others do not begin."""
        ray = _ray()
        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False)

        def one(job: Any) -> Any:  # Ray takes functions, and no other callables
            return work(job)

        task = ray.remote(max_retries=RETRIES, num_cpus=self.cpus, num_gpus=self.gpus)(one)
        running = {}
        try:
            for job in jobs:
                running[task.remote(job)] = job
            return self._collect(ray, running, tell, deadline)
        finally:
            for reference in running:  # after Ctrl-C
                ray.cancel(reference)
            if mine:
                ray.shutdown()

    def _collect(self, ray: Any, running: dict[Any, Any], tell: Tell, deadline: float | None) -> int:
        undone, late = 0, False
        while running:
            for reference in ray.wait(list(running), timeout=PATIENCE)[0]:
                job = running.pop(reference)
                try:
                    found = ray.get(reference)
                except ray.exceptions.TaskCancelledError:
                    undone += 1
                    continue
                except ray.exceptions.RayError as error:
                    found = Lost(f"The workers died {RETRIES + 1} times: {type(error).__name__}.")
                tell(job, found)
            if not late and deadline is not None and time.time() > deadline:
                late = True
                for reference in running:
                    ray.cancel(reference)
        return undone


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise BadInput("Ray is not installed: pip install 'unshuffle[ray]', or take --executor local.") from error
    return ray
