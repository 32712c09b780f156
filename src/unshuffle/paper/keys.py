"""NeuralSort in the paper's sorting table, without training: the numbers are their own keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..metrics import order_tau
from ..operators.assignment import assign
from ..recipes.draws import HELD_OUT, TEST, drawn
from ..relaxations.neuralsort import NeuralSort
from ..temperature.schedules import Constant
from .run import Means, Outcome

# the paper sweeps temperatures and does not say which; decades around its own range
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class UntrainedKeys:
    """NeuralSort as it is defined, decoded by assignment; one temperature is chosen, on validation lists."""

    n: int
    values: tuple[float, float]
    as_published: bool
    seed: int
    lists: int = 100
    betas: tuple[float, ...] = BETAS

    @property
    def task(self) -> str:
        return "neuralsort"

    def settings(self) -> UntrainedKeys:
        return self

    def compute(self, means: Means) -> Outcome:
        held_out, test = (drawn(self._draw, self.lists, self.seed, purpose) for purpose in (HELD_OUT, TEST))
        beta = max(self.betas, key=lambda beta: self._tau(beta, held_out))
        return Outcome({"tau": self._tau(beta, test), "beta": beta})

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        low, high = self.values
        return low + (high - low) * torch.rand(count, self.n, generator=generator)

    def _tau(self, beta: float, lists: Tensor) -> float:
        P = NeuralSort(Constant(beta), self.as_published)(lists)
        order = assign(P.clamp_min(torch.finfo(P.dtype).tiny).log())
        return order_tau(order, lists.argsort(-1)).mean().item()
