"""Tours through cities: read what people have (CSV, TSPLIB), measure by TSPLIB's rules, solve, write a ``.tour``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import BadInput
from ..readers.cells import Sheet, is_number, read_cells
from ..readers.tables import like_rows, name_column, numbers
from ..readers.tsplib import Rule, geo, matrix_of, radians, read_tsplib
from ..solve import solve
from ..solve.cycle.solver import LARGE, MOST_TOGETHER, default_rounds, default_runs
from ..solve.kinds import WHOLE
from ..solve.solution import Polished, Solution
from ..structure.layouts import Cycle


@dataclass(frozen=True)
class Places:
    """Cities that are too many for a matrix of their distances."""

    points: Float[np.ndarray, "n d"]
    rule: Rule
    """Measures pairs of these points."""
    space: Float[np.ndarray, "n d"]
    """Where the cities are, so that straight lines are as long as the distances, or grow with them: on the globe, points of a sphere."""


@dataclass(frozen=True)
class Cities:
    """An instance: pair costs, where the cities are if that is known, what the file called them."""

    name: str
    cost: Float[Tensor, "n n"] | None
    """All distances; None for many cities with coordinates, which have ``places``."""
    points: Float[Tensor, "n 2"] | None
    labels: list[str]
    whole: bool = False
    """Lengths are whole numbers, as TSPLIB rounds them."""
    understood: str = ""
    """How the file was read, in words."""
    places: Places | None = None

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def counted(self) -> str:
        return _counted(self.n)


def _counted(n: int) -> str:
    return "1 city" if n == 1 else f"{n} cities"


def read_cities(path: Path, columns: Sequence[str] = (), drop: Sequence[str] = ()) -> Cities:
    """A TSPLIB ``.tsp`` (or ``.atsp``) file, or any table of coordinates (one city per line) or of distances (square).

    ``columns`` names the coordinates, ``drop`` what is none; without them titles such as x, y, lon, lat and the content decide.
    """
    path = Path(path)
    with path.open("rb") as file:
        beginning = file.read(5000)
    if path.suffix.lower() in (".tsp", ".atsp") or b"EDGE_WEIGHT_TYPE" in beginning:
        if columns or drop:
            raise BadInput(f"{path.name} is a TSPLIB file, which has no columns to choose or to drop.")
        name, cost, points, rule, drawn, labels = read_tsplib(_text(path), path)
        words, places = f"{_counted(len(labels))}, distances as TSPLIB has them", None
        if rule is geo and points is not None and np.abs(points).max(0)[0] > 90:
            raise BadInput(f"{path.name} has latitudes beyond 90 degrees; of each city the latitude comes first.")
        if cost is None and points is not None and rule is not None:
            cost, places = _measured(points, rule, on_sphere(radians(points)[:, ::-1]) if rule is geo else points)
        return Cities(name, cost, drawn, labels, whole=True, understood=words, places=places)
    return _from_sheet(read_cells(path), columns, drop)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return path.read_text(
            encoding="cp1252", errors="replace"
        )  # names and comments; numbers are the same everywhere


def _from_sheet(sheet: Sheet, columns: Sequence[str], drop: Sequence[str]) -> Cities:
    dropped = {sheet.find(name, "--drop") for name in drop}
    chosen = [sheet.find(name, "--use") for name in columns] or _titled_axes(sheet, dropped)
    if _axes_of(sheet, chosen) == GLOBE[::-1]:
        chosen = chosen[::-1]
    named = name_column(sheet, dropped | {*chosen}, left=0 if chosen else 2)
    numeric = [k for k in range(sheet.width) if k not in dropped and any(is_number(cell) for cell in sheet.column(k))]
    if not chosen and named in numeric and _square(sheet, numeric):
        named = None  # the first column of a matrix may well be 0, 1, 2
    chosen = chosen or [k for k in numeric if k != named]
    labels = [str(i + 1) for i in range(len(sheet.body))] if named is None else sheet.column(named)
    chosen = chosen if named is None or columns else like_rows(sheet, chosen, labels)
    values = numbers(sheet, chosen, labels)
    words = f"{_counted(len(values))}{'' if named is None else f' named by column {sheet.title(named)}'}"
    rest = [sheet.title(k) for k in range(sheet.width) if k not in chosen and k != named]
    ignored = f"; {listed(rest)} ignored" if rest else ""
    if not columns and _is_distances(values, sheet, chosen):
        words = f"{words}, a {len(values)} x {len(values)} matrix of distances{ignored}"
        return Cities(sheet.path.stem, _checked(torch.from_numpy(values), sheet.path), None, labels, understood=words)
    return _from_points(sheet, values, chosen, labels, words, ignored)


def _from_points(
    sheet: Sheet, values: np.ndarray, chosen: list[int], labels: list[str], words: str, ignored: str
) -> Cities:
    path = sheet.path
    if values.shape[1] not in (2, 3):
        raise BadInput(
            f"{path.name} has {len(values)} rows of {values.shape[1]} numbers; expected two or three coordinates per city "
            "(say which with --use x,y) or a square matrix of distances."
        )
    words = f"{words}, columns {listed([sheet.title(k) for k in chosen])}"
    if _axes_of(sheet, chosen) == GLOBE:
        _degrees(sheet, values, chosen, labels)
        words = f"{words} (degrees; distances are great circles in km)"
        cost, places = _measured(values, great_circle, on_sphere(np.radians(values)))
    elif len(values) > WHOLE:
        cost, places = None, Places(values, straight, values)
    else:
        cost, places = _plane(values), None
    drawn = torch.from_numpy(values)[:, :2].clone()
    if cost is not None:
        cost = _checked(cost, path)
    return Cities(path.stem, cost, drawn, labels, understood=words + ignored, places=places)


def _degrees(sheet: Sheet, values: Float[np.ndarray, "n 2"], chosen: list[int], labels: list[str]) -> None:
    """Nothing, if there are such places on the globe; otherwise one sentence."""
    beyond = np.argwhere(np.abs(values) > (360, 90))
    if len(beyond):
        city, axis = beyond[0]
        raise BadInput(
            f"{sheet.path.name}: {sheet.title(chosen[axis])} of city {labels[city]} is {values[city, axis]:g}, beyond {(360, 90)[axis]} degrees; "
            "correct it, or call the columns x and y if they are coordinates of a plane."
        )


def _measured(points: np.ndarray, rule: Rule, space: np.ndarray) -> tuple[Tensor | None, Places | None]:
    """All distances of a few cities, or where many of them are."""
    if len(points) > WHOLE:
        return None, Places(points, rule, space)
    return matrix_of(points, rule), None


def straight(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(p - q).sum(-1))


def on_sphere(angles: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
    """Points of the globe in km, of longitude and latitude in radians."""
    longitude, latitude = angles.T
    flat = np.cos(latitude)
    return EARTH * np.stack((flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)), axis=1)


PLANE, SPACE, GLOBE = ("x", "y"), ("x", "y", "z"), ("lon", "lat")
SYNONYMS = {
    "x": ("x", "x_coord", "xcoord", "coord_x", "easting", "east"),
    "y": ("y", "y_coord", "ycoord", "coord_y", "northing", "north"),
    "z": ("z", "z_coord", "zcoord", "coord_z"),
    "lon": ("lon", "long", "lng", "longitude"),
    "lat": ("lat", "latitude"),
}


def _titled_axes(sheet: Sheet, dropped: set[int]) -> list[int]:
    """The columns that a header calls coordinates, in the order of the axes."""
    titles = {k: title.casefold().strip() for k, title in enumerate(sheet.titles or []) if k not in dropped}
    for axes in (SPACE, PLANE, GLOBE):
        found = [next((k for k, title in titles.items() if title in SYNONYMS[axis]), None) for axis in axes]
        if None not in found:
            return [k for k in found if k is not None]
    return []


def _axes_of(sheet: Sheet, chosen: list[int]) -> tuple[str, ...]:
    """What the titles of these columns say they are."""
    titles = [sheet.title(k).casefold().strip() for k in chosen]
    return tuple(next((axis for axis, words in SYNONYMS.items() if title in words), title) for title in titles)


def _square(sheet: Sheet, numeric: list[int]) -> bool:
    return _is_distances(numbers(sheet, numeric, [str(i + 1) for i in range(len(sheet.body))]), sheet, numeric)


def _is_distances(values: np.ndarray, sheet: Sheet, chosen: list[int]) -> bool:
    """Square; up to three cities also 0 on the diagonal, for they could have as many coordinates as there are cities."""
    rows, width = values.shape
    if rows != width or _axes_of(sheet, chosen) in (PLANE, SPACE, GLOBE):
        return False
    return rows > 3 or bool((np.diag(values) == 0).all())


def listed(names: Sequence[str]) -> str:
    """Words of a list: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


