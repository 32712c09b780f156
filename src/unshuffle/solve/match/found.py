"""What a search for a correspondence is asked for, and what it hands to the front door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...watch import Watch


@dataclass(frozen=True)
class Found:
    support: Float[Tensor, "m n"]
    """Of each pair, given the others: the larger, the better; with a price, 1 if the whole structure agrees and 0 if it agrees as
    much as chance would have it."""
    soft: Float[Tensor, "m n"]
    reject: float | None
    """Price of an item left out and of a place left empty, in units of ``support``; None: only the surplus is left out."""
    convincing: bool
    """Whether more than half of the structure agrees."""
    compared: tuple[Float[Tensor, "m m"], Float[Tensor, "n n"]]
    """The structure of A and of B that was compared: distances, or shares of neighbours in units of their spread."""


class Asked(NamedTuple):
    """What one call of ``match`` asks for besides the two sets."""

    prior: Tensor | None
    pull: Tensor | None  # towards the known pairs
    reject: float | None
    generator: torch.Generator
    watch: Watch
