"""Tiles that ask their likely neighbours where they are: the jigsaw network of the strong recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import BadInput
from ..shapes import Items
from ..structure.seams import seam_affinities
from .items import ItemScores, sizes, tile_of

Hidden = Float[Tensor, "*batch n hidden"]
Pairs = Float[Tensor, "*batch n n"]


class AskNeighbours(nn.Module):
    r"""$h \leftarrow h + \mathrm{MLP}([z \| A_\rightarrow z \| A_\leftarrow z \| A_\downarrow z \| A_\uparrow z])$ with z = norm(h).

    Each tile hears, apart, what its likely right, left, lower and upper neighbours know.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(5 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, h: Hidden, ways: Sequence[Pairs]) -> Hidden:
        z = self.norm(h)
        return h + self.mix(torch.cat([z, *(A @ z for A in ways)], -1))


class SeamScorer(nn.Module):
    """Scores of tiles against the places of a grid, from small thumbnails and from who fits beside whom.

    Takes flattened tiles (*batch, n, channels * height * width). What a tile looks like says roughly where it belongs; the
    messages make the tiles agree. `layers` should let news cross the grid: about its side or more.
    """

    def __init__(
        self, positions: int, tile: tuple[int, int, int], width: int = 64, layers: int = 6, thumbnail: int = 6
    ) -> None:
        super().__init__()
        sizes(positions=positions, width=width, layers=layers, thumbnail=thumbnail)
        self.tile = tile = tile_of(tile)
        self.thumbnail = nn.Sequential(nn.AdaptiveAvgPool2d(thumbnail), nn.Flatten())
        self.enter = nn.Linear(tile[0] * thumbnail**2 + 4, width)
        self.layers = nn.ModuleList(AskNeighbours(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.places = nn.Linear(width, positions)
        # Zero: the first gradient is then that of the uniform P, which tells border places from inner ones. A random
        # start settles on a picture shifted by a column or row and stays there (tiles in place: 1 % against 99 %).
        nn.init.zeros_(self.places.weight)
        nn.init.zeros_(self.places.bias)

    def forward(self, items: Items) -> ItemScores:
        if items.shape[-1] != math.prod(self.tile):
            raise BadInput(f"tiles of {self.tile} have {math.prod(self.tile)} values, got items of {items.shape[-1]}.")
        right, below = seam_affinities(items, self.tile)
        ways = (right, right.mT, below, below.mT)
        small = self.thumbnail(items.reshape(-1, *self.tile)).unflatten(0, items.shape[:-1])
        sure = torch.cat([A.sum(-1, keepdim=True) for A in ways], -1)  # a side that nobody fits is likely the border
        h = self.enter(torch.cat((small - 0.5, sure), -1))
        for layer in self.layers:
            h = layer(h, ways)
        return self.places(self.norm(h))
