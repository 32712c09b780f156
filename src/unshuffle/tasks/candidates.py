"""Seams of thousands of tiles: compared block by block, and of each side only the best partners kept.

The costs are those of `jigsaw`; what is not in a list is computed again when somebody asks (the seams of a layout, its border).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..solve.grid.compare import AT_ONCE, sum_of_lengths, sum_of_roots
from ..solve.grid.listed import ListedEvidence, Side, best_partners
from ..structure.layouts import Grid
from ..watch import Stopped, Watch
from .jigsaw import Tiles, logs_for_border, whitened

MOST = 48  # partners kept per side
SAMPLE = 256  # tiles by which it is judged what costs are usual
TOGETHER = 4096  # pairs computed at once when asked for


@dataclass(frozen=True)
class Edges:
    """One side of all tiles, seen from the tile: its last line, the line that should come next, and the tile's own measure of a miss."""

    line: Float[Tensor, "n samples"]
    ahead: Float[Tensor, "n samples"]
    pixels: Float[Tensor, "n channels along"]
    whiten: Float[Tensor, "n channels channels"]
    base: Float[Tensor, "n channels along"]

    @classmethod
    def of(cls, last: Float[Tensor, "n along channels"], before_last: Float[Tensor, "n along channels"]) -> Edges:
        n, step = len(last), last - before_last
        line = last.reshape(n, -1) / 255
        whiten, base = whitened(step, last + step.mean(1, keepdim=True))
        pixels = last.transpose(1, 2).contiguous()
        return cls(line, 2 * line - before_last.reshape(n, -1) / 255, pixels, whiten, base.contiguous())

    def among(self, tiles: Int[Tensor, "some"]) -> Edges:
        return Edges(*(getattr(self, field.name)[tiles] for field in fields(self)))


def _second_best(cost: Float[Tensor, "some n"], tiles: Int[Tensor, "some"]) -> Float[Tensor, "some"]:
    """Of each of these tiles; none is its own neighbour."""
    apart = cost.clone()
    apart[torch.arange(len(tiles)), tiles] = torch.inf
    return apart.kthvalue(min(2, cost.shape[1] - 1), 1).values


def misses(one: Edges, other: Edges, rows: slice) -> tuple[Float[Tensor, "rows n"], Float[Tensor, "rows n"]]:
    """Extrapolation and gradients of some tiles with all."""
    E = sum_of_roots(one.ahead[rows], other.line, one.line[rows], other.ahead)
    onward = sum_of_lengths(one.whiten[rows], one.base[rows], other.pixels)
    backward = sum_of_lengths(other.whiten, other.base, one.pixels[rows].contiguous())
    return E, onward + backward.T


def misses_of_pairs(
    one: Edges, other: Edges, a: Int[Tensor, "pairs"], b: Int[Tensor, "pairs"]
) -> tuple[Tensor, Tensor]:
    """The same of pairs of tiles."""

    def lengths(left: Edges, right: Edges, i: Tensor, k: Tensor) -> Tensor:
        return (left.whiten[i] @ right.pixels[k] - left.base[i]).square().sum(1).sqrt().sum(-1)

    E = (one.ahead[a] - other.line[b]).abs().sqrt().sum(1) + (other.ahead[b] - one.line[a]).abs().sqrt().sum(1)
    return E, lengths(one, other, a, b) + lengths(other, one, b, a)


class Comparison:
    """The tiles' four sides, and what misses are usual."""

    def __init__(self, tiles: Tiles) -> None:
        lines = [tiles[:, :, -1], tiles[:, :, 0], tiles[:, -1], tiles[:, 0]]
        before = [tiles[:, :, -2], tiles[:, :, 1], tiles[:, -2], tiles[:, 1]]
        self.edges = [Edges.of(a.contiguous(), b.contiguous()) for a, b in zip(lines, before, strict=True)]
        self.n, self.line = len(tiles), [lines[0][0], lines[2][0]]
        generator = torch.Generator().manual_seed(0)
        some = torch.randperm(self.n, generator=generator)[:SAMPLE]
        self.usual: list[tuple[float, float]] = []
        self.least: list[float] = []
        """Of each relation: seams that cost less than half of the second best count as much as these."""
        typical = []
        for k in (0, 1):
            one, other = self.edges[2 * k : 2 * k + 2]
            E, M = misses(one.among(some), other, slice(None))
            self.usual.append((max(float(E.median()), 1e-30), max(float(M.median()), 1e-30)))
            after = self._cost(E, M, k)
            before = self._cost(*misses(other.among(some), one, slice(None)), k)
            typical.append(float(after.median()))
            second = [_second_best(cost, some) for cost in (after, before)]
            self.least.append(max(float(torch.minimum(*second).median()), 1e-3 * typical[-1], 1e-30))
        self.typical = max(sum(typical) / 2, 1e-30)

    def _cost(self, E: Tensor, M: Tensor, relation: int) -> Tensor:
        usual = self.usual[relation]
        return ((E / usual[0]) * (M / usual[1])).sqrt_()

    def side(self, k: int, watch: Watch) -> Side:
        """The best partners on the right, on the left, below or above."""
        one, other = self.edges[k], self.edges[k ^ 1]
        found = []
        rows = max(1, 4 * AT_ONCE // (self.n * one.line.shape[1]))
        for low in range(0, self.n, rows):
            if not watch(stage="compare the seams", done=(k + low / self.n) / 4):
                raise Stopped
            some = slice(low, min(low + rows, self.n))
            cost = self._cost(*misses(one, other, some), k // 2)
            own = torch.arange(some.start, some.stop)
            cost[own - low, own] = torch.inf
            found.append(best_partners(cost, MOST, self.least[k // 2]))
        partner, cost, scale, log_sum = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
        return Side(partner, cost, scale.astype(np.float64), log_sum.astype(np.float64))

    def cost(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate([self._cost(E, M, relation).numpy() for E, M in self._pairs(relation, a, b)])

    def inside(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What to add to an affinity to judge whether a seam is inside the picture or its border."""
        line = self.line[relation]
        return np.concatenate([logs_for_border(E, M, line).numpy() for E, M in self._pairs(relation, a, b)])

    def _pairs(self, relation: int, a: np.ndarray, b: np.ndarray) -> list[tuple[Tensor, Tensor]]:
        one, other = self.edges[2 * relation : 2 * relation + 2]
        first, second = torch.from_numpy(a.astype(np.int64)), torch.from_numpy(b.astype(np.int64))
        parts = zip(first.split(TOGETHER), second.split(TOGETHER), strict=True)
        return [misses_of_pairs(one, other, i, k) for i, k in parts]


def listed_evidence(tiles: Tiles, grid: Grid, watch: Watch) -> ListedEvidence:
    """`Stopped` if the watch says so before all tiles have been compared."""
    compared = Comparison(tiles)
    right, left, below, above = (compared.side(k, watch) for k in range(4))
    shape = grid.height, grid.width
    return ListedEvidence((right, left, below, above), shape, compared.typical, compared.cost, compared.inside)
