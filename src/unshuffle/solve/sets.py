"""Sets that hold the truth as often as they say: for each item its likely places, and the items that are likely beside it.

Where examples with known answers exist, `metrics.conformal_threshold` makes such sets of any soft permutation. Here there are none: what
is asked is how often an item is elsewhere in orders that are nearly as good (`Shares`). How good is nearly was chosen for each
layout on made problems so that sets at a level of 90 % hold the truth in 90 % of the cases; benchmarks/solve_sets.py reports others.
Whole places hold more than the level where the likeliest one does by itself; `likeliest` can leave the last out by chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from ..errors import number
from ..structure.layouts import Cycle, Grid, Path
from .path.lags import SURE, scatter
from .path.walk import nearby_orders

if TYPE_CHECKING:
    from .grid.evidence import Evidence
    from .solution import Solution

DETOUR, LEAST = 1.0, 0.1
"""Temperature of paths, in mean detours (how much longer two links are than the way past the item between them: the thickness of the
data), and what it is at least, in units of what tells near items apart."""
ON_RINGS = 0.3  # of tours, in the same units
ACROSS = 0.8 * SURE  # of paths over several lags, in units of the scatter across a joint
AGAIN, SOME = 2, 20
"""How often the temperature of a path is measured again, along how many orders. The best order is smoother than the true one, the more so the
noisier the data are; orders that are met at a temperature are as rough as the truth is."""
NOTHING = 1e-4  # a share below this is none


class Shares(NamedTuple):
    """How often each item (row) is in each place, and beside each other item; None where there is no such thing."""

    places: csr_array | None
    partners: csr_array | None


@dataclass(frozen=True, eq=False)
class Sets:
    """Per item, the likeliest first: the places and the neighbours of which one cannot tell which it is.

    The true place of an item is among its places, and each of its true neighbours among its partners, with probability ``level``.
    """

    level: float
    places: list[Int[Tensor, "some"]]
    """Of paths up to which end is the first; an empty list of cycles, which begin anywhere."""
    partners: list[Int[Tensor, "some"]]
    """An empty list where positions have no neighbours: of a `Graph`, of a loss."""

    @classmethod
    def of(cls, shares: Shares, level: float, generator: torch.Generator | None = None) -> Sets:
        places, partners = ([] if s is None else likeliest(s, level, generator) for s in shares)
        return cls(level, places, partners)

    def __repr__(self) -> str:
        told = [
            f"{sum(map(len, sets)) / max(len(sets), 1):.1f} {name} an item"
            for name, sets in (("places", self.places), ("partners", self.partners))
            if sets
        ]
        return f"Sets({self.level:.0%}: {', '.join(told)})"


def sets_of(found: Solution, level: float, generator: torch.Generator | None = None) -> Sets:
    number("level", level, above=0, below=1)
    return Sets.of(from_soft(found) if found.weigh is None else found.weigh(found), level, generator)


def likeliest(shares: csr_array, level: float, generator: torch.Generator | None = None) -> list[Int[Tensor, "some"]]:
    """Per row the fewest columns that make up ``level`` of its sum, the largest first.

    They make up more than that. With a ``generator`` the last of each row is left out as often as makes it just the
    level on average (Romano, Sesia and Candes 2020); a row may then be empty.
    """
    first = shares.indptr[:-1]
    rows = np.repeat(np.arange(len(first)), np.diff(shares.indptr))
    order = np.lexsort((np.negative(shares.data), rows))
    mass, column = shares.data[order], shares.indices[order]
    before = np.cumsum(mass) - mass
    some = np.diff(shares.indptr) > 0
    began, total = np.zeros(len(first)), np.zeros(len(first))
    began[some] = before[first[some]]
    total[some] = np.add.reduceat(mass, first[some]) if some.any() else 0.0
    part = np.zeros(len(first)) if generator is None else torch.rand(len(first), generator=generator).double().numpy()
    kept = before - began[rows] + part[rows] * mass < level * total[rows] - 1e-9
    counts = np.bincount(rows[kept], minlength=len(first))
    return list(torch.from_numpy(column[kept].astype(np.int64)).split(counts.tolist()))


def of_orders(orders: Int[np.ndarray, "orders n"], closed: bool, reversible: bool) -> Shares:
    """The shares of orders. Paths that may be read either way are turned to run as the first does."""
    count, n = orders.shape
    if not closed and reversible:
        place = np.argsort(orders, axis=1) - (n - 1) / 2
        orders = np.where((place @ place[0] < 0)[:, None], orders[:, ::-1], orders)
    first, second = (orders, np.roll(orders, -1, 1)) if closed else (orders[:, :-1], orders[:, 1:])
    one, other = np.r_[first.ravel(), second.ravel()], np.r_[second.ravel(), first.ravel()]
    places = None if closed else _counted(orders.ravel(), np.tile(np.arange(n), count), n, count)
    return Shares(places, _counted(one, other, n, count))


def _counted(row: np.ndarray, column: np.ndarray, n: int, of: int) -> csr_array:
    key, times = np.unique(row * n + column, return_counts=True)
    return coo_array((times / of, (key // n, key % n)), shape=(n, n)).tocsr()


def of_moves(order: Int[np.ndarray, "n"], moves: Iterable[tuple[Int[np.ndarray, "n"], float]]) -> Shares:
    """The shares of single moves, each of items 0, 1, ... as they stand in ``order``, with its odds against staying: where it takes each item,
    and whom beside. An item that a move leaves alone is no surer by it."""
    n, here = len(order), np.arange(len(order))
    rows, columns, odds = [here], [here], [np.ones(n)]
    links, link_odds = [np.stack((here[:-1], here[1:]))], [np.ones(max(n - 1, 0))]
    for other, chance in moves:
        moved = np.flatnonzero(other != here)
        new = np.stack((other[:-1], other[1:]))[:, np.abs(np.diff(other)) != 1]
        rows.append(other[moved])
        columns.append(moved)
        odds.append(np.full(len(moved), chance))
        links.append(new)
        link_odds.append(np.full(new.shape[1], chance))
    one, two = order[np.concatenate(links, axis=1)]
    both, ends = np.tile(np.concatenate(link_odds), 2), (np.r_[one, two], np.r_[two, one])
    at = (order[np.concatenate(rows)], np.concatenate(columns))
    places = coo_array((np.concatenate(odds), at), shape=(n, n))
    return Shares(_kept(places.tocsr()), _kept(coo_array((both, ends), shape=(n, n)).tocsr()))


def near_orders(
    layout: Path | Cycle,
    cost: Float[np.ndarray, "n n"],
    order: Int[np.ndarray, "n"],
    temperature: float | None = None,
    **rules: Any,
) -> Shares:
    """The shares of the orders of a walk around this one."""
    others = walk_around(layout, cost, order, temperature=temperature, **rules)
    reversible = bool(np.array_equal(cost, cost.T)) and rules.get("allowed") is None
    return of_orders(np.concatenate((order[None], others)), isinstance(layout, Cycle), reversible)


def walk_around(
    layout: Path | Cycle,
    cost: Float[np.ndarray, "n n"],
    order: Int[np.ndarray, "n"],
    temperature: float | None = None,
    **rules: Any,
) -> Int[np.ndarray, "orders n"]:
    """Orders nearly as good as this one, by the temperature of the layout unless another is given."""
    weights = np.array(layout.weights if isinstance(layout, Path) else (1.0,))
    rules = {"closed": isinstance(layout, Cycle), "rng": np.random.default_rng(0)} | rules
    if temperature is None:
        temperature = usual_temperature(layout, cost, order[None])
        met, few = order, dict[str, Any](rules, count=SOME)
        for _ in range(AGAIN if isinstance(layout, Path) else 0):
            some = nearby_orders(met, cost, weights, temperature, **few)
            temperature, met = usual_temperature(layout, cost, some), some[-1]
    return nearby_orders(order, cost, weights, temperature, **rules)


def usual_temperature(
    layout: Path | Cycle, cost: Float[np.ndarray, "n n"], orders: Int[np.ndarray, "orders n"]
) -> float:
    """How much dearer an order may be and still be as likely to be the true one, but for a factor e: by what these orders are like."""
    least = 1e-9 * float(np.abs(cost).max()) + 1e-300
    if isinstance(layout, Path) and len(layout.weights) > 1:
        weights = np.array(layout.weights)
        return max(ACROSS * float(np.mean([scatter(order, cost, weights) for order in orders])), least)
    n = orders.shape[1]
    if n < 3:
        return least
    near = np.where(np.eye(n, dtype=bool), np.inf, np.minimum(cost, cost.T))
    near = np.sort(near, axis=1)[:, : min(6, n - 1)]
    unit = float((near.mean(1) - near[:, 0]).mean())
    if isinstance(layout, Cycle):
        return max(ON_RINGS * unit, least)
    before, item, after = orders[:, :-2], orders[:, 1:-1], orders[:, 2:]
    detour = float((cost[before, item] + cost[item, after] - cost[before, after]).mean())
    return max(DETOUR * detour, LEAST * unit, least)


def chain_shares(layout: Path | Cycle, cost: Float[Tensor, "n n"], allowed: Tensor | None, found: Solution) -> Shares:
    """Of paths and cycles with a whole matrix of costs."""
    mask = None if allowed is None else allowed.numpy()
    return with_tried(near_orders(layout, cost.double().numpy(), found.best_order.numpy(), allowed=mask), found)


def with_tried(shares: Shares, found: Solution) -> Shares:
    """Of tours half by the other ones that the solver made: how those end that are as good is more than a walk around one of them sees."""
    if shares.places is not None or shares.partners is None or found.tried is None or len(found.tried) < 2:
        return shares
    others = of_orders(found.tried.numpy(), closed=True, reversible=True).partners
    return Shares(None, csr_array((shares.partners + others) / 2))


def from_soft(found: Solution) -> Shares:
    """By the soft permutation around the order, in which each item is in its place as surely as its confidence says."""
    shares = _with_confidence(_sparse(found.soft), found)
    return Shares(shares, beside(shares, found.layout))


def grid_shares(layout: Grid, evidence: Evidence, allowed: Bool[Tensor, "n n"] | None, found: Solution) -> Shares:
    """Of pictures: by the soft permutation, and by where else the picture may be cut open, which moves all tiles at once."""
    from .grid.frame import NOISY_CUT
    from .grid.solver import FOR_SETS, judge_grid

    order = found.best_order
    soft, _ = judge_grid(layout, evidence, order, allowed, FOR_SETS)
    upright = _sparse(soft)
    partners = beside(upright, layout)
    if allowed is not None or evidence.alike:
        return Shares(upright, partners)
    h, w = evidence.shape
    down, across = (np.roll(chance, 1) for chance in evidence.frame.chances(order.numpy(), NOISY_CUT))
    likely = upright.tocoo()
    tile, cell = likely.coords
    parts = []
    for a, b in np.argwhere(np.outer(down, across) > NOTHING):
        moved = (cell // w - a) % h * w + (cell % w - b) % w
        parts.append(coo_array((likely.data * down[a] * across[b], (tile, moved)), shape=upright.shape))
    return Shares(_kept(sum(part.tocsr() for part in parts)), partners)


def beside(places: csr_array, layout: Any) -> csr_array | None:
    """How often two items are neighbours, if each is where it is whatever the others do."""
    if not isinstance(layout, (Path, Cycle, Grid)):
        return None
    relations = layout.relations() if isinstance(layout, Grid) else layout.relations()[:1]
    first, second = torch.cat(relations).numpy().T
    next_to = coo_array((np.ones(len(first)), (first, second)), shape=(layout.n, layout.n)).tocsr()
    ordered = places @ next_to @ places.T
    both = (ordered + ordered.T).tolil()
    both.setdiag(0)
    return _kept(both.tocsr())


def _sparse(soft: Tensor) -> csr_array:
    if soft.is_sparse:
        at = soft.coalesce()
        return coo_array((at.values().double().numpy(), at.indices().numpy()), shape=tuple(soft.shape)).tocsr()
    return _kept(csr_array(torch.where(soft > NOTHING, soft, 0.0).double().numpy()))


def _kept(shares: Any) -> csr_array:
    """Without what is too little to count."""
    shares = csr_array(shares)
    shares.data[shares.data < NOTHING] = 0.0
    shares.eliminate_zeros()
    return shares


def _with_confidence(shares: csr_array, found: Solution) -> csr_array:
    """Rows in which the place of the item has its confidence, and all others what is left; all alike if none is preferred."""
    order = found.best_order.numpy()
    position = np.flatnonzero(order >= 0)
    item, sure = order[position], found.confidence.double().numpy()
    own = coo_array((np.ones(len(item)), (item, position)), shape=shares.shape).tocsr()
    rest = shares - shares.multiply(own)
    unknown = (np.asarray(rest.sum(1)).ravel() <= 0) & (sure < 1)
    rest = rest + csr_array(np.outer(unknown, np.ones(len(order)))) if unknown.any() else rest
    total = np.asarray(rest.sum(1)).ravel()
    scale = np.where(total > 0, (1 - sure) / np.where(total > 0, total, 1.0), 0.0)
    return _kept(rest.multiply(scale[:, None]) + own.multiply(sure[:, None]))
