r"""Local search for the energy of a path over many lags, $\sum_{d=1}^{r} w_d \sum_a D_{o(a), o(a+d)}$.

Adjacent items alone cannot tell a path from a folded one; pairs two, three, ... places apart can. A move cuts the order at
two or three joints and puts the pieces back, turned or not, so only pairs across these joints change: $O(r^2)$ however long the
pieces are. Moves are tried that make an item the neighbour of one of its nearest ones, and turns of an end of the path.

``cuts`` says where the order may be cut: everywhere, or between chains that stay whole (contigs and their bins).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ...compute.copying import copy_into
from ...compute.jit import njit
from ...watch import dispensable
from ..local_search import always

NEAR = 10
"""Neighbours of an item that moves try to bring next to it."""
LONGEST = 3  # pieces moved together
ENOUGH = 1e-12  # an improvement below this share of the mean cost is rounding
PASSES = 100
SURE = 0.25
"""Of the scatter across a joint: the scale on which gaps are judged. Chosen on contacts of three yeast chromosomes with noise added;
0.33 is too modest, 0.17 too sure."""
REVERSE, SWAP, SWAP_FIRST, SWAP_SECOND, SWAP_BOTH, BOTH = range(6)
"""What becomes of two adjacent stretches A B: A', B A, B A', B' A, B' A', A' B' (' is turned round)."""


class _Problem(NamedTuple):
    cost: np.ndarray
    weights: np.ndarray
    near: np.ndarray
    allowed: np.ndarray
    least: float


def lag_energy(
    order: Int[np.ndarray, "n"], cost: Float[np.ndarray, "n n"], weights: Float[np.ndarray, "reach"]
) -> float:
    return float(
        sum(w * cost[order[:-lag], order[lag:]].sum() for lag, w in enumerate(weights, start=1) if lag < len(order))
    )


def nearest(cost: Float[np.ndarray, "n n"], count: int = NEAR) -> Int[np.ndarray, "n k"]:
    """Every item's nearest ones, nearest first."""
    off = cost.copy()
    np.fill_diagonal(off, np.inf)
    count = min(count, len(cost) - 1)
    near = np.argpartition(off, count - 1, axis=1)[:, :count]
    return np.take_along_axis(near, np.argsort(np.take_along_axis(off, near, 1), axis=1), 1)


def improve_lags(
    order: Int[np.ndarray, "n"],
    cost: Float[np.ndarray, "n n"],
    weights: Float[np.ndarray, "reach"],
    *,
    near: Int[np.ndarray, "n k"] | None = None,
    cuts: Bool[np.ndarray, "joints"] | None = None,
    allowed: Bool[np.ndarray, "n n"] | None = None,
    more: Callable[[], bool] = always,
) -> Int[np.ndarray, "n"]:
    """The order that no move improves; never worse than the given one, ends early when ``more`` says no. ``cuts[a]``: the order may be cut before position a."""
    order = np.array(order, np.int64)
    n = len(order)
    if n < 3:
        return order
    problem = _problem(cost, weights, near, allowed)
    joints = np.ones(n + 1, np.bool_) if cuts is None else cuts.copy()
    joints[[0, n]] = True
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    for _ in range(PASSES):
        if not (more() and _pass(order, place, joints, problem)):
            break
    return order


def _problem(cost: np.ndarray, weights: np.ndarray, near: np.ndarray | None, allowed: np.ndarray | None) -> _Problem:
    return _Problem(
        np.ascontiguousarray(cost, np.float64),
        np.ascontiguousarray(weights[: len(cost) - 1], np.float64),
        nearest(cost) if near is None else near,
        np.zeros((0, 0), np.bool_) if allowed is None else np.ascontiguousarray(allowed),
        ENOUGH * float(np.abs(cost).mean()) * float(np.abs(weights).sum()),
    )


@njit
def came_from(position, i, j, k, move):
    """Where the item comes from that stands at ``position`` after the move of A = [i, j) and B = [j, k)."""
    if move < 0 or position < i or position >= k:
        return position
    if move == 0:
        return i + j - 1 - position
    if move == 5:
        return i + j - 1 - position if position < j else j + k - 1 - position
    middle = i + k - j
    if position < middle:
        return j + (position - i) if move == 1 or move == 2 else k - 1 - (position - i)
    return i + (position - middle) if move == 1 or move == 3 else j - 1 - (position - middle)


