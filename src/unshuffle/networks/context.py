"""Items that see each other."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import BadInput
from ..shapes import Items
from .items import ItemScores, sizes, standardised


class ContextScorer(nn.Module):
    """Items that see each other: attention over the items (no positions among them), scored against places.

    A place is a smooth function of (j + 1/2)/n, so one network serves every n. `encoder` may turn each item into
    `features` numbers first (a CNN for tiles).
    """

    FREQUENCIES = (
        32  # waves per place: the fastest has 16 periods, enough for the rows of a 16 x 16 grid in raster order
    )

    def __init__(
        self, features: int = 1, width: int = 64, heads: int = 4, layers: int = 2, encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        sizes(features=features, width=width, heads=heads, layers=layers)
        if width % heads:
            raise BadInput(f"The width must be a multiple of the heads, but {width} is none of {heads}.")
        self.enter = nn.Sequential(*([] if encoder is None else [encoder]), nn.Linear(features, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.place = nn.Sequential(nn.Linear(self.FREQUENCIES, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, items: Items) -> ItemScores:
        n = items.shape[-2]
        h = self.enter(standardised(items)).reshape(-1, n, self.norm.normalized_shape[0])
        for layer in self.layers:
            h = layer(h)
        places = self.place(self._waves(n, h))
        scores = self.norm(h) @ places.mT / math.sqrt(h.shape[-1])
        return scores.reshape(*items.shape[:-1], n)

    def _waves(self, n: int, like: Tensor) -> Float[Tensor, "n waves"]:
        middle = (torch.arange(n, device=like.device, dtype=like.dtype) + 0.5) / n
        frequency = torch.arange(1, self.FREQUENCIES + 1, device=like.device, dtype=like.dtype)
        return torch.cos(torch.pi * middle.unsqueeze(-1) * frequency)
