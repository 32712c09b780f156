"""From the cost of a seam to the belief in it.

The cost of a true seam differs from tile to tile by orders of magnitude, so what counts is how it compares with its
rivals: `structure.seams.affinity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...structure.seams import affinity
from .seams import Bonds, Listed, SeamScores, for_kernels

STEEP = 3.0  # how fast affinity fades with cost beyond the price of a seam
PARTNERS = 10  # likely neighbours kept per side; the affinities of the others are below a hundredth
PRICE = 1.0
"""Weight of cost, in units of the median pair's, beside affinity. Chosen on four hard photos of 24 x 18 pieces (tiles in
place with 0, 1, 4: 0.75, 0.80, 0.63) and checked on 14 other pictures of 12 x 9 (0.93, 1.00, 0.93)."""


Matrix = Any
"""An array, or `Listed` where there are too many tiles: both are indexed by two arrays of tiles."""


@dataclass(frozen=True)
class Affinities:
    """``right[i, k]``: belief that k stands directly right of i, in [0, 1]; ``below`` likewise."""

    right: Matrix
    below: Matrix
    bonds: Bonds
    shape: tuple[int, int]
    score: tuple[Matrix, Matrix]
    """What large moves climb: affinity less cost. Affinity alone says little where all tiles of a region are alike."""
    blanks: int = 0
    """The last so many tiles are blank: cells that stay empty. Their seams have no affinity and a score of zero."""

    @classmethod
    def of(
        cls, cost: tuple[Tensor, Tensor], shape: tuple[int, int], states: int = 1, price: float | None = None
    ) -> Affinities:
        """``price``: what a seam that is not made costs, from which the scores are counted where cells may stay empty."""
        right, below = (affinity(c.float(), states).numpy() for c in cost)
        # a grid of one row has no lower neighbours, and on a torus each cell would be its own
        right, below = right * (shape[1] > 1), below * (shape[0] > 1)
        dear = _priced(cost[0], price), _priced(cost[1], price)
        score = right - dear[0], below - dear[1]
        if price is not None:
            # sides whose partner is not there find one another, and often nobody else: such seams are dear
            right, below = (
                np.clip(a - STEEP * np.maximum(d, 0), 0, None) for a, d in zip((right, below), dear, strict=True)
            )
        return cls(right, below, Bonds.of(right, below, PARTNERS), shape, score)

    def with_blanks(self, blanks: int) -> Affinities:
        """The same tiles and so many blank ones after them."""
        wider = [np.pad(m, (0, blanks)) for m in (self.right, self.below, *self.score)]
        bonds = Bonds.of(wider[0], wider[1], PARTNERS)
        return Affinities(wider[0], wider[1], bonds, self.shape, (wider[2], wider[3]), blanks)

    @property
    def glue(self) -> SeamScores:
        """The affinities, for kernels."""
        return SeamScores(for_kernels(self.right), for_kernels(self.below), *self.shape)

    def mistaken(self, sigma: float, rng: np.random.Generator) -> SeamScores:
        """The affinities with random errors of so much in their logarithm."""

        def one(matrix: Matrix) -> Any:
            size = matrix.lists.value.shape if isinstance(matrix, Listed) else matrix.shape
            factor = np.exp(np.float32(sigma) * rng.standard_normal(size, np.float32))
            return for_kernels(matrix.times(factor) if isinstance(matrix, Listed) else matrix * factor)

        right, below = one(self.right), one(self.below)
        return SeamScores(right, below, *self.shape)

    @property
    def listed(self) -> bool:
        """Whether only the likely seams are known."""
        return isinstance(self.right, Listed)

    @property
    def worth(self) -> SeamScores:
        """The score, for kernels."""
        return SeamScores(for_kernels(self.score[0]), for_kernels(self.score[1]), *self.shape)

    def total(self, order: np.ndarray) -> float:
        """The score, summed over the seams of the open grid."""
        tiles, (right, below) = order.reshape(self.shape), self.score
        if (tiles < 0).any():
            beside, under = (tiles[:, :-1], tiles[:, 1:]), (tiles[:-1], tiles[1:])
            made = [np.where((a >= 0) & (b >= 0), m[a, b], 0).sum() for m, (a, b) in ((right, beside), (below, under))]
            return float(sum(made))
        return float(right[tiles[:, :-1], tiles[:, 1:]].sum() + below[tiles[:-1], tiles[1:]].sum())

    def weak_seams(self, order: np.ndarray, least: float, likely: float = 0.0) -> np.ndarray:
        """Of each cell the share of its seams that have less affinity than ``least``, though somebody is ``likely`` on that side of its tile."""
        tiles = order.reshape(self.shape)
        seams = np.full((4, *self.shape), np.nan)
        seams[0, :, :-1] = seams[1, :, 1:] = self.right[tiles[:, :-1], tiles[:, 1:]] < least
        seams[2, :-1] = seams[3, 1:] = self.below[tiles[:-1], tiles[1:]] < least
        seams *= self.bonds.strength[:, tiles, 0] >= likely
        weak = np.nanmean(seams, axis=0)
        return np.where(tiles < len(self.right) - self.blanks, weak, 0.0) if self.blanks else weak

    def strength(self) -> np.ndarray:
        """How sure each tile is of its four neighbours, in sum."""
        return sum(a.max(axis) for a in (self.right, self.below) for axis in (0, 1))  # pyright: ignore[reportReturnType]


def _priced(cost: Tensor, price: float | None = None) -> np.ndarray:
    """Cost, above ``price`` if there is one, in units of the median one, times its weight in the score; no tile is its own neighbour."""
    n = len(cost)
    if n < 2:
        return np.zeros((n, n), np.float32)
    shifted = (cost - cost.min().clamp_max(0.0)).double()
    typical = float(shifted[~torch.eye(n, dtype=torch.bool)].median())
    unit = typical if typical > 0 else max(float(shifted.max()), 1e-300)
    if price is not None:
        shifted -= price - min(float(cost.min()), 0.0)
    return (PRICE * shifted / unit).fill_diagonal_(0.0).float().numpy()