@njit
def across(order, cost, weights, i, j, k, middle, move):
    """Cost of the pairs that lie across the joints i, middle or k after a move (-1: as it is); each pair once."""
    n, reach = order.size, weights.size
    total = 0.0
    last = 0
    for which in range(3):
        joint = i if which == 0 else (middle if which == 1 else k)
        if joint <= last or joint >= n:
            continue
        for a in range(max(last, joint - reach), joint):
            left = order[came_from(a, i, j, k, move)]
            for b in range(joint, min(n, a + reach + 1)):
                total += weights[b - a - 1] * cost[left, order[came_from(b, i, j, k, move)]]
        last = joint
    return total


@njit
def _try(order, place, joints, problem, i, j, k, move):
    """Make the move if it lowers the energy and every item may stand where it comes to stand."""
    middle = j if move == 0 or move == 5 else i + k - j
    before = across(order, problem.cost, problem.weights, i, j, k, j, -1)
    if across(order, problem.cost, problem.weights, i, j, k, middle, move) >= before - problem.least:
        return False
    if not permitted(order, problem.allowed, i, j, k, move):
        return False
    make(order, joints, i, j, k, move)
    for a in range(i, k):
        place[order[a]] = a
    return True


@njit
def permitted(order, allowed, i, j, k, move):
    """Whether every item may stand where the move takes it; all may, if there is no mask."""
    fits = True
    for a in range(i, k if allowed.size > 0 else i):
        fits = fits and allowed[order[came_from(a, i, j, k, move)], a]
    return fits


@njit
def make(order, joints, i, j, k, move):
    """Make the move; a joint inside a stretch moves with it."""
    middle = j if move == 0 or move == 5 else i + k - j
    items, cut = order[i:k].copy(), joints[i : k + 1].copy()
    for a in range(i, k):
        items[a - i] = order[came_from(a, i, j, k, move)]
    for a in range(i + 1, k):
        low, high = came_from(a - 1, i, j, k, move), came_from(a, i, j, k, move)
        cut[a - i] = True if a == middle else joints[max(low, high)]
    copy_into(order[i:k], items)
    copy_into(joints[i : k + 1], cut)


@njit
def _piece_end(joints, start, step):
    """The next joint from ``start`` on, in the direction of ``step``; -1 beyond the path."""
    at = start + step
    while 0 <= at < joints.size and not joints[at]:
        at += step
    return at if 0 <= at < joints.size else -1


@njit
def _note(row, i, j, k, move):
    """One by one, as in `copying`."""
    row[0], row[1], row[2], row[3] = i, j, k, move


@njit
def _whole(n, joint, moves):
    """The ways to put the two parts of the path together that a cut at ``joint`` leaves, as rows (i, j, k, move)."""
    for move in range(1, 6):
        _note(moves[move - 1], 0, joint, n, move)
    _note(moves[5], 0, joint, joint, 0)
    _note(moves[6], joint, n, n, 0)
    return 7


@njit
def _short(joints, joint, moves):
    """The pieces that begin at ``joint``, turned round where they are."""
    end, count = joint, 0
    for _ in range(LONGEST):
        end = _piece_end(joints, end, 1)
        if end < 0:
            break
        _note(moves[count], joint, end, end, 0)
        count += 1
    return count


@njit
def _beside(place, joints, joint, side, other, moves):
    """Moves that cut at ``joint`` and bring the item before it (side 0) or after it next to the piece of ``other``."""
    left, right = place[other], place[other] + 1
    while not joints[left]:
        left -= 1
    while not joints[right]:
        right += 1
    if left <= joint - 1 + side < right:
        return 0
    count = 0
    for gap in (left, right):
        if gap != joint:
            _note(moves[count], min(joint, gap), max(joint, gap), max(joint, gap), 0)
            count += 1
    end = joint
    for _ in range(LONGEST):
        end = _piece_end(joints, end, 2 * side - 1)
        low, high = min(end, joint), max(end, joint)
        if end < 0 or low <= left < high:
            break
        for gap in (left, right):
            for turned in range(2):
                if gap < low:
                    _note(moves[count], gap, low, high, 1 + 2 * turned)
                    count += 1
                elif gap > high:
                    _note(moves[count], low, high, gap, 1 + turned)
                    count += 1
    return count


