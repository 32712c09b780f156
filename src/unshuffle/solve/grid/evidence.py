"""What is known of a puzzle: the costs of its seams, and what follows from them, computed once whoever asks."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...structure.layouts import Grid
from .affinity import Affinities
from .frame import Frame

Pair = tuple[Tensor, Tensor]


class Evidence(tuple[Tensor, Tensor]):
    """The costs themselves, (right, below): ``right[i, k]`` for k directly right of i, ``below[i, k]`` for k directly below it."""

    shape: tuple[int, int]
    border: Pair | None
    price: float | None = None
    blanks: int = 0

    @classmethod
    def of(cls, cost: Pair, grid: Grid, border: Pair | None = None, price: float | None = None) -> Evidence:
        """``border``: what to add to the affinity of a seam to judge whether it is inside the picture or its border.

        With a ``price``, that of a seam that is not made, blank tiles fill the cells for which there is none.
        """
        blanks = 0 if price is None else grid.n - len(cost[0])
        known = cls(
            cost if price is None or not blanks else (_wider(cost[0], blanks, price), _wider(cost[1], blanks, price))
        )
        known.shape, known.price, known.blanks = (grid.height, grid.width), price, blanks
        known.border = border
        return known

    @cached_property
    def belief(self) -> Affinities:
        if not self.blanks:
            return Affinities.of(self, self.shape, price=self.price)
        tiles = slice(None, -self.blanks)
        cost = self[0][tiles, tiles], self[1][tiles, tiles]
        return Affinities.of(cost, self.shape, price=self.price).with_blanks(self.blanks)

    @cached_property
    def frame(self) -> Frame:
        if not self.blanks:
            return Frame.of(self.belief, self, self.border)
        border = self.border
        if border is not None:
            border = _wider(border[0], self.blanks, 0.0), _wider(border[1], self.blanks, 0.0)
        return Frame.of(self.belief, self, border).without(self.blanks)

    def energy(self, order: np.ndarray) -> float:
        """Of a layout: the cost of all its seams."""
        return float(Grid(*self.shape).energy(torch.from_numpy(order), self))

    @property
    def alike(self) -> bool:
        """One dissimilarity for both directions: left and right are alike, and no tile has one true neighbour."""
        return self[0] is self[1]


def _wider(matrix: Tensor, blanks: int, value: float) -> Tensor:
    return torch.nn.functional.pad(matrix, (0, blanks, 0, blanks), value=value)
