"""Results as files, one per run, named by the run's hash. No torch here: reports read this and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..files import write_atomic

SCALES = ("smoke", "cpu", "paper")  # from the smallest to the full protocol


@dataclass(frozen=True)
class Place:
    """Where a result stands: table, section, row and column, and which seed of that cell it is.

    `cut` says in words what was smaller than in the paper's protocol; empty: nothing.
    """

    table: str
    section: str
    row: str
    column: str
    seed: int
    scale: str
    cut: str = ""


@dataclass(frozen=True)
class Result:
    """What is known of a run: its numbers, or why it failed."""

    task: str
    key: str
    settings: dict[str, Any]
    seed: int
    places: tuple[Place, ...]
    seconds: float
    metrics: dict[str, float]
    history: dict[str, list[float]]  # one entry per epoch
    versions: dict[str, str]
    commit: str | None = None
    error: str | None = None


def key_of(task: str, settings: dict[str, Any]) -> str:
    """The run's name: a hash of everything that decides its numbers, and of nothing else."""
    canonical = json.dumps({"task": task, "settings": settings}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def agree(stored: Any, wanted: Any) -> bool:
    """Whether settings are equal wherever both say something: one that was added since had its default before it was there."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        return all(agree(stored[name], wanted[name]) for name in stored.keys() & wanted.keys())
    if isinstance(stored, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(stored) == len(wanted) and all(map(agree, stored, wanted))
    return stored == wanted


@dataclass(frozen=True)
class Store:
    """A folder of results. Several processes may write to it: files are whole or not there, one per run."""

    folder: Path

    def path(self, task: str, key: str) -> Path:
        return self.folder / f"{task}-{key}.json"

    def read(self, task: str, key: str, settings: dict[str, Any]) -> Result | None:
        """The result of this run, if there is one: of the same name, and of the same settings.

        Names leave out settings at their defaults, so a default that was changed leaves a result under a name that now
        means another run: that one is computed again.
        """
        path = self.path(task, key)
        found = _read(path) if path.exists() else None
        return found if found is not None and agree(found.settings, settings) else None

    def write(self, result: Result) -> Path:
        return write_atomic(self.path(result.task, result.key), _text(result))

    def add_place(self, result: Result, place: Place) -> Result:
        """The same run may stand in several tables; it is computed once."""
        if place in result.places:
            return result
        result = replace(result, places=(*result.places, place))
        self.write(result)
        return result

    def __iter__(self) -> Iterator[Result]:
        if not self.folder.is_dir():
            raise BadInput(f"There are no results in {self.folder}: run `unshuffle reproduce` first, or name another.")
        for path in sorted(self.folder.glob("*-*.json")):
            yield _read(path)

    def work_folder(self, task: str, key: str) -> Path:
        """Where a run keeps its checkpoints while it is not finished."""
        return self.folder / "unfinished" / f"{task}-{key}"


def _read(path: Path) -> Result:
    try:
        contents = json.loads(path.read_text())
        places = tuple(Place(**place) for place in contents.pop("places"))
        return Result(**contents, places=places)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} is not a result of `unshuffle reproduce`: move it away.") from error


def _text(result: Result) -> str:
    """JSON, readable and small: every top-level entry on its own line."""
    entries = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(result).items()]
    return "{\n " + ",\n ".join(entries) + "\n}\n"
