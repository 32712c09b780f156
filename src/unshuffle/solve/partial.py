r"""Not every item has a place, not every position is taken: paths, cycles, graphs, and grids of one cost, with more or fewer items than
positions.

The energy is the pair costs of neighbours that are both there, a price for each item left out and one for each position left
empty. It is the square quadratic assignment padded with blanks (items that cost nothing beside anybody) and places outside
(positions without neighbours): $\sum_{ab} w_{ab} D_{\pi(a)\pi(b)}$, prices on the diagonals. Without prices there are just as many
blanks or places outside as are needed. So the annealing, the local search and the confidence of graphs serve here as well;
what is known of chains gives a second start: the whole order of all items, thinned as well as its sequence allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..structure.layouts import Cycle, Graph, Grid, Path, relation_weights
from ..watch import Watch, dispensable
from . import checks, exact
from .confidence import place_masses
from .cycle.solver import judge_cycle, solve_cycle
from .doubt import Assigned
from .graph import Assignments, anneal_graph, default_runs, unit_of
from .local_search import improve_assignment, improve_path, improve_tour
from .path.solver import CONFIDENCE, judge_path, solve_path
from .prices import Prices
from .request import Request
from .rounds import Rounds
from .solution import Solution
from .units import spacing

ANNEALED = 100  # up to so many items and blanks a chain is annealed as a graph too; from there on thinning alone
FEW = 16  # runs of annealing, and
ROUNDS = Rounds(number=4)  # their rounds: most of the work is the local search's, from every order they end in
STARTS = 32


@dataclass(frozen=True)
class Squared:
    """The square problem: ``m`` items and blanks, n positions and places outside."""

    layout: Path | Cycle | Grid | Graph
    cost: Float[Tensor, "m m"]
    prices: Prices | None

    @property
    def m(self) -> int:
        return len(self.cost)

    @cached_property
    def size(self) -> int:
        return max(self.m, self.layout.n) if self.prices is None else self.m + self.layout.n

    @cached_property
    def links(self) -> Float[Tensor, "size size"]:
        """Costs of neighbours; a blank costs nothing."""
        padded = self.cost.new_zeros(self.size, self.size)
        padded[: self.m, : self.m] = self.cost
        return padded

    @cached_property
    def priced(self) -> Float[Tensor, "size size"]:
        """The same with prices on the diagonal: an item in a place saves its own, a blank pays the position's."""
        padded = self.links.clone()
        if self.prices is not None:  # nobody is its own neighbour: the diagonals are free for the prices
            padded.diagonal()[: self.m] = -self.prices.items
            padded.diagonal()[self.m :] = self.prices.position
        return padded

    @cached_property
    def graph(self) -> Graph:
        n = self.layout.n
        weights = self.cost.new_zeros(self.size, self.size)
        if isinstance(self.layout, Graph):
            weights[:n, :n] = self.layout.weights.to(weights)
        elif n > 1:
            for pairs, weight in zip(self.layout.relations(), relation_weights(self.layout), strict=True):
                weights[pairs[:, 0], pairs[:, 1]] = weight
        if self.prices is not None:
            weights.diagonal()[:n] = 1
        return Graph(weights)

    def energy(self, orders: Int[Tensor, "*batch size"]) -> Tensor:
        """Links and prices; the diagonal counted what is placed, the price is of what is not."""
        unplaced = 0.0 if self.prices is None else float(self.prices.items.sum())
        return self.graph.energy(orders, self.priced) + unplaced

    @property
    def least(self) -> int:
        """So many are placed, or more."""
        return min(self.m, self.layout.n) if self.prices is None else 0

    def costs(self, places: Int[Tensor, "orders n"]) -> Float[Tensor, "orders"]:
        """The same energy of orders with -1, link by link: for many orders of few items."""
        blank, n = self.m, self.layout.n
        who = torch.where(places < 0, blank, places)
        links = torch.nn.functional.pad(self.cost, (0, 1, 0, 1))
        weights = self.graph.weights[:n, :n]
        total = self.cost.new_zeros(len(places))
        if self.prices is not None:
            weights = weights - torch.eye(n).to(weights)
            each = torch.cat((-self.prices.items, self.cost.new_full((1,), self.prices.position)))
            total += each[who].sum(1) + self.prices.items.sum()
        for a, b in weights.nonzero().tolist():
            total += weights[a, b] * links[who[:, a], who[:, b]]
        return total

    def whole(self, places: Int[np.ndarray, "n"]) -> Int[Tensor, "size"]:
        """An order with -1 as an order of items and blanks."""
        order = np.full(self.size, -1)
        order[: len(places)] = places
        order[order < 0] = np.setdiff1d(np.arange(self.size), places)[::-1]  # blanks first, then what is left out
        return torch.from_numpy(order)

    def partial(self, order: Int[Tensor, "size"]) -> Int[Tensor, "n"]:
        inside = order[: self.layout.n]
        return torch.where(inside < self.m, inside, -1)


