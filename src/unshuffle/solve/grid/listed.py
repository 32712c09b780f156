"""Seams of so many tiles that no matrix holds all pairs: lists of the likely ones, and the rest by what is usual.

A tile's true neighbour is among its few best partners, or the seam is too plain to tell anything. So of each side the best partners are
kept with their costs, and the sums over *all* partners that a softmax needs. Affinities are then exact for every pair that either of
the two has in its list, and 0 elsewhere; the score of other pairs is that of the mean one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...compute.jit import have_numba
from ...structure.seams import SHARPNESS
from .affinity import PARTNERS, PRICE, STEEP, Affinities
from .frame import Frame
from .seams import Bonds, Listed

LISTED = 4000  # pieces from which on only the best partners of each side are kept


def in_lists(pieces: int) -> bool:
    """Whether so many tiles, or tiles in all their states, are solved without whole matrices."""
    return pieces >= LISTED and have_numba


LEAST_UNIT = 1e-3  # of what any pair costs: flat tiles cost nothing


Pairwise = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""(relation, tiles, tiles): one number per pair, computed when it is asked for."""


@dataclass(frozen=True)
class Side:
    """Of every piece, the best partners on one side, the cheapest first, and what its softmax over all partners needs.

    A piece is a tile, or a tile in one of its states, numbered tile * states + state.
    """

    partner: np.ndarray
    cost: np.ndarray
    scale: np.ndarray
    """The temperature of each tile's softmax."""
    log_sum: np.ndarray
    """Logarithm of the sum over all partners of exp(-cost / scale)."""

    def turned(self, states: int, steps: int) -> Side:
        """Those on the side that comes here when the whole picture goes so many states on."""
        piece = np.arange(len(self.partner))
        there = piece + (piece % states + steps) % states - piece % states
        partner = self.partner[there]
        partner = partner + (partner % states - steps) % states - partner % states
        return Side(partner, self.cost[there], self.scale[there], self.log_sum[there])


Sides = tuple[Side, Side, Side, Side]
"""Right, left, below, above."""


class Computed:
    """A matrix whose entries are computed when they are asked for."""

    def __init__(self, of: Pairwise, relation: int) -> None:
        self.of, self.relation = of, relation

    def __getitem__(self, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        a, b = np.broadcast_arrays(*pair)
        return self.of(self.relation, a.reshape(-1), b.reshape(-1)).reshape(a.shape)


def listed_affinities(sides: Sides, typical: float, shape: tuple[int, int], price: float | None = None) -> Affinities:
    """What `Affinities.of` is for matrices; ``typical`` is the cost of any pair."""
    (right, worth_right), (below, worth_below) = (_relation(sides[k], sides[k + 1], typical, price) for k in (0, 2))
    return Affinities(right, below, Bonds.of_lists(right, below, PARTNERS), shape, (worth_right, worth_below))


def _relation(after: Side, before: Side, typical: float, price: float | None) -> tuple[Listed, Listed]:
    """Affinity and score of all pairs in the list of one or the other."""
    n, most = after.partner.shape
    piece = np.repeat(np.arange(n), most)
    row = np.concatenate((piece, before.partner.reshape(-1)))
    column = np.concatenate((after.partner.reshape(-1), piece))
    cost = np.concatenate((after.cost.reshape(-1), before.cost.reshape(-1)))
    kept = np.isfinite(cost)
    keys, where = np.unique(row[kept].astype(np.int64) * n + column[kept], return_index=True)
    row, column, cost = keys // n, keys % n, cost[kept][where].astype(np.float64)
    logs = cost / after.scale[row] + after.log_sum[row] + cost / before.scale[column] + before.log_sum[column]
    affinity = np.exp(-logs / 2)
    unit = np.sqrt(_beyond(after, typical)[row] * _beyond(before, typical)[column]) if price is None else typical
    dear = PRICE * (cost - (price or 0.0)) / unit
    score = affinity - dear
    if price is not None:
        affinity = np.clip(affinity - STEEP * np.maximum(dear, 0), 0, None)
    first = np.searchsorted(row, np.arange(n + 1))
    column = column.astype(np.int32)
    nothing = np.zeros(n, np.float32)
    usual = np.full(n, -PRICE * (1 - (price or 0.0) / typical), np.float32)
    return (
        Listed.of(first, column, affinity.astype(np.float32), nothing),
        Listed.of(first, column, score.astype(np.float32), usual),
    )


def _beyond(side: Side, typical: float) -> np.ndarray:
    """What those cost at the least that are not in the list of a tile: a unit of its own, since in a plain region all are cheap."""
    return np.clip(side.cost[:, -1].astype(np.float64), LEAST_UNIT * typical, typical)


@dataclass(frozen=True)
class ListedEvidence:
    """What `Evidence` is for matrices."""

    sides: Sides
    shape: tuple[int, int]
    typical: float
    """The cost of any pair."""
    cost: Pairwise
    inside: Pairwise
    """What to add to an affinity to judge whether a seam is inside the picture or its border."""
    alike: bool = False

    @cached_property
    def belief(self) -> Affinities:
        return listed_affinities(self.sides, self.typical, self.shape)

    @cached_property
    def frame(self) -> Frame:
        """Affinities of the lists, and what is added to them computed."""
        b = self.belief

        def inside(k: int, matrix: Listed) -> Computed:
            return Computed(lambda _, a, c: matrix[a, c] + self.inside(k, a, c), k)

        return Frame(self.shape, (inside(0, b.right), inside(1, b.below)))

    def energy(self, order: np.ndarray) -> float:
        tiles = order.reshape(self.shape)
        beside = self.cost(0, tiles[:, :-1].reshape(-1), tiles[:, 1:].reshape(-1))
        under = self.cost(1, tiles[:-1].reshape(-1), tiles[1:].reshape(-1))
        return float(beside.sum(dtype=np.float64) + under.sum(dtype=np.float64))


def best_partners(cost: Tensor, most: int, least: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of a block of rows with all their costs (infinite: never): a `Side` of these rows."""
    best = cost.topk(min(most, cost.shape[1]), 1, largest=False)
    scale = SHARPNESS * best.values[:, min(1, best.values.shape[1] - 1)].clamp_min(least)
    log_sum = torch.logsumexp(-cost / scale[:, None], 1)
    return best.indices, best.values, scale, log_sum
