"""Inverse temperature over time: a schedule is a function of the epoch, counted from 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import function, number, whole

Number = int | float
Schedule = Callable[[Number], Number]  # epoch -> inverse temperature
SHAPE = "start, end, t"


@dataclass(frozen=True)
class LinearInBeta:
    r"""$\beta(t) = \beta_0 + t(\beta_1 - \beta_0)$: what the paper writes."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return start + t * (end - start)


@dataclass(frozen=True)
class LinearInTau:
    r"""$1/\beta(t) = 1/\beta_0 + t(1/\beta_1 - 1/\beta_0)$: what the authors' code does; slower at first than `LinearInBeta`."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return 1.0 / (1.0 / start + t * (1.0 / end - 1.0 / start))


@dataclass(frozen=True)
class Exponential:
    r"""$\beta(t) = \beta_0 (\beta_1/\beta_0)^t$: the same curve in beta and in tau."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return start * (end / start) ** t


@dataclass(frozen=True)
class Constant:
    """The same inverse temperature at every epoch."""

    beta: Number

    def __post_init__(self) -> None:
        number("A constant inverse temperature (beta = 1/tau)", self.beta, above=0)

    def __call__(self, epoch: Number = 0) -> Number:
        return self.beta


@dataclass(frozen=True)
class Anneal:
    """From `start` to `end` (inverse temperatures) in `epochs` epochs, counted from 0; constant afterwards.

    The first epoch has `start` and the last of the `epochs` has `end`: t = epoch / (epochs - 1), as the authors step it.
    """

    start: Number
    end: Number
    epochs: int
    shape: Callable[[Number, Number, Number], Number] = LinearInBeta()

    def __post_init__(self) -> None:
        number("The first inverse temperature (beta = 1/tau)", self.start, above=0)
        number("The last inverse temperature (beta = 1/tau)", self.end, above=0)
        whole("The number of epochs to anneal in", self.epochs, 1)
        function("The shape", self.shape, "us.LinearInBeta()", SHAPE)

    def __call__(self, epoch: Number = 0) -> Number:
        return self.shape(self.start, self.end, share_of(epoch, self.epochs))


def share_of(epoch: Number, epochs: int) -> float:
    """How much of the way is done: 0 in the first epoch, 1 in the last and afterwards."""
    number("epoch", epoch)
    return min(max(epoch / max(epochs - 1, 1), 0.0), 1.0)


UNIT = Constant(1.0)
