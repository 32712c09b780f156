"""What is known of tiles that have states, or of more or fewer tiles than cells: the costs of all pairs of *pieces*.

A piece is a tile in one of its states, numbered tile * states + state: a tile turned by 0, 90, 180, 270 degrees is four pieces, of
which at most one is used. Once it is known which tiles are used and in which states, what is left is a puzzle of tiles,
with fewer rivals for every seam; cells that stay empty hold blank tiles in it.

A seam that is not made has a price: the energy is the cost of all seams between tiles plus the price of all others inside the grid. So a
tile is worth placing if its seams cost less than that on average, wherever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from ...structure.layouts import Grid
from .affinity import Affinities
from .crystal import Room
from .evidence import Evidence, Pair

DEAR = 0.2  # of the way from the best seams to any
PULL = 0.1  # affinity to what stands around it that a tile must have to be placed at all, where tiles may be left out


@dataclass(frozen=True)
class OnBoard:
    """The tiles on the board as a puzzle of their own: its evidence, its order, and which tile each of its tiles is (-1: blank)."""

    evidence: Evidence
    order: np.ndarray
    tile: np.ndarray

    def opened(self) -> OnBoard:
        """Shifted on the torus so that the weakest lines are the border."""
        return replace(self, order=self.evidence.frame.opened(self.order))


class Costs(Protocol):
    """What is known of the seams between pieces: whole matrices, or lists of the likely ones and the rest when it is asked for."""

    @property
    def states(self) -> int: ...
    @property
    def tiles(self) -> int: ...
    def usual_price(self) -> float:
        """Of a seam that is not made, see `usual_price`."""
        ...

    def affinities(self, shape: tuple[int, int], price: float | None) -> Affinities: ...
    def pairs(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The cost of each piece of b right of (0) or below (1) that of a."""
        ...

    def among(self, tiles: Tensor) -> Costs:
        """The same of some of the tiles only."""
        ...

    def between(self, pieces: Tensor) -> tuple[Pair, Pair | None]:
        """Whole matrices of some of the pieces: the costs, and what tells a seam inside the picture from its border."""
        ...


