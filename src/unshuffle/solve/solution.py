"""What a solver gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from ..watch import Step


@dataclass(frozen=True)
class Runs:
    """What the solver of one layout hands to the front door: one entry per run of the batch."""

    orders: Int[Tensor, "runs n"]
    energies: Float[Tensor, "runs"]
    soft: Float[Tensor, "n n"]
    """The soft permutation of the run with the lowest energy."""
    confidence: Float[Tensor, "n"]
    agreement: float
    """Share of the runs (the best one included) that found the winner's order, up to the layout's symmetry."""
    tried: Int[Tensor, "tries n"] | None = None
    """Every order that a round of annealing ended in, where there are several rounds: all are starts for local search."""

    @property
    def starts(self) -> Int[Tensor, "starts n"]:
        return self.orders if self.tried is None else self.tried


@dataclass(frozen=True)
class Solution:
    """The order that was found, how good it is and how sure."""

    order: Int[Tensor, "n"]
    """Item at each position."""
    soft: Float[Tensor, "n n"]
    """Soft permutation (items x positions) of the winning run, before decoding."""
    energy: float
    confidence: Float[Tensor, "n"]
    """One number in [0, 1] per *item*: how sure its place is, given the places of the others."""
    energies: Float[Tensor, "runs"]
    agreement: float
    seconds: float
    status: Literal["finished", "time limit", "interrupted"]
    history: list[Step] = field(repr=False)
    polished_order: Int[Tensor, "n"] | None = None
    """Order after local search, apart from the learned one; None unless it was asked for."""
    polished_energy: float | None = None
