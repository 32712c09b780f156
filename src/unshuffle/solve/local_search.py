"""Local search on decoded orders: never worse than its input, first improvement, until no move helps.

Tours and paths: reversals (2-opt) and moves of one to three items, either way round (Or-opt). Graphs and grids: swaps of
two items. Costs need not be symmetric. ``allowed`` (items x positions) is kept if the input keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..compute.copying import copy_into, reverse
from ..compute.jit import njit
from ..compute.threads import in_chunks
from ..shapes import Mask, Order

LONGEST = 3  # items moved together by Or-opt; Or's own choice
ENOUGH = 1e-12  # an improvement below this share of the mean cost is rounding
ROUNDING = 1e-10  # the same of 2-SUM, times the cube of the number of items: its sums are not more exact


def always() -> bool:
    return True


def improve_tour(
    orders: Order, cost: Float[Tensor, "n n"], *, allowed: Mask | None = None, more: Callable[[], bool] = always
) -> Order:
    """2-opt and Or-opt on closed tours; ends early when ``more`` says no."""
    return _each(orders, _improve_chain, _array(cost), _mask(allowed), True, _least(cost), more)


def improve_path(
    orders: Order, cost: Float[Tensor, "n n"], *, allowed: Mask | None = None, more: Callable[[], bool] = always
) -> Order:
    """Reversals and Or-opt moves on open paths; the ends are free. Ends early when ``more`` says no."""
    return _each(orders, _improve_chain, _array(cost), _mask(allowed), False, _least(cost), more)


def improve_assignment(
    orders: Order, cost: Float[Tensor, "n n"], weights: Float[Tensor, "n n"], *, allowed: Mask | None = None
) -> Order:
    r"""Swaps for the quadratic assignment $\sum_{ab} w_{ab} D_{\pi(a)\pi(b)}$."""
    least = _least(cost) * float(weights.abs().mean())
    return _each(orders, _improve_assignment, _array(cost), _array(weights), _mask(allowed), least)


def exchange_changes(
    order: Int[Tensor, "n"], cost: Float[Tensor, "n n"], weights: Float[Tensor, "n n"], *, allowed: Mask | None = None
) -> Float[np.ndarray, "n n"]:
    """What an exchange of the items at the positions a < b changes; infinity for all other pairs, and where it is not allowed."""
    changes = np.full((len(order), len(order)), np.inf)
    _exchange_changes(order.numpy(), _array(cost), _array(weights), _mask(allowed), changes)
    return changes


def improve_two_sum(order: Int[np.ndarray, "n"], alike: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "n"]:
    r"""Swaps for $\sum_{i<k} a_{ik} (r_i - r_k)^2$ with r the positions, as long as one lowers it.

    Swapping i and j at the places p and q changes it by $(q - p) ((p + q) (c_i - c_j) - 2 (m_i - m_j) + 2 a_{ij} (q - p))$, with
    $c_i = \sum_k a_{ik}$ and $m_i = \sum_k a_{ik} r_k$: nothing is summed until one is made.
    """
    order = np.array(order, np.int64)
    pull = alike @ np.argsort(order).astype(alike.dtype)
    _improve_two_sum(order, alike, alike.sum(1), pull, ROUNDING * len(order) ** 3 * alike.mean())
    return order


def improve_grid(
    orders: Order,
    costs: Tensor | Sequence[Tensor],
    height: int,
    width: int,
    *,
    allowed: Mask | None = None,
) -> Order:
    """Swaps of two tiles; ``costs`` are of right and of lower neighbours."""
    right, below = (costs, costs) if isinstance(costs, Tensor) else costs
    least = _least(right) + _least(below)
    return _each(orders, _improve_grid, _array(right), _array(below), height, width, _mask(allowed), least)


def _each(orders: Tensor, kernel: Callable[..., None], *arguments: Any) -> Tensor:
    """The kernel on every order of the batch, several at a time."""
    flat = orders.reshape(-1, orders.shape[-1]).to("cpu", torch.int64).numpy().copy()

    def some(low: int, high: int) -> None:
        for k in range(low, high):
            kernel(flat[k], *arguments)

    if orders.shape[-1] > 1:
        in_chunks(some, len(flat))
    return torch.from_numpy(flat).reshape(orders.shape).to(orders.device)


def _array(matrix: Tensor) -> np.ndarray:
    return matrix.detach().to("cpu", torch.float64).contiguous().numpy()


def _mask(allowed: Tensor | None) -> np.ndarray:
    return np.zeros((0, 0), dtype=np.bool_) if allowed is None else allowed.cpu().contiguous().numpy()


def _least(cost: Tensor) -> float:
    return ENOUGH * float(cost.abs().mean())


def _improve_chain(order, cost, allowed, closed, least, more):
    """Reversals and Or-opt moves in turn. A closed tour is turned by half and searched again, so that its seam moves."""
    turn = order.size // 2
    quiet = 0
    while quiet < 2 and more():
        if _reversals(order, cost, allowed, closed, least) or _moves(order, cost, allowed, closed, least):
            quiet = 0
            continue
        quiet += 1
        if not closed or allowed.size > 0:
            return
        order[:] = np.roll(order, turn)
        turn = order.size - turn


@njit
def _fits(order, allowed, low, high):
    if allowed.size > 0:
        for a in range(low, high + 1):
            if not allowed[order[a], a]:
                return False
    return True


@njit
def _sums(order, cost, forward, backward):
    """Cost of walking from position 0 to a, and back: a reversal of an asymmetric stretch costs their difference."""
    forward[0] = backward[0] = 0.0
    for a in range(1, order.size):
        forward[a] = forward[a - 1] + cost[order[a - 1], order[a]]
        backward[a] = backward[a - 1] + cost[order[a], order[a - 1]]


@njit
def _reversals(order, cost, allowed, closed, least):
    """One pass of 2-opt over all pairs of positions; True if something improved."""
    n = order.size
    improved = False
    forward, backward = np.empty(n), np.empty(n)
    _sums(order, cost, forward, backward)
    for low in range(n - 1):
        for high in range(low + 1, n):
            if closed and low == 0 and high == n - 1:
                continue  # the whole tour
            first, last = order[low], order[high]
            change = (backward[high] - backward[low]) - (forward[high] - forward[low])
            if closed or low > 0:
                before = order[low - 1]
                change += cost[before, last] - cost[before, first]
            if closed or high < n - 1:
                after = order[(high + 1) % n]
                change += cost[first, after] - cost[last, after]
            if change < -least:
                reverse(order[low : high + 1])
                if _fits(order, allowed, low, high):
                    improved = True
                    _sums(order, cost, forward, backward)
                else:
                    reverse(order[low : high + 1])
    return improved


@njit
def _shift(order, low, high, place, flip):
    """Move positions low..high to just after position ``place``, reversed if ``flip``; returns the range it touched."""
    block = order[low : high + 1].copy()
    if flip:
        reverse(block)
    size = block.size
    if place > high:
        copy_into(order[low:], order[high + 1 : place + 1])
        copy_into(order[place + 1 - size :], block)
        return low, place
    copy_into(order[place + 1 + size :], order[place + 1 : low].copy())
    copy_into(order[place + 1 :], block)
    return place + 1, high


@njit
def _link(order, cost, a, b, closed):
    """Cost of the link from position a to position b, 0 beyond the ends of a path."""
    n = order.size
    if not closed and (a < 0 or b < 0 or a >= n or b >= n):
        return 0.0
    return cost[order[a % n], order[b % n]]


@njit
def _moves(order, cost, allowed, closed, least):
    """One pass of Or-opt; True if something improved."""
    n = order.size
    improved = False
    for size in range(1, min(LONGEST, n - 2) + 1):
        low = 0
        while low + size <= n:
            if _move_block(order, cost, allowed, closed, least, low, low + size - 1):
                improved = True
            low += 1
    return improved


@njit
def _move_block(order, cost, allowed, closed, least, low, high):
    """The first better place for the block low..high; True if there was one."""
    n = order.size
    first, last = order[low], order[high]
    along, against = 0.0, 0.0
    for a in range(low, high):
        along += cost[order[a], order[a + 1]]
        against += cost[order[a + 1], order[a]]
    gone = _link(order, cost, low - 1, low, closed) + _link(order, cost, high, high + 1, closed)
    gain = gone - (_link(order, cost, low - 1, high + 1, closed) if closed or (low > 0 and high < n - 1) else 0.0)
    for place in range(0 if closed else -1, n):
        if low - 1 <= place <= high or (closed and low == 0 and place == n - 1):
            continue
        into = place >= 0 or closed
        out = place < n - 1 or closed
        before = order[place]
        after = order[(place + 1) % n]
        here = cost[before, after] if into and out else 0.0
        for flip in range(2):
            head, tail = (last, first) if flip else (first, last)
            change = (against - along if flip else 0.0) - gain - here
            change += cost[before, head] if into else 0.0
            change += cost[tail, after] if out else 0.0
            if change < -least:
                saved = order.copy()
                start, end = _shift(order, low, high, place, flip == 1)
                if _fits(order, allowed, start, end):
                    return True
                copy_into(order, saved)
    return False


@njit
def may_swap(order, allowed, a, b):
    return allowed.size == 0 or (allowed[order[a], b] and allowed[order[b], a])


@njit
def _improve_assignment(order, cost, weights, allowed, least):
    improved = True
    while improved:
        improved = False
        for a in range(order.size - 1):
            for b in range(a + 1, order.size):
                if may_swap(order, allowed, a, b) and swap_change(order, cost, weights, a, b) < -least:
                    order[a], order[b] = order[b], order[a]
                    improved = True


@njit
def _exchange_changes(order, cost, weights, allowed, changes):
    """Of all pairs of positions a < b what an exchange changes; infinity where it is not allowed."""
    for a in range(order.size):
        for b in range(a + 1, order.size):
            changes[a, b] = swap_change(order, cost, weights, a, b) if may_swap(order, allowed, a, b) else np.inf


@njit
def swap_change(order, cost, weights, a, b):
    """Change of the quadratic assignment's energy when the items at positions a and b change places; O(n)."""
    i, k = order[a], order[b]
    change = (weights[a, a] - weights[b, b]) * (cost[k, k] - cost[i, i])
    change += (weights[a, b] - weights[b, a]) * (cost[k, i] - cost[i, k])
    for c in range(order.size):
        if c != a and c != b:
            m = order[c]
            change += (weights[a, c] - weights[b, c]) * (cost[k, m] - cost[i, m])
            change += (weights[c, a] - weights[c, b]) * (cost[m, k] - cost[m, i])
    return change


