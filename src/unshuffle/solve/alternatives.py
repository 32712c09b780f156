"""The best orders that differ: what else the runs of one solve ended in, and the best with one thing changed.

On paths and cycles that is one stretch turned round; on grids two tiles exchanged where one of them may well stand in the other's place,
and the picture cut open elsewhere; on graphs two items exchanged, and two of what that gives, from the best on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import whole
from ..structure.layouts import Cycle, Graph, Grid, Path
from ..watch import Watch
from . import exact
from .grid.listed import ListedEvidence
from .grid.pieces import Pieces
from .local_search import exchange_changes
from .near.space import Large
from .partial import Squared
from .path.directions import Ends, standing
from .solution import Polished, Solution

LONGEST = 3000  # over the number of items: the longest stretch, 30 of 100 items, 3 of 1,000
FEW = 20  # changes of a long chain
EXCHANGES = 1000  # of tiles that are tried, the likeliest first
Energy = Callable[[Int[Tensor, "orders n"]], Float[Tensor, "orders"]]


def alternatives(found: Solution, count: int) -> list[Polished]:
    """At most ``count`` orders with their energies, the best first, all different and none the best. Turned round or rotated is not different."""
    if isinstance(found.given, Pieces) and whole("count", count, 0):
        return _of_pieces(found, found.given, count)
    if isinstance(found.given, Squared) and whole("count", count, 0):
        return _of_partial(found, found.given, count)
    if isinstance(found.layout, Graph) and isinstance(found.given, Tensor) and whole("count", count, 0):
        return _of_graph(found, found.layout, found.given, count)
    if not whole("count", count, 0) or not isinstance(found.given, (Tensor, tuple, Ends, Large, ListedEvidence)):
        return []  # numbered anew
    energy = _energy(found)
    tried = torch.cat((found.best_order.unsqueeze(0), found.order.unsqueeze(0), found.starts, changed(found)))
    tried = permitted(tried, found.allowed)
    cost = _cost(found)
    reversible = isinstance(cost, Large) or (isinstance(cost, Tensor) and torch.equal(cost, cost.mT))
    return different(found.layout, reversible, tried, energy(tried), count)


def different(
    layout: Any, reversible: bool, orders: Int[Tensor, "orders n"], energies: Float[Tensor, "orders"], count: int
) -> list[Polished]:
    """The best ``count`` of the orders that are not the first of them, nor each other: begun elsewhere and turned round is the same."""
    first = tuple(_same(layout, reversible, orders[0]).tolist())
    kept: dict[tuple[int, ...], Polished] = {}
    for k in energies.argsort(stable=True).tolist():
        key = tuple(_same(layout, reversible, orders[k]).tolist())
        if key != first and key not in kept:
            kept[key] = Polished(orders[k], float(energies[k]))
        if len(kept) == count:
            break
    return list(kept.values())


def permitted(orders: Int[Tensor, "orders n"], allowed: Bool[Tensor, "m n"] | None) -> Int[Tensor, "some n"]:
    """Those in which everybody stands where it may; empty positions are always permitted."""
    if allowed is None:
        return orders
    return orders[((orders < 0) | allowed[orders, torch.arange(orders.shape[1])]).all(1)]


def _cost(found: Solution) -> Any:
    """Of items as they stand."""
    return found.given.upright(standing(found)) if isinstance(found.given, Ends) else found.given


def _energy(found: Solution) -> Energy:
    layout, given = found.layout, _cost(found)
    if isinstance(given, ListedEvidence):
        return lambda orders: torch.tensor([given.energy(order) for order in orders.numpy()], dtype=torch.float64)
    if isinstance(given, Large):
        space, closed = given.space(Watch()), isinstance(layout, Cycle)
        return lambda orders: torch.tensor([space.length(o, closed) for o in orders.numpy()], dtype=torch.float64)
    if isinstance(layout, (Path, Cycle, Grid, Graph)):
        return lambda orders: layout.energy(orders, given)
    return lambda orders: torch.stack([layout(given[order]).double() for order in orders])


def changed(found: Solution) -> Int[Tensor, "changes n"]:
    """The best order with one thing changed."""
    order = found.best_order
    if isinstance(found.given, Large):
        return _neighbours_changed(found, found.given)
    if isinstance(found.layout, (Path, Cycle)):
        return _turned(order)
    if isinstance(found.layout, Grid):
        return torch.cat((_elsewhere(found, found.layout), _exchanged(found)))
    return order.unsqueeze(0)


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


def _neighbours_changed(found: Solution, given: Large) -> Int[Tensor, "changes n"]:
    """Of a long chain: two neighbours in each other's places, where that costs least."""
    space, order = given.space(Watch()), found.best_order.numpy()
    before, one, other, after = order[:-3], order[1:-2], order[2:-1], order[3:]
    dearer = (
        space.between(before, other)
        + space.between(one, after)
        - space.between(before, one)
        - space.between(other, after)
    )
    others = found.best_order.repeat(min(FEW, len(dearer)), 1)
    for row, k in zip(others, np.argsort(dearer, kind="stable").tolist(), strict=False):
        row[[k + 1, k + 2]] = row[[k + 2, k + 1]]
    return others


