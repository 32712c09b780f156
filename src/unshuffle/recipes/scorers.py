"""Networks before they have weights: what a recipe says of its network, as values. Called with the sizes they give a module."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..networks import ItemScorer, KeyScorer, SeamScorer, TileScorer, TourScorer, UnrolledAnnealer

Tile = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True)
class ByItem:
    """Each number by itself against all positions; lists brought to mean 0 and deviation 1 first, if asked for."""

    standardise: bool = False

    def __call__(self, n: int) -> nn.Module:
        return ItemScorer(n, standardise=self.standardise)


@dataclass(frozen=True)
class ByKey:
    """One key per number, to sort by."""

    standardise: bool = False

    def __call__(self, n: int) -> nn.Module:
        return KeyScorer(standardise=self.standardise)


@dataclass(frozen=True)
class ByTile:
    """Each tile by itself against all places: the paper's."""

    def __call__(self, n: int, tile: Tile) -> nn.Module:
        return TileScorer(n, tile)


@dataclass(frozen=True)
class BySeams:
    """Tiles that ask their likely neighbours."""

    width: int = 64
    layers: int = 6
    thumbnail: int = 6

    def __call__(self, n: int, tile: Tile) -> nn.Module:
        return SeamScorer(n, tile, self.width, self.layers, self.thumbnail)


@dataclass(frozen=True)
class ByScattering:
    """UTSP's network, for tours of one n."""

    hidden: int = 64
    rescale: float = 2.0

    def __call__(self, n: int) -> nn.Module:
        return TourScorer(n, self.hidden, rescale=self.rescale)


@dataclass(frozen=True)
class ByAnnealing:
    """An annealer of so many steps on the first, the middle and the last level, for tours of any n."""

    steps: tuple[int, int, int] = (10, 10, 30)

    def __call__(self, n: int) -> nn.Module:
        return UnrolledAnnealer(self.steps)
