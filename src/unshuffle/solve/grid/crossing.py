"""Layouts that ended differently, crossed: the seams that two of them share are kept whole, everything else is grown again.

What two searches found on different ways is seldom wrong, and where they differ at least one of them is: so children are taken apart
exactly where that helps. Many short searches and their children climb higher than a few long ones in the same time. Of nine photos of 12 x 9
tiles with one and with two pixels worn off each edge, the true picture has a better score than the one found in 8 of 18 cases without
crossing and in 3 with it; on these photos the settings below were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ...compute.threads import in_chunks
from .affinity import Affinities
from .reassembly import Effort, Reassembly, fill
from .regrow import regrow_by_segments
from .seams import NO_MASK
from .segments import shift_segments

MEMBERS = 32
SHORT = Effort(most=2, patience=2)  # of the searches that make the first members: more rounds make them alike
CHILDREN = 8  # at a time, one after the other in as many threads as there are
MOST, PATIENCE = 80, 4  # times, and of these in a row without a child that is better than the worst member
NOISE = 0.5  # largest standard deviation of the random errors of log affinity by which children grow
ENOUGH = 1e-4  # of score: less is the same layout, or one with tiles exchanged that nobody can tell apart


class Member(NamedTuple):
    score: float
    order: np.ndarray


class Crossing:
    """A population of layouts on its way up; `advance` makes some children, so that the clock is looked at in between."""

    def __init__(self, ends: Sequence[np.ndarray], belief: Affinities, rng: np.random.Generator, allowed: np.ndarray = NO_MASK) -> None:  # fmt: skip
        self.belief, self.rng, self.allowed = belief, rng, allowed
        self.members = [Member(belief.total(end), end) for end in ends]
        self.round = self.last_success = 0

    @property
    def best(self) -> Member:
        return max(self.members, key=lambda member: member.score)

    @property
    def done(self) -> bool:
        return len(self.members) < 2 or self.round >= MOST or self.round - self.last_success >= PATIENCE

    def join(self, starts: Sequence[np.ndarray], more: Callable[[], bool] = lambda: True) -> None:
        """As many short searches as there is room for, from each of the starts in turn, while there is time for ``more``."""
        found: list[np.ndarray] = [self.best.order] * (MEMBERS - len(self.members))
        rngs = self.rng.spawn(len(found))

        def one(k: int) -> None:
            if more():
                search = Reassembly(starts[k % len(starts)], self.belief, rngs[k], SHORT, allowed=self.allowed)
                search.advance(SHORT.most, more)
                found[k] = search.order

        self._each(one, len(found))
        for order in found:
            self._take(order)

    def advance(self) -> None:
        self.round += 1
        pairs = [self.rng.choice(len(self.members), 2, replace=False) for _ in range(CHILDREN)]
        children: list[np.ndarray | None] = [None] * CHILDREN
        rngs = self.rng.spawn(CHILDREN)

        def one(k: int) -> None:
            children[k] = self._child(self.members[pairs[k][0]].order, self.members[pairs[k][1]].order, rngs[k])

        self._each(one, CHILDREN)
        taken = [child is not None and self._take(child) for child in children]
        if any(taken):
            self.last_success = self.round

    def _each(self, one: Callable[[int], None], count: int) -> None:
        def some(low: int, high: int) -> None:
            for k in range(low, high):
                one(k)

        in_chunks(some, count, float(len(self.members[0].order)) ** 2 * count)

    def _take(self, order: np.ndarray) -> bool:
        """Whether a layout joins: it is not there yet, and better than the worst, whose place it takes if there is no room."""
        new = Member(self.belief.total(order), order)
        if any(abs(new.score - member.score) < ENOUGH for member in self.members):
            return False
        if len(self.members) < MEMBERS:
            self.members.append(new)
            return True
        worst = min(range(MEMBERS), key=lambda k: self.members[k].score)
        better = new.score > self.members[worst].score
        if better:
            self.members[worst] = new
        return better

    def _child(self, one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        b = self.belief
        label = in_common(one, other, b.shape)
        if (label == label[0]).all():
            return None
        seams = b.mistaken(NOISE * rng.random(), rng)
        board = regrow_by_segments(one, seams, b.bonds, label, self.allowed, SHORT.toll)
        full = fill(board, b, self.allowed)
        return None if full is None else shift_segments(full, b.worth, b.glue, b.bonds, allowed=self.allowed)


def in_common(one: np.ndarray, other: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A label per tile: tiles joined by seams that both layouts have."""
    n, (h, w) = one.size, shape
    row, column = np.empty((2, n), np.int64)
    row[other], column[other] = np.divmod(np.arange(n), w)
    tiles, joined = one.reshape(h, w), []
    for a, b, down, across in ((tiles[:, :-1], tiles[:, 1:], 0, 1), (tiles[:-1], tiles[1:], 1, 0)):
        a, b = a.reshape(-1), b.reshape(-1)
        both = (row[b] - row[a] == down) & (column[b] - column[a] == across)
        joined.append(np.stack((a[both], b[both])))
    a, b = np.concatenate(joined, 1)
    graph = coo_matrix((np.ones(a.size), (a, b)), (n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)
