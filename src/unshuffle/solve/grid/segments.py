"""Hard moves on a grid of tiles: rigid shifts of segments, of bands of lines, and swaps. Kernels; for growth see `regrow`.

All of them climb the sum of `SeamScores` over the seams of a grid with open borders. A *segment* is a set of tiles that hold together by good seams.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...compute.copying import copy_into, places_into
from ...compute.jit import njit
from ...shapes import Mask, Order
from ...watch import Watch
from ..local_search import improve_grid as improve_by_swaps
from .seams import LEAST_BOND, NO_MASK, Bonds, SeamScores, at

SEGMENTATIONS = ((0.5, True), (0.2, True), (0.8, False), (0.5, False), (0.2, False), (0.05, False), (2.0, False))
"""(least affinity, by loops of four): from what surely belongs together down to single tiles."""
ENOUGH = 1e-4  # of affinity: less is no gain
IN_TURN = 100
"""Rounds of polish at the most; three is usual. Beside one huge cost the gain of others is rounding, and could go to and fro."""


class Bench(NamedTuple):
    """The layout at work: the tile of each cell and back, what seams are worth, who may stand where, and scratch space."""

    order: np.ndarray
    place: np.ndarray
    seams: SeamScores
    allowed: np.ndarray
    inside: np.ndarray
    """Marks the cells of the segment that is to move."""
    mark: np.ndarray
    cells: np.ndarray
    saved: np.ndarray


def shift_segments(
    order: np.ndarray, seams: SeamScores, glue: SeamScores, bonds: Bonds, *, allowed: np.ndarray = NO_MASK, passes: int = 10, enough: float = ENOUGH
) -> np.ndarray:  # fmt: skip
    """Move segments, held together by ``glue``, to where their seams are worth more; what they displace takes the cells
    they leave. Never worse."""
    order = np.array(order, dtype=np.int64)
    for _ in range(passes):
        gain = 0.0
        for least, loops in SEGMENTATIONS:
            gain += _shift_all(order, seams, bonds, segments(order, glue, least, loops), allowed, enough)
        if not allowed.size:
            gain += turn_bands(order, seams, enough)
        if gain < enough:
            break
    return order


def improve_grid(
    orders: Order, cost: tuple[Tensor, Tensor], glue: SeamScores, bonds: Bonds, *, allowed: Mask | None = None, watch: Watch | None = None
) -> Order:  # fmt: skip
    """Polish: swaps of two tiles and shifts of rows, columns and segments, in turn until neither lowers the cost."""
    right, below = cost
    seams = SeamScores(-right.numpy().astype(np.float64), -below.numpy().astype(np.float64), glue.h, glue.w)
    mask = NO_MASK if allowed is None else allowed.numpy()
    enough = 1e-9 * float(right.abs().mean() + below.abs().mean())
    best = orders.clone()
    for _ in range(IN_TURN):
        energy = -max(total_score(order.numpy(), seams) for order in best.reshape(-1, glue.h * glue.w))
        if watch is not None and not watch(stage="polish", energy=energy, entropy=0.0):
            break
        swapped = improve_by_swaps(best, cost, glue.h, glue.w, allowed=allowed)
        shifted = swapped.clone().reshape(-1, glue.h * glue.w)
        for order in shifted:
            moved = shift_segments(order.numpy(), seams, glue, bonds, allowed=mask, enough=enough)
            _shift_lines(moved, seams, mask, enough)
            order.copy_(torch.from_numpy(moved))
        shifted = shifted.reshape(orders.shape)
        if torch.equal(shifted, best):
            break
        best = shifted
    return best


@njit
def _root(parent, a):
    while parent[a] != a:
        parent[a] = parent[parent[a]]
        a = parent[a]
    return a


@njit
def segments(order, seams, least, loops):
    """A label per tile: tiles joined by seams above ``least``, or only by closed loops of four such seams.

    A loop of four is far safer evidence than a seam: three wrong seams must conspire to close it (Son, Hays, Cooper 2014).
    """
    right, below, h, w = seams
    parent = np.arange(h * w)
    for y in range(h):
        for x in range(w):
            c = y * w + x
            t = order[c]
            if loops:
                if x + 1 < w and y + 1 < h:
                    r, b, d = order[c + 1], order[c + w], order[c + w + 1]
                    if (
                        at(right, t, r) > least
                        and at(right, b, d) > least
                        and at(below, t, b) > least
                        and at(below, r, d) > least
                    ):
                        parent[_root(parent, r)] = _root(parent, t)
                        parent[_root(parent, b)] = _root(parent, t)
                        parent[_root(parent, d)] = _root(parent, t)
            else:
                if x + 1 < w and at(right, t, order[c + 1]) > least:
                    parent[_root(parent, order[c + 1])] = _root(parent, t)
                if y + 1 < h and at(below, t, order[c + w]) > least:
                    parent[_root(parent, order[c + w])] = _root(parent, t)
    for i in range(h * w):
        parent[i] = _root(parent, i)
    return parent


@njit
def around(bench, count):
    """Worth of all seams that touch the marked cells, each once."""
    order, mark, cells = bench.order, bench.mark, bench.cells
    right, below, h, w = bench.seams
    total = 0.0
    for q in range(count):
        c = cells[q]
        y = c // w
        x = c - y * w
        t = order[c]
        if x + 1 < w:
            total += at(right, t, order[c + 1])
        if y + 1 < h:
            total += at(below, t, order[c + w])
        if x > 0 and not mark[c - 1]:
            total += at(right, order[c - 1], t)
        if y > 0 and not mark[c - w]:
            total += at(below, order[c - w], t)
    return total


@njit
def shift(bench, tiles, dy, dx, keep_above):
    """Gain of moving ``tiles`` by (dy, dx), minus infinity if they may not; done if the gain exceeds ``keep_above``.

    A displaced tile walks back along -(dy, dx) until it meets a cell that the segment has left: two blocks swap whole.
    """
    order, place, seams, allowed, inside, mark, cells, saved = bench
    h, w = seams.h, seams.w
    d = dy * w + dx
    for t in tiles:
        c = place[t]
        y, x = c // w + dy, c % w + dx
        if y < 0 or y >= h or x < 0 or x >= w:
            return -np.inf
        if allowed.size > 0 and not allowed[t, c + d]:
            return -np.inf
    count = 0
    for t in tiles:
        c = place[t]
        for cell in (c, c + d):
            if not mark[cell]:
                mark[cell] = True
                cells[count] = cell
                count += 1
    before = around(bench, count)
    legal = True
    for q in range(count):
        saved[q] = order[cells[q]]
    for q in range(count):
        if inside[cells[q]]:
            continue
        free = cells[q] - d
        while True:
            y, x = free // w - dy, free % w - dx
            if y < 0 or y >= h or x < 0 or x >= w or not inside[y * w + x]:
                break
            free = y * w + x
        order[free] = saved[q]
        if allowed.size > 0 and not allowed[saved[q], free]:
            legal = False
    for t in tiles:
        order[place[t] + d] = t
    gain = around(bench, count) - before if legal else -np.inf
    if gain <= keep_above:
        for q in range(count):
            order[cells[q]] = saved[q]
    for q in range(count):
        mark[cells[q]] = False
    return gain


@njit
def members_of(label):
    """Tiles sorted by label, and where each label's run of tiles starts."""
    n = label.size
    start = np.zeros(n + 1, np.int64)
    for i in range(n):
        start[label[i] + 1] += 1
    start = np.cumsum(start)
    fill = start[:-1].copy()
    members = np.empty(n, np.int64)
    for i in range(n):
        members[fill[label[i]]] = i
        fill[label[i]] += 1
    return members, start


