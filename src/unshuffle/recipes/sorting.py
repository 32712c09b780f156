"""Sort numbers without ever seeing a sorted list: the paper's first task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..learn.batches import Batches
from ..learn.descent import Cosine, Descent
from ..learn.objective import Loss, OnPermutation
from ..metrics import order_tau
from ..operators.permutation import reorder
from ..readers.cells import read_cells
from ..readers.tables import numbers
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..relaxations.protocol import Relaxation
from ..structure.losses import monotone, monotone_at_all_scales
from ..temperature.local import LocalTemperature, MeanTau
from ..temperature.schedules import Anneal, LinearInTau
from ..temperature.signals import ExcessEntropy
from .draws import HELD_OUT, TEST, DrawnAnew, DrawnOnce, drawn
from .scorers import ByItem
from .temperatures import tempered


@dataclass(frozen=True)
class Sorting:
    """Lists of `n` numbers from `values`, scored one by one against the positions (or given keys), ascending."""

    TASK: ClassVar[str] = "sorting"

    n: int
    values: tuple[float, float]
    scorer: Callable[[int], nn.Module]
    relax: Relaxation
    loss: Loss
    descent: Descent
    training: DrawnOnce | DrawnAnew
    epochs: int
    batch: int
    samples: int
    held_out_lists: int
    test_lists: int
    seed: int

    def __post_init__(self) -> None:
        low, high = self.values
        if self.n < 2:
            raise BadInput(f"Sorting needs at least two numbers, not {self.n}.")
        if not low < high:
            raise BadInput(f"Values go from a lower to a higher number, not from {low} to {high}.")

    @classmethod
    def paper(
        cls,
        n: int,
        values: tuple[float, float] = (0.0, 1.0),
        temperature: str = "adaptive",
        seed: int = 0,
        epochs: int = 150,
        supervised: bool = False,
        as_published: bool = False,
        annealed: int | None = None,
    ) -> Sorting:
        """The paper's protocol; `as_published` where its code differs: linear in tau, mean of tau, adapting from the first
        epoch on, no clipping.

        The temperature anneals over `annealed` epochs (None: all). When the authors' code stops, and with which weights, is
        `training.LastByTest`. The supervised row has one temperature throughout.
        """
        schedule, field = Anneal(0.66, 2.0, annealed or epochs), LocalTemperature(ExcessEntropy(0.7), 0.1)
        if as_published:
            schedule = Anneal(1 / 1.5, 2.0, annealed or epochs, LinearInTau())
            field = LocalTemperature(ExcessEntropy(0.7), 0.1, MeanTau())
        ways = tempered("fixed" if supervised else temperature, schedule, field)
        return cls(
            n=n,
            values=values,
            scorer=ByItem(),
            relax=GumbelSinkhorn(**ways, iterations=10, adapt_from=0 if as_published else 1),
            loss=OnPermutation(distance_to_sorted) if supervised else monotone,
            descent=Descent(5e-4, clip=None if as_published else 1.0),
            training=DrawnOnce(10_000),
            epochs=epochs,
            batch=256,
            samples=5,
            held_out_lists=100,
            test_lists=100,
            seed=seed,
        )

    @classmethod
    def strong(
        cls,
        n: int,
        values: tuple[float, float] = (0.0, 1.0),
        temperature: str = "fixed",
        seed: int = 0,
        epochs: int = 20,
    ) -> Sorting:
        """What we recommend: all scales, standardised lists, a warm and constant temperature, a rate that falls to 0.

        beta 0.5 was best among 0.5, 1, 2 and the paper's schedule on lists apart from all that is reported
        (benchmarks/choosing.py). Larger n takes fewer lists per step: the work of a step is kept, and the loss of one
        long list says as much as that of many short ones.
        """
        field = LocalTemperature(ExcessEntropy(0.7), 0.1)
        return cls(
            n=n,
            values=values,
            scorer=ByItem(standardise=True),
            relax=GumbelSinkhorn(**tempered(temperature, Anneal(0.5, 2.0, epochs), field), iterations=10),
            loss=monotone_at_all_scales,
            descent=Descent(5e-3 if n <= 100 else 3e-3, clip=1.0, over_time=Cosine(warm=0.05)),
            training=DrawnAnew(steps=50),
            epochs=epochs,
            batch=max(4, min(64, 6400 // n)),
            samples=5,
            held_out_lists=max(16, min(100, 10_000 // n)),
            test_lists=100,
            seed=seed,
        )

    def network(self) -> nn.Module:
        return self.scorer(self.n)

    def batches(self) -> Batches:
        return self.training(self._draw, self.batch, self.seed)

    def held_out(self) -> Tensor:
        return drawn(self._draw, self.held_out_lists, self.seed, HELD_OUT)

    def test_set(self) -> Tensor:
        return drawn(self._draw, self.test_lists, self.seed, TEST)

    def measures(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.held_out())}

    def known(self) -> tuple[Tensor, None, Tensor]:
        lists = self.held_out()
        return lists, None, lists.squeeze(-1).argsort(-1)

    def test(self, network: nn.Module) -> dict[str, float]:
        return {"tau": self._tau(network, self.test_set())}

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        low, high = self.values
        return low + (high - low) * torch.rand(count, self.n, 1, generator=generator)

    def _tau(self, network: nn.Module, lists: Tensor) -> float:
        device = next(network.parameters()).device
        truth = lists.squeeze(-1).argsort(-1)
        return order_tau(self.relax.decode(network(lists.to(device))).cpu(), truth).mean().item()

    def read(self, path: Path, drop: Sequence[str] = ()) -> Tensor:
        """Lists to sort, one per line of a CSV; without the columns to ``drop``."""
        return read_lists(path, self.n, drop)


def distance_to_sorted(P: Tensor, items: Tensor) -> Tensor:
    """The supervised row of the paper's table: squared distance to the sorted list."""
    return (reorder(P, items.expand(*P.shape[:-2], *items.shape[-2:])) - items.sort(-2).values).square().sum((-2, -1))


def read_lists(path: Path, n: int, drop: Sequence[str] = ()) -> Tensor:
    """A table of numbers, `n` in each line, beside columns to ``drop``."""
    sheet = read_cells(path)
    dropped = {sheet.find(name, "--drop") for name in drop}
    columns = [k for k in range(sheet.width) if k not in dropped]
    if len(columns) != n:
        raise BadInput(f"{path}, line 1: the network orders lists of {n} numbers, but there are {len(columns)}.")
    values = numbers(sheet, columns, [str(k + 1) for k in range(len(sheet.body))])
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)
