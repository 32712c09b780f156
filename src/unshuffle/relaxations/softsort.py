r"""SoftSort (Prillo and Eisenschlos, 2020): a relaxed argsort of one key per item."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import number
from .gumbel_sinkhorn import softmax_over_items
from .layer import Draw, Scheduled
from .neuralsort import Keys, checked_keys, decode_keys
from .protocol import MaskOrNone, Number, Orders, SoftPermutations, with_samples


@dataclass(eq=False)
class SoftSort(Scheduled):
    r"""$P_{jk} = \mathrm{softmax}_j(-\beta |s_{(k)} - s_j|^p)$ with $s_{(k)}$ the k-th smallest key.

    Keys are (..., n): (3, 5, 8) are 15 lists of 8 keys, not scores of 5 items at 8 positions; everybody has a place.
    Column k is a distribution over items; the paper writes the transpose and the descending order.
    """

    power: Number = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("SoftSort's power", self.power, least=1)  # below, ties have no gradient

    def relaxed(self, scores: Keys, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        scores = checked_keys(scores)
        distance = (scores.unsqueeze(-1) - scores.sort(-1).values.unsqueeze(-2)).abs()
        logits = -draw.beta * distance.pow(self.power)
        return with_samples(softmax_over_items(logits, allowed), draw.samples)

    def decode(self, scores: Keys, *, allowed: MaskOrNone = None) -> Orders:
        return decode_keys(scores, allowed)
