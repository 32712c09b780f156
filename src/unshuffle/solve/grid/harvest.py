"""What is better in another layout is taken over region by region. A kernel.

A layout that was grown again is better in some places and worse in others, the more of both the larger the board is; compared as a whole it is
nearly always worse. A region is cells side by side in which the two differ. It can be taken over alone: a tile that it wants leaves a
cell elsewhere, and a tile that it displaces goes to such a cell, to the one that likes it best.
"""

from __future__ import annotations

import numpy as np

from ...compute.copying import places_into
from ...compute.jit import njit
from .seams import SeamScores, at
from .segments import Bench, around


@njit
def _regions(order, other, h, w):
    """Cells in which two layouts differ, sorted by region, and where each region's run of cells starts."""
    n = order.size
    cells, start, seen = np.empty(n, np.int64), [0], np.zeros(n, np.bool_)
    fill = 0
    for first in range(n):
        if seen[first] or order[first] == other[first]:
            continue
        seen[first], cells[fill] = True, first
        low, fill = fill, fill + 1
        while low < fill:
            c = cells[low]
            low += 1
            y, x = c // w, c % w
            for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                if 0 <= y + dy < h and 0 <= x + dx < w:
                    k = (y + dy) * w + x + dx
                    if not seen[k] and order[k] != other[k]:
                        seen[k], cells[fill] = True, k
                        fill += 1
        start.append(fill)
    return cells, start


@njit
def _liking(bench, t, c):
    """What the seams of tile t would be worth in cell c."""
    right, below, h, w = bench.seams
    order, total = bench.order, 0.0
    y, x = c // w, c % w
    if x + 1 < w:
        total += at(right, t, order[c + 1])
    if x > 0:
        total += at(right, order[c - 1], t)
    if y + 1 < h:
        total += at(below, t, order[c + w])
    if y > 0:
        total += at(below, order[c - w], t)
    return total


@njit
def _take(bench, other, region, enough):
    """One region of the other layout, if that gains; by how much."""
    order, place, _, _, inside, mark, cells, saved = bench
    size = region.size
    count, loose = size, np.empty(size, np.int64)
    for q in range(size):
        cells[q] = region[q]
        inside[region[q]] = mark[region[q]] = True
    for q in range(size):
        free = place[other[region[q]]]
        if not inside[free]:
            mark[free], cells[count] = True, free
            count += 1
    before = around(bench, count)
    for q in range(count):
        saved[q] = order[cells[q]]
    for q in range(size):
        order[region[q]] = other[region[q]]
    for q in range(size):
        place[other[region[q]]] = region[q]
    left = 0
    for q in range(size):
        if order[place[saved[q]]] != saved[q]:
            loose[left] = saved[q]
            left += 1
    for q in range(size, count):
        best, chosen = -np.inf, 0
        for m in range(left):
            liking = _liking(bench, loose[m], cells[q])
            if liking > best:
                best, chosen = liking, m
        order[cells[q]] = loose[chosen]
        left -= 1
        loose[chosen] = loose[left]
    gain = around(bench, count) - before
    for q in range(count):
        if gain <= enough:
            order[cells[q]] = saved[q]
        mark[cells[q]] = inside[cells[q]] = False
    for q in range(count):
        place[order[cells[q]]] = cells[q]
    return gain if gain > enough else 0.0


@njit
def harvest(order: np.ndarray, other: np.ndarray, seams: SeamScores, enough: float) -> float:
    """Every region of the other layout that makes this one better, one after the other; the gain in all."""
    h, w = seams.h, seams.w
    n = order.size
    place = np.empty(n, np.int64)
    places_into(place, order)
    marks = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    allowed = np.zeros((0, 0), np.bool_)
    bench = Bench(order, place, seams, allowed, marks[0], marks[1], np.empty(n, np.int64), np.empty(n, np.int64))
    cells, start = _regions(order, other, h, w)
    total = 0.0
    for k in range(len(start) - 1):
        total += _take(bench, other, cells[start[k] : start[k + 1]], enough)
    return total
