"""Whether two edges of tiles face each other: a small network that looks at strips of pixels on both sides of a seam."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

Tiles = Float[Tensor, "n along across 3"]

DEEP = 12  # lines of pixels beside the edge that are looked at
NEAR, WINDOW = 4, 5  # lines, and pixels along the seam, of which those on one side are compared with those on the other
STEPS = 5  # lines in which it is measured how large steps from pixel to pixel are
REACH = 4  # pixels to either side along the seam, likewise
MOST = 8.0  # units by which what is compared differs at most
GAPS = 3  # 1 to 3 pixels are worn off
COSTS = 4  # that are known of a pair
PLAIN = 10.0  # unit of the weights of plain costs, so that they are learned as fast as the others


class Edges(NamedTuple):
    """What is known of one side of each tile, pixel by pixel along the seam."""

    compared: Float[Tensor, "n width along"]
    seen: Float[Tensor, "n width along"]
    unit: Float[Tensor, "n along"]

    def among(self, tiles: Int[Tensor, "some"]) -> Edges:
        return Edges(self.compared[tiles], self.seen[tiles], self.unit[tiles])


class Facing(nn.Module):
    r"""$z_{ik} = w^T\,\mathrm{mean}_p\, C_2 C_1 \left[s\left(\frac{A_g x_i + B_g x_k}{u_i + u_k}\right) + Q f(x_i) + R f(x_k) + b_g\right]_+ - v_g^T \log c_{ik}$.

    $x_i$ are the pixels of tile i beside the seam, $u_i$ the steps between them, $f$ convolutions of the strip that are computed once per
    edge, $C$ convolutions along the seam with a rectifier each, $s(y) = y / (1 + |y| / 8)$. The rows of $(A_g, B_g)$, by the gap g, sum to zero: only
    differences count, in units of the steps that are usual on both sides. $c_{ik}$ are costs that are known otherwise.
    """

    def __init__(self, width: int = 32, half: int = 16) -> None:
        super().__init__()
        self.width = width
        self.strip = nn.Sequential(
            nn.Conv2d(7, half, 3, stride=(1, 2), padding=1),
            nn.ReLU(),
            nn.Conv2d(half, width, 3, stride=(1, 2), padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=(1, 0)),
            nn.ReLU(),
        )
        self.sides = nn.Conv1d(width, 2 * width, 1)
        self.near = nn.Parameter(torch.randn(GAPS, width, 2, 3, NEAR, WINDOW) * 0.9 / (6 * NEAR * WINDOW) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(GAPS, width))
        self.along = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, width, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(width, 1)
        self.plain = nn.Parameter(torch.full((GAPS, COSTS), 0.15))

    def edges(self, tiles: Tiles, gap: int) -> tuple[Edges, Edges]:
        """The last lines of each tile, and the first ones: pixel values from 0 to 255."""
        return self._edges(tiles.flip(2), gap, 0), self._edges(tiles, gap, 1)

    def _edges(self, tiles: Tiles, gap: int, side: int) -> Edges:
        x = tiles[:, :, :DEEP].permute(0, 3, 1, 2)  # the nearest line first
        x = F.pad(x, (0, DEEP - x.shape[3], 0, 0), mode="replicate")
        near = self.near[gap - 1] - self.near[gap - 1].mean((1, 3, 4), keepdim=True)
        wide = F.pad(x[..., :NEAR] - 128, (0, 0, WINDOW // 2, WINDOW // 2), mode="replicate")
        compared = F.conv2d(wide, near[:, side].transpose(2, 3))[..., 0]
        seen = self.sides(self.strip(_normalised(x))[..., 0]).unflatten(1, (2, self.width))[:, side]
        return Edges(compared, seen + self.bias[gap - 1][:, None] if side == 0 else seen, _steps(x))

    def forward(self, one: Edges, other: Edges, logs: Float[Tensor, "costs pairs"], gap: int) -> Float[Tensor, "pairs"]:
        """The logit of each pair, by its pixels and by the logarithms of its costs; what all partners of an edge have in common means nothing."""
        y = (one.compared + other.compared) / (one.unit + other.unit)[:, None]
        h = F.relu(y / (1 + y.abs() / MOST) + one.seen + other.seen)
        return self.head(self.along(h).mean(2))[:, 0] - PLAIN * self.plain[gap - 1] @ logs


def _normalised(x: Float[Tensor, "n 3 along deep"]) -> Float[Tensor, "n 7 along deep"]:
    """The strip less its mean colour in units of its contrast, as it is, and the contrast."""
    mean = x.mean((2, 3), keepdim=True)
    contrast = (x - mean).square().mean((1, 2, 3), keepdim=True).sqrt() + 2
    return torch.cat(((x - mean) / contrast, (x - 128) / 64, (contrast / 16).log().expand_as(x[:, :1])), 1)


def _steps(x: Float[Tensor, "n 3 along deep"]) -> Float[Tensor, "n along"]:
    """How large steps from pixel to pixel are beside each pixel of the seam; at least one grey level."""
    across = x.diff(dim=3)[..., :STEPS].square().mean((1, 3))
    along = F.pad(x.diff(dim=2)[..., : STEPS + 1].square().mean((1, 3)), (1, 0), mode="replicate")
    squares = F.pad((across + along)[:, None] / 2, (REACH, REACH), mode="replicate")
    return F.avg_pool1d(squares, 2 * REACH + 1, 1)[:, 0].sqrt() + 1
