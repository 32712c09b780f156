"""How the weights move: Adam, clipped, with a learning rate over time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ..errors import function, number


@dataclass(frozen=True)
class Steady:
    """The same rate throughout, as the paper trains."""

    def __call__(self, t: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """Up within the first `warm` of the training, then down to `floor` along half a cosine."""

    warm: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        number("warm (a share of the training)", self.warm, least=0, below=1)
        number("floor (a share of the rate)", self.floor, least=0)

    def __call__(self, t: float) -> float:
        if t < self.warm:
            return t / self.warm
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * (t - self.warm) / (1 - self.warm))) / 2


@dataclass(frozen=True)
class Stairs:
    """Times `factor` after every `every` of the training (UTSP: 0.8 after every 20 of 300 epochs)."""

    every: float
    factor: float

    def __post_init__(self) -> None:
        number("every (a share of the training)", self.every, above=0)
        number("factor", self.factor, above=0)

    def __call__(self, t: float) -> float:
        return self.factor ** math.floor(t / self.every + 1e-9)


@dataclass(frozen=True)
class Descent:
    """Adam at `rate` times `over_time(t)`, t from 0 to 1; the gradient's norm at most `clip` (None: as it comes)."""

    rate: float = 1e-3
    clip: float | None = 1.0
    over_time: Callable[[float], float] = Steady()
    decay: float = 0.0

    def __post_init__(self) -> None:
        number("The learning rate", self.rate, above=0)
        if self.clip is not None:
            number("The norm to clip gradients at (or None)", self.clip, above=0)
        function("over_time", self.over_time, "us.Cosine()")
        number("The weight decay", self.decay, least=0)

    def optimiser(self, module: nn.Module) -> torch.optim.Optimizer:
        make = torch.optim.AdamW if self.decay else torch.optim.Adam  # decay is AdamW's, apart from the gradient
        return make(module.parameters(), lr=self.rate, weight_decay=self.decay)

    def step(self, optimiser: torch.optim.Optimizer, module: nn.Module, t: float, scale: float) -> float:
        """One step at time t with the rate times `scale`; returns the gradient's norm before clipping. No step if that is not finite."""
        limit = math.inf if self.clip is None else self.clip
        norm = nn.utils.clip_grad_norm_(module.parameters(), limit).item()
        if math.isfinite(norm):
            for group in optimiser.param_groups:
                group["lr"] = self.rate * self.over_time(t) * scale
            optimiser.step()
        return norm
