"""Grids of tiles in unknown states: the crystal that grows on the torus turns the tiles as it takes them.

The first tile stands as it came, or in each state that makes another picture of it. What the crystals end in is mended as it stands
(`Reassembly`: the states are then known, so this is the search for tiles without states); what holds together is kept, the rest
is annealed around it again, places and states, and so on while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ...compute.threads import in_chunks
from ...errors import BadInput
from ...operators.assignment import assign
from ...operators.permutation import to_matrix
from ...structure.layouts import Grid
from ...watch import Watch
from ..solution import Polished, Solution
from .crystal import IN_LISTS, Lists, Room
from .pieces import Pieces
from .reassembly import AGAIN, Effort, Reassembly
from .regrow import regrow_by_segments
from .seams import NO_MASK
from .segments import segments
from .solver import CLOSELY, RUNS, SLICE, as_soft, judge_grid, polish_grid

PATIENCE = 3  # times that annealing the rest again may fail to help
ONCE_MORE = Effort(most=20, patience=10)  # to mend what was annealed again: most of it was mended before


@dataclass(frozen=True)
class Standing:
    """The tile in each cell, the state of each *tile*, and the score of all its seams among those of all pieces."""

    order: np.ndarray
    state: np.ndarray
    score: float

    @classmethod
    def of(cls, order: np.ndarray, state: np.ndarray, pieces: Pieces) -> Standing:
        return cls(order, state, pieces.belief.total(order * pieces.states + state[order]))


def solve_states(
    grid: Grid,
    pieces: Pieces,
    *,
    allowed: Tensor | None = None,
    init: Tensor | None = None,
    runs: int | None = None,
    generator: torch.Generator,
    watch: Watch,
    effort: Effort = Effort(),
) -> Solution:
    """Grown from the surest tiles, mended, annealed again around what holds together; the best by score."""
    if allowed is not None or init is not None:
        raise BadInput(
            "Items with states take neither allowed= nor init=: their positions are found together with their states."
        )
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    starts = _on_torus(pieces, runs or RUNS, watch)
    searches = [
        Settling(start, pieces, child, effort) for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]

    def some(low: int, high: int) -> None:
        for search in searches[low:high]:
            search.advance()

    while not watch.stopped and not all(search.done for search in searches):
        in_chunks(some, len(searches))
        order = torch.from_numpy(max(searches, key=lambda search: search.best.score).best.order.copy())
        watch(stage="reassemble", entropy=0.0, soft=partial(to_matrix, order))
    return _solution(grid, pieces, [search.end() for search in searches])


def _solution(grid: Grid, pieces: Pieces, ends: list[Standing]) -> Solution:
    best = max(ends, key=lambda end: end.score)
    evidence = pieces.standing(best.state)
    order = torch.from_numpy(best.order)
    energy = float(grid.energy(order, evidence))
    soft, confidence = judge_grid(grid, evidence, order, None)
    return Solution(
        order=order,
        state=torch.from_numpy(best.state[best.order]),
        energy=energy,
        energies=torch.tensor([energy], dtype=torch.float64),
        soft=soft,
        confidence=confidence,
        agreement=float(np.mean([abs(end.score - best.score) < 1e-3 for end in ends])),
    )


def polish_states(
    grid: Grid, pieces: Pieces, found: Solution, *, allowed: Tensor | None, watch: Watch, generator: torch.Generator | None = None
) -> Polished:  # fmt: skip
    """Local search on the energy, of the tiles as they stand."""
    state = np.empty(pieces.tiles, np.int64)
    state[found.order.numpy()] = (found.order if found.state is None else found.state).numpy()
    return polish_grid(grid, pieces.standing(state), found, allowed=None, watch=watch)


def _on_torus(pieces: Pieces, runs: int, watch: Watch) -> list[Standing]:
    """One crystal from each of the surest tiles in each of its states that matter; the best ``runs`` of them, opened."""
    h, w = pieces.shape
    centre = (h // 2) * w + w // 2
    seeds = np.argsort(-pieces.strength(), kind="stable")[np.arange(runs) % pieces.tiles]
    boards = []
    for tile in seeds:
        for state in range(pieces.apart or pieces.states):
            board = np.full(h * w, -1)
            board[centre] = tile * pieces.states + state
            boards.append(board)
    crystals = [Lists(board, centre, Room(h, w, pieces.states), IN_LISTS) for board in boards]

    def some(low: int, high: int) -> None:
        for crystal in crystals[low:high]:
            crystal.grow(pieces.belief.bonds, CLOSELY if watch.closely else SLICE)

    on = True
    while on and not all(crystal.done for crystal in crystals):
        in_chunks(some, len(crystals))
        beta, entropy = min(c.beta for c in crystals), float(np.mean([c.entropy for c in crystals]))
        on = watch(stage="anneal", beta=beta, entropy=entropy, soft=lambda: as_soft(crystals[0].scores()))
    return sorted((_decoded(crystal, pieces) for crystal in crystals), key=lambda found: -found.score)[:runs]


def _decoded(crystal: Lists, pieces: Pieces) -> Standing:
    """The likeliest layout, cut open at its weakest lines."""
    order = assign(torch.from_numpy(crystal.scores())).numpy()
    state = np.empty_like(order)
    state[order] = crystal.states()[order, np.arange(len(order))]
    return Standing.of(pieces.standing(state).frame.opened(order), state, pieces)


class Settling:
    """One layout on its way up; `advance` does a slice of it, so that the clock is looked at in between."""

    def __init__(self, start: Standing, pieces: Pieces, rng: np.random.Generator, effort: Effort) -> None:
        self.pieces, self.rng = pieces, rng
        self.best, self.failures = start, 0
        self.search: Reassembly | None = self._mending(start, effort)

    @property
    def done(self) -> bool:
        return self.failures > PATIENCE

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
        self.state = start.state
        evidence = self.pieces.standing(start.state)
        return Reassembly(start.order, evidence.belief, self.rng, effort, frame=evidence.frame)

    def _mended(self, search: Reassembly) -> Standing:
        return Standing.of(search.order, self.state, self.pieces)

    def _take(self, found: Standing) -> None:
        self.failures = 0 if found.score > self.best.score + 1e-4 else self.failures + 1
        self.best = max(self.best, found, key=lambda standing: standing.score)

    def _again(self) -> None:
        """What holds together stays, as it stands; the rest is annealed around it, places and states."""
        best, b = self.best, self.pieces.standing(self.best.state).belief
        least, loops = self.rng.uniform(0.1, 0.9), bool(self.rng.random() < 0.5)
        label = segments(best.order, b.glue, least, loops)
        board = regrow_by_segments(best.order, b.glue, b.bonds, label, NO_MASK, ONCE_MORE.toll)
        placed = np.flatnonzero(board >= 0)
        board[placed] = board[placed] * self.pieces.states + best.state[board[placed]]
        crystal = Lists(board, int(placed[len(placed) // 2]), Room(*self.pieces.shape, self.pieces.states), AGAIN)
        crystal.grow(self.pieces.belief.bonds, AGAIN.steps)
        found = _decoded(crystal, self.pieces)
        if (found.state == best.state).all():
            self._take(found)  # with the states as they were, mending has been tried
        else:
            self.search = self._mending(found, ONCE_MORE)
