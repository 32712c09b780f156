"""Orders to begin a path with.

A path annealed from nothing folds: on a coarse path the modes with one, two and three turns are almost equally soft, so
noise picks the number of folds, and finer levels cannot unfold it. What is long-ranged is therefore taken from distances
*along* the data: shortest ways in a graph of near neighbours, which a curve that comes close to itself cannot fool.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

NEIGHBOURS = (0, 2, 3, 5, 8)
"""0 is the minimum spanning tree alone: safest against short cuts. More neighbours average out more noise."""
LANDMARKS = 256
"""Sources of shortest ways; the first coordinate of a curve does not change with more (n = 4000: 2 s instead of 30)."""


def geodesic_orders(cost: Float[np.ndarray, "n n"], neighbours: Sequence[int]) -> list[Int[np.ndarray, "n"]]:
    """Orders by the first coordinate of classical scaling of the shortest ways in a neighbour graph (Isomap), each once.

    The graph is the minimum spanning tree and every item's nearest ones, as many as each entry of ``neighbours`` says.
    """
    n = len(cost)
    distance = np.minimum(cost, cost.T)
    np.fill_diagonal(distance, np.inf)
    distance -= distance.min()
    largest = float(np.max(distance, where=np.isfinite(distance), initial=0.0))
    distance += 1e-9 * largest if largest > 0 else 1.0  # scipy reads a weight of 0 as "no edge"
    tree = spanning_tree(distance)
    most = min(max(neighbours), n - 1)
    nearest = np.argpartition(distance, most - 1, axis=1)[:, :most] if most else np.empty((n, 0), int)
    nearest = np.take_along_axis(nearest, np.argsort(np.take_along_axis(distance, nearest, 1), axis=1), 1)
    orders = [_along(distance, tree, nearest[:, :k]) for k in neighbours]
    return list({order.tobytes(): order for order in orders}.values())


def spanning_tree(distance: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "2 edges"]:
    """Prim's algorithm on a full matrix, n^2 operations; scipy sorts all n^2 entries first (n = 4000: 4 s against 0.1)."""
    n = len(distance)
    parent = np.zeros(n, int)
    reach = distance[0].copy()
    reach[0] = np.inf
    edges = np.empty((2, n - 1), int)
    inside = np.zeros(n, bool)
    inside[0] = True
    for e in range(n - 1):
        new = int(reach.argmin())
        edges[:, e] = parent[new], new
        inside[new], reach[new] = True, np.inf
        closer = (distance[new] < reach) & ~inside
        reach[closer], parent[closer] = distance[new, closer], new
    return edges


def _along(distance: np.ndarray, tree: np.ndarray, nearest: np.ndarray) -> Int[np.ndarray, "n"]:
    n, k = nearest.shape
    more = np.stack((np.repeat(np.arange(n), k), nearest.ravel()))
    pairs = np.unique(np.sort(np.concatenate((tree, more), axis=1), axis=0), axis=1)
    graph = csr_array((distance[pairs[0], pairs[1]], (pairs[0], pairs[1])), shape=(n, n))
    sources = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).round().astype(int))
    ways = shortest_path(graph, directed=False, indices=sources) ** 2
    return np.argsort(first_coordinates(ways, sources)[0], kind="stable")


def first_coordinates(
    squares: Float[np.ndarray, "sources n"], sources: Int[np.ndarray, "sources"], dimensions: int = 1
) -> Float[np.ndarray, "dimensions n"]:
    """Landmark classical scaling (de Silva and Tenenbaum 2004), first axes."""
    among = squares[:, sources]
    mean = among.mean(axis=1)
    gram = -0.5 * (among - mean[:, None] - mean[None, :] + mean.mean())
    values, axes = np.linalg.eigh(gram)
    leading = axes[:, : -dimensions - 1 : -1].T
    lengths = np.sqrt(np.maximum(values[: -dimensions - 1 : -1], 1e-12 * max(float(values[-1]), 1e-300)))
    return -leading @ (squares - mean[:, None]) / (2 * lengths[:, None])
