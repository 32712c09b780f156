"""What the relaxations are built on: a torch module whose settings stay what they are, and the one door with all keywords."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import BadInput, function, number, shown
from ..operators.gumbel import above_zero
from ..operators.precision import in_full_precision
from ..temperature.entropy import TARGETS
from ..temperature.schedules import UNIT, Schedule
from .protocol import MaskOrNone, Number, Share, SoftPermutations


class Draw(NamedTuple):
    """What one call asks for besides scores and mask."""

    beta: Number | Tensor  # of its epoch
    adapts: bool  # whether the temperature is local by then
    samples: int | None
    generator: torch.Generator | None
    share: Share


class Layer(nn.Module):
    """A module made of settings: equal if they are, shown by them, and they cannot be set again.

    What torch changes about a module (training or evaluation, hooks, the device) is not among them.
    """

    epoch: Number = 0  # what it was told last
    adapt_from: int = 0
    _beta: Tensor | None = None
    _adapts: bool = False
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *_: object, **__: object):
        module = super().__new__(cls)
        nn.Module.__init__(module)  # a dataclass's __init__ calls no other
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:
            super().__setattr__(name, value)
            return
        if isinstance(value, nn.Parameter) and not hasattr(
            type(self), name
        ):  # a price that is learned: torch may exchange it
            super().__setattr__(name, value)
            return
        if name in self.__dict__ or name in self._parameters:
            raise FrozenInstanceError(f"cannot assign to field {name!r}: dataclasses.replace makes another relaxation")
        # torch would keep a module elsewhere, where the default on the class hides it
        self.__dict__[name] = value
        if isinstance(value, nn.Module):
            self._modules[name] = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            _same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    # not by the settings: torch walks modules through sets, and two equal ones in a model are two
    __hash__ = nn.Module.__hash__

    def tell(self, epoch: Number) -> None:
        """From now on, calls without `epoch` are of this one."""
        self.epoch = epoch


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are equal; of tensors, whether all of their entries are."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(_same, one, other))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return not isinstance(one, Tensor) and not isinstance(other, Tensor) and bool(one == other)


@dataclass(eq=False)
class Scheduled(Layer):
    """A relaxation with an inverse temperature by epoch, which says in `relaxed` what it does with it."""

    schedule: Schedule = UNIT

    example: ClassVar[str] = "us.Constant(0.5)"
    takes_entropy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        function("The schedule (beta by epoch)", self.schedule, self.example, "epoch")
        if isinstance(self.schedule, TARGETS) and not self.takes_entropy:
            raise BadInput(
                f"{type(self).__name__} has no entropy to aim at: give it a schedule of beta, {self.example}."
            )

    def forward(
        self,
        scores: Tensor,
        *,
        epoch: Number | None = None,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        allowed: MaskOrNone = None,
        share: Share = None,
    ) -> SoftPermutations:
        return in_full_precision(self.relaxed)(scores, allowed, self.draw(epoch, samples, generator, share))

    def draw(
        self, epoch: Number | None, samples: int | None, generator: torch.Generator | None, share: Share
    ) -> Draw:  # fmt: skip
        """What a call asks for, with the temperature of its epoch, or of the one it was told."""
        if epoch is None and self._beta is not None:
            return Draw(self._beta, self._adapts, samples, generator, share)
        now = 0 if epoch is None else epoch
        number("epoch", now)
        beta = self.schedule(now)
        if not isinstance(beta, Tensor):
            number("beta (the inverse temperature)", beta, above=0)
        elif not isinstance(self.schedule, TARGETS):
            above_zero(beta)
        return Draw(beta, now >= self.adapt_from, samples, generator, share)

    def relaxed(self, scores: Tensor, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        raise NotImplementedError

    def tell(self, epoch: Number) -> None:
        beta = number("beta (the inverse temperature)", self.schedule(epoch), above=0)
        super().tell(epoch)
        self._adapts = epoch >= self.adapt_from
        # a tensor that changes in place: a compiled model reads it, where a number would be compiled in, epoch by epoch
        with torch.inference_mode(False):
            if self._beta is None:
                self._beta = torch.zeros((), dtype=torch.float64)
            self._beta.fill_(beta)


def set_epoch(model: nn.Module, epoch: Number) -> None:
    """Tell every relaxation inside a model which epoch it is, for its schedule; the model may be compiled or distributed.

    `fit` does so for the relaxations inside its network.
    """
    if not isinstance(model, nn.Module):
        raise BadInput(f"set_epoch takes a torch module with relaxations in it, not {shown(model)}.")
    number("epoch", epoch)
    for module in model.modules():
        if isinstance(module, Layer):
            module.tell(epoch)
