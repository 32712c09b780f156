r"""The annealing of `dense` for large grids, in lists: a crystal touches only the cells at its surface.

Far from all tiles that have found a place the pull is nothing and $K_{ic} = e^{\beta(Q_{ic} + g_c)}$ is the same for every tile
but for its column: $K = (1 + S)\,\mathrm{diag}(v)$ with S empty except beside what stands. A Sinkhorn sweep of that is one sum over v and
one pass over the entries of S, about 20 per tile instead of n: 1,728 tiles take 1 ms a step instead of 50, and end the same.

A tile may have *states* (quarter turns): what stands in a cell is then a *piece*, a tile in one of its states, numbered
tile * states + state, and a *seat* is a cell together with a state, numbered likewise. A tile's row sums to one over all seats, a cell's
column over all tiles and states. Cells may stay empty and tiles be left out: as many blank tiles and as many places beside the board as
the two need to be equally many, one row and one column with multiplicities (the padded problem, exactly, without the padding).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...compute.jit import njit
from .cooling import Cooling
from .seams import Bonds, best_matching

LEAST = 2e-3
"""Shares and pulls below this are background. Half of it and a tenth more steps gave the same layouts of 1,728 tiles; below
1/n the background itself would be listed."""
FURTHEST = 1e100  # of column factors: those of cells that are long decided drift, and mean nothing


IN_LISTS = Cooling(rate=1.01, last=200.0)
"""Beta waits while tiles still attach at the present one. At 25, where whole matrices must stop for their time, up to half of a
picture's tiles are still loose."""


class Rows(NamedTuple):
    """A sparse matrix: tile i has ``value[e]`` in ``seat[e]`` for e from ``first[i]`` to ``first[i + 1]``."""

    first: np.ndarray
    seat: np.ndarray
    value: np.ndarray


class Room(NamedTuple):
    """The board and what is beside it: h x w cells, states of a tile, blank tiles, places for tiles that are left out, and the pull
    that draws a tile there."""

    h: int
    w: int
    states: int = 1
    blank: int = 0
    outside: int = 0
    pull: float = 0.0


class Heat(NamedTuple):
    """What makes a pull of shares: beta, self-amplification, and the pinned tile with its cell and pull."""

    beta: float
    self_amplification: float
    pin: float
    tile: int
    seat: int


class Reached(NamedTuple):
    """Work space of one tile's pull: values, which seats have one, and these seats one after the other."""

    q: np.ndarray
    mark: np.ndarray
    touched: np.ndarray


