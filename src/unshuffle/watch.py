"""The clock, the callback, the history and Ctrl-C of one solve, in one object that the loops call as they go."""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, ClassVar, Literal

from .errors import function, number

Status = Literal["finished", "time limit", "interrupted"]


@dataclass(frozen=True)
class Where:
    """Which items are placed now, by their numbers, and on which layout: for piles, where that is found on the way."""

    layout: Any
    items: Any


@dataclass(frozen=True)
class Step:
    """One line of the history."""

    seconds: float
    stage: str
    beta: float
    energy: float
    """The expected energy of the best soft run, or that of the best order so far; NaN where neither is known."""
    entropy: float
    """Mean entropy of an item, from 0 (decided) to 1 (anywhere)."""
    done: float = float("nan")
    """How much of the stage is done, 0 to 1, where that can be known."""
    soft: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """Copies the soft permutation of one run as it stands (items x positions, or x bins of positions), where the solver has
    one; only within the callback: the steps of a history have none."""
    expected: Callable[[], float] | None = field(default=None, repr=False, compare=False)
    """Computes the expected energy of that soft permutation, where the solver does without; within the callback as well."""
    states: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """The likeliest state of each of these items, where items have states; within the callback as well."""
    where: Where | None = field(default=None, repr=False, compare=False)

    @property
    def overall(self) -> float:
        """How far this is, from 0 to 1, where the stage says: before "round 3 of 4, level 2 of 2" lie 5 of 8 parts."""
        share, whole = 0.0, 1.0
        for part, parts in re.findall(r"(\d+) of (\d+)", self.stage):
            whole /= max(int(parts), 1)
            share += (int(part) - 1) * whole
        return min(share + (whole * self.done if math.isfinite(self.done) else 0.0), 1.0)

    @property
    def words(self) -> str:
        """In a line: the stage, and of energy and entropy what is known."""
        numbers = (("energy", self.energy), ("entropy", self.entropy))
        return "  ".join([self.stage, *(f"{name} {value:.6g}" for name, value in numbers if value == value)])


class Stopped(Exception):
    """Raised inside a stage that has nothing to show before its end, when the watch says to stop."""


class Watch:
    """``watch(stage=..., beta=..., energy=..., entropy=...)`` notes a step and says whether to go on.

    While it is entered, Ctrl-C does not break off a kernel half-way: the next call returns False, and the loop returns
    the best order found so far. A second Ctrl-C raises KeyboardInterrupt as usual. Of watches within watches all are stopped,
    also those that are entered afterwards.
    """

    entered: ClassVar[list[Watch]] = []
    """In the main thread, which alone hears Ctrl-C; the innermost last."""

    def __init__(
        self, time_limit: float | None = None, callback: Callable[[Step], object] | None = None, keep: float = 0.0
    ) -> None:
        """``keep`` is the share of the time that the loops leave to what comes after them; see `rest`."""
        if callback is not None:
            function("callback", callback, "lambda step: print(step.energy)")
        endless = time_limit is None or (isinstance(time_limit, float) and time_limit == math.inf)
        self.time_limit = None if endless else number("time_limit (in seconds)", time_limit, least=0)
        self.callback = callback
        self.closely = bool(getattr(callback, "closely", False))
        """Whether the callback, by an attribute of this name, asks for small steps: pictures need more of them than clocks."""
        self.keep = keep
        self.where: Where | None = None
        self.history: list[Step] = []
        self.begun = False
        """Whether there is something to keep: a step was made."""
        self.status: Status = "finished"
        self._before: object = None
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def __call__(
        self,
        *,
        stage: str = "",
        beta: float = 0.0,
        energy: float = float("nan"),
        entropy: float = float("nan"),
        done: float = float("nan"),
        soft: Callable[[], Any] | None = None,
        expected: Callable[[], float] | None = None,
        states: Callable[[], Any] | None = None,
    ) -> bool:
        self.begun = True
        self.history.append(Step(self.seconds, stage, float(beta), float(energy), float(entropy), float(done)))
        shown = {"soft": soft, "expected": expected, "states": states, "where": self.where}
        return self.show(self.history[-1] if soft is None else replace(self.history[-1], **shown))

    def show(self, step: Step) -> bool:
        """The same for a step that is no part of the history, which is the annealing's."""
        if self.callback is not None and self.callback(step) is False:
            self.status = "interrupted"
        until = math.inf if self.time_limit is None else self.time_limit * (1 - self.keep)
        if self.status == "finished" and step.seconds > until:
            self.status = "time limit"
        return self.status == "finished"

    def rest(self) -> Status:
        """What was kept is given to what follows the loops; returns how they ended."""
        ended, self.keep = self.status, 0.0
        if ended == "time limit" and self.spare():
            self.status = "finished"
        return ended

    def spare(self) -> bool:
        """Whether there is time left, also of what was kept for later: not after Ctrl-C."""
        late = self.time_limit is not None and self.seconds > self.time_limit
        return not late and self.status != "interrupted"

    @property
    def stopped(self) -> bool:
        return self.status != "finished"

    def __enter__(self) -> Watch:
        self._began = time.perf_counter()
        if threading.current_thread() is threading.main_thread():
            if any(watch.status == "interrupted" for watch in Watch.entered):
                self.status = "interrupted"
            self._before = signal.signal(signal.SIGINT, self._interrupt)
            Watch.entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self in Watch.entered:
            Watch.entered.remove(self)
        if self._before is not None:  # it is None if whoever listened before was not of Python
            signal.signal(signal.SIGINT, self._before)  # pyright: ignore[reportArgumentType]
            self._before = None

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self.status == "interrupted":
            raise KeyboardInterrupt
        for watch in {self, *Watch.entered}:
            watch.status = "interrupted"
            told = getattr(watch.callback, "stopping", None)
            if told is not None:  # a progress bar answers at once, the loops when their step is done
                told()


def interrupted() -> bool:
    """Whether Ctrl-C came and what was found is being looked at for the last time."""
    return any(watch.status == "interrupted" for watch in Watch.entered)


_dispensable = threading.local()


@contextmanager
def dispensable() -> Iterator[None]:
    """Work that whoever has pressed Ctrl-C does not wait for: it ends at the first kernel of it that would have to be compiled, or is
    being compiled at that moment, and what follows goes on with what there is."""
    before, _dispensable.here = getattr(_dispensable, "here", False), True
    try:
        with suppress(Stopped):
            yield
    finally:
        _dispensable.here = before


def not_awaited() -> bool:
    """Whether Ctrl-C came and this thread is in something dispensable."""
    return getattr(_dispensable, "here", False) and interrupted()


def in_vain() -> bool:
    """Whether Ctrl-C came before the first step of anything, so that there is nothing to wait for."""
    return interrupted() and not any(watch.begun for watch in Watch.entered)