def _elsewhere(found: Solution, grid: Grid) -> Int[Tensor, "cuts n"]:
    """The picture cut open at another row or column."""
    tiles = found.best_order.reshape(grid.height, grid.width)
    rows = [tiles.roll(-k, 0).reshape(-1) for k in range(grid.height)]
    columns = [tiles.roll(-k, 1).reshape(-1) for k in range(1, grid.width)]
    return torch.stack(rows + columns)


def _exchanged(found: Solution) -> Int[Tensor, "exchanges n"]:
    """Two tiles in each other's places, where the one is likeliest to stand beside its own."""
    from .sets import from_soft

    order = found.best_order
    shares = from_soft(found) if found.weigh is None else found.weigh(found)
    if shares.places is None:
        return order.unsqueeze(0)
    likely = shares.places.tocoo()
    item, place = likely.coords
    own = np.empty(len(found.confidence), np.int64)
    own[order.numpy()] = np.arange(len(order))
    some = np.flatnonzero(own[item] != place)
    most = min(EXCHANGES, max(50, 400_000 // len(order)))
    some = some[np.argsort(np.negative(likely.data[some]), kind="stable")][:most]
    others = order.repeat(len(some), 1)
    rows = torch.arange(len(some))
    one, two = torch.from_numpy(own[item[some]]), torch.from_numpy(place[some].astype(np.int64))
    others[rows, one], others[rows, two] = order[two], order[one]
    return others


def _of_graph(found: Solution, graph: Graph, cost: Float[Tensor, "n n"], count: int) -> list[Polished]:
    """From what the runs ended in, and from the best of these on, by exchanges of two items; of few items all orders. What symmetries of the
    weights make of an order, such as 2-SUM from the other end, is not different."""
    n = graph.n
    starts = torch.cat((found.best_order.unsqueeze(0), found.order.unsqueeze(0), found.starts))
    starts = permitted(starts.unique(dim=0), found.allowed) if n > exact.MOST else exact.all_orders(n, found.allowed)
    energies = graph.energy(starts, cost).tolist()
    waiting = sorted(zip(energies, map(tuple, starts.tolist()), strict=True))
    seen, kept = {order for _, order in waiting}, [Polished(found.best_order, found.best_energy)]
    while waiting and len(kept) <= count:
        energy, order = heapq.heappop(waiting)
        here = torch.tensor(order)
        if not any(_alike(graph, here, energy, other) for other in kept):
            kept.append(Polished(here, float(graph.energy(here, cost))))
        if n <= exact.MOST:
            continue
        changes = exchange_changes(here, cost, graph.weights, allowed=found.allowed)
        for k in np.argsort(changes, axis=None, kind="stable")[: 2 * count + 2].tolist():
            a, b = divmod(k, n)
            other = list(order)
            other[a], other[b] = order[b], order[a]
            if changes[a, b] < np.inf and tuple(other) not in seen:
                seen.add(tuple(other))
                heapq.heappush(waiting, (energy + float(changes[a, b]), tuple(other)))
    return kept[1:]


def _alike(graph: Graph, order: Int[Tensor, "n"], energy: float, other: Polished) -> bool:
    """Whether the weights are the same when positions are numbered as the one order has the items of the other."""
    if abs(energy - other.energy) > 1e-9 * max(abs(energy), abs(other.energy)):
        return False
    place = torch.empty_like(order)
    place[other.order] = torch.arange(len(order))
    way = place[order]
    return torch.equal(graph.weights[way][:, way], graph.weights)


def _of_pieces(found: Solution, pieces: Pieces, count: int) -> list[Polished]:
    """Of tiles with states or without all of their places: those on the board as a puzzle of their own."""
    order = found.best_order.numpy()
    state = np.zeros(pieces.tiles, np.int64)
    if found.best_state is not None:
        state[order[order >= 0]] = found.best_state.numpy()[order >= 0] // pieces.unit
    board = pieces.local(order, state)
    own = torch.from_numpy(board.order)
    local = replace(found, order=own, tried=None, polished=None, given=board.evidence, weigh=None)
    tried = torch.cat((own.unsqueeze(0), _elsewhere(local, pieces.grid), _pairs(own)))
    best = different(pieces.grid, False, tried, pieces.grid.energy(tried, board.evidence), count)
    return [Polished(torch.from_numpy(board.tile[other.order.numpy()]), other.energy) for other in best]


def _of_partial(found: Solution, problem: Squared, count: int) -> list[Polished]:
    """Where items are left out: two of those that stand exchanged, one of them exchanged with one that does not, a stretch turned round; with
    prices also a place emptied."""
    order, n = found.best_order, len(found.best_order)
    others = found.left_out if problem.prices is None else torch.cat((found.left_out, torch.tensor([-1])))
    place, item = (a.flatten() for a in torch.meshgrid(torch.arange(n), others, indexing="ij"))
    exchanged = order.repeat(len(place), 1)
    exchanged[torch.arange(len(place)), place] = item
    chain = isinstance(problem.layout, (Path, Cycle))
    pairs = _pairs(order) if n > 1 else order.unsqueeze(0)
    tried = torch.cat((order.unsqueeze(0), pairs, exchanged, *([_turned(order)] if chain and n > 1 else [])))
    tried = permitted(tried, found.allowed)
    weights, cost = problem.graph.weights, problem.cost
    reversible = torch.equal(cost, cost.mT) and (chain or torch.equal(weights, weights.flip(0, 1)))
    return different(problem.layout, reversible, tried, problem.costs(tried), count)


def _pairs(order: Int[Tensor, "n"]) -> Int[Tensor, "exchanges n"]:
    """Any two tiles in each other's places; of many only near ones, in the order of places."""
    n = len(order)
    pairs = torch.combinations(torch.arange(n))
    near = (pairs[:, 1] - pairs[:, 0]).argsort(stable=True)[: 400_000 // n]
    others, rows = order.repeat(len(near), 1), torch.arange(len(near))
    one, two = pairs[near].T
    others[rows, one], others[rows, two] = order[two], order[one]
    return others


def _same(layout: Any, reversible: bool, order: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """The one of those that are the same that comes first in the alphabet; a tour begins at the first of its items."""
    if not isinstance(layout, (Path, Cycle, Graph)):
        return order
    both = [order, order.flip(0)] if reversible else [order]
    if isinstance(layout, Cycle):
        present = order[order >= 0]
        first = present.min() if len(present) else order[0]
        both = [o.roll(-int((o == first).nonzero()[0, 0])) for o in both]
    return min(both, key=lambda o: o.tolist())
