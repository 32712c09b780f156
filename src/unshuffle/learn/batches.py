"""What a trainer is fed: batches of items, with a mask where places are known or forbidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import BadInput, dense, function, shown, whole
from ..shapes import numbers

# items (b, n, d), alone or with a mask of allowed places (b, n, n)
Batch = Tensor | tuple[Tensor, Tensor | None]
# what `fit` takes: all items at once, anything that can be iterated again every epoch, or a function of the epoch
Batches = Tensor | Iterable[Any] | Callable[[int], Iterable[Any]]


def items_and_mask(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The two parts of a batch, checked. A loader of a `TensorDataset` of items alone gives lists of one tensor."""
    parts = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    items, allowed = parts if len(parts) == 2 else (parts[0] if len(parts) == 1 else batch, None)
    dense("A batch", items)
    if allowed is not None and not (isinstance(allowed, Tensor) and allowed.dtype == torch.bool):
        raise BadInput(
            f"The second part of a batch is a bool mask of allowed places, not {shown(allowed)}; true orders are not shown to fit."
        )
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
        for chosen in shuffle.split(int(self.batch))[: len(self)]:
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


def as_items(items: Any) -> Tensor:
    """Lists of items as a tensor (lists, items, features): of a tensor, of an array, or of a frame with one list of numbers in a row."""
    tensor = numbers("The items", items)
    if hasattr(items, "iloc") and tensor.ndim == 2:
        tensor = tensor.unsqueeze(-1)
    return tensor if isinstance(items, Tensor) else tensor.to(torch.get_default_dtype())


def by_epoch(batches: Batches, batch: int, seed: int) -> Callable[[int], Iterable[Any]]:
    """All that `fit` takes, as a function from the epoch to its batches."""
    if isinstance(batches, Tensor) or hasattr(batches, "__array__"):
        return Shuffled(as_items(batches), batch, seed)
    if callable(batches):
        return batches
    if isinstance(batches, Iterator):
        raise BadInput("The batches must be there again in the next epoch: give a list or a loader, not an iterator.")
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, dict)):
        raise BadInput(f"Batches are a tensor of lists, a loader or a function of the epoch, not {shown(batches)}.")
    return lambda epoch: batches


def in_turn(lists: Batches, batch: int) -> Callable[[int], Iterable[Any]]:
    """Held-out lists: every one of them, always in the same order."""
    if isinstance(lists, Tensor) or hasattr(lists, "__array__"):
        held = as_items(lists)
        return lambda epoch: held.split(batch)
    return by_epoch(lists, batch, 0)


def mixed(*numbers: int) -> int:
    """One seed from several numbers (seed, epoch, step): different ones give unrelated streams."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = (value ^ (number & (2**64 - 1))) * 0xBF58476D1CE4E5B9 % 2**64
        value ^= value >> 31
    return value % 2**63