def solve_partial(
    layout: Path | Cycle | Grid | Graph,
    problem: Squared,
    asked: Request,
) -> Solution:
    """Which items to use, where, and which positions stay empty."""
    allowed, init = asked.allowed, asked.init
    mask = None if allowed is None else checks.feasible(_padded(allowed, True, problem.size))
    start = None if init is None else _padded(init, float(init.mean()), problem.size)
    asked = asked._replace(allowed=mask, init=start)
    if exact.count_partial(problem.m, layout.n, problem.least) <= exact.MOST_PARTIAL:
        orders = exact.partial_orders(problem.m, layout.n, problem.least, allowed)
        starts = problem.whole(orders[problem.costs(orders).argmin()].numpy()).unsqueeze(0)
    else:
        starts = _starts(problem, asked)
    ends = torch.stack([_settled(problem, order, mask, asked.watch) for order in starts])
    energies = problem.energy(ends)
    best = int(energies.argmin())
    soft, confidence = _judged(problem, ends[best])
    with dispensable():
        if isinstance(layout, (Path, Cycle)):
            confidence = _along(problem, ends[best], allowed)
        else:
            assigned = Assigned.of(problem.graph.weights, problem.priced, ends[best], mask, (problem.m, layout.n))
            shares, sure = assigned.judged(ends)
            soft, confidence = shares[: problem.m, : layout.n], sure[: problem.m]
    same = float((energies <= energies[best] + 1e-9 * energies[best].abs()).double().mean())
    return Solution(problem.partial(ends[best]), float(energies[best]), soft, confidence, energies, same)


def _starts(problem: Squared, asked: Request) -> Int[Tensor, "starts size"]:
    starts = []
    chain = isinstance(problem.layout, (Path, Cycle))
    if chain and asked.allowed is None and problem.m > 1:
        starts.append(problem.whole(_thinned(_whole_order(problem, asked).numpy(), problem)).unsqueeze(0))
    if not starts or (problem.size <= ANNEALED and not asked.watch.stopped):
        asked = asked._replace(runs=asked.runs or min(FEW, default_runs(problem.size)))
        found = anneal_graph(problem.graph, problem.priced, asked, Assignments(rounds=ROUNDS))
        orders = torch.cat((found.orders, found.tried)).unique(dim=0)
        starts.append(orders[problem.energy(orders).argsort(stable=True)[:STARTS]])
    return torch.cat(starts)


def _whole_order(problem: Squared, asked: Request) -> Int[Tensor, "m"]:
    """Of all items, as if there were a place for each."""
    asked = asked._replace(allowed=None, init=None)
    layout = Path(problem.m) if isinstance(problem.layout, Path) else Cycle(problem.m)
    if problem.m <= exact.MOST:
        return exact.best_of_all(layout, problem.cost, None)[0]
    if isinstance(layout, Path):
        return solve_path(layout, problem.cost, asked).order
    return solve_cycle(layout, problem.cost, asked).order


def _settled(problem: Squared, order: Int[Tensor, "size"], mask: Tensor | None, watch: Watch) -> Int[Tensor, "size"]:
    """Local search: swaps of any two, items left out and blanks among them, and the moves of chains, in turn until neither helps."""
    n = problem.layout.n
    further = (
        isinstance(problem.layout, Path) and problem.layout.reach > 1
    )  # where moves that see neighbours alone mislead
    improve = None if further else {Path: improve_path, Cycle: improve_tour}.get(type(problem.layout))
    energy = float(problem.energy(order))
    while True:
        order = improve_assignment(order, problem.priced, problem.graph.weights, allowed=mask)
        if improve is not None:
            order = torch.cat((improve(order[:n], problem.links, allowed=mask), order[n:]))
        last, energy = energy, float(problem.energy(order))
        if energy >= last - 1e-9 * abs(last) or not watch.spare():
            return order


def _judged(problem: Squared, order: Int[Tensor, "size"]) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m"]]:
    """How likely each item is at each position, given the others, and how sure its place is, or that it has none."""
    m, n = problem.m, problem.layout.n
    elsewhere = torch.nn.functional.pad(_paid(problem, order), (0, problem.size - n))  # outside nobody pays
    masses = place_masses(elsewhere, unit_of(problem.graph, problem.priced))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    inside = place[:m] < n
    out = masses[:m, n:].sum(1)
    sure = torch.where(inside, masses[torch.arange(m), place[:m]], out)
    return masses[:m, :n].float(), sure.float()


def _along(problem: Squared, order: Int[Tensor, "size"], allowed: Tensor | None) -> Float[Tensor, "m"]:
    """Of a chain: how sure an item's place is among those that stand beside each other, as of a path of these alone, which is the same
    from either end, or of a tour, if no place in it is empty; times how sure it is that nobody else stands there. Of an item left out, how sure it is that it stands nowhere."""
    dearer, m = _exchanged(problem, order) / (CONFIDENCE * spacing(problem.cost.numpy())), problem.m
    places, closed = problem.partial(order), isinstance(problem.layout, Cycle)
    reach = problem.layout.reach if isinstance(problem.layout, Path) else 1
    outside = order[problem.layout.n :]
    sure = torch.ones(m, dtype=torch.float64)
    sure[outside[outside < m]] = torch.sigmoid(-torch.logsumexp(-dearer, 1))[outside < m]
    rivals = torch.cat((dearer[outside < m], dearer[outside >= m][:1]))  # all blanks are one
    alone = torch.sigmoid(-torch.logsumexp(-rivals, 0))
    for positions in _stretches(places, closed):
        items = places[positions]
        given = (
            problem.cost[items][:, items],
            torch.arange(len(items)),
            allowed if allowed is None else allowed[items][:, positions],
        )
        whole = closed and len(items) == len(places)
        among = (judge_cycle(Cycle(len(items)), *given) if whole else judge_path(Path(len(items), reach), *given))[1]
        sure[items] = among.double() * alone[positions]
    return sure.float()


