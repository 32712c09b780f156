r"""How sure the places of an assignment are: by assignments that are nearly as good, and by how good chance alone makes the best of all.

If weights and costs have to do with one another, costs are what the weights let expect, and noise. Exchanging two items of the true assignment
then adds m to the energy in the mean, with a variance v, and of two assignments with energies E and E' the first is true with odds of
$e^{(E' - E) / T}$, where $T = v / 2m$ (of two normal distributions m and -m). Noise that the pairs of an item share, as moved points have it, is in v.
A walk at this temperature exchanges two items at a time and goes over from one of the orders that the runs ended in to another.

All of that knows only what is near. Among n! assignments some fit well by chance, so that the one found is worth what it has beyond
these: how many pairs there are, times the information that weight and cost of a pair have in common (in the pairing that is the most random of those with this energy), and the logarithm
of how many assignments are nearly as good, less the logarithm of how many there are.

What symmetries of the weights make of an order is the same order, as a path from the other end is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import expit, gammaln, logsumexp, xlog1py, xlogy
from torch import Tensor

from ..compute.copying import copy_into
from ..compute.jit import have_numba, njit
from .local_search import may_swap, swap_change
from .path.walk import COUNT, FIRST

BETWEEN, MOST = (20, 2_000_000) if have_numba else (2, 2_000)
"""Exchanges per item from one order to the next, and at most, over the number of items."""
OTHERS = 32  # orders that the runs ended in, the best
OVER = 4  # times the walk tries to go over to one of them, from one order to the next
NEAR = 4  # positions that one is most easily taken for
TOGETHER = 10  # orders on the way, of which one is asked how well weights and costs agree
VALUES = 32  # of weights, and of costs, of which pairings are looked at


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights and costs of the pairs that stand, and what they have to do with one another."""

    weights: Float[np.ndarray, "k k"]
    costs: Float[np.ndarray, "k k"]

    @cached_property
    def away(self) -> Bool[np.ndarray, "k k"]:
        return ~np.eye(len(self.weights), dtype=bool)

    @cached_property
    def pairs(self) -> tuple[Float[np.ndarray, "pairs"], Float[np.ndarray, "pairs"]]:
        return self.weights[self.away], self.costs[self.away]

    @cached_property
    def size(self) -> float:
        """Of a product of weight and cost."""
        return float(self.pairs[0].std() * self.pairs[1].std()) if len(self.weights) > 1 else 0.0

    @property
    def told(self) -> bool:
        """Whether weights and costs differ at all."""
        return self.size > 1e-9 * float(np.abs(self.weights).max(initial=0) * np.abs(self.costs).max(initial=0))

    @property
    def agreement(self) -> float:
        """Minus the correlation of weights and costs."""
        if not self.told:
            return 0.0
        w, d = self.pairs
        return float(np.clip(-((w - w.mean()) * (d - d.mean())).mean() / self.size, 0.0, 1.0))

    @property
    def temperature(self) -> float:
        """By the exchanges of each position with those few that it is most easily taken for."""
        expected = self._expected()
        noise = np.where(self.away, self.costs - expected, 0.0)
        change, off = (_changes(self.weights, costs) for costs in (expected, noise))
        near = np.argsort(np.where(self.away & (change > 1e-9 * change.max()), change, np.inf), axis=1)[:, :NEAR]
        change, off = (np.take_along_axis(each, near, axis=1) for each in (change, off))
        some = change > 1e-9 * change.max()
        free = self.away.sum() / max(
            self.away.sum() - 6, 1
        )  # three numbers were fitted, of which most costs are seen twice
        usual = float(np.square(off[some]).sum() * free / max(2 * change[some].sum(), 1e-300)) if some.any() else np.inf
        return float(np.clip(usual, 1e-9 * self.size, 1e9 * self.size))

    def _expected(self) -> Float[np.ndarray, "k k"]:
        """By the weight of two positions and by their neighbours in common: costs may tell the near from the far where weights do not."""
        shared = self.weights @ self.weights
        known = [np.ones_like(shared), self.weights, shared / max(float(np.abs(shared).max()), 1e-300)]
        fit = np.linalg.lstsq(np.stack([one[self.away] for one in known], axis=1), self.pairs[1], rcond=None)[0]
        return np.where(self.away, sum(a * one for a, one in zip(fit, known, strict=True)), 0.0)

    @property
    def independent(self) -> float:
        """As many independent pairs would make the energies of random orders differ as much; and no fewer than there are, since what makes them
        differ more is few large rows, with which chance is soon done."""
        k = len(self.weights)
        weights, costs = (np.where(self.away, m - m[self.away].mean(), 0.0) for m in (self.weights, self.costs))
        ways = k * (k - 1) * np.array([1, 1, k - 2, k - 2, 2 * (k - 2), (k - 2) * (k - 3)], float)
        variance = float((_overlaps(weights) * _overlaps(costs) / np.maximum(ways, 1.0)).sum())
        twice = any(np.array_equal(m, m.T) for m in (self.weights, self.costs))
        return max((k * (k - 1) * self.size) ** 2 / max(variance, 1e-300), k * (k - 1) / (2 if twice else 1))


