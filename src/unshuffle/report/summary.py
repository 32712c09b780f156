"""Results gathered into the cells of the paper's tables, beside what the paper reports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import mean, stdev
from typing import Any

from ..paper.store import SCALES, Result


@dataclass(frozen=True)
class Cell:
    """One number of a table: per seed, ours; and the paper's mean and standard deviation, where it has them."""

    ours: dict[int, float] = field(default_factory=dict)
    paper: tuple[float, float | None] | None = None
    cuts: tuple[str, ...] = ()
    failed: int = 0

    @property
    def mean(self) -> float | None:
        return mean(self.ours.values()) if self.ours else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds."""
        return stdev(self.ours.values()) if len(self.ours) > 1 else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper[0]


@dataclass(frozen=True)
class Table:
    """A table of the paper: cells by section, row and column, all in reading order."""

    name: str
    title: str
    metric: str
    names: dict[str, str]  # of the rows, as people read them
    columns: list[str]
    sections: dict[str, dict[str, dict[str, Cell]]]


@cache
def reported() -> dict[str, Any]:
    """The paper's numbers."""
    return json.loads(files("unshuffle.paper").joinpath("reported.json").read_text())


def table(name: str, results: Iterable[Result]) -> Table:
    """Ours of the largest scale that was run, cell by cell; cells of the paper that were not run are there, and empty."""
    about = reported()[name]
    found = _gathered(name, about["metric"], results)
    sections = list(dict.fromkeys([*about["sections"], *(section for section, _, _ in found)]))
    columns = list(dict.fromkeys([*about["columns"], *sorted({c for _, _, c in found}, key=_natural)]))
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    for section in sections:
        published = about["sections"].get(section, {})
        rows = [r for r in about["names"] if r in published or any((section, r, c) in found for c in columns)]
        cells[section] = {r: {c: _cell(found, published, about, (section, r, c)) for c in columns} for r in rows}
    return Table(name, about["title"], about["metric"], about["names"], columns, cells)


def _cell(found: dict[Any, Cell], published: dict[str, Any], about: dict[str, Any], at: tuple[str, str, str]) -> Cell:
    _, row, column = at
    values = dict(zip(about["columns"], published.get(row, ()), strict=False)).get(column)
    paper = None if values is None else (values[0], values[1])
    ours = found.get(at, Cell())
    return Cell(ours.ours, paper, ours.cuts, ours.failed)


def _gathered(name: str, metric: str, results: Iterable[Result]) -> dict[tuple[str, str, str], Cell]:
    by_scale: dict[tuple[str, str, str], dict[str, list[tuple[int, str, Result]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        for p in result.places:
            if p.table == name:
                by_scale[p.section, p.row, p.column][p.scale].append((p.seed, p.cut, result))
    cells = {}
    for at, scales in by_scale.items():
        entries = scales[max(scales, key=SCALES.index)]
        good = {seed: r.metrics[metric] for seed, _, r in entries if r.error is None and metric in r.metrics}
        cuts = tuple(sorted({cut for _, cut, _ in entries if cut}))
        cells[at] = Cell(dict(sorted(good.items())), None, cuts, sum(r.error is not None for *_, r in entries))
    return cells


def _natural(column: str) -> tuple[float, str]:
    """10 comes after 5."""
    digits = "".join(c for c in column if c.isdigit())
    return (float(digits) if digits else 0.0, column)
