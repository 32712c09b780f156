r"""Orders that are nearly as good as the best: a walk among them, each met as often as $e^{-E/T}$ says (Metropolis et al. 1953).

A step turns a stretch round or exchanges two neighbouring ones, most of them short, or cuts the path as if it were a ring elsewhere; the energy is that of a path over several lags
(`lags`), or of a ring. What all orders on the way have in common is sure, and where they differ nobody knows better.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from ...compute.jit import have_numba, njit
from .lags import across, make, permitted

COUNT = 200  # orders
BETWEEN = 20 if have_numba else 2  # steps per piece from one to the next
WHOLE = 0.98  # the rest of the steps are of the path as a whole
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
) -> Int[np.ndarray, "count n"]:
    """``count`` orders of a walk around ``order``. ``cuts[a]``: it may be cut before position a. ``held``: both ends stay."""
    n = len(order)
    order, joints = np.array(order, np.int64), np.ones(n + 1, np.bool_) if cuts is None else cuts.copy()
    joints[[0, n]] = True
    matrix = np.ascontiguousarray(cost, np.float64)
    weights = np.ascontiguousarray(weights[: max(n - 1, 1)], np.float64)
    mask = np.zeros((0, 0), np.bool_) if allowed is None else np.ascontiguousarray(allowed)
    turns = bool(np.array_equal(matrix, matrix.T))
    found = np.empty((count, n), np.int64)
    steps = BETWEEN * int(joints[:-1].sum())
    for k in range(-FIRST, count if n > 2 else 0):
        if closed:  # as a path whose ends stay, which are others each time
            order = np.roll(order, int(rng.integers(n)))
        draws = rng.random((steps, 5))
        _walk(order, joints, matrix, weights, 1 / temperature, mask, (turns, closed or held), draws)
        if k >= 0:
            found[k] = order
    return found if n > 2 else np.repeat(order[None], count, axis=0)


@njit
def _walk(order, joints, cost, weights, beta, allowed, rules, draws):
    turns, held = rules
    ends = np.flatnonzero(joints)
    first, last = (1, ends.size - 2) if held else (0, ends.size - 1)
    single = ends.size == joints.size  # pieces of one item, which are not turned alone
    for t in range(len(draws)):
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
        middle = j if move == 0 else i + k - j
        change = across(order, cost, weights, i, j, k, middle, move) - across(order, cost, weights, i, j, k, j, -1)
        if np.log(1 - draws[t, 4]) < -beta * change and permitted(order, allowed, i, j, k, move):
            make(order, joints, i, j, k, move)
            if not single:
                ends = np.flatnonzero(joints)