def _exchanged(problem: Squared, order: Int[Tensor, "size"]) -> Float[Tensor, "outside n"]:
    """How much dearer it is if somebody outside, an item or a blank, exchanges places with whoever stands at a position."""
    n = problem.layout.n
    paid, inside, outside = _paid(problem, order), order[:n], order[n:]
    return paid[outside] - paid[inside, torch.arange(n)]


def _paid(problem: Squared, order: Int[Tensor, "size"]) -> Float[Tensor, "size n"]:
    """Per item or blank and position, what it would pay there while all others stay: links to those beside it, and its price; not the
    link to whoever stands there now."""
    n, m = problem.layout.n, problem.m
    worth = problem.links.new_zeros(problem.size)
    if problem.prices is not None:
        worth[:m], worth[m:] = -problem.prices.items, problem.prices.position
    inside = order[:n]
    weights = problem.graph.weights[:n, :n].clone().to(worth)
    weights.fill_diagonal_(0)
    return problem.links[:, inside] @ weights.T + problem.links.T[:, inside] @ weights + worth[:, None]


def _stretches(places: Int[Tensor, "n"], closed: bool) -> list[Int[Tensor, "some"]]:
    """The positions that are taken, those without an empty one between them together; round the end if that is closed."""
    first = int((places < 0).int().argmax()) if closed else 0
    taken = (places.roll(-first) >= 0).nonzero().flatten()
    ends = (taken.diff() > 1).nonzero().flatten() + 1
    return [(part + first) % len(places) for part in taken.tensor_split(ends.tolist()) if len(part)]


def _thinned(order: Int[np.ndarray, "m"], problem: Squared) -> Int[np.ndarray, "n"]:
    """The cheapest partial order that leaves this sequence as it is: which items to leave out, where to leave positions empty.

    ``best[k, i]`` is the least that the first k positions can cost if item i of the sequence is in the last of them.
    """
    m, n = len(order), problem.layout.n
    never = np.inf
    if problem.prices is None:  # just as many as are needed: one of the two is dearer than all links together
        ruin = 1 + float(problem.cost.abs().sum())
        drop, empty = np.full(m, 0.0 if m > n else ruin), 0.0 if m < n else ruin
    else:
        drop, empty = problem.prices.items.numpy()[order], problem.prices.position
    gone = np.concatenate(([0.0], np.cumsum(drop)))  # what leaving out all items before i costs
    cost = problem.cost.numpy()[np.ix_(order, order)]
    after = np.where(np.tri(m, dtype=bool), never, cost) - gone[1:, None]
    empties = np.concatenate(([0.0], np.full(n, empty).cumsum()))
    best = np.full((n + 1, m), never)
    apart = np.full((n + 1, m), never)  # the last of k positions may be empty
    before = np.full((n + 1, m), -1)
    split = np.zeros((n + 1, m), bool)
    for k in range(1, n + 1):
        best[k] = empties[k - 1] + gone[:-1]
        if k > 1:
            ways = best[k - 1][:, None] + after
            who = ways.argmin(0)
            joined = ways[who, np.arange(m)] + gone[:-1]
            best[k], before[k] = np.where(joined < best[k], joined, best[k]), np.where(joined < best[k], who, -1)
        if k > 2:
            ahead = apart[k - 2] + empty - gone[1:]
            low = np.minimum.accumulate(ahead)
            holder = np.maximum.accumulate(np.where(ahead == low, np.arange(m), 0))
            loose = np.concatenate(([never], low[:-1])) + gone[:-1]
            take = loose < best[k]
            best[k], split[k] = np.where(take, loose, best[k]), take
            before[k] = np.where(take, np.concatenate(([-1], holder[:-1])), before[k])
        apart[k] = np.minimum(best[k], apart[k - 1] + empty)
    total = best[1:] + empties[n - np.arange(1, n + 1)][:, None] + (gone[-1] - gone[1:])
    places = np.full(n, -1)
    k, i = np.unravel_index(total.argmin(), total.shape)
    k += 1
    while True:
        places[k - 1] = order[i]
        j, loose = before[k, i], split[k, i]
        if j < 0:
            return places
        k -= 2 if loose else 1
        while loose and best[k, j] > apart[k, j]:
            k -= 1
        i = j


def _padded(inside: Tensor, fill: float | bool, size: int) -> Tensor:
    padded = inside.new_full((size, size), fill)
    padded[: inside.shape[0], : inside.shape[1]] = inside
    return padded
