"""Straight-through: the hard permutation forwards, the gradient of the soft one backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import function
from ..operators.partial import NOBODY, LeftOut
from ..operators.precision import in_full_precision
from ..temperature.report import FieldReport
from .gumbel_sinkhorn import GumbelSinkhorn
from .layer import Layer
from .protocol import MaskOrNone, Number, Orders, Relaxation, Share, SoftPermutations, hardened


@dataclass(eq=False)
class StraightThrough(Layer):
    """Any relaxation, made hard: the loss sees a true permutation of the items, the network the gradient of `soft`."""

    soft: Relaxation

    def __post_init__(self) -> None:
        function("soft", self.soft, "us.GumbelSinkhorn()", "scores")

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
        asked = {**self._when(epoch), "samples": samples, "generator": generator, "share": share}
        return in_full_precision(self._hard)(scores, allowed, asked)

    def _hard(self, scores: Tensor, allowed: MaskOrNone, asked: dict[str, Any]) -> SoftPermutations:
        if isinstance(self.soft, GumbelSinkhorn):
            P, hard = self.soft.hard(scores, allowed, self.soft.draw(**{"epoch": None, **asked}))
        else:
            P = self.soft(scores, allowed=allowed, **asked)
            hard = hardened(P, allowed)
        return hard + (P - P.detach())  # the bracket is exactly 0

    def _when(self, epoch: Number | None) -> dict[str, Number]:
        """The epoch, unless `soft` was told it as well."""
        if epoch is None and isinstance(self.soft, Layer):
            return {}
        return {"epoch": self.epoch if epoch is None else epoch}

    def tell(self, epoch: Number) -> None:
        super().tell(epoch)
        if isinstance(self.soft, Layer):
            self.soft.tell(epoch)

    def decode(self, scores: Tensor, *, allowed: MaskOrNone = None) -> Orders:
        return self.soft.decode(scores, allowed=allowed)

    @property
    def left_out(self) -> LeftOut:
        return getattr(self.soft, "left_out", NOBODY)

    def report(self, scores: Tensor, *, epoch: Number | None = None, allowed: MaskOrNone = None) -> FieldReport | None:
        """The temperatures and entropies of `soft`, if it can tell."""
        tell = getattr(self.soft, "report", None)
        return None if tell is None else tell(scores, **self._when(epoch), allowed=allowed)
