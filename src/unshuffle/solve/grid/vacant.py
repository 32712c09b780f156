"""Grids with prices: one for every tile that is left out and one for every cell that stays empty, as in `solve.partial`.

Few tiles at few cells are tried in all ways. Otherwise a board is grown at the price of a seam (`states`), and then made better
by cells of which no two are neighbours: while the others stay, who stands in those cells and who is left out is a linear
assignment, which is solved exactly. Where that no longer helps, a part of the board is shaken and filled again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import BadInput
from ...operators.assignment import assign
from ...structure.layouts import Grid
from .. import exact
from ..confidence import place_masses
from ..prices import Prices
from ..request import Request
from ..solution import Polished, Solution
from .exchange import contacts
from .pieces import Pieces, Whole, made_seams
from .states import solve_states

PATIENCE = 6  # choices of cells in a row that change nothing
KICKS = 200  # times that a part of the board is shaken and filled again, and
WORK = 20_000  # cells at most that are looked at so
COLD = 0.7  # of ln(items): how many times the distance from a best seam to any is then worth


@dataclass(frozen=True)
class Vacant:
    """A board has the piece (tile * states + state) of each cell, or -1."""

    pieces: Pieces
    prices: Prices
    cost: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, cost: tuple[Tensor, Tensor], states: int, grid: Grid, reject: Any) -> Vacant:
        prices = Prices.told(reject, len(cost[0]) // states)
        seams = sum(map(len, grid.relations()))
        seam = (float(prices.items.mean()) + prices.position) * grid.n / max(2 * seams, 1)  # as many as a cell has
        pieces = Pieces(Whole(cost, states), grid, reject=seam)
        return cls(pieces, prices, (cost[0].numpy(), cost[1].numpy()))

    @property
    def shape(self) -> tuple[int, int]:
        return self.pieces.shape

    def tiles(self, board: Int[np.ndarray, "*boards n"]) -> Int[np.ndarray, "*boards n"]:
        return np.where(board >= 0, board // self.pieces.states, -1)

    def energy(self, boards: Int[np.ndarray, "*boards n"]) -> Float[np.ndarray, "*boards"]:
        """Of seams between tiles that are there, tiles left out and cells left empty."""
        seams, _ = made_seams(boards, self.shape, self.pieces.cost.pairs)
        placed = np.where(boards >= 0, self.prices.items.numpy()[self.tiles(boards)], 0.0).sum(-1)
        return seams + float(self.prices.items.sum()) - placed + self.prices.position * (boards < 0).sum(-1)

    def paid(self, board: np.ndarray, tiles: np.ndarray, cells: np.ndarray) -> Float[np.ndarray, "tiles states cells"]:
        """For the seams that each tile in each state would make in each cell."""
        s = self.pieces.states
        some = (tiles[:, None] * s + np.arange(s)).reshape(-1)
        return contacts(board, self.shape, self.cost, some, cells).reshape(len(tiles), s, len(cells))

    def refilled(self, board: np.ndarray, cells: np.ndarray, allowed: Tensor | None) -> np.ndarray:
        """The best board that differs in these cells, no two of them neighbours, and in who is left out."""
        board = board.copy()
        board[cells] = -1
        beside = np.setdiff1d(np.arange(self.pieces.tiles), self.tiles(board))
        if not beside.size:
            return board
        paid = self.paid(board, beside, cells)
        scores = torch.from_numpy(-paid.min(1))
        mask = None if allowed is None else allowed[beside][:, cells]
        order = assign(scores, mask, reject=(-self.prices.items[beside], -self.prices.position)).numpy()
        taken = np.flatnonzero(order >= 0)
        state = paid.argmin(1)[order[taken], taken]
        board[cells[taken]] = beside[order[taken]] * self.pieces.states + state
        return board


def solve_vacant(grid: Grid, problem: Vacant, asked: Request) -> Solution:
    if asked.init is not None:
        raise BadInput("A Grid with prices takes no init=: it is found which items have a place at all.")
    pieces, rng = problem.pieces, np.random.default_rng(int(torch.randint(2**31, (1,), generator=asked.generator)))
    if pieces.states == 1 and exact.count_partial(pieces.tiles, grid.n, 0) <= exact.MOST_PARTIAL:
        boards = exact.partial_orders(pieces.tiles, grid.n, 0, asked.allowed).numpy()
        return _solution(problem, boards[problem.energy(boards).argmin()], asked.allowed)
    board = np.full(grid.n, -1)
    if asked.allowed is None and problem.pieces.tiles > 1:
        found = solve_states(grid, pieces, asked)
        state = 0 if found.state is None else found.state.numpy()
        board = np.where(found.order.numpy() >= 0, found.order.numpy() * pieces.states + state, -1)
    return _solution(problem, _settled(problem, board, asked, rng), asked.allowed)


def _settled(problem: Vacant, board: np.ndarray, asked: Request, rng: np.random.Generator) -> np.ndarray:
    """Filled; then shaken here and there and filled again, while there is time; the best board."""
    starts = board, np.full_like(board, -1)
    best = min((_filled(problem, start, asked, rng) for start in starts), key=problem.energy)
    least = float(problem.energy(best))
    for _ in range(min(KICKS, WORK // board.size)):
        if not asked.watch.spare():
            break
        found = _filled(problem, _shaken(problem, best, asked.allowed, rng), asked, rng)
        energy = float(problem.energy(found))
        asked.watch(stage="refill", entropy=0.0, energy=min(energy, least))
        if energy <= least:
            best, least = found, energy
    return best


def _filled(problem: Vacant, board: np.ndarray, asked: Request, rng: np.random.Generator) -> np.ndarray:
    failures, energy = 0, float(problem.energy(board))
    while failures < PATIENCE and not (failures and not asked.watch.spare()):
        board = problem.refilled(board, _apart(problem.shape, rng), asked.allowed)
        last, energy = energy, float(problem.energy(board))
        failures = 0 if energy < last - 1e-9 * abs(last) else failures + 1
    return board


def _apart(shape: tuple[int, int], rng: np.random.Generator) -> Int[np.ndarray, "cells"]:
    """As many cells as can be found at random of which no two are neighbours."""
    h, w = shape
    free, chosen = np.ones((h + 2, w + 2), bool), []
    for cell in rng.permutation(h * w):
        row, column = divmod(int(cell), w)
        if free[row + 1, column + 1]:
            chosen.append(int(cell))
            free[row : row + 3, column + 1] = free[row + 1, column : column + 3] = False
    return np.sort(chosen)


def _shaken(problem: Vacant, board: np.ndarray, allowed: Tensor | None, rng: np.random.Generator) -> np.ndarray:
    """With anybody or nobody in a block of it, or here and there, as chance has it."""
    (h, w), loose = problem.shape, np.zeros(problem.shape, bool)
    if rng.random() < 0.5:
        loose[rng.random(problem.shape) < rng.random()] = True
    else:
        rows, columns = sorted(rng.integers(0, h + 1, 2)), sorted(rng.integers(0, w + 1, 2))
        loose[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = True
    cells, s = np.flatnonzero(loose), problem.pieces.states
    board = board.copy()
    board[cells] = -1
    beside = np.setdiff1d(np.arange(problem.pieces.tiles), problem.tiles(board))
    some = rng.permutation(np.concatenate((beside, np.full(rng.integers(len(cells) + 1), -1))))[: len(cells)]
    cells = cells[: len(some)]
    here = some >= 0 if allowed is None else (some >= 0) & allowed.numpy()[some, cells]
    board[cells[here]] = some[here] * s + rng.integers(s, size=int(here.sum()))
    return board


def _solution(problem: Vacant, board: np.ndarray, allowed: Tensor | None) -> Solution:
    pieces, order = problem.pieces, problem.tiles(board)
    energy = float(problem.energy(board))
    soft, confidence = _judged(problem, board, order, allowed)
    return Solution(
        order=torch.from_numpy(order),
        state=torch.from_numpy(np.where(board >= 0, board % pieces.states, -1)) if pieces.states > 1 else None,
        energy=energy,
        energies=torch.tensor([energy], dtype=torch.float64),
        soft=soft,
        confidence=confidence,
        agreement=1.0,
    )


def _judged(problem: Vacant, board: np.ndarray, order: np.ndarray, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """How likely each tile is in each cell, given the others, and how sure its place is, or that it has none."""
    m, n = problem.pieces.tiles, problem.pieces.grid.n
    pays = torch.zeros(m + n, n + m, dtype=torch.float64)
    pays[:m, :n] = torch.from_numpy(problem.paid(board, np.arange(m), np.arange(n)).min(1))
    pays[:m, n:] = problem.prices.items[:, None]
    pays[m:, :n] = problem.prices.position
    if allowed is not None:
        pays[:m, :n].masked_fill_(~allowed, torch.inf)
    masses = place_masses(pays.T, _unit(problem)).T
    masses = masses / masses.sum(0).clamp_min(1)  # high prices take more sweeps than there are
    inside = torch.from_numpy(np.flatnonzero(order >= 0))
    sure = masses[:m, n:].sum(1)
    tiles = torch.from_numpy(order)[inside]
    sure[tiles] = masses[tiles, inside]
    return masses[:m, :n].float(), sure.float()


def _unit(problem: Vacant) -> float:
    """What is much: the distance from the best seam of a tile to any, both by their medians, at a beta of 0.7 ln m."""
    apart = [np.median(c) - np.median(c.min(1)) for c in problem.cost]
    size = max(float(np.mean(apart)), 1e-6 * max(float(np.abs(c).max()) for c in problem.cost), 1e-12)
    return size / (COLD * np.log(max(problem.pieces.tiles, 2)))


def as_found(grid: Grid, problem: Vacant, found: Solution, **_: Any) -> Polished:
    """Local search is part of finding it."""
    return Polished(found.order, found.energy)
