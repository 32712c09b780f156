"""What is known of tiles that have states: the costs of all pairs of *pieces*.

A piece is a tile in one of its states, numbered tile * states + state: a tile turned by 0, 90, 180, 270 degrees is four pieces, of
which one is used. Once the state of every tile is known, what is left is a puzzle of tiles, with fewer rivals for every seam.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ...structure.layouts import Grid
from .affinity import Affinities
from .evidence import Evidence, Pair


@dataclass(frozen=True)
class Pieces:
    """The costs (right, below), pieces x pieces: ``right[a, b]`` for piece b directly right of piece a."""

    cost: Pair
    states: int
    grid: Grid
    border: Pair | None = None
    """What to add to the affinity of a seam to judge whether it is inside the picture or its border."""
    apart: int | None = None
    """So many states of one tile lead to different pictures; the others to one of these, turned as a whole. None: all do."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.grid.height, self.grid.width

    @property
    def tiles(self) -> int:
        return len(self.cost[0]) // self.states

    @cached_property
    def belief(self) -> Affinities:
        return Affinities.of(self.cost, self.shape, self.states)

    def strength(self) -> np.ndarray:
        """How sure each tile is of its neighbours, in sum over its states."""
        return self.belief.strength().reshape(self.tiles, self.states).sum(1)

    def standing(self, state: np.ndarray) -> Evidence:
        """The puzzle of tiles that is left when each has its state."""
        here = torch.from_numpy(np.arange(self.tiles) * self.states + state)

        def chosen(pair: Pair) -> Pair:
            return pair[0][here][:, here], pair[1][here][:, here]

        return Evidence.of(chosen(self.cost), self.grid, None if self.border is None else chosen(self.border))
