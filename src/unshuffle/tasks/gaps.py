"""Tiles with some pixels worn off each edge: seams are compared across a gap, and how wide it is can be found.

What lies ahead of a tile is foretold half-way: its last line, continued by the slope that it has there, smoothed along the seam. The
first line of another tile is compared with that in three ways, each in units of the tile's own steps: pixel by pixel; by its slope along
the seam, in which what crosses the gap aslant still counts; and smoothed, in which small things that end in the gap do not. Beside
them stands plain extrapolation, as without a gap. These four costs, and the pixels on both sides, are weighed by a small network
(`networks.facing`) that has seen many photos with worn edges (`benchmarks/learn_seams.py`). It looks at one pair at a time; that
each side has one partner at most, where no tile is missing, is said by `exclusive`.
"""

from __future__ import annotations

import functools
import math
from importlib.resources import files

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput
from ..networks.facing import Facing
from ..structure.seams import SHARPNESS
from .jigsaw import Line, Tell, by_median, extrapolation, gradients, lengths, seam_cost

WIDEST = 3
SMOOTH, WIDE = 2.0, 4.0  # pixels along the seam
LIKELY = 100  # partners of each side about which the network is asked
TOGETHER = 2048  # pairs at once
WEIGHTS = "seams.npz"

Pieces = Float[Tensor, "pieces along across channels"]


@functools.cache
def trained() -> Facing:
    """The network with the weights that come with the package."""
    try:
        with (files("unshuffle") / "data" / WEIGHTS).open("rb") as file, np.load(file) as stored:
            weights = {name: torch.from_numpy(stored[name].astype(np.float32)) for name in stored.files}
    except FileNotFoundError:
        raise BadInput(f"Worn edges need the weights in unshuffle/data/{WEIGHTS}, which are not there: install unshuffle again.") from None  # fmt: skip
    with torch.device("meta"):  # no random numbers are drawn for weights that are read
        network = Facing()
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(False)


def blurred(lines: Line, sigma: float) -> Line:
    """Smoothed along the seam; ends are continued."""
    reach = int(3 * sigma) + 1
    at = torch.arange(-reach, reach + 1, dtype=lines.dtype)
    weight = torch.exp(-at.square() / (2 * sigma**2))
    padded = torch.cat((lines[:, :1].expand(-1, reach, -1), lines, lines[:, -1:].expand(-1, reach, -1)), 1)
    windows = padded.unfold(1, 2 * reach + 1, 1)  # n, along, channels, window
    return windows @ (weight / weight.sum())


def across(tiles: Float[Tensor, "n along across channels"], gap: int, tell: Tell) -> list[Float[Tensor, "n n"]]:
    """By how much the first line of tile k misses what tile i foretells: line, slope along it, wide means."""
    last, first = tiles[:, :, -1], tiles[:, :, 0]
    step = last - tiles[:, :, -2]
    ahead = last + gap * blurred(step, SMOOTH)

    def slope(lines: Line) -> Line:
        return lines.diff(dim=1)

    def wide(lines: Line) -> Line:
        return blurred(lines, WIDE)

    return [
        lengths(step, ahead, first, tell),
        lengths(slope(last), slope(ahead), slope(first), tell),
        lengths(wide(step), wide(ahead), wide(first), tell),
    ]


def likely(costs: list[Float[Tensor, "n n"]], states: int = 1) -> Float[Tensor, "4 n n"]:
    """Logarithms of the four costs; infinite but for the cheapest partners of each side of each piece, by the first two."""
    logs = torch.stack([by_median(cost, states).clamp_min(1e-6).log() for cost in costs])
    both = logs[:2].sum(0)
    unlikely = torch.ones_like(both, dtype=torch.bool)
    for axis in (0, 1):
        unlikely.scatter_(axis, both.topk(min(LIKELY, len(both)), axis, largest=False).indices, False)
    return logs.masked_fill_(unlikely, math.inf)


def facing(pieces: Pieces, logs: Float[Tensor, "4 n n"], gap: int, tell: Tell) -> Float[Tensor, "n n"]:
    """Logits that piece k stands directly right of piece i; minus infinity for those that are not likely."""
    network, colours = trained(), 3 if pieces.shape[3] >= 3 else 1
    last, first = network.edges(pieces[..., :colours].expand(-1, -1, -1, 3), gap)
    Z = torch.full(logs.shape[1:], -math.inf)
    a, b = logs[0].isfinite().nonzero(as_tuple=True)
    for i, k in zip(a.split(TOGETHER), b.split(TOGETHER), strict=True):
        tell(len(i) / len(a))
        Z[i, k] = network(last.among(i), first.among(k), logs[:, i, k], gap)
    return Z


ROUNDS = 10  # after which chances sum to 1.1 at most, in nearly all rows and columns
ALONE = -3.0  # logit of having no partner, as the border has none, beside partners whose shares sum to about one


