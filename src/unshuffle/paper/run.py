"""A run: a frozen value that says everything about one number of a table, and how to compute it."""

from __future__ import annotations

import platform
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import nn

from .. import __version__
from ..recipes.settings import essential, plain
from ..recipes.training import BestHeldOut, LastByTest, Recipe, train
from .lock import held
from .store import Place, Result, Store, key_of, same

Scale = Literal["smoke", "cpu", "sizes", "paper"]
PACKAGES = ("torch", "numpy", "scipy", "numba")
# of an epoch's line in the log: what the figures show
KEPT = ("epoch", "loss", "held_out", "tau", "row_entropy_mean", "beta_mean", "beta_min", "seconds")


class Unfinished(Exception):
    """Stopped by Ctrl-C or a time limit: no result, and the next call goes on from the last checkpoint."""


class Busy(Exception):
    """Another process is computing this run."""


@dataclass(frozen=True)
class Means:
    """What a computation may use; decides how long it takes, never what comes out."""

    folder: Path  # for checkpoints
    device: str | None = None
    time_limit: float | None = None  # seconds


@dataclass(frozen=True)
class Outcome:
    metrics: dict[str, float]
    history: dict[str, list[float]] = field(default_factory=dict)
    seconds: float | None = None  # of all processes that took part, if more than this one


class Run(Protocol):
    """A frozen value."""

    @property
    def task(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def settings(self) -> Any:
        """A value that `recipes.settings.plain` can write down: everything that decides the numbers."""
        ...

    def compute(self, means: Means) -> Outcome: ...


class Itself:
    """A run whose fields are everything that decides its numbers."""

    task: str  # of the class, not a setting

    def settings(self) -> Any:
        return self


@dataclass(frozen=True)
class Planned:
    """A run and the cell of the table that it is for."""

    run: Run
    place: Place

    @property
    def key(self) -> str:
        return key_of(self.run.task, plain(self.run.settings()))

    def found(self, stored: dict[str, list[Result]]) -> Result | None:
        """Its result, if it is among the stored ones."""
        settings, task = self.run.settings(), self.run.task
        wanted, asked = plain(settings), essential(settings)
        return next((result for result in stored.get(task, ()) if same(result.settings, wanted, asked)), None)


@dataclass(frozen=True)
class Training:
    """Train a recipe and measure on test lists."""

    recipe: Recipe
    stopping: BestHeldOut | LastByTest = BestHeldOut()

    @property
    def task(self) -> str:
        return self.recipe.TASK

    @property
    def seed(self) -> int:
        return self.recipe.seed

    def settings(self) -> Training:
        if not hasattr(self.recipe, "data"):
            return self
        # a folder has another path on every machine, and the same name
        named: Any = replace(self.recipe, data=Path(self.recipe.data).name)  # pyright: ignore
        return replace(self, recipe=named)

    def compute(self, means: Means) -> Outcome:
        fitted = train(
            self.recipe,
            means.folder,
            stopping=self.stopping,
            device=means.device,
            time_limit=means.time_limit,
            calibrated=False,
        )
        if fitted.status != "finished":
            raise Unfinished(fitted.status)
        metrics = self.measured(fitted.network) | {"epochs": len(fitted.history)}
        if fitted.best_epoch is not None:
            metrics["best_epoch"] = fitted.best_epoch
        return Outcome(metrics, compact(fitted.history), fitted.history[-1]["seconds"])

    def measured(self, network: nn.Module) -> dict[str, float]:
        return self.recipe.test(network)


def compact(history: list[dict[str, Any]], most: int = 60) -> dict[str, list[float]]:
    """The log by columns, with four digits, thinned out evenly to about `most` epochs; the last one is always there."""
    step = max(1, -(-len(history) // most))
    chosen = history[::-step][::-1]
    kept = [name for name in KEPT if name in history[-1]]
    return {name: [float(f"{record[name]:.4g}") for record in chosen] for name in kept}


def carry_out(planned: Planned, store: Store, device: str | None, deadline: float | None, commit: str | None) -> Result:
    """Compute a run and write its result, unless somebody else did so or is at it (`Busy`). `Unfinished` leaves checkpoints."""
    task, key = planned.run.task, planned.key
    before = store.read(task, key)
    with held(store.lock(task, key)) as mine:
        if not mine:
            raise Busy(f"{task}-{key}")
        after = store.read(task, key)
        if after is not None and after != before:  # written while we came for the lock
            return after
        result = computed(planned, store.work_folder(task, key), device, deadline, commit)
        keep(result, store)
    return result


def computed(planned: Planned, folder: Path, device: str | None, deadline: float | None, commit: str | None) -> Result:
    """The result of a run, or the error it ended with; checkpoints in `folder`. `deadline` is a moment of `time.time()`."""
    run, began = planned.run, time.perf_counter()
    outcome, error = Outcome({}), None
    try:
        outcome = run.compute(Means(folder, device, None if deadline is None else max(deadline - time.time(), 0.0)))
    except Unfinished:
        raise
    except Exception as reason:  # whatever it was: kept with the run, and the other runs go on
        error = f"{type(reason).__name__}: {reason}"
    seconds = outcome.seconds or time.perf_counter() - began
    return result_of(planned, seconds, outcome, commit, error)


def result_of(planned: Planned, seconds: float, outcome: Outcome, commit: str | None, error: str | None) -> Result:
    run = planned.run
    return Result(
        task=run.task,
        key=planned.key,
        settings=plain(run.settings()),
        seed=run.seed,
        places=(planned.place,),
        seconds=round(seconds, 2),
        metrics=outcome.metrics,
        history=outcome.history,
        versions=versions(),
        commit=commit,
        error=error,
    )


def keep(result: Result, store: Store) -> None:
    """Write a result; the checkpoints of a run that worked are then of no use."""
    store.write(result)
    if result.error is None:
        folder = store.work_folder(result.task, result.key)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # if it was the last one
            folder.parent.rmdir()


def versions() -> dict[str, str]:
    found = {"unshuffle": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
