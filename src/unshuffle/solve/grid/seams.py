"""Seams between tiles as the kernels see them: what each pair of neighbours is worth, and who the likely ones are."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ...compute.jit import njit, overload

SIDES = ((0, 1), (0, -1), (1, 0), (-1, 0))  # where the partner stands: right, left, below, above
LEAST_BOND = 0.02  # affinities below this propose no place
NO_MASK = np.zeros((0, 0), dtype=np.bool_)


class RowLists(NamedTuple):
    """Of a matrix, for kernels: ``value[e]`` in the columns ``column[e]``, ascending, for e from ``first[i]`` to ``first[i + 1]``; elsewhere
    in the row ``other[i]``."""

    first: np.ndarray
    column: np.ndarray
    value: np.ndarray
    other: np.ndarray


class Listed:
    """A matrix of which few entries are known, indexed like an array."""

    def __init__(self, lists: RowLists) -> None:
        self.lists = lists
        n = len(lists.other)
        row = np.repeat(np.arange(n, dtype=np.int64), np.diff(lists.first))
        self.keys = row * n + lists.column

    @classmethod
    def of(cls, first: np.ndarray, column: np.ndarray, value: np.ndarray, other: np.ndarray) -> Listed:
        return cls(RowLists(first.astype(np.int64), column.astype(np.int32), value.astype(np.float32), other))

    def __len__(self) -> int:
        return len(self.lists.other)

    def __getitem__(self, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        a, b = np.broadcast_arrays(*pair)
        wanted = a.astype(np.int64) * len(self) + b
        at = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        known = self.keys[at] == wanted if len(self.keys) else np.zeros(wanted.shape, bool)
        return np.where(known, self.lists.value[at] if len(self.keys) else 0.0, self.lists.other[a])

    def times(self, factor: np.ndarray) -> Listed:
        """Entry by entry; elsewhere as it was."""
        copy = Listed.__new__(Listed)
        copy.keys, copy.lists = self.keys, self.lists._replace(value=self.lists.value * factor)
        return copy

    @property
    def dtype(self) -> np.dtype:
        return self.lists.value.dtype

    @cached_property
    def T(self) -> Listed:
        """Where all rows have the same elsewhere."""
        turned = self.sparse.T.tocsr()
        turned.sort_indices()
        return Listed.of(turned.indptr, turned.indices, turned.data, self.lists.other)

    @property
    def sparse(self) -> csr_array:
        """What is known; zero elsewhere."""
        n = len(self)
        return csr_array((self.lists.value, self.lists.column, self.lists.first), shape=(n, n))

    def max(self, axis: int) -> np.ndarray:
        """Of each row or column; at least zero."""
        return self.sparse.max(axis).toarray().reshape(-1)


def best_matching(worth: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pairs of a sparse matrix, of those that are worth more than nothing, that are worth most in sum."""
    listed = worth.tocoo()
    kept = listed.data > 0
    row, column, value = listed.row[kept], listed.col[kept], listed.data[kept].astype(np.float64)
    rows, who = np.unique(row, return_inverse=True)
    if not len(rows):
        return rows, rows
    # every row may also go to a column of its own, for nothing: so there is a matching of all
    n, own, most = int(worth.shape[1]), np.arange(len(rows)), value.max() + 1
    weight = np.concatenate((most - value, np.full(len(rows), most)))
    ends = np.concatenate((who, own)), np.concatenate((column, n + own))
    one, other = min_weight_full_bipartite_matching(csr_array((weight, ends), (len(rows), n + len(rows))))
    return rows[one[other < n]], other[other < n]


def for_kernels(matrix: np.ndarray | Listed) -> np.ndarray | RowLists:
    return matrix.lists if isinstance(matrix, Listed) else matrix


def at(matrix, i, k):
    """Entry (i, k) of an array or of `RowLists`; in kernels, too."""
    return _in_lists(matrix, i, k) if isinstance(matrix, RowLists) else matrix[i, k]


@njit
def _in_lists(lists, i, k):
    low, high = lists.first[i], lists.first[i + 1]
    while low < high:
        middle = (low + high) // 2
        if lists.column[middle] < k:
            low = middle + 1
        else:
            high = middle
    if low < lists.first[i + 1] and lists.column[low] == k:
        return lists.value[low]
    return lists.other[i]


@overload(at)
def _at(matrix, i, k):
    if hasattr(matrix, "ndim"):  # the type of an array
        return lambda matrix, i, k: matrix[i, k]
    return lambda matrix, i, k: _in_lists(matrix, i, k)


class SeamScores(NamedTuple):
    """``right[i, k]``: the worth of k directly right of i, ``below[i, k]`` of k directly below i; on h rows of w cells."""

    right: np.ndarray | RowLists
    below: np.ndarray | RowLists
    h: int
    w: int


class Bonds(NamedTuple):
    """The few likely neighbours of every tile on each side, best first: (4 sides, n tiles, k) numbers and affinities."""

    partner: np.ndarray
    strength: np.ndarray

    @classmethod
    def of(cls, right: np.ndarray, below: np.ndarray, most: int) -> Bonds:
        """``right[i, k]``: affinity of k directly right of i; the lists hold the ``most`` strongest of each row."""
        k = max(1, min(most, len(right) - 1))
        lists = [_strongest(side, k) for side in (right, right.T, below, below.T)]
        partners, strengths = zip(*lists, strict=True)
        return cls(np.stack(partners), np.stack(strengths))

    @classmethod
    def of_lists(cls, right: Listed, below: Listed, most: int) -> Bonds:
        """The same of listed affinities."""
        lists = [_strongest_listed(m, most) for side in (right.sparse, below.sparse) for m in (side, side.T.tocsr())]
        partners, strengths = zip(*lists, strict=True)
        return cls(np.stack(partners), np.stack(strengths))


def _strongest_listed(side: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    n = side.shape[0]
    row = np.repeat(np.arange(n), np.diff(side.indptr))
    order = np.lexsort((side.indices, -side.data, row))
    rank = np.arange(len(row)) - side.indptr[row]
    kept = rank < k
    columns, strengths = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32)
    columns[row[kept], rank[kept]] = side.indices[order][kept]
    strengths[row[kept], rank[kept]] = side.data[order][kept]
    return columns, strengths


def _strongest(side: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest of each row, best first, and of equal ones the first: columns and affinities.

    The bits of floats that are not negative are in the order of the floats; with the column below them no two are equal.
    """
    n = side.shape[1]
    keys = side.astype(np.float32).view(np.int32).astype(np.int64) << 32 | np.arange(n)[::-1]
    top = np.sort(np.partition(keys, n - k, axis=1)[:, n - k :], axis=1)[:, ::-1]
    columns = (n - 1 - (top & 0xFFFFFFFF)).astype(np.int32)
    return columns, (top >> 32).astype(np.int32).view(np.float32)
