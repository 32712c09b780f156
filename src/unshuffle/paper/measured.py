"""Rows that a benchmark measured on data that is not shipped: results in the store like those of all runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..recipes.settings import plain
from .executor import commit_of_source
from .run import versions
from .store import Place, Result, Store, key_of

TASK = "measured"


@dataclass(frozen=True)
class Measured:
    """What decided the numbers, in the benchmark's own words."""

    by: str
    problem: str
    seed: int = 0


def note(folder: Path, row: Measured, place: Place, metrics: dict[str, float], seconds: float = 0.0) -> Path:
    """Write down what was measured; a later measurement of the same takes its place."""
    settings = plain(row)
    key = key_of(TASK, settings | {"row": place.row})
    found = Result(TASK, key, settings, row.seed, (place,), seconds, metrics, {}, versions(), commit_of_source())
    return Store(folder).write(found)
