"""What is known of a puzzle: the costs of its seams, and what follows from them, computed once whoever asks."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from ...structure.layouts import Grid
from .affinity import Affinities
from .frame import Frame

Pair = tuple[Tensor, Tensor]


class Evidence(tuple[Tensor, Tensor]):
    """The costs themselves, (right, below): ``right[i, k]`` for k directly right of i, ``below[i, k]`` for k directly below it."""

    shape: tuple[int, int]
    border: Pair | None

    @classmethod
    def of(cls, cost: Pair, grid: Grid, border: Pair | None = None) -> Evidence:
        """``border``: what to add to the affinity of a seam to judge whether it is inside the picture or its border."""
        known = cls(cost)
        known.shape, known.border = (grid.height, grid.width), border
        return known

    @cached_property
    def belief(self) -> Affinities:
        return Affinities.of(self, self.shape)

    @cached_property
    def frame(self) -> Frame:
        return Frame.of(self.belief, self, self.border)

    @property
    def alike(self) -> bool:
        """One dissimilarity for both directions: left and right are alike, and no tile has one true neighbour."""
        return self[0] is self[1]
