"""Of long chains, how often items are elsewhere in orders that are nearly as good: walks (`path.walk`) in one stretch after the other.

A walk in a stretch cannot find what another part of a tour has for its items; the other tours that the solver made can (`with_tried`).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from ...structure.layouts import Cycle, Path
from ...watch import Watch
from ..path.walk import COUNT
from ..sets import Shares, of_orders, usual_temperature, walk_around, with_tried
from ..solution import Solution
from .space import Large, Space

STRETCH = 400  # items of a walk, whose first and last stay


def near_shares(layout: Path | Cycle, given: Large, allowed: None, found: Solution) -> Shares:
    """Of paths and cycles without a matrix of costs."""
    space, order = given.space(Watch()), found.best_order.numpy()
    closed, rng = isinstance(layout, Cycle), np.random.default_rng(0)
    parts = np.array_split(order, -(-len(order) // STRETCH))
    walked = np.concatenate([_walked(space, part, closed, rng) for part in parts], axis=1)
    return with_tried(of_orders(np.concatenate((order[None], walked)), closed, reversible=True), found)


def _walked(
    space: Space, items: Int[np.ndarray, "some"], closed: bool, rng: np.random.Generator
) -> Int[np.ndarray, "orders some"]:
    cost, order = _costs(space, items), np.arange(len(items))
    path, ring = Path(len(items)), Cycle(len(items))
    temperature = usual_temperature(ring, cost, order[None]) if closed else None
    return items[walk_around(path, cost, order, temperature, held=True, rng=rng, count=COUNT // 2)]


def _costs(space: Space, items: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some some"]:
    one, other = np.repeat(items, len(items)), np.tile(items, len(items))
    cost = space.between(one, other).reshape(len(items), len(items))
    np.fill_diagonal(cost, 0.0)
    return cost
