"""Grids of tiles in unknown states, with cells that stay empty and tiles that are left out.

The crystal that grows on the torus turns the tiles as it takes them, and takes only those that it holds. The first tile stands as it
came, or in each state that makes another picture of it. What the crystals end in is mended as it stands (`Reassembly`: the states are
then known, so this is the search for tiles without states, with blank ones for empty cells); tiles that are dearer than their seams leave,
others come, those with weak seams change places and states (`exchange`); what holds together is kept, turned as it fits, the rest is annealed around it again,
places and states, while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...compute.threads import in_chunks
from ...errors import BadInput
from ...operators.assignment import assign
from ...operators.permutation import to_matrix
from ...structure.layouts import Grid
from ...watch import Watch, dispensable
from .. import exact
from ..request import Request
from ..solution import Polished, Solution
from .crystal import IN_LISTS, Lists
from .exchange import contacts, exchanged, reseated
from .expected import energy_of_lists
from .pieces import Pieces, Whole
from .reassembly import AGAIN, Effort, Reassembly
from .regrow import in_all_states, regrow, regrow_by_segments
from .seams import NO_MASK
from .segments import segments
from .solver import CLOSELY, RUNS, SLICE, as_soft, judge_grid, polish_grid

PATIENCE = 3  # times that annealing the rest again may fail to help
ONCE_MORE = Effort(most=20, patience=10)  # to mend what was annealed again: most of it was mended before


@dataclass(frozen=True)
class Standing:
    """The tile in each cell (-1: none), the state of each *tile*, and the score of all its seams among those of all pieces."""

    order: np.ndarray
    state: np.ndarray
    score: float

    @classmethod
    def of(cls, order: np.ndarray, state: np.ndarray, pieces: Pieces) -> Standing:
        return cls(order, state, pieces.belief.total(pieces.board(order, state)))


def solve_states(
    grid: Grid,
    pieces: Pieces,
    asked: Request,
    effort: Effort = Effort(),
) -> Solution:
    """Grown from the surest tiles, mended, annealed again around what holds together; the best by score."""
    generator, watch, allowed, init, runs = asked
    if allowed is not None or init is not None:
        raise BadInput(
            "Items with states take neither allowed= nor init=: their positions are found together with their states."
        )
    least = min(pieces.tiles, grid.n) if pieces.reject is None else 0
    ways = exact.count_partial(pieces.tiles, grid.n, least)
    if pieces.states == 1 and not pieces.complete and ways <= exact.MOST_PARTIAL:
        orders = exact.partial_orders(pieces.tiles, grid.n, least, None).numpy()
        best = orders[pieces.energies(orders).argmin()]
        return _solution(grid, pieces, [Standing.of(best, np.zeros(pieces.tiles, np.int64), pieces)], on_torus=False)
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    starts = _on_torus(pieces, runs or RUNS, watch)
    if watch.stopped:
        return _solution(grid, pieces, starts, on_torus=True)
    searches: list[Settling] = []

    def some(low: int, high: int) -> None:
        for search in searches[low:high]:
            search.advance()

    with dispensable():
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True):
            searches.append(Settling(start, pieces, child, effort))
        tried = False
        while not watch.stopped and not all(search.done for search in searches):
            first = next((search for search in searches if search.grows), None)
            if first is not None and not tried:
                first.advance()  # here, since it may have to be compiled: a team would be waited for, whoever presses Ctrl-C
                tried = True
            in_chunks(some, len(searches))
            best = max(searches, key=lambda search: search.best.score).best
            watch(
                stage="reassemble",
                entropy=0.0,
                soft=partial(to_matrix, torch.from_numpy(best.order.copy()), items=pieces.tiles),
                expected=partial(_energy, grid, pieces, best),
                states=partial(np.copy, best.state),
            )
    if len(searches) < len(starts):  # stopped before the first step
        return _solution(grid, pieces, starts, on_torus=pieces.complete)
    return _solution(grid, pieces, [search.end() for search in searches], on_torus=pieces.complete)


def _energy(grid: Grid, pieces: Pieces, found: Standing) -> float:
    local = pieces.local(found.order, found.state)
    return float(grid.energy(torch.from_numpy(local.order), local.evidence))


def _solution(grid: Grid, pieces: Pieces, ends: list[Standing], on_torus: bool) -> Solution:
    """The best of the ends, judged; opened before if it may be shifted ``on_torus``."""
    best = max(ends, key=lambda end: end.score)
    local = pieces.local(best.order, best.state)
    if on_torus:
        local = local.opened()
        best = Standing.of(local.tile[local.order], best.state, pieces)
    energy = float(grid.energy(torch.from_numpy(local.order), local.evidence))
    near, sure = judge_grid(grid, local.evidence, torch.from_numpy(local.order), None)
    used = torch.from_numpy(local.tile >= 0)
    tiles = torch.from_numpy(local.tile[local.tile >= 0])
    soft, confidence = torch.zeros(pieces.tiles, grid.n), torch.from_numpy(_surely_out(best, pieces))
    soft[tiles], confidence[tiles] = near[used], sure[used]
    return Solution(
        order=torch.from_numpy(best.order),
        state=torch.from_numpy(np.where(best.order >= 0, best.state[best.order], -1)) if pieces.states > 1 else None,
        energy=energy,
        energies=torch.tensor([energy], dtype=torch.float64),
        soft=soft,
        confidence=confidence,
        agreement=float(np.mean([abs(end.score - best.score) < 1e-3 for end in ends])),
    )


def _surely_out(best: Standing, pieces: Pieces) -> np.ndarray:
    """How sure it is that a tile is left out, if it is: what its mean affinity in the empty cell that likes it best leaves."""
    sure = np.ones(pieces.tiles, np.float32)
    board = pieces.board(best.order, best.state)
    holes, b = np.flatnonzero(board < 0), pieces.belief
    if holes.size:
        every = np.arange(pieces.tiles * pieces.states)
        liked = contacts(board, b.shape, (b.right, b.below), every, holes).reshape(pieces.tiles, -1).max(1)
        sure -= np.minimum(liked / 2, 1)
    return sure


def polish_states(
    grid: Grid, pieces: Pieces, found: Solution, *, allowed: Tensor | None, watch: Watch, generator: torch.Generator | None = None
) -> Polished:  # fmt: skip
    """Local search on the energy, of the tiles on the board as they stand."""
    state, order = np.zeros(pieces.tiles, np.int64), found.order.numpy()
    if found.state is not None:
        state[order[order >= 0]] = found.state.numpy()[order >= 0]
    local = pieces.local(order, state)
    start = replace(found, order=torch.from_numpy(local.order), tried=None)
    polished = polish_grid(grid, local.evidence, start, allowed=None, watch=watch)
    return polished._replace(order=torch.from_numpy(local.tile[polished.order.numpy()]))


def _on_torus(pieces: Pieces, runs: int, watch: Watch) -> list[Standing]:
    """One crystal from each of the surest tiles in each of its states that matter; the best ``runs`` of them, opened, or if it was
    stopped only the best one, as it is."""
    h, w = pieces.shape
    centre = (h // 2) * w + w // 2
    seeds = pieces.surest()[np.arange(runs) % pieces.tiles]
    boards = []
    for tile in seeds:
        for state in range(pieces.apart or pieces.states):
            board = np.full(h * w, -1)
            board[centre] = tile * pieces.states + state
            boards.append(board)
    crystals = [Lists(board, centre, pieces.room, IN_LISTS) for board in boards]

    def some(low: int, high: int) -> None:
        for crystal in crystals[low:high]:
            crystal.grow(pieces.belief.bonds, CLOSELY if watch.closely else SLICE)

    looks: dict[str, Any] = {}
    if isinstance(known := pieces.cost, Whole):  # else all pairs are too many to look at
        looks = {
            "soft": lambda: as_soft(crystals[0].scores()),
            "expected": lambda: energy_of_lists(crystals[0], known.cost, pieces.price),
            "states": lambda: crystals[0].likeliest(),
        }
    on = True
    while on and not all(crystal.done for crystal in crystals):
        in_chunks(some, len(crystals))
        beta, entropy = min(c.beta for c in crystals), float(np.mean([c.entropy for c in crystals]))
        done = min(crystal.passed for crystal in crystals)
        on = watch(stage="anneal", beta=beta, entropy=entropy, done=done, **looks)
    found = [_decoded(crystal, pieces) for crystal in crystals]
    if watch.stopped:
        return [max(found, key=lambda standing: standing.score)]
    return sorted((_opened(one, pieces) for one in found), key=lambda standing: -standing.score)[:runs]


def _decoded(crystal: Lists, pieces: Pieces) -> Standing:
    """The likeliest layout, still on the torus."""
    if pieces.reject is not None:
        return _of_board(crystal.worthwhile(), pieces)
    if pieces.belief.listed:
        return _of_board(exchanged(crystal.standing(), pieces.belief, pieces.states, pieces.tiles, leave=False), pieces)
    order, state = assign(torch.from_numpy(crystal.scores())).numpy(), np.zeros(pieces.tiles, np.int64)
    filled = np.flatnonzero(order >= 0)
    state[order[filled]] = crystal.states()[order[filled], filled]
    return Standing.of(order, state, pieces)


def _of_board(board: np.ndarray, pieces: Pieces, state: np.ndarray | None = None) -> Standing:
    """By the piece of each cell, or -1; what is not on the board keeps its ``state``."""
    order, state = (
        np.where(board >= 0, board // pieces.states, -1),
        np.zeros(pieces.tiles, np.int64) if state is None else state.copy(),
    )
    state[order[order >= 0]] = board[board >= 0] % pieces.states
    return Standing.of(order, state, pieces)


def _opened(found: Standing, pieces: Pieces) -> Standing:
    """Shifted on the torus so that the weakest lines are the border."""
    local = pieces.local(found.order, found.state).opened()
    return Standing.of(local.tile[local.order], found.state, pieces)


class Settling:
    """One layout on its way up; `advance` does a slice of it, so that the clock is looked at in between."""

    def __init__(self, start: Standing, pieces: Pieces, rng: np.random.Generator, effort: Effort) -> None:
        self.pieces, self.rng = pieces, rng
        self.best, self.failures = start, 0
        self.search: Reassembly | None = self._mending(start, effort)

    @property
    def done(self) -> bool:
        return self.failures > PATIENCE

    @property
    def grows(self) -> bool:
        """Whether its next step is to anneal again."""
        return self.search is None and not self.done

    def advance(self) -> None:
        if self.done:
            return
        if self.search is None:
            self._again()
            return
        self.search.advance(3)
        if self.search.done:
            self._take(self._mended(self.search))
            self.search = None

    def end(self) -> Standing:
        """The best so far."""
        mended = self.best if self.search is None else self._mended(self.search)
        return max(self.best, mended, key=lambda standing: standing.score)

    def _mending(self, start: Standing, effort: Effort) -> Reassembly:
        self.state, self.local = start.state, self.pieces.local(start.order, start.state)
        evidence = self.local.evidence
        return Reassembly(self.local.order, evidence.belief, self.rng, effort, frame=evidence.frame)

    def _mended(self, search: Reassembly) -> Standing:
        pieces, order, state = self.pieces, self.local.tile[search.order], self.state
        board, leave = pieces.board(order, state), pieces.reject is not None
        if not pieces.complete:
            board = exchanged(board, pieces.belief, pieces.states, pieces.tiles, leave=leave)
        board = reseated(board, pieces.belief, pieces.states, pieces.tiles, self.rng, leave=leave)
        return _of_board(board, pieces, state)

    def _take(self, found: Standing) -> None:
        self.failures = 0 if found.score > self.best.score + 1e-4 else self.failures + 1
        self.best = max(self.best, found, key=lambda standing: standing.score)

    def _again(self) -> None:
        """What holds together stays, as it stands or turned; the rest is annealed around it, places and states."""
        best, pieces = self.best, self.pieces
        local = pieces.local(best.order, best.state)
        b = local.evidence.belief
        least, loops = self.rng.uniform(0.1, 0.9), bool(self.rng.random() < 0.5)
        label = segments(local.order, b.glue, least, loops)
        if pieces.turn_whole:
            board = self._turned(label, local.tile)
        else:
            numbers = regrow_by_segments(local.order, b.glue, b.bonds, label, NO_MASK, ONCE_MORE.toll)
            tile = np.where(numbers >= 0, local.tile[numbers], -1)
            board = pieces.board(tile, best.state)
        placed = np.flatnonzero(board >= 0)
        crystal = Lists(board, int(placed[len(placed) // 2]), pieces.room, AGAIN)
        crystal.grow(pieces.belief.bonds, AGAIN.steps)
        found = _decoded(crystal, pieces)
        if pieces.complete and (found.state == best.state).all():
            self._take(found)  # with the states as they were, mending has been tried
        else:
            self.search = self._mending(found, ONCE_MORE)

    def _turned(self, label: np.ndarray, tile: np.ndarray) -> np.ndarray:
        """The piece of each cell, or -1, after the segments have been placed again, each turned as it fits best; the first as chance has it.

        A picture that has grown a quarter turn off its frame, or with a block upside down, is right in all its seams but few.
        """
        best, pieces = self.best, self.pieces
        own = np.arange(pieces.tiles) + pieces.grid.n
        own[tile[tile >= 0]] = label[tile >= 0]
        own = np.unique(own, return_inverse=True)[1]
        first = int(self.rng.integers(pieces.states))
        y, x, number = in_all_states(pieces.board(best.order, best.state), own, pieces.shape, pieces.states, first)
        b = pieces.belief
        seams = b.mistaken(ONCE_MORE.noise * self.rng.random(), self.rng)
        return regrow(y, x, seams, b.bonds, number, NO_MASK, ONCE_MORE.toll, pieces.states)
