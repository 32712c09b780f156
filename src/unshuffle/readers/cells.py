"""Text files of rows and cells, whatever made them: spreadsheets of any country, statistics programs, editors."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput

FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes cells that begin so
MARKS = ("\t", ";", ",")  # the first that divides all lines alike: a comma may also be a decimal point
NAMES = {  # titles of what names or numbers the rows
    *("", "id", "ids", "city_id", "nr", "nr.", "no", "no.", "index", "key", "code"),
    *("name", "names", "city", "cities", "label", "labels", "place", "town", "title", "row", "item", "sample"),
}


@dataclass(frozen=True)
class Sheet:
    """The cells of a file: titles of the columns (None without a header) and the rows below, all of one length."""

    path: Path
    titles: list[str] | None
    body: list[list[str]]

    @property
    def width(self) -> int:
        return len(self.body[0])

    def title(self, column: int) -> str:
        """What to call a column: its title, or its number counted from 1."""
        return (self.titles[column] if self.titles else "") or str(column + 1)

    def column(self, k: int) -> list[str]:
        return [row[k] for row in self.body]

    def find(self, name: str, option: str) -> int:
        """The column of this title (or number, where there is no header); ``option`` is where the user wrote it."""
        titles = [self.title(k) for k in range(self.width)]
        for known in (titles, [title.casefold() for title in titles]):
            wanted = name if known is titles else name.casefold()
            if wanted in known:
                return known.index(wanted)
        listed = ", ".join(titles[:8]) + (", ..." if len(titles) > 8 else "")
        raise BadInput(f"{self.path} has no column {name!r} for {option}; its columns are {listed}.")


def read_cells(path: str | Path, words: bool = False) -> Sheet:
    """Commas, semicolons (then a comma may be the decimal point), tabs or blanks between cells; quotes around them; ``#`` comments.

    UTF-8, or else what Windows and older programs write in Western Europe. Which line is the header is told by content.
    Above ``words`` titles look like all the rest: the first line is then a row like the others.
    """
    path = Path(path)
    rows = _rows(_decoded(path), path)
    if not rows:
        raise BadInput(f"{path} is empty.")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if number > 1 and all(len(r) == width - 1 for r in rows[1:]) and not all(map(is_number, rows[0])):
            raise BadInput(
                f"{path}: the header has {width} cells but the rows have {width - 1}; name the first column too."
            )
        if len(row) != width:
            raise BadInput(f"{path}: line {number} has {len(row)} cells, but the first line has {width}.")
    if words or not _has_header(rows):
        return Sheet(path, None, rows)
    if len(rows) == 1:
        raise BadInput(f"{path} has a header but no rows.")
    return Sheet(path, [rows[0][0].lstrip("# "), *rows[0][1:]], rows[1:])


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number; in a table that is a name


def as_text(cell: object) -> object:
    """A name that a spreadsheet would compute, marked as text by an apostrophe; everything else as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA and not is_number(cell) else cell


def _from_text(cell: str) -> str:
    """The name that `as_text` marked."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in FORMULA else cell


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", errors="replace")
    if any(ord(c) < 32 and c not in "\t\n\r\f" for c in text[:100_000]) or "\0" in text:
        raise BadInput(f"{path} is not a text file; export the table as CSV in UTF-8.")
    return text


def _rows(text: str, path: Path) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    mark = _mark(text, path)
    rows = [line.split() for line in lines] if mark is None else _divided(text, mark, path)
    if rows:  # a line that begins with # and is not shaped like the last one is a comment
        rows = [row for row in rows if not row[0].startswith("#") or len(row) == len(rows[-1])]
    if rows and len(rows[0]) > 1 and all(row and row[-1] == "" for row in rows):  # separators at the ends of lines
        rows = [row[:-1] for row in rows]
    if mark not in (None, ","):
        rows = [[c.replace(",", ".") if is_number(c.replace(",", ".")) else c for c in row] for row in rows]
    return [[_from_text(cell) for cell in row] for row in rows]


def _mark(text: str, path: Path) -> str | None:
    """What divides cells: the first mark that divides all lines into equally many; None is blanks."""
    found: dict[str, list[int]] = {}
    wrong: BadInput | None = None
    for mark in MARKS:
        if mark not in text:
            continue
        try:
            rows = _divided(text, mark, path)
            found[mark] = [len(row) for row in rows if not row[0].startswith("#")] or [len(row) for row in rows]
        except BadInput as error:
            wrong = error
            continue
        if min(found[mark]) > 1 and len(set(found[mark])) == 1:
            return mark
    if wrong is not None:
        raise wrong
    # lines that differ: whatever is in all of them, or in the first; the caller says which line is wrong
    some = {mark: (min(widths), widths[0]) for mark, widths in found.items() if widths and widths[0] > 1}
    return max(some, key=lambda mark: some[mark]) if some else None


def _divided(text: str, mark: str, path: Path) -> list[list[str]]:
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=mark)]
    except csv.Error as error:
        raise BadInput(f"{path} cannot be divided into cells: {error}; is a quotation mark left open?") from None
    return [row for row in rows if any(row)]


def _has_header(rows: list[list[str]]) -> bool:
    """A first line of titles: text over numbers, more of it than numbers; or a first cell that titles what is below it."""
    first, body = rows[0], rows[1:]
    if first[0].lstrip("# ").casefold() in NAMES and not all(is_number(c) for c in first):
        return True
    over = [sum(is_number(row[k]) for row in body) * 2 >= len(body) > 0 for k in range(len(first))]
    titles = [not is_number(cell) for cell in first]
    if titles[0] and over[0]:
        return True
    text_over_numbers = sum(t and o for t, o in zip(titles, over, strict=True))
    return text_over_numbers > sum(not t for t in titles) or (not body and all(titles) and len(first) > 1)
