"""Tables from text files: names, numbers, and errors that say which cell."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np
from jaxtyping import Float

from ..errors import BadInput


@dataclass(frozen=True, eq=False)
class Table:
    rows: list[str]
    columns: list[str]
    values: Float[np.ndarray, "rows columns"]


def read_table(path: str | FilePath, drop: tuple[str, ...] = ()) -> Table:
    """A CSV of numbers, separated by commas, semicolons, tabs or blanks; with or without a header and row names.

    ``drop`` names columns to leave out, such as labels and notes.
    """
    path = FilePath(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file; export the table as CSV in UTF-8.") from None
    cells = _cells(text)
    if not cells:
        raise BadInput(f"{path} is empty.")
    width = len(cells[0])
    for number, row in enumerate(cells, 1):
        if len(row) == width - 1 and number > 1 and all(len(r) == width - 1 for r in cells[1:]):
            raise BadInput(
                f"{path}: the header has {width} cells but the rows have {width - 1}; name the first column too."
            )
        if len(row) != width:
            raise BadInput(f"{path}: line {number} has {len(row)} cells, but the first line has {width}.")
    header = _has_header(cells)
    body = cells[1:] if header else cells
    if not body:
        raise BadInput(f"{path} has a header but no rows.")
    titles = cells[0] if header else [str(k + 1) for k in range(width)]
    named = width > 1 and _has_names([row[0] for row in body], titles[0] if header else None)
    names = [row[0] for row in body] if named else [str(k + 1) for k in range(len(body))]
    _unique(names, "row", path)
    keep = [k for k in range(1 if named else 0, width) if titles[k] not in drop]
    unknown = [name for name in drop if name not in titles]
    if unknown:
        raise BadInput(f"{path} has no column {unknown[0]!r} to drop; its columns are {', '.join(titles[:8])}...")
    columns = [titles[k] or str(k + 1) for k in keep]
    if not columns:
        raise BadInput(f"{path} has no column of numbers{' left' if drop else ''}.")
    _unique(columns, "column", path)
    values = np.array([[_number(row[k], names[r], titles[k], path) for k in keep] for r, row in enumerate(body)])
    return Table(names, columns, values)


def _cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    mark = max((",", ";", "\t"), key=lambda m: (min(line.count(m) for line in lines[:20]), lines[0].count(m)))
    if mark not in lines[0]:
        return [line.split() for line in lines]
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
    if mark != ",":  # then a comma may be the decimal point
        rows = [
            [cell.replace(",", ".") if _is_number(cell.replace(",", ".")) else cell for cell in row] for row in rows
        ]
    return rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _has_header(cells: list[list[str]]) -> bool:
    first = cells[0]
    if first[0] == "" or any(not _is_number(cell) for cell in first[1:]):
        return True
    if _is_number(first[0]) or len(cells) == 1:
        return False
    return all(_is_number(row[0]) for row in cells[1:])  # a title over numbered rows


def _has_names(first: list[str], title: str | None) -> bool:
    if title == "" or any(not _is_number(cell) for cell in first):
        return True
    numbers = {float(cell) for cell in first}
    counted = len(numbers) == len(first) and numbers in ({*range(len(first))}, {*range(1, len(first) + 1)})
    return counted and len(first) > 2  # 1, 2, 3, ... in any order numbers the rows


def _unique(names: list[str], what: str, path: FilePath) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise BadInput(f"{path}: {count} {what}s are called {name!r}; give every {what} its own name.")


def _number(cell: str, row: str, column: str, path: FilePath) -> float:
    where = f"{path}: row {row!r}, column {column!r}"
    if cell == "":
        raise BadInput(f"{where} is empty; fill it in or drop the row.")
    try:
        value = float(cell)
    except ValueError:
        raise BadInput(f"{where} is {cell!r}, not a number; leave that column out with --drop {column!r}.") from None
    if not np.isfinite(value):
        raise BadInput(
            f"{where} is {cell}; missing and infinite values cannot be ordered, fill them in or drop the row."
        )
    return value
