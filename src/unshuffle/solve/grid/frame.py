"""From a torus to a picture: the line of seams that is the picture's border is found, and the torus cut open there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from .affinity import Affinities

PLAIN = (0.4, 0.2)
"""If even the weakest line of seams has a mean affinity above the first, the second times its log cost breaks the tie."""
CUT_SCALE = 0.025
"""Temperature of the choice of the cut, from the likelihood of the true cut on 300 portraits that no benchmark uses."""
NOISY_CUT = 0.04
"""The same for sets, which are asked for where tiles are noisy: of 60 portraits with four strengths of noise the true cut is as likely as it
says with 0.025 to 0.05, and what was put together wrongly has no true cut at all."""

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Frame:
    """How much each seam (right, below) looks like one inside the picture; the border is where that is least."""

    shape: tuple[int, int]
    inside: tuple[Any, Any]
    """Arrays, or what is indexed like them."""
    price: Pair | None = None
    """What breaks ties. Opposite borders of a picture often match (a plain backdrop on both sides), and then better than true
    seams do. What is left is that borders tend to be plain, that is, cheap."""
    blanks: int = 0

    @classmethod
    def of(cls, belief: Affinities, cost: tuple[Tensor, Tensor], border: tuple[Tensor, Tensor] | None = None) -> Frame:
        """By affinity and, if that cannot tell, cost; or by what whoever knows the tiles adds to each affinity (``border``)."""
        if border is None:
            return cls(belief.shape, (belief.right, belief.below), (cost[0].numpy(), cost[1].numpy()))
        return cls(belief.shape, (belief.right + border[0].numpy(), belief.below + border[1].numpy()))

    def without(self, blanks: int) -> Frame:
        """Seams of the last so many tiles, which are blank, say nothing."""

        def silent(pair: Pair) -> Pair:
            known = np.arange(len(pair[0])) < len(pair[0]) - blanks
            both = known & known[:, None]
            return np.where(both, pair[0], np.nan), np.where(both, pair[1], np.nan)

        return replace(
            self, inside=silent(self.inside), price=None if self.price is None else silent(self.price), blanks=blanks
        )

    def scores(self, order: np.ndarray) -> Pair:
        """Of each line of seams of the torus, after each row and after each column: how surely it is *not* the border."""
        matching = self._lines(order, self.inside)
        if self.price is None:
            return matching
        price = self._lines(order, self.price)
        return _untied(matching[0], price[0]), _untied(matching[1], price[1])

    def _lines(self, order: np.ndarray, seam: tuple[Any, Any]) -> Pair:
        tiles = order.reshape(self.shape)
        if self.blanks:
            return _told(seam[1][tiles, np.roll(tiles, -1, 0)]), _told(seam[0][tiles, np.roll(tiles, -1, 1)].T)
        after_rows = seam[1][tiles, np.roll(tiles, -1, 0)].mean(1)
        after_columns = seam[0][tiles, np.roll(tiles, -1, 1)].mean(0)
        return after_rows, after_columns

    def opened(self, order: np.ndarray) -> np.ndarray:
        """The torus cut open after the row and after the column of the lowest score."""
        down, across = (int(s.argmin()) + 1 for s in self.scores(order))
        return np.roll(order.reshape(self.shape), (-down, -across), (0, 1)).reshape(-1)

    def chances(self, order: np.ndarray, scale: float = CUT_SCALE) -> Pair:
        """Of each line of seams, after each row and after each column: the probability that it is the border."""
        odds = [np.exp((score.min() - score) / scale) for score in self.scores(order)]
        return odds[0] / odds[0].sum(), odds[1] / odds[1].sum()

    def certainty(self, order: np.ndarray) -> float:
        """Probability of the best cut; a picture-wide factor of every tile's confidence."""
        rows, columns = self.chances(order)
        return float(rows.max()) * float(columns.max())


def _told(seams: np.ndarray) -> np.ndarray:
    """The mean of each line over the seams between tiles; a line of blank ones is outside."""
    known = ~np.isnan(seams)
    mean = np.where(known, seams, 0).sum(1) / known.sum(1).clip(1)
    return np.where(known.any(1), mean, mean.min() - 1)


def _untied(match: np.ndarray, paid: np.ndarray) -> np.ndarray:
    gate, weight = PLAIN
    tie = bool(match.min() > gate) and bool(paid.min() > 0)
    return match + weight * np.log(paid / np.median(paid)) if tie else match
