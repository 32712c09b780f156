"""Bins on a ring of positions: tours are found coarse to fine, by the solver and by the unrolled network alike."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

COARSEST = 9.6
"""At most so many bins on the first level."""


def widths(n: int, coarsest: float = COARSEST, least: int = 1) -> list[int]:
    """Numbers of bins: n, half of it, ..., until there are at most ``coarsest``; fewest first, at least ``least`` levels."""
    levels = [n]
    while levels[0] > coarsest or len(levels) < least:
        levels.insert(0, math.ceil(levels[0] / 2))
    return levels


def overlap(old: int, m: int) -> Float[Tensor, "m old"]:
    """Which share of each of ``old`` equal bins lies in each of m."""
    edges = torch.arange(m, dtype=torch.float64) * (old / m)
    cells = torch.arange(old, dtype=torch.float64)
    return (torch.minimum(edges[:, None] + old / m, cells + 1) - torch.maximum(edges[:, None], cells)).clamp_min(0)


def blurred(bins: Tensor, along: int) -> Tensor:
    """[1/4, 1/2, 1/4] round the ring: new twin bins must be able to differ."""
    return 0.5 * bins + 0.25 * (bins.roll(1, along) + bins.roll(-1, along))


def rebin(soft: Float[Tensor, "runs bins n"], m: int) -> Float[Tensor, "runs m n"]:
    """Mass moved to m bins by overlap, then blurred."""
    return blurred(overlap(soft.shape[1], m).to(soft) @ soft, 1)
