"""Seams of thousands of tiles: compared block by block, and of each side only the best partners kept.

The costs are those of `jigsaw`; what is not in a list is computed again when somebody asks (the seams of a layout, its border).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..solve.grid.affinity import Affinities
from ..solve.grid.compare import AT_ONCE, sum_of_lengths, sum_of_roots
from ..solve.grid.evidence import Pair
from ..solve.grid.listed import ListedEvidence, Side, Sides, best_partners, in_lists, listed_affinities
from ..solve.grid.pieces import DEAR, Costs, Whole
from ..structure.layouts import Grid
from ..watch import Stopped, Watch
from .jigsaw import Tiles, logs_for_border, whitened
from .turned import turned_tiles

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
    """The four sides of all pieces (tiles, or tiles in each of their states), and what misses are usual."""

    def __init__(self, tiles: Tiles, turns: tuple[int, ...] = (0,)) -> None:
        pieces = turned_tiles(tiles, turns) if len(turns) > 1 else tiles
        lines = [pieces[:, :, -1], pieces[:, :, 0], pieces[:, -1], pieces[:, 0]]
        before = [pieces[:, :, -2], pieces[:, :, 1], pieces[:, -2], pieces[:, 1]]
        self.edges = [Edges.of(a.contiguous(), b.contiguous()) for a, b in zip(lines, before, strict=True)]
        self.states, self.line = len(turns), [lines[0][0].clone(), lines[2][0].clone()]
        self.usual: list[tuple[float, float]] = []
        for k in (0, 1):
            E, M = misses(self.edges[2 * k].among(self._some()), self.edges[2 * k + 1], slice(None))
            self.usual.append((max(float(E.median()), 1e-30), max(float(M.median()), 1e-30)))
        self._measure()

    @property
    def n(self) -> int:
        return len(self.edges[0].line)

    def _some(self) -> Int[Tensor, "some"]:
        """Pieces by which it is judged what is usual."""
        return torch.randperm(self.n, generator=torch.Generator().manual_seed(0))[:SAMPLE]

    def _measure(self) -> None:
        self.any: list[float] = []
        """Of each relation: what a seam costs, by the median."""
        self.least: list[float] = []
        """Of each relation: seams that cost less than half of the second best count as much as these."""
        some = self._some()
        for k in (0, 1):
            one, other = self.edges[2 * k : 2 * k + 2]
            after = self._cost(*misses(one.among(some), other, slice(None)), k)
            before = self._cost(*misses(other.among(some), one, slice(None)), k)
            self.any.append(float(after.median()))
            second = [
                self._apart(cost, some).kthvalue(min(2, self.n - self.states), 1).values for cost in (after, before)
            ]
            self.least.append(max(float(torch.minimum(*second).median()), 1e-3 * self.any[-1], 1e-30))
        self.typical = max(sum(self.any) / 2, 1e-30)

    def _cost(self, E: Tensor, M: Tensor, relation: int) -> Tensor:
        usual = self.usual[relation]
        return ((E / usual[0]) * (M / usual[1])).sqrt_()

    def _apart(self, cost: Float[Tensor, "some n"], pieces: Int[Tensor, "some"]) -> Float[Tensor, "some n"]:
        """No tile is its own neighbour, in no state."""
        own = (pieces // self.states * self.states)[:, None] + torch.arange(self.states)
        return cost.scatter_(1, own, torch.inf)

    def among(self, pieces: Int[Tensor, "some"]) -> Comparison:
        """The same of some of the pieces, in the same units."""
        fewer = copy(self)
        fewer.edges = [edges.among(pieces) for edges in self.edges]
        fewer._measure()
        return fewer

    def sides(self, watch: Watch) -> Sides:
        """The best partners of each piece; a side that another becomes by turning the whole picture is not computed again."""
        s = self.states
        if s == 4:
            right = self.side(0, watch)
            return right, right.turned(s, 2), right.turned(s, 1), right.turned(s, 3)
        if s == 2:
            right, below = self.side(0, watch, 2), self.side(2, watch, 2, 1)
            return right, right.turned(s, 1), below, below.turned(s, 1)
        right, left, below, above = (self.side(k, watch, 4, k) for k in range(4))
        return right, left, below, above

    def side(self, k: int, watch: Watch, parts: int = 1, part: int = 0) -> Side:
        """The best partners on the right, on the left, below or above; which part of all that is."""
        one, other = self.edges[k], self.edges[k ^ 1]
        found = []
        rows = max(1, 4 * AT_ONCE // (self.n * one.line.shape[1]))
        for low in range(0, self.n, rows):
            if not watch(stage="compare the seams", done=(part + low / self.n) / parts):
                raise Stopped
            some = slice(low, min(low + rows, self.n))
            cost = self._cost(*misses(one, other, some), k // 2)
            cost = self._apart(cost, torch.arange(some.start, some.stop))
            found.append(best_partners(cost, MOST, self.least[k // 2]))
        partner, cost, scale, log_sum = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
        return Side(partner, cost, scale.astype(np.float64), log_sum.astype(np.float64))

    def cost(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate([self._cost(E, M, relation).numpy() for E, M in self._pairs(relation, a, b)])

    def inside(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What to add to an affinity to judge whether a seam is inside the picture or its border."""
        line = self.line[relation]
        return np.concatenate([logs_for_border(E, M, line).numpy() for E, M in self._pairs(relation, a, b)])

    def whole(self, pieces: Int[Tensor, "some"]) -> tuple[Pair, Pair]:
        """Costs, and what to add to affinities, of all pairs of some pieces."""
        cost, border = [], []
        for k in (0, 1):
            one, other = (edges.among(pieces) for edges in self.edges[2 * k : 2 * k + 2])
            E, M = misses(one, other, slice(None))
            border.append(logs_for_border(E, M, self.line[k]))
            cost.append(self._cost(E, M, k))
        return (cost[0], cost[1]), (border[0], border[1])

    def _pairs(self, relation: int, a: np.ndarray, b: np.ndarray) -> list[tuple[Tensor, Tensor]]:
        one, other = self.edges[2 * relation : 2 * relation + 2]
        first, second = torch.from_numpy(a.astype(np.int64)), torch.from_numpy(b.astype(np.int64))
        parts = zip(first.split(TOGETHER), second.split(TOGETHER), strict=True)
        return [misses_of_pairs(one, other, i, k) for i, k in parts]


