"""The shortest links first, as long as they make pieces of a tour; then the pieces by their ends, until there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from ...compute.jit import njit

Finder = Callable[[Int[np.ndarray, "m"]], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Given ends of pieces: near pairs of them and what they cost."""


class Links:
    """Pieces of a tour: up to two links of every item, and of either end of a piece the other one."""

    def __init__(self, n: int) -> None:
        self.links = np.full((n, 2), -1)
        self.end = np.arange(n)

    def add(self, one: np.ndarray, other: np.ndarray, cost: np.ndarray) -> int:
        """Those of the pairs that fit, from the cheapest to the dearest; returns how many."""
        sort = np.argsort(cost, kind="stable")
        return int(_add(one[sort], other[sort], self.links, self.end))

    @property
    def ends(self) -> Int[np.ndarray, "ends"]:
        return np.flatnonzero(self.links[:, 1] < 0)

    def walk(self) -> Int[np.ndarray, "n"]:
        """The items piece by piece."""
        order = np.empty(len(self.end), np.int64)
        _walk(self.links, self.end, order)
        return order


def shortest_links(n: int, near: tuple[np.ndarray, np.ndarray, np.ndarray], finder: Finder) -> Int[np.ndarray, "n"]:
    """A tour of greedy links: first those of near pairs, then between the ends of pieces that ``finder`` finds near each other."""
    made = Links(n)
    made.add(*near)
    while len(ends := made.ends) > 2 and made.add(*finder(ends)):
        pass
    return made.walk()


def among_points(points: Float[np.ndarray, "n d"], k: int = 6) -> Finder:
    from .space import nearest_points

    def near(ends: Int[np.ndarray, "m"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = nearest_points(points[ends], min(k, len(ends) - 1))
        one, other = np.repeat(ends, found.shape[1]), ends[found.ravel()]
        return one, other, np.sqrt(np.square(points[one] - points[other]).sum(1))

    return near


@njit
def _add(one, other, links, end):
    added = 0
    for e in range(one.size):
        a, b = one[e], other[e]
        if a == b or links[a, 1] >= 0 or links[b, 1] >= 0 or end[a] == b:
            continue
        links[a, 1 if links[a, 0] >= 0 else 0] = b
        links[b, 1 if links[b, 0] >= 0 else 0] = a
        far_a, far_b = end[a], end[b]
        end[far_a], end[far_b] = far_b, far_a
        added += 1
    return added


@njit
def _walk(links, end, order):
    """Writes every piece from one of its ends."""
    n, count = end.size, 0
    seen = np.zeros(n, np.bool_)
    for first in range(n):
        if seen[first] or links[first, 1] >= 0:
            continue
        item, before = first, -1
        while item >= 0:
            seen[item] = True
            order[count] = item
            count += 1
            ahead = links[item, 0] if links[item, 0] != before else links[item, 1]
            item, before = ahead, item
