"""Of long chains, how often items are elsewhere in orders that are nearly as good: walks (`path.walk`) in one stretch after the other.

A walk in a stretch cannot find what another part of a tour has for its items; the other tours that the solver made can.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from ...structure.layouts import Cycle, Path
from ...watch import Watch
from ..path.walk import COUNT, nearby_orders
from ..sets import Shares, of_orders, usual_temperature
from ..solution import Solution
from .space import Large, Space

STRETCH = 400  # items of a walk, whose first and last stay
FEWEST = 4


def near_shares(layout: Path | Cycle, given: Large, allowed: None, found: Solution) -> Shares:
    """Of paths and cycles without a matrix of costs."""
    space, order = given.space(Watch()), found.best_order.numpy()
    closed, rng = isinstance(layout, Cycle), np.random.default_rng(0)
    parts = np.array_split(order, -(-len(order) // STRETCH))
    walked = np.concatenate([_walked(space, part, closed, rng) for part in parts], axis=1)
    shares = of_orders(np.concatenate((order[None], walked)), closed, reversible=True)
    if not closed or found.tried is None or len(found.tried) < 2 or shares.partners is None:
        return shares
    others = of_orders(found.tried.numpy(), closed, reversible=True).partners
    return Shares(None, csr_array((shares.partners + others) / 2))


def _walked(
    space: Space, items: Int[np.ndarray, "some"], closed: bool, rng: np.random.Generator
) -> Int[np.ndarray, "orders some"]:
    n = len(items)
    cost, order = _costs(space, items), np.arange(n)
    temperature = usual_temperature(Cycle(n) if closed else Path(n), cost, order) if n >= FEWEST else 1.0
    return items[nearby_orders(order, cost, np.ones(1), temperature, rng, held=True, count=COUNT // 2)]


def _costs(space: Space, items: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some some"]:
    one, other = np.repeat(items, len(items)), np.tile(items, len(items))
    cost = space.between(one, other).reshape(len(items), len(items))
    np.fill_diagonal(cost, 0.0)
    return cost
