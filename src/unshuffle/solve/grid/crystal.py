r"""The annealing of `dense` for large grids, in lists: a crystal touches only the cells at its surface.

Far from all tiles that have found a place the pull is nothing and $K_{ic} = e^{\beta(Q_{ic} + g_c)}$ is the same for every tile
but for its column: $K = (1 + S)\,\mathrm{diag}(v)$ with S empty except beside what stands. A Sinkhorn sweep of that is one sum over v and
one pass over the entries of S, about 20 per tile instead of n: 1,728 tiles take 1 ms a step instead of 50, and end the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from .cooling import Cooling
from .seams import Bonds

LEAST = 2e-3
"""Shares and pulls below this are background. Half of it and a tenth more steps gave the same layouts of 1,728 tiles; below
1/n the background itself would be listed."""
FURTHEST = 1e100  # of column factors: those of cells that are long decided drift, and mean nothing


IN_LISTS = Cooling(rate=1.01, last=200.0)
"""Beta waits while tiles still attach at the present one. At 25, where whole matrices must stop for their time, up to half of a
picture's tiles are still loose."""


class Rows(NamedTuple):
    """A sparse matrix: tile i has ``value[e]`` in ``cell[e]`` for e from ``first[i]`` to ``first[i + 1]``."""

    first: np.ndarray
    cell: np.ndarray
    value: np.ndarray


class Heat(NamedTuple):
    """What makes a pull of shares: beta, self-amplification, and the pinned tile with its cell and pull."""

    beta: float
    self_amplification: float
    pin: float
    tile: int
    cell: int


class Reached(NamedTuple):
    """Work space of one tile's pull: values, which cells have one, and these cells one after the other."""

    q: np.ndarray
    mark: np.ndarray
    touched: np.ndarray


class Lists:
    """One run: for each tile the cells in which it has a share above the background.

    Grown from what is on ``board`` (the tile of each cell, or -1), where ``pinned`` (a cell) keeps its tile.
    """

    def __init__(self, board: np.ndarray, pinned: int, shape: tuple[int, int], cooling: Cooling = IN_LISTS) -> None:
        n = shape[0] * shape[1]
        self.shape, self.cooling = shape, cooling
        self.seed = int(board[pinned]), pinned
        cells = np.flatnonzero(board >= 0)
        placed = np.zeros(n, np.int64)
        placed[board[cells]] = 1
        self.shares = Rows(
            np.concatenate((np.zeros(1, np.int64), placed.cumsum())),
            cells[np.argsort(board[cells])].astype(np.int32),
            np.ones(len(cells), np.float32),
        )
        self.room = 32 * n
        self.column, self.base = np.ones(n), np.ones(n)
        self.beta, self.entropy, self.attached, self.done = cooling.start * np.log(n), 1.0, len(cells), False
        self.step = 0

    def grow(self, bonds: Bonds, steps: int) -> None:
        for _ in range(steps):
            if self.done:
                return
            self._grow(bonds)

    def _grow(self, bonds: Bonds) -> None:
        a, n = self.cooling, len(self.base)
        self.excess = self._pulls(bonds)
        balance(self.excess, self.base, self.column, a.sweeps)
        room = self.excess.first[-1]
        found = Rows(np.empty(n + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.float32))
        kept, self.entropy, attached = shares(self.excess, self.base, self.column, found)
        self.shares = Rows(found.first, found.cell[:kept], found.value[:kept])
        self.step += 1
        rate = a.rate if attached <= self.attached else 1.0
        self.attached = attached
        logs = rate * np.log(self.column)  # the column potential, log v / beta, is what stays while beta grows
        self.column = np.exp(logs - logs.mean()).clip(1 / FURTHEST, FURTHEST)
        self.beta *= rate
        self.done = self.entropy < a.decided or self.beta > a.last or self.step >= a.steps or n < 2

    def _pulls(self, bonds: Bonds) -> Rows:
        """S, row after row, relative to the row's ``base``."""
        heat = Heat(float(self.beta), self.cooling.self_amplification, self.cooling.pin, *self.seed)
        while True:
            new = Rows(
                np.zeros(len(self.base) + 1, np.int64), np.empty(self.room, np.int32), np.empty(self.room, np.float64)
            )
            if pulls(self.shares, heat, bonds, self.shape, new, self.base):
                return new
            self.room *= 2

    def scores(self) -> np.ndarray:
        """log P of all tiles and cells, up to a constant per tile."""
        first, cell, excess = self.excess
        scores = np.log(np.maximum(self.base, 1e-300))[:, None] + np.log(self.column)
        row = np.repeat(np.arange(len(self.base)), np.diff(first))
        cell, excess = cell[: first[-1]], excess[: first[-1]]
        scores[row, cell] = np.log(np.maximum(self.base[row] + excess, 1e-300)) + np.log(self.column[cell])
        return scores.astype(np.float32)


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
def _pull(i, shares, bonds, shape, reached, count):
    """Add to what is reached the pull of tile i; how many cells that are."""
    first, cell, share = shares
    partner, strength = bonds
    q, mark, touched = reached
    h, w = shape
    for side in range(4):
        for m in range(partner.shape[2]):
            a = strength[side, i, m]
            if a < LEAST:
                break
            k = partner[side, i, m]
            for e in range(first[k], first[k + 1]):
                if a * share[e] < LEAST:
                    continue
                c = _beside(cell[e], side, h, w)
                if not mark[c]:
                    mark[c] = True
                    touched[count] = c
                    count += 1
                q[c] += a * share[e]
    return count


