"""NeuralSort in the paper's sorting table: without training, and trained on the monotonicity loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..learn.batches import Batches, mixed
from ..learn.descent import Descent
from ..learn.objective import Loss
from ..metrics import order_tau
from ..networks import KeyScorer
from ..operators.assignment import assign
from ..relaxations.neuralsort import NeuralSort
from ..tasks.sorting import Sorting
from ..temperature import Anneal, Constant
from .run import Means, Outcome

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
class SortingByKeys:
    """The paper's "trained NS": a network gives one key per number, NeuralSort relaxes the sort by key, same loss and schedule."""

    TASK: ClassVar[str] = "sorting-by-keys"

    sorting: Sorting
    as_published: bool

    @property
    def epochs(self) -> int:
        return self.sorting.epochs

    @property
    def samples(self) -> int:
        return 1  # nothing is random

    @property
    def seed(self) -> int:
        return self.sorting.seed

    def network(self) -> nn.Module:
        return KeyScorer(standardise=self.sorting.standardise)

    def relax(self) -> NeuralSort:
        temperature = self.sorting.temperature
        schedule = Anneal(temperature.start, temperature.end, temperature.epochs)
        return NeuralSort(schedule, self.as_published)

    def loss(self) -> Loss:
        return self.sorting.loss()

    def descent(self) -> Descent:
        return self.sorting.descent()

    def batches(self) -> Batches:
        return self.sorting.batches()

    def held_out(self) -> Tensor:
        return self.sorting.held_out()

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.held_out())}

    def test(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.sorting.test_set())}

    def known(self) -> None:
        """No confidence is asked of it."""

    def _tau(self, network: nn.Module, lists: Tensor) -> float:
        device = next(network.parameters()).device
        order = self.relax().decode(network(lists.to(device))).cpu()
        return order_tau(order, lists.squeeze(-1).argsort(-1)).mean().item()
