"""Results that were measured by themselves, as rows of the same tables: solvers, and networks judged on fixed test sets.

They come from `solve_jigsaw.json`, `solve_tours.json`, `reference_tours.json`, `learn_jigsaw.json` and `learn_tours.json`; each may
be missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..paper.store import Place, Result


def measured_elsewhere(folder: Path) -> list[Result]:
    return [
        *_solved_jigsaws(_read(folder / "solve_jigsaw.json")),
        *_solved_tours(_read(folder / "solve_tours.json")),
        *_nearest_neighbour(_read(folder / "reference_tours.json")),
        *_learned_jigsaws(_read(folder / "learn_jigsaw.json")),
        *_learned_tours(_read(folder / "learn_tours.json")),
    ]


def joined(runs: Iterable[Result], others: Iterable[Result]) -> list[Result]:
    """Both, but a cell only from one of them: from the store, unless the other has more seeds."""
    runs, others = list(runs), list(others)
    mine, theirs = _seeds(runs), _seeds(others)
    kept = [_without(r, {cell for cell, n in theirs.items() if n > mine.get(cell, 0)}) for r in runs]
    kept += [_without(r, {cell for cell, n in mine.items() if n >= theirs.get(cell, 0)}) for r in others]
    return [result for result in kept if result.places]


def _seeds(results: list[Result]) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], set[int]] = {}
    for result in results:
        for place in result.places:
            if result.error is None and place.scale != "smoke":
                found.setdefault(_cell(place), set()).add(place.seed)
    return {cell: len(seeds) for cell, seeds in found.items()}


def _cell(place: Place) -> tuple[str, ...]:
    return place.table, place.section, place.row, place.column


def _without(result: Result, cells: set[tuple[str, ...]]) -> Result:
    return replace(result, places=tuple(p for p in result.places if _cell(p) not in cells))


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise BadInput(f"{path} is not a JSON file: measure again, or move it away.") from error


def _result(table: str, row: str, column: str, seed: int, metrics: dict[str, float]) -> Result:
    place = Place(table, "", row, column, seed, "cpu")
    return Result(table, f"{table}-{row}-{column}-{seed}", {}, seed, (place,), 0.0, metrics, {}, {})


def _solved_jigsaws(file: dict[str, Any]) -> Iterator[Result]:
    for line in file.get("table", ()):
        if (size := re.fullmatch(r"faces (\d)x(\d)", line["problem"])) and (side := size[1]) in "567":
            yield _result("jigsaw", "solve", f"{side} x {side}", 0, {"tau": line["tau"]})


def _solved_tours(file: dict[str, Any]) -> Iterator[Result]:
    for name, line in file.items():
        if (size := re.fullmatch(r"uniform (\d+)", name)) and "ours" in line:
            yield _result("tsp", "solve", size[1], 0, {"gap": line["ours"]})


def _nearest_neighbour(file: dict[str, Any]) -> Iterator[Result]:
    for n, line in file.items():
        yield _result("tsp", "nearest neighbour", n, 0, {"gap": line["nearest_neighbour"]})


def _learned_jigsaws(file: dict[str, Any]) -> Iterator[Result]:
    for name, run in file.items():
        if found := re.fullmatch(r"strong (\d)x\d seed (\d+)", name):
            side, seed = found.groups()
            yield _result("jigsaw", "strong recipe", f"{side} x {side}", int(seed), run["test"])


def _learned_tours(file: dict[str, Any]) -> Iterator[Result]:
    """At every size that the network was judged at, with the steps it was trained with."""
    for name, line in file.get("strong", {}).items():
        if size := re.fullmatch(r"n = (\d+)", name):
            for seed, run in line.get("trained", {}).get("seeds", {}).items():
                yield _result("tsp", "strong recipe", size[1], int(seed), {"gap": run["gap"]})
