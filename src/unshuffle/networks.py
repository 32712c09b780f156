"""Networks from items (*batch, n, d) to scores (*batch, n, positions), or to one key per item.

All are permutation-equivariant: shuffling the items shuffles the rows of the scores, nothing else.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .shapes import BadInput, Items
from .structure.energies import pair_distances

ItemScores = Float[Tensor, "*batch n positions"]
Points = Float[Tensor, "*batch n 2"]
Hidden = Float[Tensor, "*batch n hidden"]


def count_parameters(network: nn.Module) -> int:
    """How many numbers training changes."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def standardised(items: Items) -> Items:
    """Mean 0 and deviation 1 within each list: [10, 11] and [0, 1] look the same to a network."""
    centred = items - items.mean(-2, keepdim=True)
    scale = centred.square().mean(-2, keepdim=True).sqrt()
    return centred / scale.clamp_min(1e-6)  # a list of equal items stays 0


def _glorot(layer: nn.Linear) -> nn.Linear:
    """Xavier normal weights and zero bias, the initialisation of the paper's code."""
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class ItemScorer(nn.Module):
    """The paper's sorting network: every item by itself, features -> hidden -> positions.

    The paper says Conv1d with kernel 1; that is one linear map applied to every item, so it is written as such.
    """

    def __init__(self, positions: int, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        self.standardise = standardise
        self.layers = nn.Sequential(
            _glorot(nn.Linear(features, hidden)), nn.ReLU(), _glorot(nn.Linear(hidden, positions))
        )

    def forward(self, items: Items) -> ItemScores:
        return self.layers(standardised(items) if self.standardise else items)


class KeyScorer(nn.Module):
    """One key per item, for `NeuralSort` and `SoftSort`: an `ItemScorer` with a single position."""

    def __init__(self, features: int = 1, hidden: int = 64, standardise: bool = False) -> None:
        super().__init__()
        self.scorer = ItemScorer(1, features, hidden, standardise)

    def forward(self, items: Items) -> Float[Tensor, "*batch n"]:
        return self.scorer(items).squeeze(-1)


class TileScorer(nn.Module):
    """The jigsaw network: per tile Conv2d(5x5, 64)-ReLU-MaxPool(2)-Linear(positions, no bias).

    Takes flattened tiles (*batch, n, channels * height * width) of any size; an odd last row or column is pooled alone.
    """

    def __init__(self, positions: int, tile: tuple[int, int, int], channels: int = 64) -> None:
        super().__init__()
        colours, height, width = tile
        self.tile = tile
        self.picture = nn.Sequential(
            nn.Conv2d(colours, channels, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten()
        )
        self.places = nn.Linear(channels * math.ceil(height / 2) * math.ceil(width / 2), positions, bias=False)

    def forward(self, items: Items) -> ItemScores:
        if items.shape[-1] != math.prod(self.tile):
            raise BadInput(f"tiles of {self.tile} have {math.prod(self.tile)} values, got items of {items.shape[-1]}.")
        return self.places(self.picture(items.reshape(-1, *self.tile))).unflatten(0, items.shape[:-1])


class ScatteringAttention(nn.Module):
    r"""One layer of UTSP: six views of every node's neighbourhood, weighed by attention per node.

    Low pass $\mathrm{LeakyReLU}(A h)$, $\mathrm{LeakyReLU}(A^2 h)$; band pass $|\Psi_k h|$, $\Psi_k = S_k - S_{k+1}$ between the
    lazy walk after 1, 2, 4, 8, 16 steps. $e_k = \mathrm{ReLU}([h \| h_k]) \cdot a$; the half of a that sees h alone is the same
    for all views and cancels in the softmax, but it is in the published count and so stays.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.attention = nn.Parameter(torch.zeros(2 * hidden))
        self.first, self.second = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def forward(self, h: Hidden, low: Tensor, walk: Tensor) -> Hidden:
        leaky = nn.functional.leaky_relu
        once = low @ h
        views = torch.stack((leaky(once), leaky(low @ once), *band_passes(h, walk)))
        own, other = self.attention.chunk(2)
        weight = torch.softmax(torch.relu(h) @ own + torch.relu(views) @ other, dim=0)
        mixed = (weight.unsqueeze(-1) * views).mean(0)
        return leaky(self.second(leaky(self.first(mixed))))


def band_passes(h: Hidden, walk: Tensor) -> list[Hidden]:
    """|S_k h - S_{k+1} h| for the walk after 1, 2, 4, 8, 16 steps."""
    kept, steps = [], (1, 2, 4, 8, 16)
    for step in range(1, steps[-1] + 1):
        h = h / 2 + walk @ h / 2
        if step in steps:
            kept.append(h)
    return [(a - b).abs() for a, b in pairwise(kept)]


class TourScorer(nn.Module):
    r"""UTSP's graph network on points in the plane, $W = \exp(-D/\text{locality})$.

    Defaults are the published ones (hidden 128 at n = 1000). `stronger` has the settings of the later work by the same
    authors. Parameters in use: 35,940 at n = 100; the published 36,072 counts two batch norms (2 and `hidden` channels)
    that the published code builds and never calls.
    """

    def __init__(
        self,
        positions: int,
        hidden: int = 64,
        layers: int = 2,
        rescale: float = 2.0,
        locality: float = 3.5,
        logit_limit: float | None = None,
    ) -> None:
        super().__init__()
        self.rescale, self.locality, self.logit_limit = rescale, locality, logit_limit
        self.enter = nn.Linear(2, hidden)
        self.layers = nn.ModuleList(ScatteringAttention(hidden) for _ in range(layers))
        self.leave = nn.Sequential(
            nn.Linear(hidden * (layers + 1), hidden), nn.LeakyReLU(), nn.Linear(hidden, positions)
        )

    @classmethod
    def stronger(cls, positions: int, hidden: int = 128, layers: int = 16) -> TourScorer:
        """Points scaled to [0, 100], W = exp(-D/5) (many times more local), logits 40 tanh, more layers."""
        return cls(positions, hidden, layers, rescale=100.0, locality=5.0, logit_limit=40.0)

    def forward(self, items: Points) -> ItemScores:
        points = self.rescale * (items - items.mean(-2, keepdim=True))
        low, walk = diffusions(points, self.locality)
        h = self.enter(points)
        states = [h]
        for layer in self.layers:
            states.append(layer(states[-1], low, walk))
        scores = self.leave(torch.cat(states, -1))
        return scores if self.logit_limit is None else self.logit_limit * torch.tanh(scores)


def diffusions(points: Points, locality: float) -> tuple[Tensor, Tensor]:
    r"""$D^{-1/2}(W+I)D^{-1/2}$ and $W D^{-1}$, each with its own degrees, for $W = \exp(-\text{distance}/\text{locality})$."""
    W = torch.exp(-pair_distances(points) / locality)
    eye = torch.eye(W.shape[-1], device=W.device, dtype=W.dtype)
    W = W * (1 - eye)
    root = (W.sum(-1) + 1).rsqrt()
    low = root.unsqueeze(-1) * (W + eye) * root.unsqueeze(-2)
    walk = W / W.sum(-2, keepdim=True).clamp_min(1e-12)  # far-away points, or only one: no neighbour, no walk
    return low, walk


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
