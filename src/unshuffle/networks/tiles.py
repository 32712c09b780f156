"""The paper's jigsaw network: every tile by itself."""

from __future__ import annotations

import math
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import BadInput
from ..operators.pooled import at_once, pooled
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
        tiles, convolution = items.reshape(-1, *self.tile), cast(nn.Conv2d, self.picture[0])
        if at_once(tiles, convolution):
            scores = self._placed(pooled(tiles, convolution))
        else:
            scores = self.places(self.picture(tiles))
        return scores.unflatten(0, items.shape[:-1])

    def _placed(self, maps: Float[Tensor, "tiles high wide maps"]) -> Float[Tensor, "tiles positions"]:
        """`places` of maps that stand last: so do their weights then."""
        weight = self.places.weight.unflatten(1, (maps.shape[-1], *maps.shape[1:3])).permute(0, 2, 3, 1)
        return maps.flatten(1) @ weight.flatten(1).T