@njit
def _moves_at(order, place, joints, problem, joint, what, moves):
    """The moves of one kind that cut at ``joint``: of the whole path, of short pieces, then beside neighbours on either side."""
    n, near = order.size, problem.near.shape[1]
    side = (what - 2) // near
    here = joint - 1 + side
    if not joints[joint] or (what > 1 and (here < 0 or here >= n)):
        return 0
    if what == 0:
        return _whole(n, joint, moves)
    if what == 1:
        return _short(joints, joint, moves)
    return _beside(place, joints, joint, side, problem.near[order[here], (what - 2) % near], moves)


@njit
def _pass(order, place, joints, problem):
    """Every joint once, with what can be done there; True if something improved."""
    moves = np.empty((2 + 4 * LONGEST, 4), np.int64)
    improved = False
    for joint in range(order.size + 1):
        for what in range(2 + 2 * problem.near.shape[1]):
            count = _moves_at(order, place, joints, problem, joint, what, moves)
            for c in range(count):
                i, j, k, move = moves[c]
                if _try(order, place, joints, problem, i, j, k, move):
                    improved = True
                    break
    return improved


def joint_gaps(
    order: Int[np.ndarray, "n"],
    cost: Float[np.ndarray, "n n"],
    weights: Float[np.ndarray, "reach"],
    *,
    near: Int[np.ndarray, "n k"] | None = None,
    cuts: Bool[np.ndarray, "joints"] | None = None,
) -> Float[np.ndarray, "n-1"]:
    """Per link of the order, what the cheapest move costs that breaks it; infinite inside of pieces.

    Negative if the order can still be improved. Near 0 the link is one of several that are equally good; all are 0 if there was no
    time to look.
    """
    n = len(order)
    gaps = np.full(n + 1, np.inf)
    if n > 2:
        problem = _problem(cost, weights, near, None)
        joints = np.ones(n + 1, np.bool_) if cuts is None else cuts.copy()
        joints[[0, n]] = True
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        with dispensable():
            _gaps(np.array(order, np.int64), place, joints, problem, gaps)
            return gaps[1:-1]
        gaps[:] = 0.0
    return gaps[1:-1]


def link_chances(
    order: Int[np.ndarray, "n"],
    cost: Float[np.ndarray, "n n"],
    weights: Float[np.ndarray, "reach"],
    *,
    near: Int[np.ndarray, "n k"] | None = None,
    cuts: Bool[np.ndarray, "joints"] | None = None,
) -> Float[np.ndarray, "n-1"]:
    """How sure each link of the order is: 1/2 if a move that breaks it costs nothing, 1 if all cost more than chance explains."""
    gaps = joint_gaps(order, cost, weights, near=near, cuts=cuts)
    scale = max(SURE * scatter(order, cost, weights), ENOUGH * float(np.abs(cost).mean()), 1e-300)
    return 1 / (1 + np.exp(-(gaps / scale).clip(-50, 50)))


def scatter(order: Int[np.ndarray, "n"], cost: Float[np.ndarray, "n n"], weights: Float[np.ndarray, "reach"]) -> float:
    """How much the energy across a joint scatters: each pair around what is usual for its lag, over the pairs across."""
    total = 0.0
    for lag, weight in enumerate(weights[: len(order) - 1], start=1):
        along = cost[order[:-lag], order[lag:]]
        total += lag * (weight * 1.4826 * float(np.median(np.abs(along - np.median(along))))) ** 2
    return math.sqrt(total)


@njit
def _kept(order, joint, i, j, k, move):
    """Whether the two items at ``joint`` are still neighbours after the move."""
    n = order.size
    middle = j if move == 0 or move == 5 else i + k - j
    for new in (i, middle, k):
        if 0 < new < n:
            left, right = came_from(new - 1, i, j, k, move), came_from(new, i, j, k, move)
            if min(left, right) == joint - 1 and max(left, right) == joint:
                return True
    return False


@njit
def _gaps(order, place, joints, problem, gaps):
    n, near = order.size, problem.near.shape[1]
    moves = np.empty((2 + 4 * LONGEST, 4), np.int64)
    for joint in range(n + 1):
        for what in range(2 + 2 * near):
            count = _moves_at(order, place, joints, problem, joint, what, moves)
            for c in range(count):
                i, j, k, move = moves[c]
                middle = j if move == 0 or move == 5 else i + k - j
                change = across(order, problem.cost, problem.weights, i, j, k, middle, move)
                change -= across(order, problem.cost, problem.weights, i, j, k, j, -1)
                for broken in (i, j, k):
                    if 0 < broken < n and change < gaps[broken] and not _kept(order, broken, i, j, k, move):
                        gaps[broken] = change
