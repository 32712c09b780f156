r"""Orders that are nearly as good as the best: a walk among them, each met as often as $e^{-E/T}$ says (Metropolis et al. 1953).

A step turns a stretch round or exchanges two neighbouring ones, most of them short, or turns one, however long, so that two items that are near
become neighbours, or cuts the path as if it were a ring elsewhere; the energy is that of a path over several lags (`lags`), or of a ring. What
all orders on the way have in common is sure, and where they differ nobody knows better.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from ...compute.copying import places_into
from ...compute.jit import have_numba, njit
from ...watch import Stopped
from ..local_search import always
from .lags import across, make, nearest, permitted

COUNT = 200  # orders
BETWEEN, FEWEST = (20, 4000) if have_numba else (2, 0)
"""Steps per piece from one to the next, and at least. Of few pieces whole blocks change places, by steps that are seldom the right ones."""
WHOLE = 0.98  # the rest of the steps are of the path as a whole
LONG = 0.25  # steps that make near items neighbours: the only way in which long stretches are turned often
NEAR = 8
FIRST = 20  # orders that are passed by before: the walk begins at the best one


def nearby_orders(
    order: Int[np.ndarray, "n"],
    cost: Float[np.ndarray, "n n"],
    weights: Float[np.ndarray, "reach"],
    temperature: float,
    rng: np.random.Generator,
    *,
    closed: bool = False,
    held: bool = False,
    cuts: Bool[np.ndarray, "joints"] | None = None,
    allowed: Bool[np.ndarray, "n n"] | None = None,
    count: int = COUNT,
    more: Callable[[], bool] = always,
) -> Int[np.ndarray, "count n"]:
    """``count`` orders of a walk around ``order``. ``cuts[a]``: it may be cut before position a. ``held``: both ends stay. `Stopped` is raised
    once ``more`` says no."""
    n = len(order)
    if n < 3:
        return np.repeat(order[None], count, axis=0)
    order, joints = np.array(order, np.int64), np.ones(n + 1, np.bool_) if cuts is None else cuts.copy()
    joints[[0, n]] = True
    matrix = np.ascontiguousarray(cost, np.float64)
    weights = np.ascontiguousarray(weights[: max(n - 1, 1)], np.float64)
    mask = np.zeros((0, 0), np.bool_) if allowed is None else np.ascontiguousarray(allowed)
    turns, near = bool(np.array_equal(matrix, matrix.T)), nearest(matrix, NEAR)
    found = np.empty((count, n), np.int64)
    steps = max(BETWEEN * int(joints[:-1].sum()), FEWEST)
    for k in range(-FIRST, count):
        if not more():
            raise Stopped
        if closed and allowed is None:  # as a path whose ends stay, which are others each time
            order = np.roll(order, int(rng.integers(n)))
        draws = rng.random((steps, 5))
        _walk(order, joints, matrix, weights, 1 / temperature, mask, near, (turns, closed or held), draws)
        if k >= 0:
            found[k] = order
    return found


@njit
def _walk(order, joints, cost, weights, beta, allowed, near, rules, draws):
    turns, held = rules
    ends = np.flatnonzero(joints)
    first, last = (1, ends.size - 2) if held else (0, ends.size - 1)
    single = ends.size == joints.size  # pieces of one item, which are not turned alone
    place = np.empty(order.size, np.int64)
    places_into(place, order)
    for t in range(len(draws)):
        if turns and draws[t, 0] < LONG:
            i, j = _between(place, near, draws[t])
            k, move = j, 0
            if i < ends[first] or j > ends[last] or not (joints[i] and joints[j]):
                continue
            odds = _ways(order, near, i - 1, i, j - 1, j) / _ways(order, near, i - 1, j - 1, i, j)
        else:
            a = first + int(draws[t, 1] * (last - first))
            longer = min(1 / (1 - draws[t, 2]), ends.size)
            b = a + int(longer)
            if not held and draws[t, 0] > WHOLE:
                a, b, c, move = 0, 1 + int(draws[t, 2] * (last - 1)), last, 1
            elif turns and draws[t, 0] < 0.5:
                b += 1 if single else 0
                c, move = b, 0
            else:
                c, move = b + int(min(1 / (1 - draws[t, 3]), ends.size)), 1
            if c > last:
                continue
            i, j, k = ends[a], ends[b], ends[c]
            odds = 1.0
        middle = j if move == 0 else i + k - j
        change = across(order, cost, weights, i, j, k, middle, move) - across(order, cost, weights, i, j, k, j, -1)
        if 1 - draws[t, 4] < odds * np.exp(-beta * change) and permitted(order, allowed, i, j, k, move):
            make(order, joints, i, j, k, move)
            for position in range(i, k):
                place[order[position]] = position
            if not single:
                ends = np.flatnonzero(joints)


@njit
def _between(place, near, draw):
    """The stretch that is to be turned so that an item and one of its nearest become neighbours."""
    item = int(draw[1] * place.size)
    p, q = place[item], place[near[item, int(draw[2] * near.shape[1])]]
    after = 1 if draw[3] < 0.5 else 0
    return min(p, q) + after, max(p, q) + after


@njit
def _ways(order, near, a, b, c, d):
    """In how many ways a pair is drawn as near: the items at a and b, or those at c and d."""
    count = 0.0
    for one, other in ((a, b), (c, d)):
        if one >= 0 and other < order.size:
            for k in range(near.shape[1]):
                count += (near[order[one], k] == order[other]) + (near[order[other], k] == order[one])
    return count


def nearby_by_two_sum(
    best: Int[np.ndarray, "n"],
    alike: Float[np.ndarray, "n n"],
    temperature: float,
    rng: np.random.Generator,
    count: int = COUNT,
) -> Int[np.ndarray, "count n"]:
    r"""The same where the energy is $\sum_{i<k} a_{ik} (r_i - r_k)^2$: neighbours change places."""
    order, found = best.astype(np.int64), []
    for _ in range(FIRST + count if len(best) > 1 else 0):
        _exchange(order, alike, temperature, rng.random((BETWEEN * len(best), 2)))
        found.append(order.copy())
    return np.array(found[FIRST:] or [best])


@njit
def _exchange(order, alike, temperature, draws):
    for t in range(len(draws)):
        p = int(draws[t, 0] * (order.size - 1))
        one, other = order[p], order[p + 1]
        change = 0.0
        for k in range(order.size):
            if k != p and k != p + 1:
                change += (alike[one, order[k]] - alike[other, order[k]]) * (2 * (p - k) + 1)
        if 1 - draws[t, 1] < np.exp(-change / temperature):
            order[p], order[p + 1] = other, one
