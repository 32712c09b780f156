"""One tour of many items, improved in rounds: stretches of it at the same time in several threads, cut elsewhere each time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from ...compute.jit import have_numba
from ...compute.threads import in_chunks
from ...watch import Watch
from .search import kicked, settle
from .space import Space

STRETCH = 10_000
"""Items that one thread works on. Reversals of long stretches cost most: tours of 100,000 in one piece take three times as long."""
LOOK = 50_000 if have_numba else 400  # items looked at between two looks at the clock: some tenths of a second
KICKS = 10_000 if have_numba else 20  # the same


class Circuit:
    """A closed tour; one with nobody (item n) in it is a path, cut open there."""

    def __init__(
        self, space: Space, order: Int[np.ndarray, "n"], rng: np.random.Generator, window: int | None = None
    ) -> None:
        """``window``: how far apart two positions may be that a change brings together."""
        self.space, self.order, self.rng = space, order, rng
        self.window = len(order) if window is None else window
        self.place = np.zeros(space.n + 1, np.int64)
        self.waiting = np.zeros(space.n + 1, np.bool_)
        self.closed = len(order) == space.n
        self.length = space.length(self.way, self.closed)

    @classmethod
    def of_path(
        cls, space: Space, order: Int[np.ndarray, "n"], rng: np.random.Generator, window: int | None = None
    ) -> Circuit:
        return cls(space, np.r_[order, space.n], rng, window)

    @property
    def way(self) -> Int[np.ndarray, "n"]:
        """The items in order; of a path, from after nobody to before."""
        if self.closed:
            return self.order
        nobody = int((self.order == self.space.n).argmax())
        return np.roll(self.order, -nobody)[1:]

    def settle(self, watch: Watch, stage: str) -> None:
        """Search everywhere until nothing helps: within stretches first, then across them."""
        n = len(self.order)
        for width in (STRETCH, n) if n > STRETCH else (n,):
            chain, cuts = self._opened(width)
            lines = [_line(self.rng.permutation(chain[a:b]), self.waiting) for a, b in cuts]
            while (left := sum(int(line[2][1]) for line in lines)) > 0:
                if not watch(stage=stage, energy=self.length, done=max(0.0, 1 - left / n)):
                    break
                most = max(LOOK // len(cuts), 100)
                self._search(chain, cuts, lambda parts, k: settle(*parts, lines[k], most))  # noqa: B023
            self.waiting[:] = False
            self.order = chain[:-1]

    def kick(self, number: int, watch: Watch, stage: str) -> None:
        """So many kicks, spread over all stretches, a look at the clock now and then."""
        done = 0
        while done < number and watch(stage=stage, energy=self.length, done=done / number):
            chain, cuts = self._opened(STRETCH)
            seeds = self.rng.integers(1, 2**40, len(cuts)).tolist()
            lines = [_line(chain[:0], self.waiting, b - a + 1) for a, b in cuts]
            each = -(-min(KICKS, number - done) // len(cuts))
            self._search(chain, cuts, lambda parts, k: kicked(*parts, lines[k], each, seeds[k]))  # noqa: B023
            self.order = chain[:-1]
            done += each * len(cuts)

    def _search(self, chain: np.ndarray, cuts: list[tuple[int, int]], kernel: Callable[..., float]) -> None:
        gained = np.zeros(len(cuts))

        def some(low: int, high: int) -> None:
            for k in range(low, high):
                stretch = (*cuts[k], self.window)
                gained[k] = kernel((self.space.costs, self.space.near, chain, self.place, stretch), k)

        in_chunks(some, len(cuts))
        self.length -= float(gained.sum())

    def _opened(self, width: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """The tour begun anywhere and ended by the item it begins with, and the first and last positions of its stretches."""
        turned = np.roll(self.order, int(self.rng.integers(len(self.order))))
        self.place[turned] = np.arange(len(turned))
        cuts = np.linspace(0, len(turned), max(1, round(len(turned) / width)) + 1).astype(int).tolist()
        ends = [*(cut - 1 for cut in cuts[1:-1]), len(turned)]
        return np.r_[turned, turned[0]], list(zip(cuts[:-1], ends, strict=True))


def _line(items: np.ndarray, waiting: np.ndarray, room: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A queue of items of one stretch: a ring buffer, who stands in it, and where it begins and how many they are."""
    some = items[items < len(waiting) - 1]
    queue = np.zeros(max(len(items), room) + 1, np.int64)
    queue[: len(some)] = some
    waiting[some] = True
    return queue, waiting, np.array([0, len(some)])
