"""What is known of the costs of n items without the n x n of them: where they are or which pairs are stored, and who is near."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array, issparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from ...compute.jit import njit
from ...errors import BadInput
from ...shapes import numbers
from ...watch import Watch

NEAR = 10
"""Nearest ones of an item that the search looks at. Tours of 20,000: 7 are longer by 0.4 %, 14 no shorter."""
TREE = 12
"""Up to so many dimensions a tree finds neighbours; beyond, comparing all pairs, a chunk at a time, is quicker."""
TOGETHER = 20_000  # points whose neighbours a tree is asked for between two looks at the clock
ROOM = 8_000_000  # distances that are compared at a time
DEARER = 2.0
"""A pair that a sparse cost does not store costs so many times the dearest that it does."""


class Costs(NamedTuple):
    """What pairs cost, as the kernels see it: as in a matrix or in the rows of a sparse one, where these are not empty, or by distance.

    An item one beyond the last is nobody: next to anyone it costs nothing, so that a path is a tour through it.
    """

    points: Float[np.ndarray, "n d"]
    start: np.ndarray
    item: np.ndarray
    stored: np.ndarray
    missing: float
    matrix: Float[np.ndarray, "n n"] = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Space:
    """Items with their costs and their nearest ones."""

    costs: Costs
    near: Int[np.ndarray, "n k"]
    """Nearest first; -1 where fewer are known."""
    n: int

    @classmethod
    def of_points(
        cls, points: Float[np.ndarray, "n d"], k: int = NEAR, more: Callable[[float], bool] = lambda done: True
    ) -> Space:
        """``more`` is asked now and then, with the share that is done; if it says no, the rest has no near ones."""
        near, none = nearest_points(points, k, more), np.empty(0, np.int64)
        return cls(Costs(points, none, none, np.empty(0), 0.0), near, len(points))

    @classmethod
    def of_sparse(cls, cost: csr_array, k: int = NEAR) -> Space:
        """``cost`` is symmetric with sorted rows, as `checked_sparse` makes it."""
        start, item, stored = cost.indptr.astype(np.int64), cost.indices.astype(np.int64), cost.data
        n = len(start) - 1
        row = np.repeat(np.arange(n), np.diff(start))
        sorted_ = np.lexsort((stored, row))
        rank = np.arange(len(row)) - start[row]
        near = np.full((n, k), -1)
        few = rank < k
        near[row[few], rank[few]] = item[sorted_][few]
        missing = DEARER * float(stored.max(initial=0.0))
        return cls(Costs(np.empty((n, 0)), start, item, stored, missing), near, n)

    def between(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "pairs"]:
        """The costs of these pairs."""
        if not len(self.costs.start):
            return np.sqrt(np.square(self.costs.points[a] - self.costs.points[b]).sum(-1))
        _, start, item, stored, missing, _ = self.costs
        keys = np.repeat(np.arange(self.n), np.diff(start)) * self.n + item  # sorted, since rows and their items are
        wanted = np.asarray(a) * self.n + b
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, stored[at], missing)

    def length(self, order: Int[np.ndarray, "n"], closed: bool) -> float:
        """Of a way through all items."""
        following = np.roll(order, -1)
        some = slice(None) if closed else slice(None, -1)
        return float(self.between(order[some], following[some]).sum())

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Near pairs, each once, and their costs."""
        one = np.repeat(np.arange(self.n), self.near.shape[1])
        other = self.near.ravel()
        one, other = one[other >= 0], other[other >= 0]
        keys = np.unique(np.minimum(one, other) * self.n + np.maximum(one, other))
        one, other = np.divmod(keys, self.n)
        return one, other, self.between(one, other)


@dataclass(frozen=True, eq=False)
class Large:
    """What the door lets in: many items with coordinates, or with a sparse cost."""

    known: Float[np.ndarray, "n d"] | csr_array

    def space(self, watch: Watch) -> Space:
        if not isinstance(self.known, np.ndarray):
            return Space.of_sparse(self.known)
        return Space.of_points(self.known, NEAR, lambda done: watch(stage="nearest items", done=done))


