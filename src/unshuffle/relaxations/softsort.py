r"""SoftSort (Prillo and Eisenschlos, 2020): a relaxed argsort of one key per item."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import function, number
from ..temperature.schedules import UNIT, Schedule
from .gumbel_sinkhorn import softmax_over_items
from .neuralsort import Keys, checked_keys, decode_keys
from .protocol import MaskOrNone, Number, Orders, Share, SoftPermutations, with_samples


@dataclass(frozen=True)
class SoftSort:
    r"""$P_{jk} = \mathrm{softmax}_j(-\beta |s_{(k)} - s_j|^p)$ with $s_{(k)}$ the k-th smallest key.

    Column k is a distribution over items; the paper writes the transpose and the descending order.
    """

    schedule: Schedule = UNIT
    power: Number = 1.0

    def __post_init__(self) -> None:
        function("The schedule (beta by epoch)", self.schedule, "us.Constant(0.5)")
        number("SoftSort's power", self.power, least=1)  # below, ties have no gradient

    def __call__(
        self,
        scores: Keys,
        *,
        epoch: Number = 0,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        allowed: MaskOrNone = None,
        share: Share = None,
    ) -> SoftPermutations:
        scores = checked_keys(scores)
        distance = (scores.unsqueeze(-1) - scores.sort(-1).values.unsqueeze(-2)).abs()
        logits = -self.schedule(epoch) * distance.pow(self.power)
        return with_samples(softmax_over_items(logits, allowed), samples)

    def decode(self, scores: Keys, *, allowed: MaskOrNone = None) -> Orders:
        return decode_keys(scores, allowed)
