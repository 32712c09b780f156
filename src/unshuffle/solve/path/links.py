"""Chains by their cheapest links: of all pairs the cheapest is joined first, then the next whose ends are still free.

Where the true links stand out, as between the edges of strips, this is nearly the answer, and where they stop standing out the
chains end: ``most`` is what a link may cost.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from ...compute.jit import njit


def linked_chains(
    cost: Float[np.ndarray, "pieces pieces"],
    states: int = 1,
    *,
    most: float = np.inf,
    fewest: int = 1,
    groups: Int[np.ndarray, "n"] | None = None,
) -> list[Int[np.ndarray, "some"]]:
    """Chains of pieces, item * states + state; ``cost[a, b]`` is that of piece b directly after piece a.

    With two states an item may be turned round, and a chain with it: ``cost[a, b]`` is then that of a turned after b turned. Items of
    different ``groups`` are never in one chain; -1 goes with any. There are ``fewest`` chains or more.
    """
    n = len(cost) // states
    cheapest = np.argsort(cost, axis=None, kind="stable")
    cheapest = cheapest[: np.searchsorted(cost.reshape(-1)[cheapest], most, side="left")]
    label = np.full(n, -1) if groups is None else np.array(groups, np.int64)
    other = np.full(2 * n, -1)
    _link(cheapest, len(cost), states, np.arange(n), label, other, n - fewest)
    seen, chains = np.zeros(n, bool), []
    for item in range(n):
        for end in range(states):  # a chain begins where a left end, or an end of an item that may be turned, is free
            if not seen[item] and other[2 * item + end] < 0:
                chains.append(_walk(2 * item + end, states, other, seen))
    return chains


def linked_order(cost: Float[np.ndarray, "pieces pieces"], states: int = 1) -> Int[np.ndarray, "n"]:
    """The one chain of all items."""
    return linked_chains(cost, states)[0]


def _walk(end: int, states: int, other: np.ndarray, seen: np.ndarray) -> Int[np.ndarray, "some"]:
    """The pieces from a free end on. The ends of item i are 2 i, its left one as it came, and 2 i + 1."""
    chain = []
    while end >= 0:
        item, turned = end // 2, end % 2
        seen[item] = True
        chain.append(item * states + turned)
        end = other[end ^ 1]
    return np.array(chain)


@njit
def _link(cheapest, pieces, states, root, label, other, joints):
    """Join ends in this order, so many at most, unless one is taken, a ring would close, or the groups of their chains differ."""
    joined = 0
    for flat in cheapest:
        if joined == joints:
            break
        a, b = flat // pieces, flat % pieces
        i, k = a // states, b // states
        right, left = 2 * i + 1 - a % states, 2 * k + b % states
        if i == k or other[right] >= 0 or other[left] >= 0:
            continue
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        if i == k or (label[i] >= 0 and label[k] >= 0 and label[i] != label[k]):
            continue
        root[k] = i
        label[i] = max(label[i], label[k])
        other[right], other[left] = left, right
        joined += 1