def _overlaps(matrix: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "six"]:
    """Sums of products of two entries: the same, the reverse, of one row, of one column, of row and column, others. All entries sum to 0."""
    rows, columns = matrix.sum(1), matrix.sum(0)
    same, reverse = (matrix * matrix).sum(), (matrix * matrix.T).sum()
    touching = [(rows * rows).sum() - same, (columns * columns).sum() - same, 2 * ((rows * columns).sum() - reverse)]
    return np.array([same, reverse, *touching, -same - reverse - sum(touching)])


def _changes(weights: Float[np.ndarray, "k k"], costs: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """What the energy gains by an exchange of the items at two positions, all but the link between the two."""
    total = weights @ costs.T + weights.T @ costs
    own = total.diagonal()
    return total + total.T - own[:, None] - own


def information(w: Float[np.ndarray, "pairs"], d: Float[np.ndarray, "pairs"], agreement: float) -> float:
    """In the pairing of these values that is the most random of those with this much correlation (of -1): what two values have in common."""
    (w, p), (d, q) = _values(w), _values(d)
    product = np.outer(w, d) / np.sqrt(max((p @ w**2) * (q @ d**2), 1e-300))
    of_rows, of_columns = np.log(p)[:, None], np.log(q)
    low, high, log_ratio = 0.0, 40.0, np.zeros_like(product)
    for _ in range(14):
        beta = (low + high) / 2
        row, column = np.zeros((len(p), 1)), np.zeros(len(q))
        for _ in range(30):
            row = -np.asarray(logsumexp(column + of_columns - beta * product, axis=1, keepdims=True))
            last, column = column, -np.asarray(logsumexp(row + of_rows - beta * product, axis=0))
            if np.abs(column - last).max() < 1e-4:
                break
        log_ratio = row + column - beta * product
        share = np.exp(log_ratio + of_rows + of_columns)
        low, high = (beta, high) if -(share * product).sum() < agreement else (low, beta)
    return float((np.exp(log_ratio + of_rows + of_columns) * log_ratio).sum())


def _values(x: Float[np.ndarray, "pairs"]) -> tuple[np.ndarray, np.ndarray]:
    """At most so many different ones, around 0, and their shares."""
    values, counts = np.unique(x, return_counts=True)
    if len(values) > VALUES:
        parts = np.array_split(np.sort(x), VALUES)
        values, counts = np.array([part.mean() for part in parts]), np.array([len(part) for part in parts])
    share = counts / counts.sum()
    return values - share @ values, share


@dataclass(frozen=True, eq=False)
class Assigned:
    """A quadratic assignment and an order of it. Items from ``items`` on, and positions from ``places`` on, are blank."""

    weights: Float[np.ndarray, "n n"]
    cost: Float[np.ndarray, "n n"]
    order: Int[np.ndarray, "n"]
    items: int
    places: int
    allowed: Bool[np.ndarray, "n n"] | None = None

    @classmethod
    def of(
        cls,
        weights: Tensor,
        cost: Tensor,
        order: Int[Tensor, "n"],
        allowed: Tensor | None,
        real: tuple[int, int] | None = None,
    ) -> Assigned:
        W, D = (np.ascontiguousarray(matrix.numpy(), np.float64) for matrix in (weights, cost))
        mask = None if allowed is None else np.ascontiguousarray(allowed.numpy())
        return cls(W, D, order.numpy(), *(real or (len(order), len(order))), mask)

    def judged(self, others: Int[Tensor, "others n"]) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n"]]:
        """How likely each item is at each position, and how sure each is where it stands. ``others`` are orders that runs ended in."""
        shares = torch.from_numpy(self.shares(others.numpy())).float()
        own = torch.empty(len(shares))
        own[self.order] = shares[self.order, torch.arange(len(shares))]
        return shares, own

    def fit(self, order: Int[np.ndarray, "n"]) -> Fit:
        there = np.flatnonzero(order[: self.places] < self.items)
        return Fit(self.weights[np.ix_(there, there)], self.cost[np.ix_(order[there], order[there])])

    def shares(self, others: Int[np.ndarray, "others n"]) -> Float[np.ndarray, "n n"]:
        n, fit = len(self.order), self.fit(self.order)
        twins = _twins(self.weights)
        anywhere = self._gathered(self._uniform(), twins)
        if not fit.told:
            return anywhere
        alike, ways = self._ways(others)
        met = self.walk(fit.temperature, ways, COUNT, np.random.default_rng(0))
        near = np.zeros((n, n))
        for order in met:
            near[self._turned(order, alike), np.arange(n)] += 1 / len(met)
        near = self._gathered(near, twins)
        agreement = float(np.mean([self.fit(order).agreement for order in met[::TOGETHER]]))
        told = fit.independent * information(*fit.pairs, agreement)
        sure = expit(told + _entropy(near) - self._orders(twins))
        return sure * near + (1 - sure) * anywhere

    def _orders(self, twins: Int[np.ndarray, "n"]) -> float:
        """The logarithm of how many there are that differ."""
        n = len(self.order)
        forbidden = 0.0 if self.allowed is None else _entropy(np.full((n, n), 1 / n)) - _entropy(self._uniform())
        return float(gammaln(n + 1) - forbidden - gammaln(np.bincount(twins) + 1.0).sum())

    def _uniform(self) -> Float[np.ndarray, "n n"]:
        n = len(self.order)
        if self.allowed is None:
            return np.full((n, n), 1 / n)
        soft = self.allowed.astype(float)
        for _ in range(100):
            soft /= soft.sum(1, keepdims=True)
            soft /= soft.sum(0)
        return soft

    def _gathered(self, soft: Float[np.ndarray, "n n"], twins: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n n"]:
        """An item in a twin of its place is in its place."""
        n = len(self.order)
        own = np.empty(n, np.int64)
        own[self.order] = np.arange(n)
        same = twins[own][:, None] == twins
        gathered = np.where(same, 0.0, soft)
        gathered[np.arange(n), own] = np.where(same, soft, 0.0).sum(1)
        return gathered

    def _ways(self, others: Int[np.ndarray, "others n"]) -> tuple[Int[np.ndarray, "some n"], Int[np.ndarray, "ways n"]]:
        """How positions must be numbered to make other orders of this one: where nobody could tell, and elsewhere."""
        n = len(self.order)
        place = np.empty(n, np.int64)
        place[self.order] = np.arange(n)
        others = np.unique(others, axis=0)
        energies = np.array([_energy(order, self.cost, self.weights) for order in others])
        best = place[others[np.argsort(energies, kind="stable")[:OTHERS]]]
        best = np.unique(np.concatenate((np.arange(n)[None], best, np.argsort(best, axis=1))), axis=0)
        alike = np.array([np.array_equal(self.weights[np.ix_(way, way)], self.weights) for way in best])
        stays = (best == np.arange(n)).all(1)  # or two of the same energy would take turns
        return best[alike], best[~alike | stays]

    def _turned(self, order: Int[np.ndarray, "n"], alike: Int[np.ndarray, "some n"]) -> Int[np.ndarray, "n"]:
        """What symmetries of the weights make of it: that which is most like the best."""
        turned = order[alike]
        return turned[(turned == self.order).sum(1).argmax()]

    def walk(
        self, temperature: float, ways: Int[np.ndarray, "ways n"], count: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "count n"]:
        n, order = len(self.order), self.order.copy()
        mask = np.zeros((0, 0), np.bool_) if self.allowed is None else self.allowed
        met = np.empty((count, n), np.int64)
        for k in range(-FIRST, count):
            draws = rng.random((min(BETWEEN * n, MOST // n), 3))
            _exchanges(order, self.cost, self.weights, mask, 1 / temperature, draws)
            _overs(order, self.cost, self.weights, mask, 1 / temperature, ways, rng.random((OVER, 2)))
            if k >= 0:
                met[k] = order
        return met


def _entropy(soft: Float[np.ndarray, "n n"]) -> float:
    """About the logarithm of how many orders there are (Bethe)."""
    soft = np.clip(soft, 0.0, 1.0)
    return float((xlog1py(1 - soft, -soft) - xlogy(soft, soft)).sum())


@njit
def _twins(weights):
    """A number per position, the same for those that nobody could tell from one another."""
    n = len(weights)
    kind = np.full(n, -1, np.int64)
    for a in range(n):
        if kind[a] < 0:
            kind[a] = a
        for b in range(a + 1, n):
            if kind[b] < 0 and weights[a, a] == weights[b, b] and weights[a, b] == weights[b, a]:
                same = True
                for c in range(n):
                    if c != a and c != b and (weights[a, c] != weights[b, c] or weights[c, a] != weights[c, b]):
                        same = False
                        break
                if same:
                    kind[b] = kind[a]
    return kind


@njit
def _energy(order, cost, weights):
    total = 0.0
    for a in range(order.size):
        for b in range(order.size):
            total += weights[a, b] * cost[order[a], order[b]]
    return total


@njit
def _exchanges(order, cost, weights, allowed, beta, draws):
    """Steps of the walk: two items change places."""
    n = order.size
    for t in range(len(draws) if n > 1 else 0):
        a, b = int(draws[t, 0] * n), int(draws[t, 1] * (n - 1))
        b += 1 if b >= a else 0
        if may_swap(order, allowed, a, b) and 1 - draws[t, 2] < np.exp(-beta * swap_change(order, cost, weights, a, b)):
            order[a], order[b] = order[b], order[a]


@njit
def _overs(order, cost, weights, allowed, beta, ways, draws):
    """Steps of the walk: positions are numbered as another order has them."""
    other = np.empty(order.size, np.int64)
    for t in range(len(draws) if len(ways) else 0):
        way = int(draws[t, 0] * len(ways))
        fits = True
        for a in range(order.size):
            other[a] = order[ways[way, a]]
            fits = fits and (allowed.size == 0 or allowed[other[a], a])
        if fits:
            change = _energy(other, cost, weights) - _energy(order, cost, weights)
            if 1 - draws[t, 1] < np.exp(-beta * change):
                copy_into(order, other)