@dataclass(frozen=True)
class Whole:
    """The costs (right, below), pieces x pieces: ``right[a, b]`` for piece b directly right of piece a."""

    cost: Pair
    states: int = 1
    border: Pair | None = None
    """What to add to the affinity of a seam to judge whether it is inside the picture or its border."""

    @property
    def tiles(self) -> int:
        return len(self.cost[0]) // self.states

    def usual_price(self) -> float:
        return usual_price(self.cost, self.states)

    def affinities(self, shape: tuple[int, int], price: float | None) -> Affinities:
        return Affinities.of(self.cost, shape, self.states, price)

    def pairs(self, relation: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.cost[relation].numpy()[a, b]

    def among(self, tiles: Tensor) -> Whole:
        cost, border = self.between((tiles[:, None] * self.states + torch.arange(self.states)).reshape(-1))
        return replace(self, cost=cost, border=border)

    def between(self, pieces: Tensor) -> tuple[Pair, Pair | None]:
        def chosen(pair: Pair) -> Pair:
            return pair[0][pieces][:, pieces], pair[1][pieces][:, pieces]

        return chosen(self.cost), None if self.border is None else chosen(self.border)


@dataclass(frozen=True)
class Pieces:
    """The pieces and the grid that they are for."""

    cost: Costs
    grid: Grid
    apart: int | None = None
    """So many states of one tile lead to different pictures; the others to one of these, turned as a whole. None: all do."""
    reject: float | None = None
    """The price of a seam that is not made, if any tile may be left out. None: only those for which there is no cell are."""
    unit: int = 1
    """In what states are counted by whoever was given the solution: two quarter turns, say."""

    @property
    def states(self) -> int:
        return self.cost.states

    @property
    def tiles(self) -> int:
        return self.cost.tiles

    @property
    def shape(self) -> tuple[int, int]:
        return self.grid.height, self.grid.width

    @property
    def complete(self) -> bool:
        return self.reject is None and self.tiles == self.grid.n

    @property
    def turn_whole(self) -> bool:
        """Whether states are turns: a picture turned as a whole has each of its tiles in another state, and the same seams."""
        return self.states > 1 and self.apart is not None

    @cached_property
    def price(self) -> float | None:
        """Of a seam that is not made; None if all are."""
        if self.complete:
            return None
        return self.cost.usual_price() if self.reject is None else self.reject

    @cached_property
    def belief(self) -> Affinities:
        return self.cost.affinities(self.shape, self.price)

    def like(self, other: Pieces) -> Pieces:
        """This, with the belief of the same pieces on another board, if they have one price: to come to it takes the most time of all."""
        if self.cost is other.cost and self.price == other.price and min(*self.shape, *other.shape) > 1:
            self.__dict__["belief"] = replace(other.belief, shape=self.shape)
        return self

    @property
    def room(self) -> Room:
        n, cells = self.tiles, self.grid.n
        if self.reject is None:
            return Room(*self.shape, self.states, max(cells - n, 0), max(n - cells, 0))
        return Room(*self.shape, self.states, cells, n, PULL)

    def among(self, tiles: Tensor) -> Pieces:
        """The same of some of the tiles only."""
        return replace(self, cost=self.cost.among(tiles))

    def board(self, order: np.ndarray, state: np.ndarray) -> np.ndarray:
        """The piece of each cell, or -1, by the tile of each cell, or -1, and the state of each tile."""
        return np.where(order >= 0, order * self.states + state[order], -1)

    def energies(self, boards: np.ndarray) -> np.ndarray:
        """Of boards that have the piece of each cell or -1: the seams that are made, and the price of the others."""
        total, made = made_seams(boards, self.shape, self.cost.pairs)
        seams = sum(map(len, self.grid.relations()))
        return total + (self.price or 0.0) * (seams - made)

    def strength(self) -> np.ndarray:
        """How sure each tile is of its neighbours, in sum over its states."""
        return self.belief.strength().reshape(self.tiles, self.states).sum(1)

    def surest(self) -> np.ndarray:
        """The tiles, those first that are surest of their neighbours. Where any may be left out, by the size of the part that sure seams
        join to one: two plain tiles of another picture may be surer of each other than any, and nothing grows around them."""
        strength = self.strength()
        if self.reject is None:
            return np.argsort(-strength, kind="stable")
        partner, sure = self.belief.bonds
        _, piece, _ = found = np.nonzero(sure > 0.5)
        seams = coo_array(
            (np.ones(len(piece)), (piece // self.states, partner[found] // self.states)), (self.tiles,) * 2
        )
        part = connected_components(seams, directed=False)[1]
        return np.lexsort((-strength, -np.bincount(part)[part]))

    def local(self, order: np.ndarray, state: np.ndarray) -> OnBoard:
        """The puzzle that is left of a layout: ``order`` has the tile of each cell or -1, ``state`` that of each tile."""
        tile = np.full(self.grid.n, -1)
        used = np.sort(order[order >= 0])
        tile[: len(used)] = used
        cost, border = self.cost.between(torch.from_numpy(used * self.states + state[used]))
        evidence = Evidence.of(cost, self.grid, border, self.price)
        number = np.empty(self.tiles, np.int64)
        number[used] = np.arange(len(used))
        own = np.where(order >= 0, number[order], 0)
        own[order < 0] = np.arange(len(used), self.grid.n)
        return OnBoard(evidence, own, tile)


def made_seams(
    boards: np.ndarray, shape: tuple[int, int], cost: Callable[[int, np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Of each board, what the seams between pieces that are there cost, and how many they are."""
    who = boards.reshape(*boards.shape[:-1], *shape)
    total, made = np.zeros(boards.shape[:-1]), np.zeros(boards.shape[:-1], np.int64)
    right, below = (who[..., :, :-1], who[..., :, 1:]), (who[..., :-1, :], who[..., 1:, :])
    for relation, (first, second) in enumerate((right, below)):
        there = (first >= 0) & (second >= 0)
        total += np.where(there, cost(relation, first, second), 0.0).sum((-1, -2))
        made += there.sum((-1, -2))
    return total, made


def usual_price(cost: tuple[Tensor, Tensor], states: int = 1) -> float:
    """A fifth of the way from what the best seam of a piece costs to what any seam costs, both by their medians.

    On eight photos of 12 x 9 tiles, one in ten of them foreign, the seams of the tiles that belong cost at most 0.11 of that way on
    average, those of the others at least 0.14, in the hole that suits them best, and nearly all more than 0.25.
    """
    n = len(cost[0])
    if n < 2 * states:
        return float(cost[0].max())
    tile = torch.arange(n) // states
    own = tile[:, None] == tile
    prices = []
    for matrix in cost:
        apart = matrix.masked_fill(own, torch.inf)
        best = torch.cat((apart.amin(0), apart.amin(1))).median()
        prices.append(float(best + DEAR * (matrix[~own].median() - best)))
    return sum(prices) / len(prices)
