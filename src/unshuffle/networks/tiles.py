"""The paper's jigsaw network: every tile by itself."""

from __future__ import annotations

import math

from torch import nn

from ..errors import BadInput
from ..shapes import Items
from .items import ItemScores, sizes, tile_of


class TileScorer(nn.Module):
    """The jigsaw network: per tile Conv2d(5x5, 64)-ReLU-MaxPool(2)-Linear(positions, no bias).

    Takes flattened tiles (*batch, n, channels * height * width) of any size; an odd last row or column is pooled alone.
    """

    def __init__(self, positions: int, tile: tuple[int, int, int], channels: int = 64) -> None:
        super().__init__()
        sizes(positions=positions, channels=channels)
        self.tile = colours, height, width = tile_of(tile)
        self.picture = nn.Sequential(
            nn.Conv2d(colours, channels, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten()
        )
        self.places = nn.Linear(channels * math.ceil(height / 2) * math.ceil(width / 2), positions, bias=False)

    def forward(self, items: Items) -> ItemScores:
        if items.shape[-1] != math.prod(self.tile):
            raise BadInput(f"tiles of {self.tile} have {math.prod(self.tile)} values, got items of {items.shape[-1]}.")
        return self.places(self.picture(items.reshape(-1, *self.tile))).unflatten(0, items.shape[:-1])