@njit
def _improve_two_sum(order, alike, total, pull, least):
    improved = True
    while improved:
        improved = False
        for p in range(order.size - 1):
            for q in range(p + 1, order.size):
                i, j = order[p], order[q]
                change = (p + q) * (total[i] - total[j]) - 2 * (pull[i] - pull[j]) + 2 * alike[i, j] * (q - p)
                if (q - p) * change < -least:
                    order[p], order[q] = j, i
                    pull += (q - p) * (alike[i] - alike[j])
                    improved = True


@njit
def _improve_grid(order, right, below, height, width, allowed, least):
    improved = True
    while improved:
        improved = False
        for a in range(order.size - 1):
            for b in range(a + 1, order.size):
                if not may_swap(order, allowed, a, b):
                    continue
                before = _seams(order, right, below, height, width, a, b)
                order[a], order[b] = order[b], order[a]
                if _seams(order, right, below, height, width, a, b) < before - least:
                    improved = True
                else:
                    order[a], order[b] = order[b], order[a]


@njit
def _seams(order, right, below, height, width, a, b):
    """Cost of all seams of the cells a and b, a shared seam once."""
    total = 0.0
    for which in range(2):
        cell = a if which == 0 else b
        row, column = cell // width, cell % width
        if column > 0 and not (which == 1 and cell - 1 == a):
            total += right[order[cell - 1], order[cell]]
        if column < width - 1 and not (which == 1 and cell + 1 == a):
            total += right[order[cell], order[cell + 1]]
        if row > 0 and not (which == 1 and cell - width == a):
            total += below[order[cell - width], order[cell]]
        if row < height - 1 and not (which == 1 and cell + width == a):
            total += below[order[cell], order[cell + width]]
    return total
