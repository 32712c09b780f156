"""Results gathered into the cells of the paper's tables, beside what the paper reports."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from statistics import mean, stdev
from typing import Any

from ..paper.store import SCALES, Result
from .ambiguity import at_equal_entropy

At = tuple[str, str, str]  # section, row, column


@dataclass(frozen=True)
class Cell:
    """One number of a table: per seed, ours; and the paper's mean and standard deviation, where it has them."""

    ours: dict[int, float] = field(default_factory=dict)
    paper: tuple[float, float | None] | None = None
    cuts: tuple[str, ...] = ()
    failed: int = 0  # runs that ended with an error, or no better than they began
    scales: dict[str, dict[int, float]] = field(
        default_factory=dict
    )  # ours at every scale: only equal ones are compared

    @property
    def mean(self) -> float | None:
        return mean(self.ours.values()) if self.ours else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds."""
        return stdev(self.ours.values()) if len(self.ours) > 1 else None

    @property
    def with_more_seeds(self) -> str | None:
        """A smaller scale that was run with more seeds than the one that is shown; the one with most."""
        most = max(self.scales, key=lambda scale: len(self.scales[scale]), default=None)
        return most if self.ours and most is not None and len(self.scales[most]) > len(self.ours) else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper[0]


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: cells by section, row and column, all in reading order."""

    name: str
    title: str
    note: str
    digits: int
    paper_digits: int  # as many as the paper gives
    lower_is_better: bool
    columns_title: str
    names: dict[str, str]  # of the rows, as people read them
    pairs: tuple[tuple[str, str], ...]  # rows to compare seed by seed
    columns: list[str]
    sections: dict[str, dict[str, dict[str, Cell]]]

    @property
    def missing(self) -> list[str]:
        """Cells of the paper that were not run, in words."""
        gaps: dict[tuple[str, str], list[str]] = defaultdict(list)
        for section, rows in self.sections.items():
            for row, cells in rows.items():
                for column, cell in cells.items():
                    if cell.paper is not None and not cell.ours:
                        gaps[section, row].append(column)
                if not any(cell.ours for cell in cells.values()) and gaps[section, row]:
                    gaps[section, row] = ["all"]
        cells = [cell for rows in self.sections.values() for row in rows.values() for cell in row.values()]
        if gaps and not any(cell.ours for cell in cells):
            return ["all of it"]
        where = {at: " ".join(filter(None, (at[0], self.names[at[1]]))) for at in gaps}
        return [f"{where[at]}: {', '.join(columns)}" for at, columns in gaps.items() if columns]


@cache
def reported() -> dict[str, Any]:
    """The paper's numbers."""
    return json.loads(files("unshuffle.paper").joinpath("reported.json").read_text())


def tables(results: Iterable[Result]) -> list[PaperTable]:
    results = list(results)
    results += at_equal_entropy(results)
    return [table(name, results) for name in reported()]


def table(name: str, results: Iterable[Result]) -> PaperTable:
    """Ours of the largest scale that was run, cell by cell; cells of the paper that were not run are there, and empty."""
    about = reported()[name]
    found = _gathered(about.get("of", name), about["metric"], results)
    found = {at: cell for at, cell in found.items() if at[1] in about["names"]}
    sections = list(dict.fromkeys([*about["sections"], *(section for section, _, _ in found)]))
    columns = sorted({*about["columns"], *(c for _, _, c in found)}, key=lambda c: _place(c, about["columns"]))
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    for section in sections:
        published = about["sections"].get(section, {})
        rows = [r for r in about["names"] if r in published or any((section, r, c) in found for c in columns)]
        cells[section] = {
            row: {
                c: replace(found.get((section, row, c), Cell()), paper=_paper(about, section, row, c)) for c in columns
            }
            for row in rows
        }
    return PaperTable(
        name=name,
        title=about["title"],
        note=about["note"],
        digits=about["digits"],
        paper_digits=about.get("paper_digits", about["digits"]),
        lower_is_better=about.get("lower_is_better", False),
        columns_title=about["columns_title"],
        names=about["names"],
        pairs=tuple((a, b) for a, b in about.get("pairs", ())),
        columns=columns,
        sections=cells,
    )


def _paper(about: dict[str, Any], section: str, row: str, column: str) -> tuple[float, float | None] | None:
    values = about["sections"].get(section, {}).get(row)
    if values is None or column not in about["columns"]:
        return None
    mean, spread = values[about["columns"].index(column)]
    return mean, spread


def _gathered(name: str, metric: str, results: Iterable[Result]) -> dict[At, Cell]:
    by_scale: dict[At, dict[str, list[tuple[int, str, Result]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for p in result.places:
            if p.table == name and (result.error is not None or metric in result.metrics):
                by_scale[p.section, p.row, p.column][p.scale].append((p.seed, p.cut, result))
    cells = {}
    for at, scales in by_scale.items():
        entries = scales[max(scales, key=SCALES.index)]
        good = {
            scale: {seed: r.metrics[metric] for seed, _, r in sorted(those, key=lambda one: one[0]) if r.error is None}
            for scale, those in scales.items()
        }
        cuts = tuple(sorted({cut for _, planned, r in entries for cut in (planned, stopped_early(r)) if cut}))
        failed = sum(r.error is not None or r.metrics.get("failed", 0.0) > 0 for *_, r in entries)
        cells[at] = Cell(good[max(scales, key=SCALES.index)], None, cuts, failed, good)
    return cells


def stopped_early(result: Result) -> str:
    """In words, if the training ended before its epochs were over."""
    asked, done = result.settings.get("recipe", {}).get("epochs"), result.metrics.get("epochs")
    if asked is None or done is None or done >= asked:
        return ""
    stopping = result.settings.get("stopping", {})
    if "every" in stopping:
        looks = f"{stopping['patience']} looks, one every {stopping['every']} epochs"
        return f"stopped early by the test lists, after {looks}, without a better Kendall tau"
    return f"stopped early, after {stopping.get('patience')} epochs without a better loss"


def _place(column: str, published: list[str]) -> tuple[float, str]:
    """The paper's order; numbers among them by size (10 comes after 5)."""
    falling = published == sorted(published, key=_number, reverse=True) and len(published) > 1
    return (-_number(column) if falling else _number(column), column)


def _number(column: str) -> float:
    """The last number in it: 256 x 100 is larger than 256 x 50, and 64 x 300 larger still; words come last."""
    try:
        return float(column.split()[-1])
    except (ValueError, IndexError):
        return math.inf
