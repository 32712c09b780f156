"""Paths: seriation, strips, any order in a line. ``energy = sum over positions of cost[order[j], order[j + 1]]``.

Three things for neighbours alone, each with the best of what came before in hand:

1. orders that follow the data (`starts`), each melted locally and annealed again in a band around it (`band`);
2. for short paths, annealing of all items from nothing;
3. rounds in which the links that the best orders share are kept and the chains between them annealed anew (`chains`); a
   handful of chains, or of pieces of the best order cut at its dearest links, is arranged by trying all ways.

If pairs further apart count (``reach``), the best of all these by either energy are improved for the whole of it (`lags`):
annealing finds the fine order and several ways to fold it, the longer lags say which of them is none.

Every order that was decoded on the way, starts included, is a candidate, and the lowest energy wins: the result is never
worse than ``init`` or than any of the starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...operators.assignment import assign
from ...operators.permutation import to_matrix
from ...structure.layouts import Path
from ...watch import Watch, dispensable
from ..confidence import insertion_share, link_share
from ..local_search import improve_path
from ..request import Request
from ..solution import Solution
from ..units import in_units
from .band import Band, band_around, band_dense, band_entropy, band_places, band_step
from .chains import FEW, GAMMA, anneal_chains, best_arrangement, common_chains
from .lags import improve_lags, lag_energy, link_chances, nearest
from .links import linked_order
from .starts import NEIGHBOURS, geodesic_orders

HEATS = ((30, 0.5), (15, 1.0), (6, 3.0))
"""Reach of the band and beta (in units of the cost) to begin with, from a start melted over tens of positions to one
softened between neighbours. Measured on 12 curves: the first alone is best on average, but melts a thin true order away;
the last keeps it."""
STEP = 0.01  # of log beta; 0.005 changes path lengths by 0.1 %
COLDEST = 200.0  # beta: what is undecided there is held by ties
FROZEN = 0.98
WHOLE = 128  # up to here all items are annealed from nothing as well
CHAINS = 200  # at most so many chains at once, and fewer runs of many: a step costs runs x chains^3
MANY = 50  # chains for which a batch has the runs asked for: fewer of longer paths, up to four times as many of shorter ones
ROUNDS = 12
ELITE = 6  # orders that must agree on a link
RUNS = 16
SOFT = 3.0  # beta of the soft permutation around the found order
CONFIDENCE = 0.2
"""Of a unit: the scale on which links and places compare with their rivals. 0.1 is too sure, 0.4 not sure enough."""


def solve_path(layout: Path, cost: Float[Tensor, "n n"], asked: Request) -> Solution:
    generator, watch, allowed, init, runs = asked
    search = _Search(cost, allowed, watch)
    count = RUNS if runs is None else runs
    if np.ptp(search.unit) == 0 and allowed is None:  # all orders are equally good
        search.add([np.arange(layout.n)])
        return search.result(count)
    starts = _starts(search, init)
    search.add(starts)
    with dispensable() if search.candidates else nullcontext():
        search.from_starts(starts, watch)
        if allowed is None:
            if not search.symmetric:
                search.add([linked_order(search.cost)])
            search.from_nothing(count, generator, watch)
            search.rearranged()
            search.rounds(count, generator, watch)
            search.rearranged()
    if layout.reach > 1:
        search.over_lags(np.array(layout.weights), count)
    return search.result(count)


def polish_path(
    layout: Path, cost: Tensor, orders: Int[Tensor, "tries n"], *, allowed: Tensor | None, more: Callable[[], bool]
) -> Int[Tensor, "tries n"]:
    """Local search by the energy that counts."""
    if layout.reach == 1:
        return improve_path(orders, cost, allowed=allowed, more=more)
    weights, mask = np.array(layout.weights), None if allowed is None else allowed.numpy()
    matrix = cost.numpy()
    near = nearest(matrix)
    better = [improve_lags(o, matrix, weights, near=near, allowed=mask, more=more) for o in orders.numpy()]
    return torch.from_numpy(np.stack(better))


def judge_path(layout: Path, cost: Tensor, order: Int[Tensor, "n"], allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """The soft permutation around an order, and how sure the place of each item in it is."""
    if layout.n == 1:
        return torch.ones(1, 1), torch.ones(1)
    search = _Search(cost, allowed, Watch())
    search.candidates, search.weights = [(0.0, order.numpy())], np.array(layout.weights)
    return search.soft(), search.confidence()


class _Search:
    """The candidates found so far, best first, for one cost."""

    def __init__(self, cost: Float[Tensor, "n n"], allowed: Tensor | None, watch: Watch) -> None:
        self.cost: np.ndarray = cost.numpy().astype(np.float64, copy=False)
        self.symmetric = bool(np.array_equal(self.cost, self.cost.T))
        self.unit = in_units(self.cost)
        self.reversible = self.symmetric and allowed is None
        self.allowed = None if allowed is None else allowed.numpy()
        self.watch = watch
        self.candidates: list[tuple[float, np.ndarray]] = []
        self.seen: set[bytes] = set()
        self.last: list[np.ndarray] = []
        """Orders of the last batch of runs: those that can agree or disagree."""
        self.weights = np.ones(1)
        """Of the lags that count."""

    @property
    def n(self) -> int:
        return len(self.cost)

    @property
    def best(self) -> np.ndarray:
        return self.candidates[0][1]

    def add(self, orders: Iterable[np.ndarray]) -> None:
        """Keep what is new: cut open where that is best, and turned round too if that changes the energy."""
        both = [turned for order in orders for turned in (order, order[::-1])]
        if self.allowed is None:
            both += [self._reopened(order) for order in both]
        if self.reversible:
            both = [order for order in both if order[0] < order[-1]]
        elif self.allowed is not None:
            both = [order for order in both if self.allowed[order, np.arange(self.n)].all()]
        for order in both:
            energy = self._energy(order)
            if (key := order.tobytes()) not in self.seen:
                self.seen.add(key)
                self.candidates.append((energy, order))
        self.candidates.sort(key=lambda candidate: candidate[0])

    def _energy(self, order: np.ndarray) -> float:
        return lag_energy(order, self.cost, self.weights)

    def _alike(self, order: np.ndarray) -> list[np.ndarray]:
        """The order, turned round if that changes nothing, and both cut open elsewhere if nothing forbids it."""
        turned = [order, order[::-1]] if self.reversible else [order]
        return turned if self.allowed is not None else turned + [self._reopened(o) for o in turned]

    def _reopened(self, order: np.ndarray) -> np.ndarray:
        """The order as a ring, cut at its dearest link: a soft path finds its links before it finds its ends."""
        links = self.cost[order, np.roll(order, -1)]
        return np.roll(order, -int(links.argmax()) - 1)

    def from_starts(self, starts: list[np.ndarray], watch: Watch) -> None:
        for number, start in enumerate(starts):
            for reach, beta in HEATS:
                if watch.stopped:
                    return
                self.add([self.reanneal(start, reach, beta, f"start {number + 1} of {len(starts)}")])
        self.last = [order for _, order in self.candidates]

    def reanneal(self, start: np.ndarray, reach: int, beta: float, stage: str) -> np.ndarray:
        """Soften an order over about half of ``reach`` positions, then anneal it in a band around itself."""
        if self.allowed is not None and self.n <= WHOLE:
            reach = self.n - 1  # a mask can ask for long moves
        band = self._band(start, reach, reach / 2)
        steps = 0
        while beta < COLDEST:
            purity = band_step(band, beta, GAMMA * math.sqrt(beta))
            beta *= math.exp(STEP)
            steps += 1
            if steps % 10 == 0 and not self.watch(
                stage=stage,
                beta=beta,
                energy=self.candidates[0][0],
                entropy=band_entropy(band),
                soft=lambda: torch.from_numpy(band_dense(band)[np.argsort(start)]),
            ):
                break
            if purity > FROZEN:
                break
        return self._decode(band, start)

    def _band(self, order: np.ndarray, reach: int, spread: float) -> Band:
        mask = None if self.allowed is None else self.allowed[order]
        return band_around(np.ascontiguousarray(self.unit[np.ix_(order, order)]), reach, spread, mask)

    def _decode(self, band: Band, order: np.ndarray) -> np.ndarray:
        if self.allowed is None:  # by mean place: as good as Hungarian on a band, and n log n
            return order[np.argsort(band_places(band), kind="stable")]
        scores = torch.from_numpy(band_dense(band)).clamp_min(1e-30).log()
        return order[assign(scores, torch.from_numpy(self.allowed[order])).numpy()]

    def from_nothing(self, runs: int, generator: torch.Generator, watch: Watch) -> None:
        """All items as chains of one. The order in which they came is never a candidate: it may be the answer."""
        if self.n > WHOLE or (self.candidates and watch.stopped):
            return
        self.batch([np.array([item]) for item in range(self.n)], runs, generator, "all items")

    def rounds(self, runs: int, generator: torch.Generator, watch: Watch) -> None:
        """While it helps; then with fewer orders that must agree, so with fewer and longer chains."""
        elite = ELITE
        for number in range(ROUNDS):
            chains = self._disputed(elite)
            if watch.stopped or chains is None:
                return
            before = self.candidates[0][0]
            stage = f"round {number + 1}, {len(chains)} chains"
            self.batch(chains, runs, generator, stage)
            if not watch.stopped:
                self.add([self.reanneal(self.best, *HEATS[-1], stage)])
            if self.candidates[0][0] >= before - 1e-9 * abs(before):
                elite -= 1
                if elite < 2:
                    return

    def rearranged(self) -> None:
        """Cut the best order at its dearest links, put the pieces together in the best way; again while that helps."""
        for _ in range(self.n):
            before, order = self.candidates[0]
            if self.watch.stopped or self.n <= FEW:
                return
            dear = np.sort(np.argsort(self.cost[order[:-1], order[1:]])[-(FEW - 1) :]) + 1
            self.add([best_arrangement(self.cost, np.split(order, dear), self.symmetric)])
            if self.candidates[0][0] >= before - 1e-9 * abs(before):
                return

    def over_lags(self, weights: Float[np.ndarray, "reach"], runs: int) -> None:
        """From now on pairs further apart count too: the best orders by either energy, improved for the whole of it."""
        near, found = nearest(self.cost), self.candidates
        further = sorted(found, key=lambda candidate: lag_energy(candidate[1], self.cost, weights))
        chosen = {order.tobytes(): order for _, order in [*further[:runs], *found[:runs]]}
        self.weights = weights
        self.candidates, self.seen = [], set()
        self.add(order for _, order in further[:1])
        self.last = []
        with dispensable():
            for number, order in enumerate(chosen.values()):
                if not self.watch(
                    stage=f"lags {number + 1} of {len(chosen)}", beta=COLDEST, energy=self.candidates[0][0], entropy=0.0
                ):
                    break
                better = improve_lags(order, self.cost, weights, near=near, allowed=self.allowed, more=self.watch.spare)
                self.add([better])
                self.last.append(better)

    def batch(self, chains: list[np.ndarray], runs: int, generator: torch.Generator, stage: str) -> None:
        found = anneal_chains(
            self.cost,
            chains,
            symmetric=self.symmetric,
            runs=max(min(2, runs), min(4 * runs, round(runs * (MANY / len(chains)) ** 2))),
            generator=generator,
            watch=self.watch,
            stage=stage,
        )
        self.add(found)
        self.last = found if len(found) > 1 or not self.last else self.last

    def _disputed(self, elite: int) -> list[np.ndarray] | None:
        """The chains that the best orders agree on, or None when there is nothing left to decide."""
        for count in range(min(elite, len(self.candidates)), 1, -1):
            chains = common_chains([order for _, order in self.candidates[:count]], self.symmetric)
            if len(chains) <= CHAINS:
                return chains if len(chains) > 1 else None
        return None

    def result(self, runs: int) -> Solution:
        tried = torch.from_numpy(np.stack([order for _, order in self.candidates[:runs]])).long()
        ended = [min(map(self._energy, self._alike(order))) for order in self.last] or [self.candidates[0][0]]
        return Solution(
            order=tried[0],
            energy=self.candidates[0][0],
            soft=self.soft(),
            confidence=self.confidence(),
            energies=torch.tensor(ended, dtype=torch.float64),
            agreement=self._agreement(),
            tried=tried,
        )

    def soft(self) -> Tensor:
        """The best order, softened at a moderate beta."""
        soft, order = torch.zeros(self.n, self.n), torch.from_numpy(self.best.copy())
        with dispensable():
            band = self._band(self.best, HEATS[1][0], 0.25)
            for _ in range(10):
                band_step(band, SOFT, GAMMA)
            soft[order] = torch.from_numpy(band_dense(band))
            return soft
        return to_matrix(order, soft.dtype)

    def confidence(self) -> Float[Tensor, "n"]:
        """How well an item's links compare with other links of the same items, and its place with others.

        If lags count, how sure the weaker of its links is. An item that the mask leaves but one place is sure of it.
        """
        order, unit = torch.from_numpy(self.best.copy()), torch.from_numpy(self.unit)
        if len(self.weights) > 1:
            links = torch.from_numpy(link_chances(self.best, self.cost, self.weights))
            sure = torch.ones(self.n)
            sure[order[:-1]] = links.float()
            sure[order[1:]] = torch.minimum(sure[order[1:]], links.float())
        else:
            place = insertion_share(order, unit, CONFIDENCE, closed=False)
            sure = (place * link_share(order, unit, CONFIDENCE)).sqrt()
        return sure if self.allowed is None else sure.where(torch.from_numpy(self.allowed.sum(1) > 1), 1.0)

    def _agreement(self) -> float:
        same = [any(np.array_equal(o, self.best) for o in self._alike(order)) for order in self.last]
        return float(np.mean(same)) if same else 1.0


def _starts(search: _Search, init: Tensor | None) -> list[np.ndarray]:
    """Orders along the data; both ways round if that makes a difference; made to fit ``allowed``."""
    mask = None if search.allowed is None else torch.from_numpy(search.allowed)
    starts = [] if init is None else [assign(init, mask).numpy()]
    if search.symmetric or search.n > WHOLE or mask is not None:
        along = geodesic_orders(search.cost, NEIGHBOURS if search.watch.spare() else NEIGHBOURS[:1])
        starts += along if search.reversible else along + [order[::-1] for order in along]
    return starts if mask is None else [_fitted(order, mask) for order in starts]


def _fitted(order: np.ndarray, allowed: Tensor) -> np.ndarray:
    """The allowed order whose items are nearest to their places in the given one."""
    n = len(order)
    rank = torch.empty(n)
    rank[torch.from_numpy(order.copy())] = torch.arange(n, dtype=torch.float32)
    return assign(-((rank[:, None] - torch.arange(n)) ** 2), allowed).numpy()
