"""Straight-through: the hard permutation forwards, the gradient of the soft one backwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import function
from ..temperature.report import FieldReport
from .protocol import MaskOrNone, Number, Orders, Relaxation, Share, SoftPermutations, hardened


@dataclass(frozen=True)
class StraightThrough:
    """Any relaxation, made hard: the loss sees a true permutation of the items, the network the gradient of `soft`."""

    soft: Relaxation

    def __post_init__(self) -> None:
        function("soft", self.soft, "us.GumbelSinkhorn()")

    def __call__(
        self,
        scores: Tensor,
        *,
        epoch: Number = 0,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        allowed: MaskOrNone = None,
        share: Share = None,
    ) -> SoftPermutations:
        P = self.soft(scores, epoch=epoch, samples=samples, generator=generator, allowed=allowed, share=share)
        return hardened(P, allowed) + (P - P.detach())  # the bracket is exactly 0

    def decode(self, scores: Tensor, *, allowed: MaskOrNone = None) -> Orders:
        return self.soft.decode(scores, allowed=allowed)

    def report(self, scores: Tensor, *, epoch: Number = 0, allowed: MaskOrNone = None) -> FieldReport | None:
        """The temperatures and entropies of `soft`, if it can tell."""
        tell = getattr(self.soft, "report", None)
        return None if tell is None else tell(scores, epoch=epoch, allowed=allowed)
