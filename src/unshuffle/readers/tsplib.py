"""TSPLIB95 (Reinelt 1991): files of symmetric and asymmetric instances, and its rules for rounding distances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput

RADIUS = 6378.388  # of the earth in km, as TSPLIB fixes it
PI = 3.141592  # TSPLIB's own pi: with the true one some GEO lengths differ by 1


def euc_2d(points: np.ndarray) -> np.ndarray:
    """Euclidean, rounded to the nearest whole number."""
    return np.floor(_euclid(points) + 0.5)


def ceil_2d(points: np.ndarray) -> np.ndarray:
    """Euclidean, rounded up."""
    return np.ceil(_euclid(points))


def att(points: np.ndarray) -> np.ndarray:
    """Pseudo-Euclidean: the root of a tenth of the squared distance, rounded so that it is never below it."""
    exact = np.sqrt((np.square(points[:, None] - points[None])).sum(-1) / 10)
    return np.ceil(exact)


def geo(points: np.ndarray) -> np.ndarray:
    """Great circles in km; coordinates are degrees and minutes, DDD.MM: latitude, longitude."""
    degrees = np.trunc(points)
    latitude, longitude = (PI * (degrees + 5 * (points - degrees) / 3) / 180).T
    q1 = np.cos(longitude[:, None] - longitude)
    q2 = np.cos(latitude[:, None] - latitude)
    q3 = np.cos(latitude[:, None] + latitude)
    angle = np.arccos(np.clip(0.5 * ((1 + q1) * q2 - (1 - q1) * q3), -1, 1))
    distance = np.floor(RADIUS * angle + 1)
    np.fill_diagonal(distance, 0)
    return distance


RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"EUC_2D": euc_2d, "CEIL_2D": ceil_2d, "ATT": att, "GEO": geo}


def _euclid(points: np.ndarray) -> np.ndarray:
    return np.hypot(points[:, None, 0] - points[None, :, 0], points[:, None, 1] - points[None, :, 1])


def read_tsplib(text: str, path: Path) -> tuple[str, Tensor, Tensor | None, list[str]]:
    """Name, costs, points (if there are any to draw) and labels of the cities."""
    keys, sections = _parse(text, path)
    n = _dimension(keys, path)
    rule = keys.get("EDGE_WEIGHT_TYPE", "")
    points, labels = _points(sections.get("NODE_COORD_SECTION"), n, path)
    if rule == "EXPLICIT":
        cost = _explicit(sections.get("EDGE_WEIGHT_SECTION", []), keys.get("EDGE_WEIGHT_FORMAT", ""), n, path)
        shown, _ = _points(sections.get("DISPLAY_DATA_SECTION"), n, path)
        points = shown if points is None else points
    elif rule in RULES:
        if points is None:
            raise BadInput(f"{path.name} has no NODE_COORD_SECTION, which {rule} needs.")
        cost = RULES[rule](points)
    else:
        known = ", ".join([*RULES, "EXPLICIT"])
        raise BadInput(f"{path.name} has EDGE_WEIGHT_TYPE {rule or 'missing'}; these are understood: {known}.")
    drawn = None if points is None else torch.from_numpy(points[:, ::-1].copy() if rule == "GEO" else points)
    return keys.get("NAME", path.stem), torch.from_numpy(cost), drawn, labels


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
    if not 1 <= n <= 20_000:
        raise BadInput(f"{path.name} has DIMENSION {n}; expected 1 to 20000 cities.")
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
            f"{path.name} promises {n} cities (label, x, y), but its coordinates are {len(words)} words, not {3 * n}."
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
