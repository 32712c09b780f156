"""Tours in no time, for when there is no more of it: nearest neighbour from several cities, and the shortest links first."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

STEPS = 30_000  # of nearest neighbour in all: from every city up to 170 of them, from 30 of 1,000
NEAR = 10  # links of a city that are tried


def quick_tours(cost: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "tours n"]:
    """Valid tours, one of them usually within 20 % of the best; milliseconds for 1,000 cities."""
    n = len(cost)
    first = np.linspace(0, n - 1, min(max(STEPS // n, 2), n)).astype(np.int64)
    tours = [_nearest_neighbour(cost, int(city)) for city in np.unique(first)]
    return np.stack([*tours, _shortest_links(cost)] if n > 3 else tours)


def _nearest_neighbour(cost: np.ndarray, city: int) -> np.ndarray:
    """Always on to the nearest city that is left."""
    left = np.ones(len(cost), dtype=bool)
    order = np.empty(len(cost), dtype=np.int64)
    for place in range(len(cost)):
        order[place] = city
        left[city] = False
        if place + 1 < len(cost):
            city = int(np.where(left, cost[city], np.inf).argmin())
    return order


def _shortest_links(cost: np.ndarray) -> np.ndarray:
    """Links from short to long, as long as they make pieces of a tour; then from the end of a piece to the nearest end of another."""
    n = len(cost)
    either = np.minimum(cost, cost.T) + np.diag(np.full(n, np.inf))
    near = np.argpartition(either, min(NEAR, n - 2), axis=1)[:, :NEAR]
    one, other = np.repeat(np.arange(n), near.shape[1]), near.reshape(-1)
    links: list[list[int]] = [[] for _ in range(n)]
    end = list(range(n))  # of either end of a piece the other one
    for k in np.argsort(either[one, other], kind="stable").tolist():
        a, b = int(one[k]), int(other[k])
        if a != b and len(links[a]) < 2 and len(links[b]) < 2 and end[a] != b:
            links[a].append(b)
            links[b].append(a)
            end[end[a]], end[end[b]] = end[b], end[a]
    ends = np.array([len(of) < 2 for of in links])
    order: list[int] = []
    city = int(ends.argmax())
    while True:
        piece = _walk(links, city)
        order += piece
        ends[[piece[0], piece[-1]]] = False
        if not ends.any():
            return np.array(order, dtype=np.int64)
        city = int(np.where(ends, cost[order[-1]], np.inf).argmin())


def _walk(links: list[list[int]], city: int) -> list[int]:
    """The piece that begins with this city."""
    piece, before = [city], -1
    while True:
        on = [k for k in links[piece[-1]] if k != before]
        if not on:
            return piece
        before = piece[-1]
        piece.append(on[0])