@njit
def _shift_all(order, seams, bonds, label, allowed, enough):
    """Every segment, to its best place among those that some bond proposes, as long as that gains."""
    h, w = seams.h, seams.w
    partner, strength = bonds
    n = h * w
    place = np.empty(n, np.int64)
    places_into(place, order)
    members, start = members_of(label)
    inside = np.zeros(n, np.bool_)
    scratch = np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n, np.int64)
    bench = Bench(order, place, seams, allowed, inside, scratch[0], scratch[1], scratch[2])
    seen = np.zeros((2 * h, 2 * w), np.int64)
    side_y, side_x = np.array([0, 0, 1, -1]), np.array([1, -1, 0, 0])
    stamp, total = 0, 0.0
    for s in range(n):
        tiles = members[start[s] : start[s + 1]]
        improved = tiles.size > 0
        while improved:
            improved = False
            stamp += 1
            top, bottom, left, right = h, 0, w, 0  # a segment that would leave the board is not looked at tile by tile
            for t in tiles:
                inside[place[t]] = True
                y, x = place[t] // w, place[t] % w
                top, bottom, left, right = min(top, y), max(bottom, y), min(left, x), max(right, x)
            best, best_y, best_x = enough, 0, 0
            for t in tiles:
                y, x = place[t] // w, place[t] % w
                for side in range(4):
                    for m in range(partner.shape[2]):
                        if strength[side, t, m] < LEAST_BOND:
                            break
                        u = partner[side, t, m]
                        if label[u] == s:
                            continue
                        dy, dx = place[u] // w - side_y[side] - y, place[u] % w - side_x[side] - x
                        if (dy == 0 and dx == 0) or abs(dy) >= h or abs(dx) >= w or seen[dy + h, dx + w] == stamp:
                            continue
                        seen[dy + h, dx + w] = stamp
                        if top + dy < 0 or bottom + dy >= h or left + dx < 0 or right + dx >= w:
                            continue
                        gain = shift(bench, tiles, dy, dx, np.inf)
                        if gain > best:
                            best, best_y, best_x = gain, dy, dx
            if best > enough:
                total += shift(bench, tiles, best_y, best_x, 0.0)
                improved = True
            for t in tiles:
                inside[place[t]] = False
            if improved:
                places_into(place, order)
    return total