def nearest_points(
    points: Float[np.ndarray, "n d"], k: int, more: Callable[[float], bool] = lambda done: True
) -> Int[np.ndarray, "n k"]:
    """The k nearest others of every point, nearest first; -1 where ``more`` said no."""
    n, d = points.shape
    k = min(k, n - 1)
    tree = KDTree(points) if d <= TREE else None
    together = TOGETHER if tree else max(1, ROOM // n)
    found = np.empty((n, k + 1), np.int64)
    for low in range(0, n, together):
        if not more(low / n):
            return np.full((n, k), -1)
        some = points[low : low + together]
        found[low : low + together] = tree.query(some, k + 1, workers=-1)[1] if tree else _compared(some, points, k + 1)
    # an item is mostly, but among identical ones not always, its own nearest
    own = found == np.arange(n)[:, None]
    own[~own.any(1), -1] = True
    return np.ascontiguousarray(found[~own].reshape(n, k))


def _compared(some: np.ndarray, points: np.ndarray, k: int) -> np.ndarray:
    apart = torch.cdist(torch.from_numpy(some), torch.from_numpy(points))
    return apart.topk(k, largest=False).indices.numpy()


def checked_items(items: Any, n: int, name: str) -> Float[np.ndarray, "n d"]:
    """Coordinates or features (n x d), or one sentence."""
    if issparse(items):
        raise BadInput(f"items= of a {name} are coordinates (n x d); a sparse matrix of costs is given as cost=.")
    X = numbers("items", items).detach().cpu()
    X = X.unsqueeze(1) if X.ndim == 1 else X
    if X.ndim != 2 or not X.shape[1]:
        raise BadInput(f"items must be coordinates or features (n x d), not of shape {tuple(X.shape)}.")
    if len(X) != n:
        raise BadInput(f"A {name} of {n} has {n} items, but {len(X)} came.")
    points = np.ascontiguousarray(X.double().numpy())
    if not np.isfinite(points).all():
        raise BadInput("items must be finite numbers, but some are NaN or infinite.")
    if np.abs(points).max(initial=0.0) > 1e150:  # squares of more do not fit a double
        raise BadInput("The numbers of items are too large to compare; divide them by a power of ten.")
    return points


def checked_sparse(cost: Any, n: int, name: str) -> csr_array:
    """A sparse matrix as one of symmetric costs with sorted rows, or one sentence.

    A pair that is stored one way only, as in a graph of nearest neighbours, costs the same the other way.
    """
    if cost.shape != (n, n):
        raise BadInput(f"The cost of a {name} of {n} must be {n} x {n}, not {' x '.join(map(str, cost.shape))}.")
    given = coo_array(cost)
    given.sum_duplicates()
    row, column = (np.asarray(index, dtype=np.int64) for index in given.coords)
    value = given.data.astype(np.float64)
    off = row != column
    row, column, value = row[off], column[off], value[off]
    if not np.isfinite(value).all():
        raise BadInput(
            "A cost must be finite, but some entries are NaN or infinite; leave them out of the sparse matrix."
        )
    if (value < 0).any():
        raise BadInput("A sparse cost must not be negative: pairs that are not stored count as the dearest.")
    low, high = np.minimum(row, column), np.maximum(row, column)
    keys, first, inverse = np.unique(low * n + high, return_index=True, return_inverse=True)
    both = value[first]
    unlike = ~np.isclose(value, both[inverse], rtol=1e-5)
    if unlike.any():
        at = int(np.flatnonzero(unlike)[0])
        a, b = int(row[at]), int(column[at])
        raise BadInput(
            f"A sparse cost must be symmetric, but {a}, {b} and {b}, {a} differ; give a dense matrix if directions matter."
        )
    a, b = np.divmod(keys, n)
    whole = coo_array((np.r_[both, both], (np.r_[a, b], np.r_[b, a])), shape=(n, n)).tocsr()
    whole.sort_indices()
    parts, _ = connected_components(_with_zeros(whole), directed=False)  # pyright: ignore[reportGeneralTypeIssues]
    if parts > 1:
        raise BadInput(
            f"The graph of a sparse cost must be connected, but it is in {parts} parts; store more neighbours, or solve each part."
        )
    return whole


def filled(cost: csr_array) -> Float[np.ndarray, "n n"]:
    """The whole matrix: what is not stored is dearer than all that is."""
    n = len(cost.indptr) - 1
    whole = np.full((n, n), DEARER * float(cost.data.max(initial=0.0)))
    whole[np.repeat(np.arange(n), np.diff(cost.indptr)), cost.indices] = cost.data
    np.fill_diagonal(whole, 0.0)
    return whole


def _with_zeros(graph: csr_array) -> csr_array:
    """The same graph with ones on its edges: scipy takes a stored 0 for no edge."""
    return csr_array((np.ones(len(graph.data)), graph.indices, graph.indptr), shape=graph.shape)


@njit
def apart(costs, a, b):
    """What a and b cost next to each other."""
    points, start, item, stored, missing, matrix = costs
    n, d = points.shape
    if a == n or b == n:
        return 0.0
    if matrix.size > 0:
        return matrix[a, b]
    if start.size == 0:
        total = 0.0
        for x in range(d):
            total += (points[a, x] - points[b, x]) ** 2
        return np.sqrt(total)
    low, high = start[a], start[a + 1]
    while low < high:
        middle = (low + high) // 2
        if item[middle] < b:
            low = middle + 1
        else:
            high = middle
    return stored[low] if low < start[a + 1] and item[low] == b else missing
