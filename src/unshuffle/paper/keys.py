"""NeuralSort and SoftSort in the paper's sorting table, without training: the numbers are their own keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..metrics import order_tau
from ..operators.assignment import assign
from ..recipes.draws import HELD_OUT, TEST, Draw, drawn
from ..relaxations.neuralsort import NeuralSort
from ..relaxations.protocol import Relaxation
from ..relaxations.softsort import SoftSort
from ..temperature.schedules import Constant
from .run import Itself, Means, Outcome

# the paper sweeps temperatures and does not say which; decades around its own range
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class UntrainedKeys(Itself):
    """NeuralSort as it is defined, decoded by assignment; one temperature is chosen, on validation lists."""

    task = "neuralsort"

    n: int
    values: tuple[float, float]
    seed: int
    lists: int = 100
    betas: tuple[float, ...] = BETAS

    def compute(self, means: Means) -> Outcome:
        draw = numbers(self.n, self.values)
        held_out, test = (drawn(draw, self.lists, self.seed, purpose) for purpose in (HELD_OUT, TEST))
        beta = max(self.betas, key=lambda beta: self._tau(beta, held_out))
        return Outcome({"tau": self._tau(beta, test), "beta": beta})

    def _tau(self, beta: float, lists: Tensor) -> float:
        P = self._soft(beta)(lists)
        order = assign(P.clamp_min(torch.finfo(P.dtype).tiny).log())
        return order_tau(order, lists.argsort(-1)).mean().item()

    def _soft(self, beta: float) -> Relaxation:
        return NeuralSort(Constant(beta))


@dataclass(frozen=True)
class UntrainedSoftSort(UntrainedKeys):
    """SoftSort in the same way; the paper has no numbers of it."""

    task = "softsort"

    def _soft(self, beta: float) -> Relaxation:
        return SoftSort(Constant(beta))


@dataclass(frozen=True)
class PublishedKeys(Itself):
    """The paper's row: the authors' softmax over positions in single precision at tau = 1, decoded greedily."""

    task = "neuralsort-published"

    n: int
    values: tuple[float, float]
    seed: int
    lists: int = 100
    beta: float = 1.0

    def compute(self, means: Means) -> Outcome:
        test = drawn(numbers(self.n, self.values), self.lists, self.seed, TEST).float()
        order = greedy(NeuralSort(Constant(self.beta), as_published=True)(test))
        return Outcome({"tau": order_tau(order, test.argsort(-1)).mean().item(), "beta": self.beta})


def numbers(n: int, values: tuple[float, float]) -> Draw:
    """Lists of `n` numbers, as `Sorting` draws them."""
    low, high = values
    return lambda count, generator: low + (high - low) * torch.rand(count, n, generator=generator)


def greedy(P: Float[Tensor, "lists n n"]) -> Int[Tensor, "lists n"]:
    """Position by position the item with most of it that is left; where all is 0, the first."""
    left, order = P.clone(), []
    for position in range(P.shape[-1]):
        order.append(left[..., position].argmax(-1))
        left.scatter_(1, order[-1][:, None, None].expand(-1, 1, left.shape[-1]), -1.0)  # nobody takes it again
    return torch.stack(order, -1)
