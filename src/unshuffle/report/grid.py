"""A table as lines of text, once for all ways of writing it down."""

from __future__ import annotations

from dataclasses import dataclass

from .pairs import Pair, pairs, where
from .summary import PaperTable
from .words import CUT, FEWER, difference_text, elsewhere_text, ours_text, pair_text, paper_text


@dataclass(frozen=True)
class Line:
    """One line: the method (empty if it goes on), what is in it, and the cells."""

    method: str
    kind: str  # ours, paper or difference
    cells: tuple[str, ...]


@dataclass(frozen=True)
class TextTable:
    """One section of a table."""

    title: str
    columns_title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def grids(table: PaperTable) -> list[TextTable]:
    """Sections with something in them; per method what was measured, what the paper has, and the difference."""
    found = []
    for section, rows in table.sections.items():
        columns = tuple(c for c in table.columns if any(row[c].ours or row[c].paper for row in rows.values()))
        lines: list[Line] = []
        for row, cells in rows.items():
            texts = {
                "ours": tuple(ours_text(cells[c], table.digits) for c in columns),
                "paper": tuple(paper_text(cells[c], table.paper_digits) for c in columns),
                "difference": tuple(difference_text(cells[c], table.digits) for c in columns),
            }
            shown = [(kind, text) for kind, text in texts.items() if any(text)]
            lines += [Line("" if k else table.names[row], kind, text) for k, (kind, text) in enumerate(shown)]
        if lines:
            found.append(TextTable(section, table.columns_title, columns, tuple(lines)))
    return found


def footnotes(table: PaperTable) -> list[str]:
    return cuts(table) + elsewhere(table)


def cuts(table: PaperTable) -> list[str]:
    """What was cut or stopped early, by row."""
    found: dict[tuple[str, str], list[str]] = {}
    for rows in table.sections.values():
        for row, cells in rows.items():
            for column, cell in cells.items():
                for cut in cell.cuts:
                    columns = found.setdefault((row, cut), [])
                    columns += [column] * (column not in columns)
    alike: dict[tuple[str, str], list[str]] = {}
    for (row, cut), columns in found.items():
        alike.setdefault((cut, ", ".join(columns)), []).append(table.names[row])
    return [f"{CUT} {'; '.join(names)} ({table.columns_title} {c}): {cut}." for (cut, c), names in alike.items()]


def elsewhere(table: PaperTable) -> list[str]:
    """What smaller scales gave with more seeds than the one that is shown, cell by cell."""
    return [
        f"{FEWER} {table.names[row]} ({f'{section} {table.columns_title}'.strip()} {column}): {text}."
        for section, rows in table.sections.items()
        for row, cells in rows.items()
        for column, cell in cells.items()
        if (text := elsewhere_text(cell, table.digits))
    ]


def comparisons(table: PaperTable) -> list[tuple[str, ...]]:
    """Lines: where, first minus second, difference, interval, seeds, p."""

    def line(pair: Pair) -> tuple[str, ...]:
        methods = f"{table.names[pair.first]} - {table.names[pair.second]}"
        return where(pair, table), methods, *pair_text(pair, table.digits + (table.digits > 1))

    return [line(pair) for pair in pairs(table)]


COMPARISON_HEAD = ("where", "first - second", "difference", "95 % interval", "first better", "p")
