"""Lists that are made up at will: to learn from, to choose by, to measure on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..learn.batches import Batches, Fresh, Shuffled, mixed

Draw = Callable[[int, torch.Generator], Tensor]  # so many lists

TRAINING, HELD_OUT, TEST = 1, 2, 3


def drawn(draw: Draw, count: int, seed: int, purpose: int) -> Tensor:
    """Training, held-out and test lists are different draws; equal for all methods with one seed."""
    return draw(count, torch.Generator().manual_seed(mixed(seed, purpose)))


@dataclass(frozen=True)
class DrawnOnce:
    """So many training lists, the same ones every epoch."""

    lists: int

    def __call__(self, draw: Draw, batch: int, seed: int) -> Batches:
        return Shuffled(drawn(draw, self.lists, seed, TRAINING), min(batch, self.lists), seed)


@dataclass(frozen=True)
class DrawnAnew:
    """New training lists at every one of the epoch's steps."""

    steps: int

    def __call__(self, draw: Draw, batch: int, seed: int) -> Batches:
        return Fresh(lambda generator: draw(batch, generator), self.steps, mixed(seed, TRAINING))