EARTH = 6371.009  # mean radius in km


def great_circle(p: Float[np.ndarray, "*pairs 2"], q: Float[np.ndarray, "*pairs 2"]) -> Float[np.ndarray, "*pairs"]:
    """Distances on the globe in km by the haversine formula; longitude, latitude in degrees."""
    (longitude, latitude), (further, other) = (np.moveaxis(np.radians(points), -1, 0) for points in (p, q))
    across = np.square(np.sin((longitude - further) / 2)) * np.cos(latitude) * np.cos(other)
    along = np.square(np.sin((latitude - other) / 2))
    return 2 * EARTH * np.arcsin(np.sqrt(np.clip(across + along, 0, 1)))


def great_circles(degrees: Float[np.ndarray, "n 2"]) -> Float[Tensor, "n n"]:
    """All distances on the globe in km; longitude, latitude."""
    return matrix_of(degrees, great_circle)


def _plane(values: np.ndarray) -> Float[Tensor, "n n"]:
    points = torch.from_numpy(values)
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


def _checked(cost: Tensor, path: Path) -> Tensor:
    if bool((cost < 0).any()):
        raise BadInput(f"{path.name} has negative distances; a tour needs distances of 0 or more.")
    if not bool(torch.isfinite(cost).all()):
        raise BadInput(
            f"The distances of {path.name} are too large to be numbers; divide the coordinates by a power of ten."
        )
    return cost


