"""Taking turns with a stop-watch.

How long a call takes that allocates much depends on what the allocator was left with by earlier ones: the plain way differs by a third from one
process to the next. So a ratio is taken within each round of turns, and comes with its range over the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

ROUNDS, AT_LEAST = 7, 3  # fewer where calls are so slow that they take several times what was asked for
CALLS = 2  # of a turn, at least: who is called seldom must not miss a fast one for that alone


class Spread(NamedTuple):
    """The median of all rounds, the lowest and the highest of them."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Took:
    """Seconds of the fastest call of each rival, round by round."""

    rounds: Mapping[str, list[float]]

    def milliseconds(self, name: str) -> float:
        return 1e3 * median(self.rounds[name])

    def times(self, one: str, other: str) -> Spread:
        """How many times as long one took as the other."""
        found = [a / b for a, b in zip(self.rounds[one], self.rounds[other], strict=True)]
        return Spread(median(found), min(found), max(found))

    def more(self, one: str, other: str) -> Spread:
        """What share longer one took than the other."""
        return Spread(*(factor - 1 for factor in self.times(one, other)))


def turns(rivals: Mapping[str, Callable[[], object]], seconds: float) -> Took:
    """Rivals take turns, in rounds; a turn lasts a share of ``seconds`` or a few calls.

    A turn is several calls, because the threads of the one before go on spinning for a while and would be counted in.
    """
    for run in rivals.values():
        run()  # compiles, and warms the caches
    took: dict[str, list[float]] = {name: [] for name in rivals}
    late = time.perf_counter() + 4 * seconds * len(rivals)
    for done in range(ROUNDS):
        if done >= AT_LEAST and time.perf_counter() > late:
            break
        for name, run in rivals.items():
            took[name].append(_turn(run, seconds / ROUNDS))
    return Took(took)


def fastest(run: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call, after one that warms the caches."""
    run()
    return _turn(run, seconds)


def _turn(run: Callable[[], object], seconds: float) -> float:
    best, calls, began = float("inf"), 0, time.perf_counter()
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best, calls = min(best, now - start), calls + 1
        if calls >= CALLS and now - began > seconds:
            return best


def as_row(found: Any) -> dict[str, Any]:
    """A dataclass as plain data: a spread is its middle, and beside it its range."""
    row: dict[str, Any] = {}
    for name, value in asdict(found).items():
        if isinstance(value, Spread):
            row |= {name: value.middle, range_of(name): [value.low, value.high]}
        else:
            row[name] = value
    return row


def range_of(name: str) -> str:
    return f"{name}_range"


def shown_range(row: Mapping[str, Any], name: str, percent: bool = False) -> str:
    """As in 11.4 (10.9 to 12.0); older files have no ranges, or not the number itself."""
    if row.get(name) is None:
        return "-"
    form, unit = ("{:.0f}", " %") if percent else ("{:.1f}", "")
    middle, *ends = (form.format(100 * x if percent else x) for x in (row[name], *row.get(range_of(name), ())))
    return middle + unit + (f" ({ends[0]} to {ends[1]})" if ends else "")
