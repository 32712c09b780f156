"""Tours through cities: read what people have (CSV, TSPLIB), measure by TSPLIB's rules, solve, write a ``.tour``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import BadInput
from ..readers.tsplib import read_tsplib
from ..solve import solve
from ..solve.solution import Solution
from ..structure.layouts import Cycle

MOST = 20_000  # cities: the distance matrix in double precision then takes 3 GB


@dataclass(frozen=True)
class Cities:
    """An instance: pair costs, where the cities are if that is known, what the file called them."""

    name: str
    cost: Float[Tensor, "n n"]
    points: Float[Tensor, "n 2"] | None
    labels: list[str]
    whole: bool = False
    """Lengths are whole numbers, as TSPLIB rounds them."""

    @property
    def n(self) -> int:
        return len(self.cost)


def read_cities(path: Path) -> Cities:
    """A TSPLIB ``.tsp`` (or ``.atsp``) file, a CSV of coordinates (one city per line), or a CSV square distance matrix."""
    text = _text(path)
    if path.suffix.lower() in (".tsp", ".atsp") or "EDGE_WEIGHT_TYPE" in text[:5000]:
        name, cost, points, labels = read_tsplib(text, path)
        return Cities(name, cost, points, labels, whole=True)
    return _from_table(text, path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not a text file; give a CSV of coordinates or a TSPLIB .tsp file.") from None


def _from_table(text: str, path: Path) -> Cities:
    rows = [_fields(line) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not rows:
        raise BadInput(f"{path.name} is empty; give one city per line, for example 3.5,7.25.")
    header = [] if any(_numbers([cell]) for cell in rows[0][-2:]) else rows.pop(0)
    labels: list[str] = []
    if rows and len(rows[0]) > 1 and (not _numbers(rows[0][:1]) or header[:1] in (["name"], ["city"], ["id"], [""])):
        labels = [row[0] for row in rows]
        rows = [row[1:] for row in rows]
    table = _table(rows, path, first=2 if labels else 1)
    labels = labels or [str(i) for i in range(len(table))]
    if table.shape[0] == table.shape[1] and (table.shape[0] != 2 or bool((np.diag(table) == 0).all())):
        return Cities(path.stem, _checked(torch.from_numpy(table), path), None, labels)
    if table.shape[1] not in (2, 3):
        raise BadInput(
            f"{path.name} has {len(table)} rows of {table.shape[1]} numbers; expected two or three coordinates "
            "per city, or a square matrix of distances."
        )
    points = torch.from_numpy(table)
    if len(points) > MOST:
        raise BadInput(f"{path.name} has {len(points)} cities, but at most {MOST} fit in memory as a matrix.")
    cost = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return Cities(path.stem, _checked(cost, path), points[:, :2].clone(), labels)


def _fields(line: str) -> list[str]:
    for separator in (",", ";", "\t"):
        if separator in line:
            return [field.strip().strip('"') for field in line.rstrip(separator + " ").split(separator)]
    return line.split()


def _numbers(fields: list[str]) -> bool:
    try:
        return bool(fields) and all(math.isfinite(float(field)) for field in fields)
    except ValueError:
        return False


def _table(rows: list[list[str]], path: Path, first: int) -> np.ndarray:
    if not rows:
        raise BadInput(f"{path.name} has a header but no cities.")
    width = len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise BadInput(f"Row {number} of {path.name} has {len(row)} columns, but the first has {width}.")
        for column, cell in enumerate(row, start=first):
            if not _numbers([cell]):
                raise BadInput(f"Row {number}, column {column} of {path.name} is {cell[:40]!r}, not a finite number.")
    return np.array([[float(field) for field in row] for row in rows])


def _checked(cost: Tensor, path: Path) -> Tensor:
    if bool((cost < 0).any()):
        raise BadInput(f"{path.name} has negative distances; a tour needs distances of 0 or more.")
    if not bool(torch.isfinite(cost).all()):
        raise BadInput(
            f"The distances of {path.name} are too large to be numbers; divide the coordinates by a power of ten."
        )
    return cost


def tour_length(cities: Cities, order: Int[Tensor, "n"]) -> float:
    return float(Cycle(cities.n).energy(order, cities.cost))


def solve_tour(cities: Cities, **options) -> Solution:
    """``us.solve(Cycle(n), cost=...)`` with its options."""
    return solve(Cycle(cities.n), cost=cities.cost, **options)


def tour_text(cities: Cities, order: Int[Tensor, "n"]) -> str:
    """The tour as a TSPLIB ``.tour`` file; cities are numbered from 1, as in the ``.tsp``."""
    length = tour_length(cities, order)
    comment = f"{length:.0f}" if cities.whole else f"{length:.10g}"
    head = [
        f"NAME : {cities.name}.tour",
        f"COMMENT : length {comment}",
        "TYPE : TOUR",
        f"DIMENSION : {cities.n}",
        "TOUR_SECTION",
    ]
    return "\n".join([*head, *(str(int(city) + 1) for city in order), "-1", "EOF", ""])
