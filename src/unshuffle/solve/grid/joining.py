"""Segments joined to larger ones wherever two of them like each other best. Kernels.

Growth from the largest segment outwards (`regrow`) has to decide at its rim, however much clearer things are elsewhere. Here every segment
looks for the place beside another at which all seams between the two together are the best evidence, and those that are each other's
best are joined, over and over. What is plain comes last, when there are long rims to compare.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from .seams import LEAST_BOND, Bonds, RowLists, SeamScores, at
from .segments import members_of

TOLL = 0.3
"""Evidence that a seam must have to count in favour of a join. Of two photos of 48 x 36 pieces with 0.7, 0.5, 0.3, joined from single tiles: 1457, 1323,
1349 and 1528, 1144, 1073 of the 1728 stand right within their part, in 117, 34, 6 and 251, 53, 10 parts."""


class Parts(NamedTuple):
    """Who belongs together and how: the number of each tile's part, the place of each tile within its part, and
    first and last row, first and last column of each part."""

    label: np.ndarray
    y: np.ndarray
    x: np.ndarray
    hull: np.ndarray

    def or_segments(self, label: np.ndarray) -> np.ndarray:
        """New numbers: the largest part is whole, the others are again the segments they were made of, by their ``label``."""
        whole = self.label == np.bincount(self.label).argmax()
        return np.unique(np.where(whole, -1, label), return_inverse=True)[1].astype(np.int64)


class Laid(NamedTuple):
    """The parts as they stand before a round: their tiles, part after part, and a board of its own for each."""

    members: np.ndarray
    start: np.ndarray
    board: np.ndarray
    corner: np.ndarray


@njit
def _laid(parts):
    label, y, x, hull = parts
    n = label.size
    members, start = members_of(label)
    corner = np.zeros(n + 1, np.int64)
    for p in range(n):
        area = (hull[p, 1] - hull[p, 0] + 1) * (hull[p, 3] - hull[p, 2] + 1)
        corner[p + 1] = corner[p] + (area if start[p + 1] > start[p] else 0)
    board = np.full(corner[n], -1, np.int64)
    for t in range(n):
        p = label[t]
        board[corner[p] + (y[t] - hull[p, 0]) * (hull[p, 3] - hull[p, 2] + 1) + x[t] - hull[p, 2]] = t
    return Laid(members, start, board, corner)


@njit
def _tile(p, row, column, hull, laid):
    """Who stands there in part p, or -1."""
    if row < hull[p, 0] or row > hull[p, 1] or column < hull[p, 2] or column > hull[p, 3]:
        return -1
    return laid.board[laid.corner[p] + (row - hull[p, 0]) * (hull[p, 3] - hull[p, 2] + 1) + column - hull[p, 2]]


@njit
def _evidence(p, q, dy, dx, parts, laid, seams, toll):
    """Of all seams between part p and part q put at (dy, dx) beside it; far below nothing if they overlap."""
    start, right, below, hull = laid.start, seams.right, seams.below, parts.hull
    if start[p + 1] - start[p] < start[q + 1] - start[q]:
        p, q, dy, dx = q, p, -dy, -dx
    total = 0.0
    for t in laid.members[start[q] : start[q + 1]]:
        row, column = parts.y[t] + dy, parts.x[t] + dx
        if _tile(p, row, column, hull, laid) >= 0:
            return -1e9
        u = _tile(p, row, column + 1, hull, laid)
        if u >= 0:
            total += at(right, t, u) - toll
        u = _tile(p, row, column - 1, hull, laid)
        if u >= 0:
            total += at(right, u, t) - toll
        u = _tile(p, row + 1, column, hull, laid)
        if u >= 0:
            total += at(below, t, u) - toll
        u = _tile(p, row - 1, column, hull, laid)
        if u >= 0:
            total += at(below, u, t) - toll
    return total


@njit
def _propose(parts, laid, seams, bonds, toll, stale, found):
    """Of each part the best join that a bond proposes: how good it is, with which part, and where that is put; in place, of joins with
    parts that are ``stale``. Along one rim many bonds propose the same join, which is looked at once."""
    label, y, x, hull = parts
    partner, strength = bonds
    best, other, put = found
    n, reach_y, reach_x = (
        label.size,
        3 * seams.h,
        3 * seams.w,
    )  # no part is larger than the frame, and one tile of it is where it was
    side_y, side_x = np.array([0, 0, 1, -1]), np.array([1, -1, 0, 0])
    seen = {np.int64(-1)}
    for t in range(n):
        for side in range(4):
            for m in range(partner.shape[2]):
                if strength[side, t, m] < LEAST_BOND:
                    break
                u = np.int64(partner[side, t, m])
                p, q = label[t], label[u]
                if p == q or not (stale[p] or stale[q]):
                    continue
                dy, dx = y[t] + side_y[side] - y[u], x[t] + side_x[side] - x[u]
                high = max(hull[p, 1], hull[q, 1] + dy) - min(hull[p, 0], hull[q, 0] + dy)
                wide = max(hull[p, 3], hull[q, 3] + dx) - min(hull[p, 2], hull[q, 2] + dx)
                if high >= seams.h or wide >= seams.w:
                    continue
                if p > q:
                    p, q, dy, dx = q, p, -dy, -dx
                join = ((p * n + q) * (2 * reach_y) + dy + reach_y) * (2 * reach_x) + dx + reach_x
                if join in seen:
                    continue
                seen.add(join)
                good = _evidence(p, q, dy, dx, parts, laid, seams, toll)
                if good > best[p]:
                    best[p], other[p], put[p, 0], put[p, 1] = good, q, dy, dx
                if good > best[q]:
                    best[q], other[q], put[q, 0], put[q, 1] = good, p, -dy, -dx


@njit
def join_parts(parts, seams, bonds, toll):
    """All that are each other's best, round after round, until no join is better than none; in place. After the first round only those are looked
    at again that were joined, or whose best was."""
    label, y, x, hull = parts
    n = label.size
    best, other, put = np.zeros(n), np.full(n, -1, np.int64), np.zeros((n, 2), np.int64)
    stale = np.ones(n, np.bool_)
    while stale.any():
        laid = _laid(parts)
        best[stale], other[stale] = 0.0, -1
        _propose(parts, laid, seams, bonds, toll, stale, (best, other, put))
        stale[:] = False
        for p in range(n):
            q = other[p]
            if q < p or other[q] != p or best[q] != best[p]:
                continue
            dy, dx = put[p]
            for t in laid.members[laid.start[q] : laid.start[q + 1]]:
                label[t] = p
                y[t] += dy
                x[t] += dx
            hull[p, 0], hull[p, 1] = min(hull[p, 0], hull[q, 0] + dy), max(hull[p, 1], hull[q, 1] + dy)
            hull[p, 2], hull[p, 3] = min(hull[p, 2], hull[q, 2] + dx), max(hull[p, 3], hull[q, 3] + dx)
            stale[p] = stale[q] = True
        joined = stale.copy()
        for p in range(n):
            stale[p] |= other[p] >= 0 and joined[other[p]]


def as_evidence(affinities: SeamScores) -> SeamScores:
    """Of each seam, from 0, as likely as any other or less, to 1, sure; by the logarithm, so that what several plain seams say adds up. In
    place of the affinities: matrices are large."""
    for matrix in affinities[:2]:
        values = matrix.value if isinstance(matrix, RowLists) else matrix
        np.log(np.maximum(values, 1e-30, out=values), out=values)
        values *= 1 / math.log(max(affinities.h * affinities.w, 2))
        values += 1
        np.maximum(values, 0, out=values)
    return affinities


def joined(order: np.ndarray, label: np.ndarray, seams: SeamScores, bonds: Bonds) -> Parts:
    """What becomes of the segments of a layout by the evidence of their seams; segments have any numbers below n."""
    n, w = order.size, seams.w
    y, x = np.empty(n, np.int64), np.empty(n, np.int64)
    y[order], x[order] = np.divmod(np.arange(n), w)
    hull = np.stack((np.full(n, n), np.full(n, -1), np.full(n, n), np.full(n, -1)), 1)
    for first, place in ((0, y), (2, x)):
        np.minimum.at(hull[:, first], label, place)
        np.maximum.at(hull[:, first + 1], label, place)
    parts = Parts(label.copy(), y, x, hull)
    join_parts(parts, seams, bonds, TOLL)
    return parts._replace(y=y - parts.hull[parts.label, 0], x=x - parts.hull[parts.label, 2])