@njit
def _shift_lines(order, seams, allowed, enough):
    """Bands of rows, then of columns, to other places while that gains: two adjacent bands change sides.

    Seams inside a line stay, so the gain is that of three lines of seams: L[a, b] is the score of line b right after line a.
    """
    right, below, h, w = seams
    improved = True
    for _ in range(h * w):  # far more than are ever needed, but rounding must not move a band to and fro for ever
        if not improved:
            break
        improved = False
        for axis in range(2):
            lines, length = (h, w) if axis == 0 else (w, h)
            grid = order.copy().reshape(h, w) if axis == 0 else order.copy().reshape(h, w).T
            seam = below if axis == 0 else right
            L = np.zeros((lines + 1, lines + 1))  # the last row and column are the outside
            for a in range(lines):
                for b in range(lines):
                    for m in range(length):
                        L[a, b] += at(seam, grid[a, m], grid[b, m])
            best, low, middle, high = enough, 0, 0, 0
            for i in range(lines):
                for r in range(i + 1, lines):
                    for j in range(r + 1, lines + 1):  # lines i..r-1 and r..j-1 change sides
                        gain = L[i - 1, r] + L[j - 1, i] + L[r - 1, j] - L[i - 1, i] - L[r - 1, r] - L[j - 1, j]
                        if gain > best:
                            best, low, middle, high = gain, i, r, j
            if high == 0:
                continue
            legal = True
            new = order.copy()
            for k in range(low, high):
                source = k + middle - low if k + middle - low < high else k + middle - high
                for m in range(length):
                    c = k * w + m if axis == 0 else m * w + k
                    new[c] = grid[source, m]
                    legal = legal and (allowed.size == 0 or allowed[new[c], c])
            if legal:
                copy_into(order, new)
                improved = True


