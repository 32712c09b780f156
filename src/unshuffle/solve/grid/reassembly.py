"""Large moves after annealing: take a layout apart into the segments that hold together and grow it again from them.

Annealing places tile after tile, so a whole block can sit beside the place where it belongs: every tile in it is content.
Moved as one piece the block finds its place at once. Segments come from thresholds drawn at random on affinities with
random errors, so that no wrong seam stays glued in every round; a round is kept only if the score of the whole grows. A round that
redoes everything may mend one place and spoil another, so some take only a window apart, as many as have lately succeeded. On large boards
segments are joined wherever two of them fit best before the rest grows around the largest (`joining`), and what is better is kept place by place (`harvest`). Of windows: on four hard photos of 34 x 25 and 48 x 36 pieces (two or three seeds each) the score falls short of the truth's by 94, 60, 24, 126;
by 107, 76, 55, 188 without windows, and by 102, 60, 36, 181 if half of the rounds are such. Where the first rounds leave many seams wrong one round shakes the layout (`shaking`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from ...compute.jit import have_numba
from ...operators.assignment import assign
from .affinity import Affinities
from .crystal import IN_LISTS, Lists, Room
from .frame import Frame
from .harvest import harvest
from .joining import TOLL, as_evidence, joined
from .regrow import regrow, regrow_by_segments
from .seams import NO_MASK, Listed, best_matching
from .segments import ENOUGH, segments, shift_segments, unwind
from .shaking import WEAK, shaken

TWIST = 0.3
"""Affinity that closing the torus straight instead of like a screw must gain: a plain backdrop fits either way."""
LIKELY = 0.2  # affinity of a partner with whom a weak seam is wrong: where nobody is likely, tiles are too plain to tell, and nothing is to be found
DOUBT = 0.05  # share of seams that are wrong, from which on a layout is shaken
SHAKEN = 4  # the round that shakes: most photos are whole after two or three, and need not be
ENDURING = 10  # rounds from which on a search shakes: those of fewer are to be short
LARGE = 1000  # tiles from which on a round is hardly ever better everywhere
MEMORY, SELDOM = 0.2, 0.05  # how much the last round counts in the rate of success, and the least rate
AGAIN = replace(IN_LISTS, start=1.0, rate=1.02)  # most tiles are in place: only what is loose has to find its own


@dataclass(frozen=True)
class Effort:
    """How long to go on, and how."""

    most: int = 60
    patience: int = 30
    """Rounds without success before giving up. On 19 photos of 24 x 18 pieces the last success came after at most 7."""
    anneal_every: int = 3
    """Every so many rounds the rest is annealed around what has regrown, and not only filled in: dearer, and better where many
    tiles are loose (a photo of 24 x 18 pieces with 0.83 to 0.96 of its tiles in place is right after one such round). Not on large
    boards: on the two photos on which joining was chosen only rounds in windows succeeded by it, and the time is better spent on more of the others."""
    noise: float = 0.5
    """Largest standard deviation of the random errors of log affinity."""
    toll: float = 0.1
    """Affinity that a seam must have to count in favour of a place; true seams have 0.6 on average, chance ones 0.002."""


class Reassembly:
    """One layout on its way up; `advance` is called in slices so that the clock is looked at in between."""

    def __init__(
        self,
        order: np.ndarray,
        belief: Affinities,
        rng: np.random.Generator,
        effort: Effort,
        *,
        allowed: np.ndarray = NO_MASK,
        frame: Frame | None = None,
    ) -> None:
        self.belief, self.rng, self.effort, self.allowed, self.frame = belief, rng, effort, allowed, frame
        self.round = self.last_success = 0
        self.rates = np.full(2, 0.5)  # of success, lately: of rounds on the whole, and of rounds in a window
        order = np.array(order, dtype=np.int64)
        if not allowed.size:
            unwind(order, belief.glue, TWIST)
        self.order = self._shifted(order)
        self.total = belief.total(self.order)

    @property
    def done(self) -> bool:
        idle = self.round - self.last_success
        return len(self.order) < 3 or self.round >= self.effort.most or idle >= self.effort.patience

    @property
    def passed(self) -> float:
        """How much is over, from 0 to 1, if no more rounds succeed."""
        return self.round / max(min(self.effort.most, self.last_success + self.effort.patience), 1)

    def advance(self, rounds: int, more: Callable[[], bool] = lambda: True) -> None:
        """So many rounds, or as long as there is time for ``more``."""
        for _ in range(rounds):
            if self.done or not more():
                return
            self.round += 1
            local = int(self.rng.random() * self.rates.sum() < self.rates[1])
            order = self._shaken(more) if self._shakes else self._regrown(bool(local))
            gained = SELDOM
            order = None if order is None else self._better(order)
            if order is not None:
                self.order, gained = self._shifted(order), 1.0
                self.total, self.last_success = self.belief.total(self.order), self.round
            self.rates[local] += MEMORY * (gained - self.rates[local])

    @property
    def _large(self) -> bool:
        return have_numba and len(self.order) >= LARGE and not self.allowed.size

    @property
    def _shakes(self) -> bool:
        """Once, if the first rounds leave many seams wrong, unless there are to be but a few rounds."""
        if not have_numba or self.allowed.size or self.round != SHAKEN or self.effort.most < ENDURING:
            return False
        return float(self.belief.weak_seams(self.order, WEAK, LIKELY).mean()) > DOUBT

    def _shaken(self, more: Callable[[], bool]) -> np.ndarray:
        return self._shifted(shaken(self.order, self.belief, self.rng, more))

    def _better(self, order: np.ndarray) -> np.ndarray | None:
        """What has regrown if it is better; on large boards the better of the two, with what is better in the other one. None if that
        gains nothing."""
        gain = self.belief.total(order) - self.total
        if not self._large:
            return order if gain > 1e-4 else None
        best, other = (order, self.order) if gain > 1e-4 else (self.order.copy(), order)
        more = harvest(best, other, self.belief.worth, ENOUGH)
        return best if max(gain, more) > 1e-4 else None

    def _shifted(self, order: np.ndarray, passes: int = 10) -> np.ndarray:
        b = self.belief
        return shift_segments(order, b.worth, b.glue, b.bonds, allowed=self.allowed, passes=passes)

    def _regrown(self, local: bool) -> np.ndarray | None:
        b = self.belief
        least, loops = self.rng.uniform(0.1, 0.9), bool(self.rng.random() < 0.5)
        sigma = self.effort.noise * self.rng.random() * (self.round > 1)
        seams = b.mistaken(sigma, self.rng)
        label = segments(self.order, seams, least, loops)
        if local:
            label = self._held(label)
        if (label == label[0]).all():
            return None
        if self._large:
            weights = as_evidence(seams)
            parts = joined(self.order, label, weights, b.bonds)
            board = regrow(parts.y, parts.x, weights, b.bonds, parts.or_segments(label), NO_MASK, TOLL)
        else:
            board = regrow_by_segments(self.order, seams, b.bonds, label, self.allowed, self.effort.toll)
        full = self._annealed(board) if self._anneals else fill(board, b, self.allowed)
        return None if full is None else self._shifted(full, passes=1)  # the rest only for what is kept: half the time

    def _held(self, label: np.ndarray) -> np.ndarray:
        """All tiles in one segment, but those in a window around one with weak seams, and those that hold to nothing."""
        h, w = self.belief.shape
        weak = self.belief.weak_seams(self.order, WEAK)
        doubt = weak.reshape(-1) + 1e-6
        y, x = divmod(int(self.rng.choice(h * w, p=doubt / doubt.sum())), w)
        high, wide = (int(self.rng.integers(3, max(4, side // 3))) for side in (h, w))
        inside = np.zeros((h, w), bool)
        inside[max(y - high, 0) : y + high + 1, max(x - wide, 0) : x + wide + 1] = True
        held = ~(inside | (weak == 1)).reshape(-1)
        label[self.order[held]] = len(label)
        return np.unique(label, return_inverse=True)[1].astype(np.int64)

    @property
    def _anneals(self) -> bool:
        whole = have_numba and self.frame is not None and not self.allowed.size and not self._large
        return whole and self.round % self.effort.anneal_every == 0

    def _annealed(self, board: np.ndarray) -> np.ndarray:
        """All tiles annealed on the torus around those on the board, which may leave it; cut open at the weakest lines."""
        placed, b = np.flatnonzero(board >= 0), self.belief
        crystal = Lists(board, int(placed[len(placed) // 2]), Room(*b.shape), AGAIN)
        crystal.grow(b.bonds, AGAIN.steps)
        order = likeliest(crystal, b)
        return order if self.frame is None else self.frame.opened(order)


def likeliest(crystal: Lists, belief: Affinities) -> np.ndarray:
    """The tile of every cell, by linear assignment on all shares, or of many tiles best first and then by contact."""
    if belief.listed:
        return filled(crystal.standing(), belief)
    return assign(torch.from_numpy(crystal.scores())).numpy()


def filled(board: np.ndarray, belief: Affinities) -> np.ndarray:
    """`fill` where every tile may stand everywhere, so that it cannot fail."""
    full = fill(board, belief)
    return board if full is None else full


def fill(board: np.ndarray, belief: Affinities, allowed: np.ndarray = NO_MASK, rounds: int = 3) -> np.ndarray | None:
    """Left-over tiles into the empty cells (-1) by linear assignment on the affinity to their neighbours.

    Repeated, since cells that were empty have become neighbours. None if the left-over tiles cannot go where they may.
    """
    order, (h, w) = board.copy(), belief.shape
    cells = np.flatnonzero(board < 0)
    if not cells.size:
        return order
    rest = np.setdiff1d(np.arange(board.size), board[board >= 0])
    y, x = cells // w, cells % w
    sides = (
        (x + 1 < w, 1, belief.right, False),
        (x > 0, -1, belief.right, True),
        (y + 1 < h, w, belief.below, False),
        (y > 0, -w, belief.below, True),
    )
    for _ in range(rounds):
        size = rest.size, cells.size
        score: Any = csr_array(size) if belief.listed else np.zeros(size, np.float32)
        for inside, step, matrix, before in sides:
            neighbour = np.where(inside, order[np.where(inside, cells + step, 0)], -1)
            known = np.flatnonzero(neighbour >= 0)
            if isinstance(matrix, Listed):
                part = (matrix.T if before else matrix).sparse[rest][:, neighbour[known]].tocoo()
                score = score + csr_array((part.data, (part.row, known[part.col])), size)
            elif before:
                score[:, known] += matrix[np.ix_(neighbour[known], rest)].T
            else:
                score[:, known] += matrix[np.ix_(rest, neighbour[known])]
        if allowed.size:
            score[~allowed[np.ix_(rest, cells)]] = -np.inf
        try:
            who, where = _touching(score) if belief.listed else linear_sum_assignment(-score)
        except ValueError:  # scipy's word for "no perfect matching"
            return None
        order[cells[where]] = rest[who]
    return order


def _touching(score: Any) -> tuple[np.ndarray, np.ndarray]:
    """Linear assignment of those that like any of the cells at all; the others into what is left, as they come."""
    who, where = best_matching(score)
    others, places = np.setdiff1d(np.arange(score.shape[0]), who), np.setdiff1d(np.arange(score.shape[1]), where)
    return np.concatenate((who, others)), np.concatenate((where, places))
