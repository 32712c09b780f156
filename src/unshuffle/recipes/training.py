"""A recipe: everything that decides a training run, as one frozen value of plain numbers.

It is printed at the start, saved with the run and read back from its checkpoint; the same value gives the same run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches
from ..learn.checkpoint import load, save
from ..learn.descent import Descent
from ..learn.fit import Fitted, fit
from ..learn.loop import Moment
from ..learn.objective import Learner, Loss
from ..learn.predict import calibrated_noise, predict
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..relaxations.protocol import Relaxation
from ..temperature.local import Controller, LocalTemperature, MatchedScalar, MeanBeta, MeanTau, Product
from ..temperature.schedules import Anneal, Exponential, LinearInBeta, LinearInTau
from ..temperature.signals import DegreeViolation, ExcessEntropy


@dataclass(frozen=True)
class Temperature:
    """The inverse temperature of a run: from `start` to `end` in `epochs`, lowered by up to `boost` where it is uncertain.

    No `boost`: one global temperature. `matched`: the control, a scalar lowered by the field's mean. `degree`: by degree
    violation (tours) instead of entropy. `linear_in_tau`, `mean_of_tau`: as the authors' code has it. `product`: `prod`.
    `exponential`: by a constant factor per epoch (the same in beta and in tau).
    """

    start: float
    end: float
    epochs: int
    boost: float = 0.0
    threshold: float = 0.7
    adapt_from: int = 0
    matched: bool = False
    degree: bool = False
    product: bool = False
    linear_in_tau: bool = False
    mean_of_tau: bool = False
    exponential: bool = False

    def named(self, name: str, boost: float) -> Temperature:
        """The choices of the command line."""
        if name == "fixed":
            return replace(self, end=self.start, boost=0.0)
        if name == "global":
            return replace(self, boost=0.0)
        if name in ("adaptive", "matched", "degree"):
            return replace(self, boost=boost, matched=name == "matched", degree=name == "degree")
        raise BadInput(f"The temperature is fixed, global, adaptive, matched or degree, not {name!r}.")

    def local(self) -> Controller | None:
        if not self.boost:
            return None
        combine = Product() if self.product else MeanTau() if self.mean_of_tau else MeanBeta()
        signal = DegreeViolation() if self.degree else ExcessEntropy(self.threshold)
        field = LocalTemperature(signal, self.boost, combine)
        return MatchedScalar(field) if self.matched else field

    def relax(self, iterations: int = 10, noise: float = 1.0) -> GumbelSinkhorn:
        shape = LinearInTau() if self.linear_in_tau else Exponential() if self.exponential else LinearInBeta()
        schedule = Anneal(self.start, self.end, self.epochs, shape)
        return GumbelSinkhorn(schedule, self.local(), iterations, noise, self.adapt_from)


class Recipe(Protocol):
    """A frozen dataclass of plain values (numbers, words, tuples of them, `Temperature`) with these methods."""

    TASK: ClassVar[str]

    @property
    def epochs(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def seed(self) -> int: ...

    def network(self) -> nn.Module: ...
    def relax(self) -> Relaxation: ...
    def loss(self) -> Loss: ...
    def descent(self) -> Descent: ...
    def batches(self) -> Batches: ...
    def held_out(self) -> Batches: ...
    def measures(self, network: nn.Module) -> dict[str, float]:
        """How good the orders are on validation lists: for the log only."""
        ...

    def test(self, network: nn.Module) -> dict[str, float]:
        """How good the orders are on test lists, that neither training nor selection saw."""
        ...

    def known(self) -> tuple[Tensor, Tensor | None, Tensor] | None:
        """Validation lists, their masks and their true orders, where there are any: for the confidence only."""
        ...


def train(
    recipe: Recipe,
    folder: Path | None = None,
    *,
    device: str | None = None,
    patience: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[Moment], object] | None = None,
) -> Fitted:
    """Carry out a recipe; with a folder, go on where an earlier call stopped. `patience`: see `fit`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = recipe.network()
    fitted = fit(
        network,
        recipe.batches(),
        recipe.loss(),
        recipe.relax(),
        epochs=recipe.epochs,
        samples=recipe.samples,
        descent=recipe.descent(),
        held_out=recipe.held_out(),
        patience=patience,
        measures=recipe.measures,
        folder=folder,
        about=about(recipe),
        seed=recipe.seed,
        device=device,
        time_limit=time_limit,
        callback=callback,
    )
    if folder is not None and os.environ.get("RANK", "0") == "0":
        _calibrate(recipe, fitted.network, Path(folder) / "best.pt")
    return fitted


def _calibrate(recipe: Recipe, network: nn.Module, best: Path) -> None:
    """Write into a checkpoint at which noise its confidence means something, where true orders are known."""
    known = recipe.known()
    if known is None:
        return
    items, allowed, truth = known
    scores = predict(network, items, recipe.relax(), allowed=allowed, draws=1).scores
    state, said = load(best)
    save(state, best, said | {"confidence_noise": calibrated_noise(recipe.relax(), scores, truth, allowed)})


def about(recipe: Recipe) -> dict[str, Any]:
    """What a checkpoint says it is of."""
    return {"task": recipe.TASK, "recipe": _plain(asdict(recipe))}  # pyright: ignore[reportArgumentType]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


R = TypeVar("R")


def recipe_from(kind: type[R], settings: dict[str, Any]) -> R:
    """A recipe as it was saved."""
    names = {field.name for field in fields(kind)}  # pyright: ignore[reportArgumentType]
    if names != set(settings):
        raise BadInput(f"These settings are not of {kind.__name__}: {', '.join(sorted(names ^ set(settings)))}.")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
    temperature: Any = values.get("temperature")
    if isinstance(temperature, dict):
        values["temperature"] = Temperature(**temperature)
    return kind(**values)


def trained(path: Path, kinds: dict[str, type]) -> tuple[Any, nn.Module, float | None]:
    """Recipe, network and noise of its confidence, from a checkpoint (a file, or the folder of a run: its best)."""
    path = Path(path)
    state, said = load(path / "best.pt" if path.is_dir() else path)
    task, settings = said.get("task"), said.get("recipe")
    if task not in kinds or not isinstance(settings, dict):
        raise BadInput(f"{path} was not written by `unshuffle train`: it does not say which network it is of.")
    try:
        recipe = recipe_from(kinds[task], settings)
        learner = Learner(recipe.network(), recipe.relax(), recipe.loss())
        learner.load_state_dict(state.learner)
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        raise BadInput(f"The settings and the weights in {path} do not fit together.") from error
    return recipe, learner.network.eval(), said.get("confidence_noise")
