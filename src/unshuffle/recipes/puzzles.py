"""Many pictures as shuffled puzzles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from torch import Tensor

from ..errors import BadInput
from ..operators.permutation import inverse
from ..readers.pictures import shown

Pictures = UInt8[Tensor, "pictures height width channels"]


def scaled(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """RGB of this size."""
    colours = shown(picture)[..., :3]
    if colours.shape[:2] == (height, width):
        return colours
    return np.asarray(Image.fromarray(colours).resize((width, height), Image.Resampling.BOX))


@dataclass(frozen=True)
class Puzzles:
    """Tiles of many pictures, each picture shuffled in its own way. A trainer gets `items` and `allowed`, never `truth`."""

    items: Float[Tensor, "pictures n values"]
    truth: Int[Tensor, "pictures n"]
    """The item at each position."""
    allowed: Bool[Tensor, "pictures n n"] | None = None

    def with_place(self) -> Puzzles:
        """Each item with its true place as a last feature, for losses that are told."""
        place = inverse(self.truth).unsqueeze(-1).to(self.items.dtype)
        return replace(self, items=torch.cat((self.items, place), -1))

    def in_turn(self, batch: int) -> list[tuple[Tensor, Tensor | None]]:
        parts = self.items.split(batch)
        return list(zip(parts, [None] * len(parts) if self.allowed is None else self.allowed.split(batch), strict=True))


def puzzles(pictures: Pictures, side: int, anchors: int, seed: int) -> Puzzles:
    """`side` x `side` tiles of each picture, values in [0, 1], shuffled; what does not divide is cropped at right and bottom.

    `anchors` random places of each picture are given away by the mask.
    """
    n = side * side
    if not 0 <= anchors <= n:
        raise BadInput(f"There can be 0 to {n} anchors among {n} tiles, not {anchors}.")
    generator = torch.Generator().manual_seed(seed)
    tiles = cut_all(pictures, side)
    place = torch.rand(len(tiles), n, generator=generator).argsort(-1)  # of each item
    items = tiles.gather(1, place.unsqueeze(-1).expand_as(tiles)).float().div_(255)
    known = torch.rand(len(tiles), n, generator=generator).argsort(-1)[:, :anchors]
    return Puzzles(items, inverse(place), anchored(inverse(place), known) if anchors else None)


def cut_all(pictures: Pictures, side: int) -> UInt8[Tensor, "pictures n values"]:
    """Tiles in raster order, each flattened as (channels, height, width)."""
    count, height, width, channels = pictures.shape
    h, w = height // side, width // side
    if min(h, w) < 2:
        raise BadInput(f"Pictures of {width}x{height} cannot be cut into {side}x{side} tiles of at least 2x2 pixels.")
    blocks = pictures[:, : h * side, : w * side].reshape(count, side, h, side, w, channels)
    return blocks.permute(0, 1, 3, 5, 2, 4).reshape(count, side * side, channels * h * w)


def anchored(truth: Int[Tensor, "pictures n"], places: Int[Tensor, "pictures k"]) -> Bool[Tensor, "pictures n n"]:
    """The mask in which the true item of each of the `places` stands there and nowhere else, and no other item does."""
    pictures, n = truth.shape
    fixed_item = torch.zeros(pictures, n, dtype=torch.bool).scatter_(1, truth.gather(1, places), True)
    fixed_place = torch.zeros(pictures, n, dtype=torch.bool).scatter_(1, places, True)
    free = ~(fixed_item.unsqueeze(-1) | fixed_place.unsqueeze(-2))
    right = torch.zeros_like(free).scatter_(1, truth.unsqueeze(1), True)  # [b, truth[b, j], j]
    return free | right  # the true places of the others are free anyway
