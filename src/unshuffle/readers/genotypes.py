"""Genotypes of a cross: rows are individuals, columns are markers, as R/qtl2 and spreadsheets write them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np
from jaxtyping import Int

from ..errors import BadInput
from .cells import NAMES, read_cells

MISSING = {"", "-", "--", "na", "n/a", "nan", "none", ".", "null", "?"}
MISSING_CODE = -1


@dataclass(frozen=True, eq=False)
class Genotypes:
    values: Int[np.ndarray, "individuals markers"]
    """0, 1, 2 for AA, AB, BB; -1 where nothing was read."""
    markers: list[str]
    individuals: list[str]
    codes: tuple[str, ...]
    """What 0, 1 and 2 were called."""


def read_genotypes(path: str | FilePath, transposed: bool = False) -> Genotypes:
    """A table with a header of marker names and, before them, a column of ids if it has one; ``#`` lines are comments.

    Genotypes are AA, AB, BB (any two letters), A, H, B (any letters, H is mixed), or 0, 1, 2 (or 1, 2, 3). Empty, -, NA is missing.
    """
    sheet = read_cells(path)
    rows = sheet.body if sheet.titles is None else [sheet.titles, *sheet.body]
    if transposed:
        rows = [list(row) for row in zip(*rows, strict=True)]
    titles, body = rows[0], rows[1:]
    if len(body) < 2:
        raise BadInput(f"{path} has {len(body)} rows of genotypes; rows are individuals, columns are markers.")
    named = titles[0].lstrip("# ").casefold() in NAMES or _is_names([row[0] for row in body])
    first = 1 if named else 0
    markers = titles[first:]
    name, count = Counter(markers).most_common(1)[0] if markers else ("", 0)
    if count > 1:
        raise BadInput(f"{path}: {count} markers are called {name!r}; give every marker its own name.")
    if len(markers) < 2:
        raise BadInput(f"{path} has {len(markers)} markers; an order needs at least two.")
    cells = np.array([[cell.strip().upper() for cell in row[first:]] for row in body])
    known, codes = _codes(cells, path)
    values = np.vectorize(lambda cell: known.get(cell, MISSING_CODE), otypes=[np.int64])(cells)
    people = [row[0] for row in body] if named else [str(k + 1) for k in range(len(body))]
    return Genotypes(values, markers, people, codes)


MORE = 0.3  # of a correlation: on made crosses of 5 to 400 markers columns lead by that and more, up to 0.8, unless markers are 30 cM apart
SOME = 300  # lines that are compared


def on_its_side(read: Genotypes) -> bool:
    """Whether rows are like other rows as only linked markers are: then they are the markers."""
    return _linkage(read.values) > _linkage(read.values.T) + MORE


def _linkage(values: Int[np.ndarray, "lines entries"]) -> float:
    """The mean correlation of a line with the one that tells most about it: linked markers agree, and individuals that
    have few crossovers are as often each other's opposites as they are alike."""
    lines = values[np.random.default_rng(0).permutation(len(values))[:SOME]]
    known = lines != MISSING_CODE
    mean = (lines * known).sum(1, keepdims=True) / np.maximum(known.sum(1, keepdims=True), 1)
    lines = np.where(known, lines - mean, 0.0)
    lines /= np.maximum(np.linalg.norm(lines, axis=1, keepdims=True), 1e-12)
    alike = lines @ lines.T
    np.fill_diagonal(alike, 0.0)
    return float(alike[np.arange(len(alike)), np.abs(alike).argmax(1)].mean())


def _is_names(cells: list[str]) -> bool:
    """Different in every row: ids, not genotypes."""
    return len(set(cells)) == len(cells) > 4


def _codes(cells: np.ndarray, path: object) -> tuple[dict[str, int], tuple[str, ...]]:
    """What each word of the table means."""
    words = sorted(set(cells.ravel().tolist()) - {word.upper() for word in MISSING})
    whole = {word: int(float(word)) for word in words if _whole(word)}
    if words and len(whole) == len(words) and set(whole.values()) <= {0, 1, 2, 3} and not {0, 3} <= set(whole.values()):
        least = 1 if 3 in whole.values() else 0
        return {word: value - least for word, value in whole.items()}, tuple(str(k + least) for k in range(3))
    pure = [word for word in words if word != "H" and len(set(word)) == 1]
    mixed = [word for word in words if word not in pure]
    two_letters = all(len(word) == 2 for word in words)
    fits = two_letters or (all(len(word) == 1 for word in words) and mixed in ([], ["H"]))
    if not words or not fits or len(pure) > 2 or (two_letters and len({"".join(sorted(m)) for m in mixed}) > 1):
        there = ", ".join(words[:8]) + (", ..." if len(words) > 8 else "") if words else "none"
        raise BadInput(
            f"{path}: genotypes must be AA, AB and BB, A, H and B, or 0, 1 and 2, with empty or - where missing; "
            f"there are {there}."
        )
    low, high = (*pure, "", "")[:2]
    meaning = dict.fromkeys(mixed, 1) | ({low: 0} if low else {}) | ({high: 2} if high else {})
    return meaning, (low, mixed[0] if mixed else "", high)


def _whole(word: str) -> bool:
    try:
        return float(word).is_integer()
    except ValueError:
        return False
