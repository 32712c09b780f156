"""The course of a path: an order along the data as a whole, before anyone asks which of two near items comes first.

The shortest way through a thick cloud of points along a curve may well run up on one side of it and back on the other: links alone do
not say where the curve leads. Distances *along* the data do (`path.starts`), here in the graph of near neighbours alone.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from ...watch import Watch
from ..path.starts import first_coordinates
from .space import Space

LANDMARKS = 32
TOGETHER = 4  # shortest ways from so many landmarks between two looks at the clock


def graph_of(space: Space, tour: Int[np.ndarray, "n"]) -> csr_array:
    """Near pairs with their costs; parts that hang together nowhere are joined by the shortest links of a tour that do it."""
    one, other, cost = space.pairs()
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(space.n, space.n))
    parts, part = connected_components(graph, directed=False)  # pyright: ignore[reportGeneralTypeIssues]
    if parts > 1:
        following = np.roll(tour, -1)
        between = np.flatnonzero(part[tour] != part[following])
        length = space.between(tour[between], following[between])
        joining = _joining(part[tour[between]], part[following[between]], length, parts)
        some = between[joining]
        one, other = np.r_[one, tour[some]], np.r_[other, following[some]]
        cost = np.r_[cost, length[joining]]
    least = 1e-9 * float(cost.max(initial=0.0)) or 1.0  # scipy reads a weight of 0 as "no edge"
    return coo_array((cost + least, (one, other)), shape=(space.n, space.n)).tocsr()


def _joining(a: np.ndarray, b: np.ndarray, length: np.ndarray, parts: int) -> list[int]:
    """Which of the links between parts make one of all, the shortest first."""
    group = list(range(parts))

    def root(k: int) -> int:
        while group[k] != k:
            group[k] = k = group[group[k]]
        return k

    chosen = []
    for e in np.argsort(length, kind="stable").tolist():
        one, other = root(int(a[e])), root(int(b[e]))
        if one != other:
            group[one] = other
            chosen.append(e)
    return chosen


def landmark_coordinates(
    graph: csr_array, watch: Watch, dimensions: int = 1
) -> Float[np.ndarray, "dimensions n"] | None:
    """Classical scaling of the shortest ways from a few landmarks; None if the watch says to stop before they are found."""
    n = len(graph.indptr) - 1
    sources = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).round().astype(int))
    ways = []
    for some in np.array_split(sources, -(-len(sources) // TOGETHER)):
        if not watch(stage="distances along the data", done=len(ways) * TOGETHER / len(sources)):
            return None
        ways.append(dijkstra(graph, directed=False, indices=some))
    return first_coordinates(np.square(np.concatenate(ways)), sources, dimensions)


def span_of(space: Space, order: Int[np.ndarray, "n"]) -> float:
    """How many positions apart near items usually stand: the thickness of the data across the order."""
    place = np.empty(space.n, np.int64)
    place[order] = np.arange(space.n)
    one, other, _ = space.pairs()
    return float(np.median(np.abs(place[one] - place[other])))
