r"""Structural losses on reordered items $\hat X = P^T X$: one number per list, smaller is better in order.

Sums over positions, as the paper writes them; a trainer averages over lists and samples. None of them sees a true order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput, number, shown, whole
from ..operators.permutation import reorder
from ..shapes import Items
from .layouts import Grid

PerList = Float[Tensor, "*batch"]
Tiles = Float[Tensor, "*batch n channels height width"]


def monotone(items: Items, lags: Sequence[int] = (1,)) -> PerList:
    r"""$\sum_\ell \sum_i \mathrm{ReLU}(\hat x_i - \hat x_{i+\ell})^2$: zero iff ascending; lag 1 alone is the paper's loss.

    With lag 1 the two terms of an inner position cancel in expectation, so the signal enters at the two ends and diffuses
    inwards: training time grows like n^2. Lags at all scales (`monotone_at_all_scales`) are the same property and reach
    every position at once.
    """
    n = positions(items)
    if not isinstance(lags, (tuple, list, range)):
        raise BadInput(f"lags must be a list of whole numbers such as (1, 2, 4), not {shown(lags)}.")
    near = [lag for lag in (whole("A lag", lag, 1) for lag in lags) if lag < n]
    drops = [torch.relu(items[..., : n - lag, :] - items[..., lag:, :]) for lag in near]
    return sum((drop.square().sum((-2, -1)) for drop in drops), items.new_zeros(items.shape[:-2]))


def positions(items: Items) -> int:
    """The number of positions of reordered items (..., n, d) of real numbers; otherwise one sentence."""
    if not isinstance(items, Tensor) or items.ndim < 2 or not items.is_floating_point():
        raise BadInput(f"Reordered items must be a floating-point tensor (..., n, d), not {_kind(items)}.")
    return items.shape[-2]


def _kind(items: object) -> str:
    return f"{items.dtype} of shape {tuple(items.shape)}" if isinstance(items, Tensor) else type(items).__name__


def dyadic_lags(n: int) -> tuple[int, ...]:
    """1, 2, 4, ... below n."""
    return tuple(1 << k for k in range(max(n - 1, 0).bit_length()))


def monotone_at_all_scales(items: Items) -> PerList:
    """`monotone` over the lags 1, 2, 4, ... < n."""
    return monotone(items, dyadic_lags(positions(items)))


def tour_length(items: Items) -> PerList:
    r"""$\sum_i \lVert \hat x_i - \hat x_{i+1} \rVert_2$, closed: the length of the tour through blended points."""
    positions(items)
    return torch.linalg.vector_norm(items - items.roll(-1, dims=-2), dim=-1).sum(-1)


def smooth1(tiles: Tiles, grid: Grid) -> PerList:
    r"""$\sum_{\text{adjacent tiles}} \lVert \partial \hat X \rVert^2$: squared jumps across the seams of a grid of tiles."""
    return smooth2k(tiles, grid, band=1)


def smooth2k(tiles: Tiles, grid: Grid, band: int = 2, power: int | float = 2.0) -> PerList:
    r"""Variation across every seam, over the `band` pixels on either side of it (the paper's `smooth2k`, k = `band`).

    The last `band` columns of the left tile and the first of the right one make a strip; its $2k - 1$ steps from column to
    column are summed as $|\cdot|^p$; the same with rows for upper and lower tiles. Steps *along* the seam are left out:
    only so does k = 1 give the seam alone, as the paper says. `power=1` is total variation, `power=2` matches `smooth1`.
    """
    if not isinstance(tiles, Tensor) or tiles.ndim < 4:
        raise BadInput(f"Tiles must be a tensor (..., n, channels, height, width), not {_kind(tiles)}.")
    if not isinstance(grid, Grid):
        raise BadInput(f"The grid must be a layout such as us.Grid(3, 4), not {shown(grid)}.")
    whole("The band", band, 1)
    number("The power", power, above=0)
    height, width = tiles.shape[-2:]
    if tiles.shape[-4] != grid.n:
        raise BadInput(f"{grid} has {grid.n} positions, but {tiles.shape[-4]} tiles came; reshape the tiles to match.")
    if band > min(height, width):
        raise BadInput(f"A band of {band} does not fit into tiles of {height} x {width}.")
    return _variation(_bands(tiles, band), grid, power)


Bands = tuple[Tensor, Tensor, Tensor, Tensor]


def _bands(tiles: Tiles, band: int) -> Bands:
    """The pixels of each tile beside its left, right, upper and lower edge."""
    return tiles[..., :band], tiles[..., -band:], tiles[..., :band, :], tiles[..., -band:, :]


def _variation(bands: Bands, grid: Grid, power: float) -> PerList:
    left, right, upper, lower = (part.unflatten(-4, (grid.height, grid.width)) for part in bands)
    across = torch.cat((right[..., :, :-1, :, :, :], left[..., :, 1:, :, :, :]), -1).diff(dim=-1)
    down = torch.cat((lower[..., :-1, :, :, :, :], upper[..., 1:, :, :, :, :]), -2).diff(dim=-2)
    return sum(step.abs().pow(power).flatten(start_dim=-5).sum(-1) for step in (across, down))  # pyright: ignore


@dataclass(frozen=True)
class Smoothness:
    """`smooth2k` as a loss on flattened tiles (*batch, n, channels * height * width), which is what a trainer reorders."""

    grid: Grid
    tile: tuple[int, int, int]
    band: int = 1
    power: int | float = 2.0

    def __call__(self, items: Items) -> PerList:
        return smooth2k(items.unflatten(-1, self.tile), self.grid, self.band, self.power)

    def blended(self, P: Float[Tensor, "... n n"], items: Float[Tensor, "*lists n d"]) -> Float[Tensor, "..."]:
        r"""The same of $P^T X$, of which only the pixels beside seams are computed: an eighth of a tile of 35 x 35."""
        bands = _bands(items.unflatten(-1, self.tile), self.band)
        sizes = [part.shape[-3:] for part in bands]
        beside = torch.cat([part.flatten(-3) for part in bands], -1)
        found = reorder(P, beside.expand(*P.shape[:-2], *beside.shape[-2:])).split([size.numel() for size in sizes], -1)
        left, right, upper, lower = (part.unflatten(-1, size) for part, size in zip(found, sizes, strict=True))
        return _variation((left, right, upper, lower), self.grid, self.power)