@njit
def pulls(shares, heat, bonds, shape, new, base):
    """$S_{ic} = e^{\\beta Q_{ic}} - 1$ where Q is not zero, all over the row's largest factor; False if the lists are too short."""
    beta, gamma = heat.beta, heat.self_amplification
    first, cell, share = shares
    n = base.size
    q, mark, touched = np.zeros(n), np.zeros(n, np.bool_), np.empty(n, np.int64)
    reached = Reached(q, mark, touched)
    fill = 0
    for i in range(n):
        count = 0
        for e in range(first[i], first[i + 1]):
            c = cell[e]
            mark[c] = True
            touched[count] = c
            count += 1
            q[c] = gamma * share[e] + (heat.pin if i == heat.tile and c == heat.cell else 0.0)
        count = _pull(i, shares, bonds, shape, reached, count)
        if fill + count > new.cell.size:
            return False
        top = 0.0
        for j in range(count):
            top = max(top, beta * q[touched[j]])
        base[i] = np.exp(-top)
        for j in range(count):
            c = touched[j]
            new.cell[fill] = c
            new.value[fill] = np.exp(beta * q[c] - top) - base[i]
            fill += 1
            q[c], mark[c] = 0.0, False
        new.first[i + 1] = fill
    return True


@njit
def balance(rows, base, v, sweeps):
    """Sinkhorn in scaling form, rows first, on base + excess; ``v`` is changed in place."""
    first, cell, excess = rows
    n = v.size
    column = np.empty(n)
    for _ in range(sweeps):
        free, total = v.sum(), 0.0
        column[:] = 0.0
        for i in range(n):
            row = base[i] * free
            for e in range(first[i], first[i + 1]):
                row += excess[e] * v[cell[e]]
            u = 1.0 / max(row, 1e-300)
            total += u * base[i]
            for e in range(first[i], first[i + 1]):
                column[cell[e]] += excess[e] * u
        for c in range(n):
            v[c] = 1.0 / max(column[c] + total, 1e-300)


@njit
def shares(rows, base, v, new):
    """P where it is above the background, row after row; how many entries, the mean row entropy over ln n, tiles with a home.

    What a tile has in the background is counted as spread evenly over all cells.
    """
    first, cell, excess = rows
    n = v.size
    free, fill, spread, attached = v.sum(), 0, 0.0, 0
    for i in range(n):
        row = base[i] * free
        for e in range(first[i], first[i + 1]):
            row += excess[e] * v[cell[e]]
        rest = 1.0
        new.first[i] = fill
        for e in range(first[i], first[i + 1]):
            p = (base[i] + excess[e]) * v[cell[e]] / max(row, 1e-300)
            if p < LEAST:
                continue
            new.cell[fill], new.value[fill] = cell[e], p
            fill += 1
            rest -= p
            spread -= p * np.log(p)
            attached += p > 0.5
        if rest > 1e-6:
            spread += rest * np.log(n / rest)
    new.first[n] = fill
    return fill, spread / (n * np.log(n)), attached