@njit
def turn_bands(order, seams, enough):
    """Bands of rows, then of columns, turned along themselves while that gains; what leaves at one end comes in at the other.

    A torus often closes so that one half of the picture stands some columns beside the other: no segment can go to its place
    before others have left it, but all of them together can.
    """
    right, below, h, w = seams
    total = 0.0
    for _ in range(h * w):  # far more than are ever needed, but rounding must not turn a band to and fro for ever
        improved = False
        for axis in range(2):
            grid = order.copy().reshape(h, w) if axis == 0 else order.copy().reshape(h, w).T
            along, across = (right, below) if axis == 0 else (below, right)
            lines, length = grid.shape
            meet = np.zeros((lines + 1, length))  # line y, turned by k, after line y - 1
            opened = np.zeros((lines + 1, length))  # all lines before y, turned by k: seams closed less seams cut
            for y in range(lines):
                for k in range(length):
                    if y > 0:
                        for m in range(length):
                            meet[y, k] += at(across, grid[y - 1, m], grid[y, (m + k) % length])
                    opened[y + 1, k] = (
                        opened[y, k] + at(along, grid[y, -1], grid[y, 0]) - at(along, grid[y, k - 1], grid[y, k])
                    )
            best, low, high, turn = enough, 0, 0, 0
            for i in range(lines):
                for j in range(i + 1, lines + 1):
                    for k in range(1, length):
                        gain = meet[i, k] - meet[i, 0] + meet[j, length - k] - meet[j, 0] + opened[j, k] - opened[i, k]
                        if gain > best:
                            best, low, high, turn = gain, i, j, k
            for y in range(low, high):
                for m in range(length):
                    order[y * w + m if axis == 0 else m * w + y] = grid[y, (m + turn) % length]
            if high > 0:
                total += best
                improved = True
        if not improved:
            break
    return total


@njit
def total_score(order, seams):
    """Sum over the seams of the open grid."""
    right, below, h, w = seams
    total = 0.0
    for y in range(h):
        for x in range(w):
            c = y * w + x
            if x + 1 < w:
                total += at(right, order[c], order[c + 1])
            if y + 1 < h:
                total += at(below, order[c], order[c + w])
    return total


@njit
def unwind(order, seams, enough):
    """Undo a torus that closed like a screw: the part right of some column (below some row) goes to the other side, turned.

    If left and right borders match one row lower as well as they match straight, the crystal may close with that step.
    Every column and step is tried, then every row and step, while the score grows by more than ``enough``. Lines that are turned alike
    keep the seams between them, so of each line only one seam opens and one closes: n tiles take n steps, not n squared.
    """
    right, below, h, w = seams
    best = total_score(order, seams)
    improved = True
    while improved:
        improved = False
        for axis in range(2):
            grid = order.copy().reshape(h, w).T if axis == 0 else order.copy().reshape(h, w)
            along, across = (below, right) if axis == 0 else (right, below)
            lines, length = grid.shape
            opened = np.zeros((lines + 1, length))  # the seams before place k of all lines before y
            closed, meet, joined = 0.0, np.zeros(lines), np.zeros((2, length))
            for y in range(lines):
                for k in range(length):
                    seam = at(along, grid[y, k - 1], grid[y, k])
                    opened[y + 1, k] = opened[y, k] + seam
                    closed += seam
                    if y > 0:
                        meet[y] += at(across, grid[y - 1, k], grid[y, k])
            for turn in range(length):
                for m in range(length):
                    joined[0, turn] += at(across, grid[-1, (m + turn) % length], grid[0, m])
                    joined[1, turn] += at(across, grid[-1, m], grid[0, (m + turn) % length])
            chosen, turned, which, met = 0, 0, 0, meet.sum()
            for first in range(1, lines):
                for case in range(2, 2 * length):  # either of the two parts is turned
                    turn, part = case // 2, case % 2
                    upper, lower = (0, turn) if part == 0 else (turn, 0)
                    found = closed - opened[first, upper] - (opened[lines, lower] - opened[first, lower])
                    found += met - meet[first] + joined[part, turn]
                    if found > best + enough:
                        best, chosen, turned, which = found, first, turn, part
            for y in range(lines if chosen > 0 else 0):  # line y of the result was line (y + chosen) modulo lines
                step = turned if (y + chosen < lines) == (which == 0) else 0
                for m in range(length):
                    tile = grid[(y + chosen) % lines, (m + step) % length]
                    order[m * w + y if axis == 0 else y * w + m] = tile
            if chosen > 0:
                improved = True
                break
