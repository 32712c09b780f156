"""NeuralSort in the paper's sorting table: without training, and trained on the monotonicity loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..learn.batches import mixed
from ..metrics import order_tau
from ..networks import KeyScorer
from ..operators.assignment import assign
from ..relaxations.neuralsort import NeuralSort
from ..temperature.schedules import Anneal, Constant
from .run import Means, Outcome
from .variant import SortingVariant

# the paper sweeps temperatures and does not say which; decades around its own range
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class UntrainedKeys:
    """NeuralSort with the numbers themselves as keys: nothing is learned but one temperature, on validation lists."""

    n: int
    values: tuple[float, float]
    as_published: bool
    seed: int
    lists: int = 100

    @property
    def task(self) -> str:
        return "neuralsort"

    def settings(self) -> UntrainedKeys:
        return self

    def compute(self, means: Means) -> Outcome:
        held_out, test = (self._lists(purpose) for purpose in (2, 3))  # as `Sorting` numbers them
        beta = max(BETAS, key=lambda beta: self._tau(beta, held_out))
        return Outcome({"tau": self._tau(beta, test), "beta": beta})

    def _lists(self, purpose: int) -> Tensor:
        low, high = self.values
        generator = torch.Generator().manual_seed(mixed(self.seed, purpose))
        return low + (high - low) * torch.rand(self.lists, self.n, generator=generator)

    def _tau(self, beta: float, lists: Tensor) -> float:
        P = NeuralSort(Constant(beta), self.as_published)(lists)
        order = assign(P.clamp_min(torch.finfo(P.dtype).tiny).log())
        return order_tau(order, lists.argsort(-1)).mean().item()


@dataclass(frozen=True)
class SortingByKeys(SortingVariant):
    """The paper's "trained NS": a network gives one key per number, NeuralSort relaxes the sort by key, same loss and schedule."""

    TASK: ClassVar[str] = "sorting-by-keys"

    as_published: bool

    def network(self) -> nn.Module:
        return KeyScorer(standardise=self.sorting.standardise)

    def relax(self) -> NeuralSort:
        temperature = self.sorting.temperature
        schedule = Anneal(temperature.start, temperature.end, temperature.epochs)
        return NeuralSort(schedule, self.as_published)
