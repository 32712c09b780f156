"""What a trainer is fed: batches of items, with a mask where places are known or forbidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import BadInput, function, shown, whole

# items (b, n, d), alone or with a mask of allowed places (b, n, n)
Batch = Tensor | tuple[Tensor, Tensor | None]
# what `fit` takes: all items at once, anything that can be iterated again every epoch, or a function of the epoch
Batches = Tensor | Iterable[Any] | Callable[[int], Iterable[Any]]


def items_and_mask(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The two parts of a batch, checked."""
    items, allowed = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch, None)
    if not isinstance(items, Tensor) or items.ndim < 3 or not items.is_floating_point():
        what = f"{items.dtype} {tuple(items.shape)}" if isinstance(items, Tensor) else type(items).__name__
        raise BadInput(f"A batch is a float tensor (lists, items, features), or that and a mask; this one is {what}.")
    return items, allowed


@dataclass(frozen=True)
class Shuffled:
    """The same lists every epoch, in an order that the seed and the epoch decide; the short last batch is dropped.

    A run that was interrupted sees the batches it would have seen. Fewer lists than `batch` make one batch.
    """

    items: Tensor
    batch: int
    seed: int = 0
    allowed: Tensor | None = None

    def __post_init__(self) -> None:
        whole("batch", self.batch, 1)
        whole("seed", self.seed, 0)
        if not isinstance(self.items, Tensor) or self.items.ndim < 3 or not len(self.items):
            what = tuple(self.items.shape) if isinstance(self.items, Tensor) else shown(self.items)
            raise BadInput(f"Training items are a tensor of shape (lists, items, features), not {what}.")

    def __len__(self) -> int:
        return max(len(self.items) // self.batch, 1)

    def __call__(self, epoch: int) -> Iterator[Batch]:
        shuffle = torch.randperm(len(self.items), generator=torch.Generator().manual_seed(mixed(self.seed, epoch)))
        for chosen in shuffle.split(self.batch)[: len(self)]:
            yield self.items[chosen], None if self.allowed is None else self.allowed[chosen]


@dataclass(frozen=True)
class Fresh:
    """New lists at every step, for problems that can be made up at will: nothing to overfit.

    `make` draws the lists of one batch from a generator.
    """

    make: Callable[[torch.Generator], Batch]
    steps: int
    seed: int = 0

    def __post_init__(self) -> None:
        function("make", self.make, "lambda generator: torch.rand(64, 10, 1, generator=generator)")
        whole("steps", self.steps, 1)
        whole("seed", self.seed, 0)

    def __len__(self) -> int:
        return self.steps

    def __call__(self, epoch: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        for _ in range(self.steps):
            yield self.make(generator)


def by_epoch(batches: Batches, batch: int, seed: int) -> Callable[[int], Iterable[Any]]:
    """All that `fit` takes, as a function from the epoch to its batches."""
    if isinstance(batches, Tensor):
        return Shuffled(batches, batch, seed)
    if callable(batches):
        return batches
    if isinstance(batches, Iterator):
        raise BadInput("The batches must be there again in the next epoch: give a list or a loader, not an iterator.")
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, dict)):
        raise BadInput(f"Batches are a tensor of lists, a loader or a function of the epoch, not {shown(batches)}.")
    return lambda epoch: batches


def in_turn(lists: Batches, batch: int) -> Callable[[int], Iterable[Any]]:
    """Held-out lists: every one of them, always in the same order."""
    return (lambda epoch: lists.split(batch)) if isinstance(lists, Tensor) else by_epoch(lists, batch, 0)


def mixed(*numbers: int) -> int:
    """One seed from several numbers (seed, epoch, step): different ones give unrelated streams."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = (value ^ (number & (2**64 - 1))) * 0xBF58476D1CE4E5B9 % 2**64
        value ^= value >> 31
    return value % 2**63