def tour_length(cities: Cities, order: Int[Tensor, "n"]) -> float:
    if cities.cost is not None:
        return float(Cycle(cities.n).energy(order, cities.cost))
    if cities.places is None:
        raise ValueError("Cities have distances or places.")
    points = cities.places.points[order.numpy()]
    return float(cities.places.rule(points, np.roll(points, -1, axis=0)).sum())


def solve_tour(cities: Cities, **options) -> Solution:
    """``us.solve(Cycle(n), cost=...)`` with its options; of many cities with ``items=...``, measured by their own rule."""
    if cities.places is None:
        return solve(Cycle(cities.n), cost=cities.cost, **options)
    found = solve(Cycle(cities.n), items=cities.places.space, **options)
    lengths = torch.tensor([tour_length(cities, tour) for tour in found.starts], dtype=torch.float64)
    length = tour_length(cities, found.order)
    polished = None if found.polished is None else Polished(found.order, length)
    return replace(found, energy=length, energies=lengths, polished=polished)


def other_tours(cities: Cities, found: Solution, count: int) -> list[Polished]:
    """The next best tours that were found, all different; many cities measured by their own rule."""
    others = found.alternatives(count)
    return others if cities.places is None else [Polished(o.order, tour_length(cities, o.order)) for o in others]


def foreseen(
    n: int, runs: int | None = None, time_limit: float | None = None, places: bool = False
) -> tuple[float, float]:
    """Seconds and gigabytes that a tour of n cities may take; measured on 2 cores, where 1,000 take two minutes of one."""
    if places:
        seconds = 1.1e-3 * n * (runs or 1) / min(2, torch.get_num_threads())
        return seconds if time_limit is None else min(seconds, time_limit), 2e-6 * n
    runs = runs or default_runs(n)
    rounds = 1 + default_rounds(n)
    seconds = 4.8e-6 * n**2 * rounds * runs * (0.5 if n > LARGE else 1.0) / min(2, torch.get_num_threads())
    together = min(runs, MOST_TOGETHER)
    gigabytes = n**2 * (5 * 8 + 4 * (3 + 6 * together)) / 1e9
    return seconds if time_limit is None else min(seconds, time_limit), gigabytes


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