def exclusive(Z: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Logarithms of the chances of all seams if each side of a tile has one partner or none: Sinkhorn's, with room for those who have none.

    A partner that somebody else needs more is left to him, which no edge can know by itself. Only where all tiles are there: sides whose
    partner is missing would find one another.
    """
    if len(Z) < 2:
        return Z
    Z = Z.clone().fill_diagonal_(-math.inf)
    Z = Z - Z.logsumexp(1, keepdim=True) / 2 - Z.logsumexp(0, keepdim=True) / 2
    alone, row, column = Z.new_tensor(ALONE), Z.new_zeros(len(Z), 1), Z.new_zeros(1, len(Z))
    for _ in range(ROUNDS):  # rows and columns at the same time and by half: neither side comes first
        taken = (Z + column).logsumexp(1, keepdim=True), (Z + row).logsumexp(0, keepdim=True)
        row, column = (row - torch.logaddexp(taken[0], alone)) / 2, (column - torch.logaddexp(taken[1], alone)) / 2
    return Z + row + column


def gapped_cost(Z: Float[Tensor, "n n"], states: int = 1) -> Float[Tensor, "n n"]:
    """Costs whose affinities are about the softmax of the logits; who is not likely costs as much as the unlikeliest who is."""
    known = Z[Z.isfinite()]
    return by_median(torch.exp(SHARPNESS * (known.max() - Z.clamp_min(float(known.min())))), states)


SURE = 0.9  # of the second best cost: best partners of each other that cost no more are true seams, nearly all
NEAR = 6  # lines of pixels beside the edge in which a tile's own steps are measured
FEWEST = 8  # seams by which to judge
TOO_ALIKE = (0.0, 0.05, 0.08, 0.12)
"""How much smaller the logarithm of the step across sure seams is than in the tiles: found on eight photos with each gap."""


def find_gap(tiles: Float[Tensor, "n height width channels"], turned: bool = False) -> int:
    """Pixels worn off each edge, 0 to 3: across true seams pixels differ as much as those 2 gap + 1 apart within the tiles.

    Seams are chosen by one half of their length and measured by the other, so that those chosen are not alike by choice.
    """
    from .turned import turns_of

    turns = turns_of(tiles.shape[1:3]) if turned else (0,)
    pieces = torch.stack([tiles.rot90(k, (1, 2)) for k in turns], 1).flatten(0, 1).float()
    ways = [pieces] if len(turns) == 4 else [pieces, pieces.transpose(1, 2)]
    if min(tiles.shape[1:3]) < 4 or len(tiles) < 3:
        return 0
    steps = torch.cat([_steps(way, len(turns)) for way in ways])
    if len(steps) < FEWEST:
        return 0
    shift = torch.tensor(TOO_ALIKE)[: steps.shape[1]]
    return int((steps.median(0).values + shift).abs().argmin())


def _steps(pieces: Float[Tensor, "pieces along across channels"], states: int) -> Float[Tensor, "seams gaps"]:
    """Of each sure seam, the logarithm of the step across it over that of as many pixels within its tiles, for each gap."""
    along, wide = pieces.shape[1:3]
    halves = slice(0, along // 2), slice(along // 2, along)
    found = []
    for chosen, measured in (halves, halves[::-1]):
        a, b = _sure_seams(pieces[:, chosen], states)
        left, right = pieces[a][:, measured], pieces[b][:, measured]
        step = (left[:, :, -1] - right[:, :, 0]).abs().mean((1, 2))
        within = []
        for lag in range(1, min(2 * WIDEST + 2, wide), 2):
            near = min(NEAR, wide - lag)
            own = (left[:, :, wide - near :] - left[:, :, wide - near - lag : wide - lag]).abs().mean((1, 2, 3))
            other = (right[:, :, lag : lag + near] - right[:, :, :near]).abs().mean((1, 2, 3))
            within.append((own + other) / 2)
        found.append(torch.stack([((step + 0.5) / (w + 0.5)).log() for w in within], 1))
    return torch.cat(found)


def _sure_seams(pieces: Float[Tensor, "pieces along across channels"], states: int) -> tuple[Tensor, Tensor]:
    last, before_last, first, second = (pieces[:, :, k].contiguous() for k in (-1, -2, 0, 1))
    E = extrapolation(before_last, last, first, second)
    M = gradients(before_last, last, first) + gradients(second, first, last).T
    cost = seam_cost(E, M, last[0], states)[0]
    n = len(cost)
    tile = torch.arange(n) // states
    cost = cost.masked_fill(tile[:, None] == tile, math.inf)
    by_row, by_column = cost.topk(2, 1, largest=False), cost.topk(2, 0, largest=False)
    a, b = torch.arange(n), by_row.indices[:, 0]
    sure = by_column.indices[0][b] == a
    sure &= by_row.values[:, 0] < SURE * by_row.values[:, 1]
    sure &= by_column.values[0][b] < SURE * by_column.values[1][b]
    return a[sure], b[sure]
