"""UTSP's graph network: points of the plane that see their neighbourhood."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import number
from ..structure.energies import pair_distances
from .items import ItemScores, sizes

Points = Float[Tensor, "*batch n 2"]
Hidden = Float[Tensor, "*batch n hidden"]


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

    def forward(self, h: Hidden, low: Tensor, walks: list[Tensor]) -> Hidden:
        leaky = nn.functional.leaky_relu
        once = low @ h
        views = torch.stack((leaky(once), leaky(low @ once), *band_passes(h, walks)))
        own, other = self.attention.chunk(2)
        weight = torch.softmax(torch.relu(h) @ own + torch.relu(views) @ other, dim=0)
        mixed = (weight.unsqueeze(-1) * views).mean(0)
        return leaky(self.second(leaky(self.first(mixed))))


def lazy_walks(walk: Float[Tensor, "*batch n n"]) -> list[Float[Tensor, "*batch n n"]]:
    """(1 + walk)/2 after 1, 2, 4, 8, 16 steps, by squaring: once for all layers, and nothing to differentiate."""
    walks = [(torch.eye(walk.shape[-1], device=walk.device, dtype=walk.dtype) + walk) / 2]
    for _ in range(4):
        walks.append(walks[-1] @ walks[-1])
    return walks


def band_passes(h: Hidden, walks: list[Float[Tensor, "*batch n n"]]) -> list[Hidden]:
    """|S_k h - S_{k+1} h| for the walk after 1, 2, 4, 8, 16 steps."""
    return [(a - b).abs() for a, b in pairwise(walk @ h for walk in walks)]


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
        sizes(positions=positions, hidden=hidden, layers=layers)
        number("rescale", rescale, above=0)
        number("locality", locality, above=0)
        if logit_limit is not None:
            number("logit_limit", logit_limit, above=0)
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
        walks = lazy_walks(walk)
        states = [self.enter(points)]
        for layer in self.layers:
            states.append(layer(states[-1], low, walks))
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
