"""The best orders that differ: what else the runs of one solve ended in, and the best with one stretch turned round."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ..metrics import canonical_tour
from ..structure.layouts import Cycle, Layout, Path
from .solution import Polished, Solution

LONGEST = 3000  # over the number of items: the longest stretch, 30 of 100 items, 3 of 1,000


def alternatives(layout: Layout, cost: Any, found: Solution, count: int) -> list[Polished]:
    """At most ``count`` different orders with their energies, the best first. Turned round or rotated is not different.

    Of what was found on the way and, on paths and cycles, of what one turned stretch makes of the best: that an order is
    missing does not say that it is worse.
    """
    tried = torch.cat((found.best_order.unsqueeze(0), found.order.unsqueeze(0), found.starts))
    if isinstance(layout, (Path, Cycle)):
        tried = torch.cat((tried, _turned(found.best_order)))
    energies = layout.energy(tried, cost)
    kept: dict[tuple[int, ...], Polished] = {}
    for k in energies.argsort(stable=True).tolist():
        key = tuple(_same(layout, cost, tried[k]).tolist())
        if key not in kept:
            kept[key] = Polished(tried[k], float(energies[k]))
        if len(kept) == count:
            break
    return list(kept.values())


def _turned(order: Int[Tensor, "n"]) -> Int[Tensor, "turns n"]:
    """The order with one stretch turned round, each once; the longer the order, the shorter the stretches."""
    n = len(order)
    place = torch.arange(n)
    turns = [
        torch.where((place >= low) & (place < low + size), 2 * low + size - 1 - place, place)
        for size in range(2, min(n - 1, max(2, LONGEST // n)) + 1)
        for low in range(n - size + 1)
    ]
    return order[torch.stack(turns)] if turns else order.unsqueeze(0)


def _same(layout: Layout, cost: Any, order: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """One order for all that the layout and the cost cannot tell apart."""
    reversible = isinstance(cost, Tensor) and torch.equal(cost, cost.mT)
    if isinstance(layout, Cycle):
        return canonical_tour(order) if reversible else order.roll(-int((order == 0).nonzero()[0, 0]))
    if isinstance(layout, Path) and reversible and order[0] > order[-1]:
        return order.flip(0)
    return order
