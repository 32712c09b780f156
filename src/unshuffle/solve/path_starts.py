"""Orders to begin a path with, and the unit of its cost.

A path annealed from nothing folds: on a coarse path the modes with one, two and three turns are almost equally soft, so
noise picks the number of folds, and finer levels cannot unfold it. What is long-ranged is therefore taken from distances
*along* the data: shortest ways in a graph of near neighbours, which a curve that comes close to itself cannot fool.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

NEIGHBOURS = (0, 2, 3, 5, 8)
"""0 is the minimum spanning tree alone: safest against short cuts. More neighbours average out more noise."""
LANDMARKS = 256
"""Sources of shortest ways; the first coordinate of a curve does not change with more (n = 4000: 2 s instead of 30)."""


def in_units(cost: Float[np.ndarray, "n n"], same: Bool[np.ndarray, "n n"] | None = None) -> Float32[np.ndarray, "n n"]:
    """The cost in units of what telling near neighbours apart is worth, 0 for an average nearest neighbour.

    The unit is the mean over items of (mean of the six nearest - the nearest): one spacing on an even curve. The result does
    not change when the cost is scaled or a constant is added to it. ``same`` (the diagonal) marks what cannot be neighbours:
    it gets each item's nearest cost, so that a soft path gains nothing by letting an item follow itself.
    """
    same = np.eye(len(cost), dtype=bool) if same is None else same
    off = np.where(same, np.inf, np.minimum(cost, cost.T))
    few = min(6, int((~same).sum(1).min()))
    near = np.sort(np.partition(off, few - 1, axis=1)[:, :few], axis=1)
    lowest = near[:, 0]
    scale = float((near.mean(1) - lowest).mean())
    widest = float(off[~same].max() - lowest.min())
    if scale <= 1e-9 * widest:  # ties everywhere near: the whole range is the unit
        scale = widest / len(cost)
    unit = (np.where(same, lowest[:, None], cost) - lowest.mean()) / (scale if scale > 0 else 1.0)
    return unit.astype(np.float32)


def geodesic_order(cost: Float[np.ndarray, "n n"], neighbours: int) -> Int[np.ndarray, "n"]:
    """Order by the first coordinate of classical scaling of the shortest ways in a neighbour graph (Isomap).

    The graph is the minimum spanning tree and every item's ``neighbours`` nearest ones.
    """
    n = len(cost)
    distance = np.minimum(cost, cost.T).astype(np.float64)
    np.fill_diagonal(distance, np.inf)
    distance -= distance.min()
    largest = distance[np.isfinite(distance)].max()
    distance += 1e-9 * largest if largest > 0 else 1.0  # scipy reads a weight of 0 as "no edge"
    np.fill_diagonal(distance, 0.0)
    tree = minimum_spanning_tree(distance).tocoo()
    rows, columns = tree.row, tree.col
    if neighbours:
        np.fill_diagonal(distance, np.inf)
        k = min(neighbours, n - 1)
        nearest = np.argpartition(distance, k - 1, axis=1)[:, :k]
        rows = np.concatenate((rows, np.repeat(np.arange(n), k)))
        columns = np.concatenate((columns, nearest.ravel()))
    pairs = np.unique(np.sort(np.stack((rows, columns)), axis=0), axis=1)
    graph = csr_array((distance[pairs[0], pairs[1]], (pairs[0], pairs[1])), shape=(n, n))
    sources = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).round().astype(int))
    ways = shortest_path(graph, directed=False, indices=sources) ** 2
    return np.argsort(_first_coordinate(ways, sources), kind="stable")


def _first_coordinate(squares: Float[np.ndarray, "sources n"], sources: Int[np.ndarray, "sources"]) -> np.ndarray:
    """Landmark classical scaling (de Silva and Tenenbaum 2004), first axis."""
    among = squares[:, sources]
    mean = among.mean(axis=1)
    gram = -0.5 * (among - mean[:, None] - mean[None, :] + mean.mean())
    leading = np.linalg.eigh(gram)[1][:, -1]
    return -leading @ (squares - mean[:, None])