def listed_evidence(tiles: Tiles, grid: Grid, watch: Watch) -> ListedEvidence:
    """`Stopped` if the watch says so before all tiles have been compared."""
    compared = Comparison(tiles)
    shape = grid.height, grid.width
    return ListedEvidence(compared.sides(watch), shape, compared.typical, compared.cost, compared.inside)


@dataclass(frozen=True)
class ListedCosts:
    """What `Whole` is for matrices: of pieces that are turned, missing or of several pictures."""

    compared: Comparison
    sides: Sides
    watch: Watch

    @classmethod
    def of(cls, compared: Comparison, watch: Watch) -> ListedCosts:
        """`Stopped` if the watch says so before all tiles have been compared."""
        return cls(compared, compared.sides(watch), watch)

    @property
    def states(self) -> int:
        return self.compared.states

    @property
    def tiles(self) -> int:
        return self.compared.n // self.states

    def usual_price(self) -> float:
        right, left, below, above = (np.median(side.cost[:, 0]) for side in self.sides)
        best = (right + left) / 2, (below + above) / 2
        return float(np.mean([a + DEAR * (b - a) for a, b in zip(best, self.compared.any, strict=True)]))

    def affinities(self, shape: tuple[int, int], price: float | None) -> Affinities:
        return listed_affinities(self.sides, self.compared.typical, shape, price)

    def pairs(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.compared.cost(relation, a.reshape(-1), b.reshape(-1)).reshape(a.shape)

    def among(self, tiles: Tensor) -> Costs:
        """Compared again: most of the best partners may be gone."""
        fewer = self.compared.among((tiles[:, None] * self.states + torch.arange(self.states)).reshape(-1))
        if in_lists(fewer.n):
            return ListedCosts.of(fewer, self.watch)
        cost, border = fewer.whole(torch.arange(fewer.n))
        return Whole(cost, self.states, border)

    def between(self, pieces: Tensor) -> tuple[Pair, Pair | None]:
        return self.compared.whole(pieces)
