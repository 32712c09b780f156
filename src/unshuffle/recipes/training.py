"""A recipe: everything that decides a training run, as one frozen value.

It is printed at the start, saved with the run and read back from its checkpoint; the same value gives the same run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches
from ..learn.checkpoint import load, save
from ..learn.descent import Descent
from ..learn.fit import Fitted, fit
from ..learn.loop import Moment
from ..learn.objective import Learner, Loss
from ..learn.predict import calibrate
from ..relaxations.protocol import Relaxation
from .settings import plain


class Recipe(Protocol):
    """A frozen dataclass of numbers, words and strategies, that `settings.plain` can write down, with these methods."""

    TASK: ClassVar[str]

    @property
    def epochs(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def relax(self) -> Relaxation: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def descent(self) -> Descent: ...

    def network(self) -> nn.Module: ...
    def batches(self) -> Batches: ...
    def held_out(self) -> Batches: ...
    def test_set(self) -> Batches: ...
    def measures(self, network: nn.Module) -> dict[str, float]:
        """How good the orders are on validation lists: for the log only."""
        ...

    def test(self, network: nn.Module) -> dict[str, float]:
        """How good the orders are on test lists, that neither training nor selection saw."""
        ...

    def known(self) -> tuple[Tensor, Tensor | None, Tensor] | None:
        """Validation lists, their masks and their true orders, where there are any: for the confidence only."""
        ...


@dataclass(frozen=True)
class BestHeldOut:
    """The weights with the smallest hard loss on held-out lists; the end after `patience` epochs without a smaller one."""

    patience: int | None = None


@dataclass(frozen=True)
class LastByTest:
    """As the authors' code: Kendall tau on the *test* lists says when to stop, and the weights of the last epoch are reported.

    It is measured every `every` epochs; `patience` times without one that is better by `least` are the end.
    """

    patience: int = 5
    every: int = 5
    least: float = 0.001

    def __call__(self, history: list[dict[str, Any]]) -> bool:
        best, waited = -math.inf, 0
        for record in history[self.every - 1 :: self.every]:
            waited = 0 if record["test_tau"] > best + self.least else waited + 1
            best = record["test_tau"] if waited == 0 else best
        return waited >= self.patience


def train(
    recipe: Recipe,
    folder: Path | None = None,
    *,
    stopping: BestHeldOut | LastByTest = BestHeldOut(),
    device: str | None = None,
    time_limit: float | None = None,
    callback: Callable[[Moment], object] | None = None,
    calibrated: bool = True,
) -> Fitted:
    """Carry out a recipe; with a folder, go on where an earlier call stopped.

    `calibrated`: find out what the scores of a saved network are worth (after Ctrl-C there is no time).
    """
    if isinstance(stopping, LastByTest) and folder is None:
        raise BadInput("The weights of the last epoch are taken from its checkpoint: name a folder.")
    fitted = fit(
        untrained(recipe),
        recipe.batches(),
        recipe.loss,
        recipe.relax,
        epochs=recipe.epochs,
        samples=recipe.samples,
        descent=recipe.descent,
        held_out=recipe.held_out(),
        patience=stopping if isinstance(stopping, LastByTest) else stopping.patience,
        measures=_with_test(recipe) if isinstance(stopping, LastByTest) else recipe.measures,
        folder=folder,
        about=about(recipe),
        seed=recipe.seed,
        device=device,
        time_limit=time_limit,
        callback=callback,
    )
    if isinstance(stopping, LastByTest) and folder is not None:
        Learner(fitted.network, recipe.relax, recipe.loss).load_state_dict(load(Path(folder) / "last.pt")[0].learner)
    if calibrated and fitted.status != "interrupted" and folder is not None and os.environ.get("RANK", "0") == "0":
        _calibrate(recipe, fitted.network, Path(folder) / "best.pt")
    return fitted


def untrained(recipe: Recipe) -> nn.Module:
    """The network with the weights that training begins with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return recipe.network()


def _with_test(recipe: Recipe) -> Callable[[nn.Module], dict[str, float]]:
    return lambda network: recipe.measures(network) | {"test_tau": recipe.test(network)["tau"]}


def _calibrate(recipe: Recipe, network: nn.Module, best: Path) -> None:
    """Write into a checkpoint what its scores are worth, where true orders are known."""
    known = recipe.known()
    if known is None:
        return
    items, allowed, truth = known
    state, said = load(best)
    found = calibrate(network, items, truth, recipe.relax, allowed=allowed)
    save(state, best, said | {"calibration": found.plain()})


def about(recipe: Recipe) -> dict[str, Any]:
    """What a checkpoint says it is of."""
    return {"task": recipe.TASK, "recipe": plain(recipe)}