class Lists:
    """One run: for each tile the seats in which it has a share above the background.

    Grown from what is on ``board`` (the piece in each cell, or -1), where ``pinned`` (a cell) keeps its piece.
    """

    def __init__(
        self,
        board: np.ndarray,
        pinned: int,
        room: Room,
        cooling: Cooling = IN_LISTS,
    ) -> None:
        cells = room.h * room.w
        n = cells - room.blank + room.outside
        self.room, self.cooling = room, cooling
        self.seed = int(board[pinned]) // room.states, pinned * room.states + int(board[pinned]) % room.states
        filled = np.flatnonzero(board >= 0)
        filled = filled[np.argsort(board[filled])]
        tile, state = board[filled] // room.states, board[filled] % room.states
        placed = np.zeros(n, np.int64)
        placed[tile] = 1
        self.shares = Rows(
            np.concatenate((np.zeros(1, np.int64), placed.cumsum())),
            (filled * room.states + state).astype(np.int32),
            np.ones(len(filled), np.float32),
        )
        self.length = 32 * n
        self.column, self.base, self.beside = np.ones(cells), np.ones(n), np.ones(1)
        self.beta, self.entropy, self.attached, self.done = (
            cooling.start * np.log(n * room.states),
            1.0,
            len(filled),
            False,
        )
        self.first, self.step = self.beta, 0

    @property
    def passed(self) -> float:
        """How much of the cooling is over, from 0 to 1."""
        whole = np.log(self.cooling.last / self.first)
        return 1.0 if self.done else float(min(np.log(self.beta / self.first) / whole, 1.0))

    def grow(self, bonds: Bonds, steps: int) -> None:
        for _ in range(steps):
            if self.done:
                return
            self._grow(bonds)

    def _grow(self, bonds: Bonds) -> None:
        a, n = self.cooling, len(self.base)
        self.excess = self._pulls(bonds)
        drawn = float(np.exp(self.beta * self.room.pull))
        balance(self.excess, self.base, self.column, self.beside, self.room, drawn, a.sweeps)
        length = self.excess.first[-1]
        found = Rows(np.empty(n + 1, np.int64), np.empty(length, np.int32), np.empty(length, np.float32))
        kept, self.entropy, attached = shares(self.excess, self.base, self.column, self.beside, self.room, drawn, found)
        self.shares = Rows(found.first, found.seat[:kept], found.value[:kept])
        self.step += 1
        rate = a.rate if attached <= self.attached else 1.0
        self.attached = attached
        logs = rate * np.log(self.column)  # the column potential, log v / beta, is what stays while beta grows
        self.column = np.exp(logs - logs.mean()).clip(1 / FURTHEST, FURTHEST)
        self.beside = np.exp(rate * np.log(self.beside) - logs.mean()).clip(1 / FURTHEST, FURTHEST)
        self.beta *= rate
        self.done = self.entropy < a.decided or self.beta > a.last or self.step >= a.steps or n < 2

    def _pulls(self, bonds: Bonds) -> Rows:
        """S, row after row, relative to the row's ``base``."""
        heat = Heat(float(self.beta), self.cooling.self_amplification, self.cooling.pin, *self.seed)
        while True:
            new = Rows(
                np.zeros(len(self.base) + 1, np.int64),
                np.empty(self.length, np.int32),
                np.empty(self.length, np.float64),
            )
            if pulls(self.shares, heat, bonds, self.room, new, self.base):
                return new
            self.length *= 2

    def scores(self) -> np.ndarray:
        """log P of all tiles and cells in the likeliest state, up to a constant per tile."""
        first, seat, excess = self.excess
        scores = np.log(np.maximum(self.base, 1e-300))[:, None] + np.log(self.column)
        row = np.repeat(np.arange(len(self.base)), np.diff(first))
        seat, excess = seat[: first[-1]], excess[: first[-1]]
        cell = seat // self.room.states
        value = np.log(np.maximum(self.base[row] + excess, 1e-300)) + np.log(self.column[cell])
        np.maximum.at(scores, (row, cell), value)
        return scores.astype(np.float32)

    def standing(self) -> np.ndarray:
        """The piece in each cell, the likeliest first; -1 where none has a share that nobody likelier took."""
        first, seat, share = self.shares
        tile = np.repeat(np.arange(len(self.base)), np.diff(first))
        board, used = np.full(len(self.column), -1), np.zeros(len(self.base), bool)
        for e in np.argsort(-share, kind="stable"):
            cell, state = divmod(int(seat[e]), self.room.states)
            if board[cell] < 0 and not used[tile[e]]:
                board[cell], used[tile[e]] = tile[e] * self.room.states + state, True
        return board

    def worthwhile(self) -> np.ndarray:
        """The piece in each cell, or -1, by linear assignment of those pulls that are stronger than the one beside the board."""
        first, seat, excess = self.excess
        row = np.repeat(np.arange(len(self.base)), np.diff(first))
        seat, excess = seat[: first[-1]], excess[: first[-1]]
        floor = np.maximum(self.base[row], 1e-300)
        gain = np.log(np.maximum(self.base[row] + excess, 1e-300)) - np.log(floor) - self.beta * self.room.pull
        downwards = np.argsort(-gain, kind="stable")[: int((gain > 0).sum())]
        cells, states = len(self.column), self.room.states
        # of several states in one cell the strongest
        keys, strongest = np.unique(
            row[downwards].astype(np.int64) * cells + seat[downwards] // states, return_index=True
        )
        kept, board = downwards[strongest], np.full(cells, -1)
        tile, cell = best_matching(csr_array((gain[kept], (row[kept], keys % cells)), (len(self.base), cells)))
        board[cell] = tile * states + seat[kept[np.searchsorted(keys, tile * cells + cell)]] % states
        return board

    def states(self) -> np.ndarray:
        """The likeliest state of each tile in each cell."""
        first, seat, excess = self.excess
        seat, excess = seat[: first[-1]], excess[: first[-1]]
        row = np.repeat(np.arange(len(self.base)), np.diff(first))
        best = np.zeros((len(self.base), len(self.column)), np.int64)
        upwards = np.argsort(excess, kind="stable")  # of several values for one entry the last is kept
        best[row[upwards], (seat // self.room.states)[upwards]] = (seat % self.room.states)[upwards]
        return best

    def likeliest(self) -> np.ndarray:
        """Of each tile the state that it would have in the cell where it most likely stands."""
        return self.states()[np.arange(len(self.base)), self.scores().argmax(1)]


@njit
def _beside(c, side, h, w):
    """The cell whose neighbour on that side of the torus is c."""
    y = c // w
    x = c - y * w
    if side == 0:
        return c - 1 if x > 0 else c + w - 1
    if side == 1:
        return c + 1 if x + 1 < w else c - w + 1
    if side == 2:
        return c - w if y > 0 else c + (h - 1) * w
    return c + w if y + 1 < h else c - (h - 1) * w


@njit
def _pull(i, shares, bonds, room, reached, count):
    """Add to what is reached the pull of tile i in all its states; how many seats that are."""
    first, seat, share = shares
    partner, strength = bonds
    q, mark, touched = reached
    h, w, states = room.h, room.w, room.states
    for state in range(states):
        piece = i * states + state
        for side in range(4):
            for m in range(partner.shape[2]):
                a = strength[side, piece, m]
                if a < LEAST:
                    break
                k = partner[side, piece, m] // states
                turn = partner[side, piece, m] - k * states
                for e in range(first[k], first[k + 1]):
                    there = seat[e] // states
                    if a * share[e] < LEAST or seat[e] - there * states != turn:
                        continue
                    c = _beside(there, side, h, w) * states + state
                    if not mark[c]:
                        mark[c] = True
                        touched[count] = c
                        count += 1
                    q[c] += a * share[e]
    return count


@njit
def pulls(shares, heat, bonds, room, new, base):
    """$S_{ic} = e^{\\beta Q_{ic}} - 1$ where Q is not zero, all over the row's largest factor; False if the lists are too short."""
    beta, gamma = heat.beta, heat.self_amplification
    first, seat, share = shares
    seats = room.h * room.w * room.states
    q, mark, touched = np.zeros(seats), np.zeros(seats, np.bool_), np.empty(seats, np.int64)
    reached = Reached(q, mark, touched)
    fill = 0
    for i in range(base.size):
        count = 0
        for e in range(first[i], first[i + 1]):
            c = seat[e]
            mark[c] = True
            touched[count] = c
            count += 1
            q[c] = gamma * share[e] + (heat.pin if i == heat.tile and c == heat.seat else 0.0)
        count = _pull(i, shares, bonds, room, reached, count)
        if fill + count > new.seat.size:
            return False
        top = 0.0
        for j in range(count):
            top = max(top, beta * q[touched[j]])
        base[i] = np.exp(-top)
        for j in range(count):
            c = touched[j]
            new.seat[fill] = c
            new.value[fill] = np.exp(beta * q[c] - top) - base[i]
            fill += 1
            q[c], mark[c] = 0.0, False
        new.first[i + 1] = fill
    return True


@njit
def balance(rows, base, v, beside, room, drawn, sweeps):
    """Sinkhorn in scaling form, rows first, on base + excess; ``v`` and ``beside`` (of places off the board) are changed in place.

    ``drawn`` is the factor of a tile off the board; that of blank tiles is 1 everywhere.
    """
    first, seat, excess = rows
    states, blank, outside = room.states, room.blank, room.outside
    column = np.empty(v.size)
    for _ in range(sweeps):
        free, total = v.sum(), 0.0
        column[:] = 0.0
        for i in range(base.size):
            row = base[i] * (states * free + outside * drawn * beside[0])
            for e in range(first[i], first[i + 1]):
                row += excess[e] * v[seat[e] // states]
            u = 1.0 / max(row, 1e-300)
            total += u * base[i]
            for e in range(first[i], first[i + 1]):
                column[seat[e] // states] += excess[e] * u
        everywhere = blank / max(free + outside * beside[0], 1e-300)
        for c in range(v.size):
            v[c] = 1.0 / max(column[c] + states * total + everywhere, 1e-300)
        if outside > 0:
            beside[0] = 1.0 / max(drawn * total + everywhere, 1e-300)


@njit
def shares(rows, base, v, beside, room, drawn, new):
    """P where it is above the background, row after row; how many entries, the mean row entropy over its largest, tiles with a home.

    What a tile has in the background is counted as spread evenly over all seats.
    """
    first, seat, excess = rows
    states, outside = room.states, room.outside * drawn * beside[0]
    n = states * v.size
    free, fill, spread, attached = v.sum(), 0, 0.0, 0
    for i in range(base.size):
        row = base[i] * (states * free + outside)
        for e in range(first[i], first[i + 1]):
            row += excess[e] * v[seat[e] // states]
        rest = 1.0
        new.first[i] = fill
        for e in range(first[i], first[i + 1]):
            p = (base[i] + excess[e]) * v[seat[e] // states] / max(row, 1e-300)
            if p < LEAST:
                continue
            new.seat[fill], new.value[fill] = seat[e], p
            fill += 1
            rest -= p
            spread -= p * np.log(p)
            attached += p > 0.5
        out = base[i] * outside / max(row, 1e-300)
        if out > 1e-6:
            rest -= out
            spread -= out * np.log(out)
        if rest > 1e-6:
            spread += rest * np.log(n / rest)
    new.first[base.size] = fill
    return fill, spread / (base.size * np.log(n)), attached
