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

SCALES = ("smoke", "cpu", "sizes", "paper")  # from the smallest to the full protocol


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


def same(stored: Any, wanted: Any, essential: Any) -> bool:
    """Whether a result is of the wanted settings. `essential` holds those of them that are not at their defaults.

    What both say must be equal. A setting that was added since is not in the stored ones: it then had its present default,
    or the runs differ. So a new setting finds old results again, and a changed default does not.
    """
    if isinstance(stored, dict) and isinstance(wanted, dict):
        asked = essential if isinstance(essential, dict) else {}
        return all(
            same(stored[name], value, asked.get(name)) if name in stored else name not in asked
            for name, value in wanted.items()
        )
    if isinstance(stored, list) and isinstance(wanted, list):
        asked = essential if isinstance(essential, list) else [None] * len(wanted)
        return len(stored) == len(wanted) and all(map(same, stored, wanted, asked))
    return stored == wanted


@dataclass(frozen=True)
class Store:
    """A folder of results. Several processes may write to it: files are whole or not there, one per run."""

    folder: Path

    def path(self, task: str, key: str) -> Path:
        return self.folder / f"{task}-{key}.json"

    def read(self, task: str, key: str) -> Result | None:
        path = self.path(task, key)
        return _read(path) if path.exists() else None

    def by_task(self) -> dict[str, list[Result]]:
        """All results; none if the folder is not there yet."""
        found: dict[str, list[Result]] = {}
        for result in self if self.folder.is_dir() else ():
            found.setdefault(result.task, []).append(result)
        return found

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

    def lock(self, task: str, key: str) -> Path:
        """There while a process computes the run."""
        return self.folder / "unfinished" / f"{task}-{key}.lock"


def _read(path: Path) -> Result:
    try:
        contents = _printable(json.loads(path.read_text()))
        places = tuple(Place(**place) for place in contents.pop("places"))
        result = Result(**contents, places=places)
        numbers = [*result.metrics.values(), result.seconds, *(v for line in result.history.values() for v in line)]
        if not all(isinstance(v, (int, float)) for v in numbers):
            raise ValueError("a metric that is no number")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{path} is not a result of `unshuffle reproduce`: move it away.") from error
    if unknown := {place.scale for place in places} - set(SCALES):
        raise BadInput(f"{path} is of the scale {min(unknown)!r}, which is none of {', '.join(SCALES)}: move it away.")
    return result


def _printable(contents: Any) -> Any:
    """Without control characters: names and errors end up on screens."""
    if isinstance(contents, dict):
        return {_printable(name): _printable(value) for name, value in contents.items()}
    if isinstance(contents, list):
        return [_printable(value) for value in contents]
    if isinstance(contents, str):
        return "".join(c if c.isprintable() else " " for c in contents)
    return contents


def _text(result: Result) -> str:
    """JSON, readable and small: every top-level entry on its own line."""
    entries = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(result).items()]
    return "{\n " + ",\n ".join(entries) + "\n}\n"
