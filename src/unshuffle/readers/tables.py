"""Tables from text files: names, numbers, what was left out, and errors that say which cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path as FilePath

import numpy as np
from jaxtyping import Float

from ..errors import BadInput
from .cells import NAMES, Sheet, is_number, read_cells

THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u202f’]\d{3})+([.,]\d+)?")  # 1.234,5 or 1'234.5


@dataclass(frozen=True, eq=False)
class Table:
    rows: list[str]
    columns: list[str]
    values: Float[np.ndarray, "rows columns"]
    named_by: str | None = None
    """The column that names the rows; without one they are called 1, 2, 3, ..."""
    ignored: tuple[str, ...] = ()
    """Columns that were left out: dropped, or without a number in them."""


def read_table(path: str | FilePath, drop: tuple[str, ...] = (), use: tuple[str, ...] = ()) -> Table:
    """A table of numbers in any of the forms that `read_cells` knows; with or without a header and row names. Columns that are called
    as the rows are, of distances or contacts, come in the order of the rows.

    ``drop`` names columns to leave out, such as labels and notes; columns without any number are left out anyhow. ``use`` names
    the columns of numbers, if not all.
    """
    sheet = read_cells(path)
    dropped = {sheet.find(name, "--drop") for name in drop}
    used = [sheet.find(name, "--use") for name in use]
    named = name_column(sheet, dropped | {*used}, left=0 if used else 1)
    rest = [k for k in range(sheet.width) if k != named and k not in dropped]
    keep = used or [k for k in rest if any(is_number(cell) for cell in sheet.column(k))]
    if not keep:
        raise BadInput(f"{sheet.path} has no column of numbers{' left' if drop else ''}.")
    _unique([sheet.title(k) for k in keep], "column", sheet)
    names = sheet.column(named) if named is not None else [str(k + 1) for k in range(len(sheet.body))]
    _unique(names, "row", sheet)
    if named is not None:
        keep = like_rows(sheet, keep, names)
    columns = [sheet.title(k) for k in keep]
    ignored = tuple(sheet.title(k) for k in range(sheet.width) if k != named and k not in keep)
    named_by = None if named is None else sheet.title(named)
    return Table(names, columns, numbers(sheet, keep, names), named_by, ignored)


def like_rows(sheet: Sheet, columns: list[int], rows: Sequence[str]) -> list[int]:
    """The columns of a square matrix in the order of its rows, if they are called as the rows are; others as they come."""
    titled = {sheet.title(k): k for k in columns}
    return [titled[name] for name in rows] if {*titled} == {*rows} and len(columns) == len(rows) else columns


def placed(names: Sequence[str], table: Table, path: str | FilePath, who: str) -> list[int]:
    """Where in ``names`` the rows of ``table`` are; names that are none of its rows are taken as they come."""
    where = {name: k for k, name in enumerate(names)}
    if {*where} == {*table.rows}:
        return [where[name] for name in table.rows]
    strange = [name for name in names if name not in {*table.rows}]
    if table.named_by is not None and 0 < len(strange) < len(names):
        raise BadInput(
            f"{path} names {strange[0][:40]!r}, which is no row of {who} ({table.rows[0]} to {table.rows[-1]})."
        )
    return [*range(len(names))]


def name_column(sheet: Sheet, dropped: set[int], left: int = 1) -> int | None:
    """The column that names or numbers the rows: text, a title that says so, or 1, 2, 3, ...; ``left`` columns must remain."""
    columns = [k for k in range(sheet.width) if k not in dropped]
    if len(columns) <= left:
        return None
    if columns[0] == 0 and (any(not is_number(cell) for cell in sheet.column(0)) or _titled(sheet, 0, {""})):
        return 0
    for k in columns:
        if _titled(sheet, k, NAMES) and _different(sheet.column(k)):
            return k
    for k in columns:
        if not any(is_number(cell) for cell in sheet.column(k)) and _different(sheet.column(k)):
            return k
    return columns[0] if _counted(sheet.column(columns[0])) else None


def _titled(sheet: Sheet, k: int, words: set[str]) -> bool:
    return sheet.titles is not None and sheet.titles[k].casefold() in words


def _different(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells)


def _counted(cells: list[str]) -> bool:
    """1, 2, 3, ... (or from 0) in any order, or whole numbers one after the other from anywhere."""
    if len(cells) < 3 or not all(is_number(cell) for cell in cells):
        return False
    values = [float(cell) for cell in cells]
    ascending = all(b - a == 1 for a, b in pairwise(values)) and values[0].is_integer()
    return ascending or {*values} in ({*range(len(values))}, {*range(1, len(values) + 1)})


def numbers(sheet: Sheet, columns: Sequence[int], names: Sequence[str]) -> Float[np.ndarray, "rows columns"]:
    """The cells of these columns as finite numbers, or an error that names the cell."""
    return np.array(
        [[_number(row[k], names[r], sheet.title(k), sheet) for k in columns] for r, row in enumerate(sheet.body)]
    )


def _unique(names: list[str], what: str, sheet: Sheet) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise BadInput(f"{sheet.path}: {count} {what}s are called {name!r}; give every {what} its own name.")


def _number(cell: str, row: str, column: str, sheet: Sheet) -> float:
    where = f"{sheet.path}: row {row!r}, column {column!r}"
    if cell == "":
        raise BadInput(f"{where} is empty; fill it in or drop the row.")
    if not is_number(cell):
        if THOUSANDS.fullmatch(cell):
            raise BadInput(f"{where} is {cell[:40]!r}; write its number without a sign between the thousands.")
        raise BadInput(f"{where} is {cell[:40]!r}, not a number; leave that column out with --drop {column!r}.")
    value = float(cell)
    if not np.isfinite(value):
        raise BadInput(
            f"{where} is {cell}; missing and infinite values cannot be ordered, fill them in or drop the row."
        )
    return value
