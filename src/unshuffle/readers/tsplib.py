"""TSPLIB95 (Reinelt 1991): files of symmetric and asymmetric instances, and its rules for rounding distances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput

RADIUS = 6378.388  # of the earth in km, as TSPLIB fixes it
MOST_EXPLICIT = 20_000  # cities: the matrix in double precision then takes 3 GB
PI = 3.141592  # TSPLIB's own pi: with the true one some GEO lengths differ by 1


Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From coordinates (..., 2) of one city and of another to the distance between them."""


def euc_2d(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Euclidean, rounded to the nearest whole number."""
    return np.floor(_euclid(p, q) + 0.5)


def ceil_2d(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Euclidean, rounded up."""
    return np.ceil(_euclid(p, q))


def att(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Pseudo-Euclidean: the root of a tenth of the squared distance, rounded so that it is never below it."""
    return np.ceil(np.sqrt(np.square(p - q).sum(-1) / 10))


def geo(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Great circles in km; coordinates are degrees and minutes, DDD.MM: latitude, longitude. 1 from a city to itself."""
    (latitude, longitude), (other, further) = (np.moveaxis(radians(points), -1, 0) for points in (p, q))
    q1 = np.cos(longitude - further)
    q2 = np.cos(latitude - other)
    q3 = np.cos(latitude + other)
    angle = np.arccos(np.clip(0.5 * ((1 + q1) * q2 - (1 - q1) * q3), -1, 1))
    return np.floor(RADIUS * angle + 1)


def radians(points: np.ndarray) -> np.ndarray:
    """Of degrees and minutes, DDD.MM."""
    degrees = np.trunc(points)
    return PI * (degrees + 5 * (points - degrees) / 3) / 180


RULES: dict[str, Rule] = {"EUC_2D": euc_2d, "CEIL_2D": ceil_2d, "ATT": att, "GEO": geo}


def _euclid(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.hypot(p[..., 0] - q[..., 0], p[..., 1] - q[..., 1])


class Instance(NamedTuple):
    """What a file says: distances as a matrix, or coordinates and the rule to measure them by; and where to draw cities, if anywhere."""

    name: str
    cost: Tensor | None
    points: np.ndarray | None
    rule: Rule | None
    drawn: Tensor | None
    labels: list[str]


def matrix_of(points: np.ndarray, rule: Rule) -> Tensor:
    """All distances, 0 from a city to itself."""
    cost = rule(points[:, None], points[None])
    np.fill_diagonal(cost, 0)
    return torch.from_numpy(cost)


def read_tsplib(text: str, path: Path) -> Instance:
    keys, sections = _parse(text, path)
    n = _dimension(keys, path)
    rule = keys.get("EDGE_WEIGHT_TYPE", "")
    if rule == "EXPLICIT" and n > MOST_EXPLICIT:
        raise BadInput(f"{path.name} has DIMENSION {n}; as a matrix at most {MOST_EXPLICIT} cities fit in memory.")
    if rule != "EXPLICIT" and rule not in RULES:
        known = ", ".join([*RULES, "EXPLICIT"])
        raise BadInput(f"{path.name} has EDGE_WEIGHT_TYPE {rule or 'missing'}; these are understood: {known}.")
    if rule in RULES and "NODE_COORD_SECTION" not in sections:
        raise BadInput(f"{path.name} has no NODE_COORD_SECTION, which {rule} needs.")
    points, labels = _points(sections.get("NODE_COORD_SECTION"), n, path)
    cost: Tensor | None = None
    if rule == "EXPLICIT":
        cost = torch.from_numpy(
            _explicit(sections.get("EDGE_WEIGHT_SECTION", []), keys.get("EDGE_WEIGHT_FORMAT", ""), n, path)
        )
        shown, _ = _points(sections.get("DISPLAY_DATA_SECTION"), n, path)
        points = shown if points is None else points
    drawn = None if points is None else torch.from_numpy(points[:, ::-1].copy() if rule == "GEO" else points)
    return Instance(keys.get("NAME", path.stem), cost, points, RULES.get(rule), drawn, labels)


def _parse(text: str, path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """KEY : VALUE lines, and the words of each section."""
    keys: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    words: list[str] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        head = stripped.split(":")[0].strip().upper()
        if head == "EOF":
            break
        if head.endswith("_SECTION"):
            words = sections.setdefault(head, [])
        elif ":" in stripped and head.replace("_", "").isalpha():
            keys[head] = stripped.split(":", 1)[1].strip()
            words = None
        elif words is not None:
            words.extend(stripped.split())
        elif stripped:
            raise BadInput(f"{path.name} has a line that is neither KEY : VALUE nor data: {stripped[:60]}.")
    if keys.get("TYPE", "TSP").split()[:1] not in (["TSP"], ["ATSP"], []):
        raise BadInput(f"{path.name} is of TYPE {keys['TYPE']}; only TSP and ATSP are tours to find.")
    return keys, sections


def _dimension(keys: dict[str, str], path: Path) -> int:
    try:
        n = int(keys["DIMENSION"])
    except (KeyError, ValueError):
        raise BadInput(f"{path.name} has no usable DIMENSION line, which TSPLIB files need.") from None
    if n < 1:
        raise BadInput(f"{path.name} has DIMENSION {n}; expected one city or more.")
    return n


def _floats(words: list[str], path: Path) -> np.ndarray:
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError as error:
        raise BadInput(f"{path.name} has something that is not a number among its numbers ({error}).") from None
    if not np.isfinite(numbers).all():
        raise BadInput(f"{path.name} has numbers that are NaN or infinite.")
    return numbers


def _points(words: list[str] | None, n: int, path: Path) -> tuple[np.ndarray | None, list[str]]:
    if words is None:
        return None, [str(i + 1) for i in range(n)]
    if len(words) != 3 * n:
        raise BadInput(
            f"{path.name} promises {n} cities (DIMENSION: label, x, y of each), but its coordinates are {len(words)} words, not {3 * n}."
        )
    rows = np.array(words, dtype=object).reshape(n, 3)
    return _floats(list(rows[:, 1:].reshape(-1)), path).reshape(n, 2), [str(label) for label in rows[:, 0]]


def _explicit(words: list[str], form: str, n: int, path: Path) -> np.ndarray:
    """A matrix in any of TSPLIB's formats. Column-wise triangles are the row-wise ones of the transposed matrix."""
    cost = np.zeros((n, n))
    if form == "FULL_MATRIX":
        places = np.indices((n, n)).reshape(2, -1)
    else:
        diagonal = form.endswith(("_DIAG_ROW", "_DIAG_COL"))
        side = form.split("_")[0]
        if side not in ("UPPER", "LOWER") or form.split("_")[-1] not in ("ROW", "COL"):
            raise BadInput(
                f"{path.name} has EDGE_WEIGHT_FORMAT {form or 'missing'}, which is not one of TSPLIB's matrices."
            )
        # an upper triangle by columns lists the same numbers as a lower one by rows
        upper = (side == "UPPER") == form.endswith("_ROW")
        places = np.array(
            np.triu_indices(n, 0 if diagonal else 1) if upper else np.tril_indices(n, 0 if diagonal else -1)
        )
    values = _floats(words, path)
    if len(values) != places.shape[1]:
        raise BadInput(
            f"{path.name} promises {n} cities as {form}, which is {places.shape[1]} numbers, but {len(values)} came."
        )
    cost[places[0], places[1]] = values
    if form != "FULL_MATRIX":
        cost[places[1], places[0]] = values
    np.fill_diagonal(cost, 0)
    return cost
