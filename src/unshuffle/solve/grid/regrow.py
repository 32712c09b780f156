"""A layout grown again from its segments, best first and whole, in a frame that is found on the way. Kernels.

Whoever keeps the largest segment where it stands keeps its mistake if that is a few cells beside its place: what belongs
beyond the border then has nowhere to go. So the board is three frames wide and high, segments go wherever they fit, and all
that is asked is that everything together is no larger than the frame.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.copying import copy_into
from ...compute.jit import njit
from .seams import LEAST_BOND, Bonds, SeamScores, at
from .segments import members_of

NOWHERE = -1e9  # the score of a place where a segment does not fit


class Growing(NamedTuple):
    """A layout as it grows again: where tiles stood (y, x), where they stand (at_y, at_x, or -1), and the rules."""

    board: np.ndarray
    box: np.ndarray
    """First and last row, first and last column of what has been placed."""
    y: np.ndarray
    x: np.ndarray
    at_y: np.ndarray
    at_x: np.ndarray
    seams: SeamScores
    bonds: Bonds
    allowed: np.ndarray
    toll: float
    seen: np.ndarray
    """The places that have been looked at for the segment whose stamp they bear."""


@njit
def _hull(tiles, y, x):
    """First and last row, first and last column."""
    hull = np.array([y[tiles[0]], y[tiles[0]], x[tiles[0]], x[tiles[0]]])
    for t in tiles:
        hull[0], hull[1] = min(hull[0], y[t]), max(hull[1], y[t])
        hull[2], hull[3] = min(hull[2], x[t]), max(hull[3], x[t])
    return hull


@njit
def _fits(growing, hull, dy, dx):
    """Is what is on the board, with a segment put at (dy, dx), no larger than the frame?"""
    box = growing.box
    high = max(box[1], hull[1] + dy) - min(box[0], hull[0] + dy)
    wide = max(box[3], hull[3] + dx) - min(box[2], hull[2] + dx)
    return high < growing.seams.h and wide < growing.seams.w


@njit
def _free(growing, tiles, dy, dx):
    """Does nothing stand yet where a segment would, if it is put at (dy, dx)?"""
    taken = 0
    for t in tiles:
        taken += growing.board[growing.y[t] + dy, growing.x[t] + dx] >= 0
    return taken == 0


@njit
def _contact(growing, tiles, dy, dx):
    """Affinity, less a toll per seam, that a segment shares with what is on the board if it is put at (dy, dx)."""
    board, y, x, allowed, toll = growing.board, growing.y, growing.x, growing.allowed, growing.toll
    right, below, h, w = growing.seams
    for t in tiles:
        a, b = y[t] + dy, x[t] + dx
        if board[a, b] >= 0 or (allowed.size > 0 and not allowed[t, (a - h - 1) * w + b - w - 1]):
            return NOWHERE
    total = 0.0
    for t in tiles:
        a, b = y[t] + dy, x[t] + dx
        if board[a, b + 1] >= 0:
            total += at(right, t, board[a, b + 1]) - toll
        if board[a, b - 1] >= 0:
            total += at(right, board[a, b - 1], t) - toll
        if board[a + 1, b] >= 0:
            total += at(below, t, board[a + 1, b]) - toll
        if board[a - 1, b] >= 0:
            total += at(below, board[a - 1, b], t) - toll
    return total


@njit
def _best_place(growing, tiles, hull, stamp):
    """The best place of a segment among those that a bond to a tile on the board proposes."""
    h, w, seen = growing.seams.h, growing.seams.w, growing.seen
    partner, strength = growing.bonds
    side_y, side_x = np.array([0, 0, 1, -1]), np.array([1, -1, 0, 0])
    best, best_y, best_x = NOWHERE, 0, 0
    for t in tiles:
        for side in range(4):
            for m in range(partner.shape[2]):
                if strength[side, t, m] < LEAST_BOND:
                    break
                u = partner[side, t, m]
                if growing.at_y[u] < 0:
                    continue
                dy = growing.at_y[u] - side_y[side] - growing.y[t]
                dx = growing.at_x[u] - side_x[side] - growing.x[t]
                if not _fits(growing, hull, dy, dx) or seen[dy + 2 * h, dx + 2 * w] == stamp:
                    continue
                seen[dy + 2 * h, dx + 2 * w] = stamp
                found = _contact(growing, tiles, dy, dx)
                if found > best:
                    best, best_y, best_x = found, dy, dx
    return best, best_y, best_x


@njit
def _framed(board, box, h, w):
    """The part of the board that the frame shows: as near to where it was as what has been placed permits."""
    top = min(max(h + 1, box[1] - h + 1), box[0])
    left = min(max(w + 1, box[3] - w + 1), box[2])
    return board[top : top + h, left : left + w].copy().reshape(-1)


@njit
def regrow_by_segments(order, seams, bonds, label, allowed, toll):
    """The segments of a layout, see `regrow`."""
    h, w = seams.h, seams.w
    y, x = np.empty(h * w, np.int64), np.empty(h * w, np.int64)
    for c in range(h * w):
        y[order[c]], x[order[c]] = c // w, c % w
    return regrow(y, x, seams, bonds, label, allowed, toll)


@njit
def regrow(y, x, seams, bonds, label, allowed, toll, states=1):
    """Begin with the largest segment and add the others best first, whole; -1 in the cells that stay empty.

    The toll per seam makes a place with few good and many bad seams worth less than one with good seams all round. With a mask
    the frame stays where it is. Of ``states`` numbers in a row, which are one segment in all its states (see `in_all_states`), only one is placed.
    """
    h, w = seams.h, seams.w
    partner, strength = bonds
    n = y.size
    y, x = y + h + 1, x + w + 1
    members, start = members_of(label)
    hulls, used = np.zeros((n, 4), np.int64), np.zeros(n, np.bool_)
    chosen, most = 0, 0
    for s in range(n):
        size = start[s + 1] - start[s]
        if size > 0:
            copy_into(hulls[s], _hull(members[start[s] : start[s + 1]], y, x))
        if size > most and hulls[s, 1] - hulls[s, 0] < h and hulls[s, 3] - hulls[s, 2] < w:
            chosen, most = s, size
    box = np.array([h + 1, 2 * h, w + 1, 2 * w]) if allowed.size > 0 else hulls[chosen].copy()
    board = np.full((3 * h + 2, 3 * w + 2), -1, np.int64)
    at_y, at_x = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    best, best_y, best_x = np.full(n, NOWHERE), np.zeros(n, np.int64), np.zeros(n, np.int64)
    stale = np.zeros(n, np.bool_)
    seen = np.zeros((4 * h, 4 * w), np.int64)
    growing = Growing(board, box, y, x, at_y, at_x, seams, bonds, allowed, toll, seen)
    stamp = 0
    while chosen >= 0:
        used[chosen // states] = True
        dy, dx = best_y[chosen], best_x[chosen]
        box[0], box[1] = min(box[0], hulls[chosen, 0] + dy), max(box[1], hulls[chosen, 1] + dy)
        box[2], box[3] = min(box[2], hulls[chosen, 2] + dx), max(box[3], hulls[chosen, 3] + dx)
        for t in members[start[chosen] : start[chosen + 1]]:
            at_y[t], at_x[t] = y[t] + dy, x[t] + dx
            board[at_y[t], at_x[t]] = t
            for side in range(4):
                for m in range(partner.shape[2]):
                    if strength[side, t, m] < LEAST_BOND:
                        break
                    stale[label[partner[side, t, m]]] = True
        chosen, top = -1, 0.0
        for s in range(n):
            tiles = members[start[s] : start[s + 1]]
            if tiles.size == 0 or used[s // states]:
                continue
            if not stale[s] and best[s] > NOWHERE:
                dy, dx = best_y[s], best_x[s]
                stale[s] = not _fits(growing, hulls[s], dy, dx) or not _free(growing, tiles, dy, dx)
            if stale[s]:
                stale[s] = False
                stamp += 1
                best[s], best_y[s], best_x[s] = _best_place(growing, tiles, hulls[s], stamp)
            if best[s] > top:
                chosen, top = s, best[s]
    return _framed(board, box, h, w)


def in_all_states(
    board: np.ndarray, label: np.ndarray, shape: tuple[int, int], states: int, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `regrow` needs to turn segments as it places them: of every piece (tile * states + state) its row and column within its segment, and the
    number of that segment in that state.

    ``board`` has the piece of each cell, or -1, ``label`` the segment of each tile; a tile beside the board must be a segment of its own. States are turns, in
    equal steps: a layout that is turned as a whole by one has each of its tiles in the next state. `regrow` begins with the largest segment turned by
    ``first`` steps, if it then fits the frame.
    """
    (h, w), cells = shape, np.flatnonzero(board >= 0)
    tile, own = board[cells] // states, board[cells] % states
    row, column = np.zeros((2, label.size), np.int64)
    row[tile], column[tile] = np.divmod(cells, w)
    state = np.zeros(label.size, np.int64)
    state[tile] = own
    y, x, number = np.empty((3, label.size * states), np.int64)
    ways = (row, column), (w - 1 - column, row), (h - 1 - row, w - 1 - column), (column, h - 1 - row)
    for k in range(states):
        piece = np.arange(label.size) * states + (state + k) % states
        y[piece], x[piece] = ways[k * (4 // states)]
        number[piece] = label * states + (k - first) % states
    for place in (y, x):
        least = np.full(number.size, h + w)
        np.minimum.at(least, number, place)
        place -= least[number]
    return y, x, number
