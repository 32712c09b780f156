"""What a network has seen: numbers that sum up a list of items, and between which they lay when its confidence was calibrated.

A network orders whatever it is given, and says how sure it is by what it has learned; about data of another kind (other units, pictures
of another resolution) that says nothing. Such lists are recognised by their mean, spread, extremes and steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput

NAMES = ("mean", "spread", "smallest", "largest", "step")
SLACK = 0.25
"""Of the range that was seen: so far beyond it a list is still of the same kind."""
LITTLE = 0.1  # of the spread of a list (of the step itself): the same, where few lists were seen or all were alike


def summed_up(items: Float[Tensor, "lists n features"]) -> Float[Tensor, "lists 5"]:
    """Mean, spread, smallest and largest of a list's numbers, and how much those side by side differ, in units of the spread."""
    flat = items.detach().double().flatten(1)
    spread = flat.std(1, correction=0)
    features = items.detach().double().flatten(2)
    steps = features.diff(dim=-1).abs().mean((1, 2)) if features.shape[-1] > 1 else torch.zeros_like(spread)
    step = steps / spread.clamp_min(1e-300)
    return torch.stack((flat.mean(1), spread, flat.amin(1), flat.amax(1), step), dim=1)


@dataclass(frozen=True)
class Seen:
    """The least and the most of each number over the lists that were seen."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, items: Float[Tensor, "lists n features"]) -> Seen:
        if not len(items):
            raise BadInput("There is no list: what a network has seen is summed up over several.")
        numbers = summed_up(items)
        return cls(tuple(numbers.amin(0).tolist()), tuple(numbers.amax(0).tolist()))

    def outside(self, items: Float[Tensor, "lists n features"]) -> list[str]:
        """Per list in words what of it lies outside of all that was seen; empty if nothing does."""
        low, high = torch.tensor(self.low).double(), torch.tensor(self.high).double()
        unit = high[1].expand(len(high)).clone()  # the spread of a list
        unit[4] = high[4]
        slack = torch.maximum(SLACK * (high - low), LITTLE * unit) + 1e-9
        told = []
        for numbers in summed_up(items):
            off = ((numbers < low - slack) | (numbers > high + slack)).nonzero().flatten().tolist()
            told.append(
                ", ".join(f"{NAMES[k]} {numbers[k]:.3g} (seen {self.low[k]:.3g} to {self.high[k]:.3g})" for k in off)
            )
        return told


def strange(outside: Sequence[str]) -> str:
    """A sentence, if there are lists of another kind than the confidence was calibrated on; empty if there are none."""
    off = [words for words in outside if words]
    if not off:
        return ""
    return f"{len(off)} of {len(outside)} lists are unlike all that calibration saw, so the confidence need not mean anything: {off[0]}."
