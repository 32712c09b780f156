"""``unshuffle tour``: a short round trip through the cities of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from ..plots import draw_partners, draw_tour
from .common import (
    DRAWING,
    Clock,
    announce,
    foresee,
    harmless,
    json_text,
    png_of,
    progress,
    say,
    table_text,
    to_the_end,
)
from .doubts import LEVEL, alternatives_in, next_best, sets_in
from .labels import MOST_NAMES, name_points
from .options import Alternatives, Drop, Polish, Use, Usual, names_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..solve.solution import Solution
    from ..tasks.tour import Cities


MANY = 2e-4  # seconds for each of many cities
MANY_LINKS = 2000  # cities whose other likely links would hide the tour


def tour(
    file: Annotated[Path, typer.Argument(help="CSV of coordinates or of distances, or a TSPLIB .tsp file.")],
    use: Use = None,
    columns: Annotated[list[str] | None, typer.Option("--columns", hidden=True)] = None,  # what --use was called
    drop: Drop = None,
    polish: Polish = False,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Annealings at the same time; the best wins.")
    ] = None,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-tour")),
) -> None:
    """Find a short round trip through cities.

    Reads a table with one city per line, a square matrix of distances, or TSPLIB (EUC_2D, CEIL_2D, GEO, ATT, EXPLICIT; lengths
    by its rules), and says how it understood it: columns called x and y (and z) or lon and lat are taken by their titles, names
    and ids by their content. More than 2,000 cities with coordinates are not annealed: local search by near neighbours takes half a minute of a core for
    20,000. Writes NAME.tour, NAME.csv, NAME.json and, if the cities have coordinates, NAME.png.

    Example: unshuffle tour cities.csv --polish
    """
    from ..tasks.tour import foreseen, other_tours, read_cities, solve_tour, tour_text

    clock = Clock(usual.time_limit)
    with progress("tour", usual.silent, usual.time_limit) as show:
        show.stage("reading the cities")
        cities = read_cities(file, names_of(use) or names_of(columns), drop or ())
        announce(f"{cities.understood}.", usual.silent)
        show.given(cities)
        foresee(*foreseen(cities.n, runs, usual.time_limit, cities.places is not None), usual.silent)
        left = clock.before(DRAWING + 5e-4 * cities.n if cities.places is None else MANY * cities.n)
        options = {"polish": polish, "runs": runs, "seed": usual.seed, "time_limit": left, "callback": show}
        solution = solve_tour(cities, **options)
        with to_the_end():
            order, doubts = solution.best_order, sets_in(solution, clock=clock)
            files: dict[Path, str | bytes] = {usual.out / f"{file.stem}.tour": tour_text(cities, order)}
            if cities.points is not None:
                show.stage("drawing")
                partners = doubts.get("sets", {}).get("partners", ())
                drawn = draw(cities, order, _title(cities, solution), solution.confidence, partners)
                files[usual.out / f"{file.stem}.png"] = png_of(drawn)
            files[usual.out / f"{file.stem}.csv"] = table_text(_stops(cities, solution, order))
            result = _result(cities, solution, order, [*files, usual.out / f"{file.stem}.json"]) | doubts
            result |= alternatives_in(other_tours(cities, solution, others), others, "length") | clock.times()
            files[usual.out / f"{file.stem}.json"] = json_text(result)
            written = write_together(files)
    told = _lines(cities, solution, clock, written) + next_best(result, others, "length")
    say(result, told, usual.json_, usual.quiet)


def _title(cities: Cities, solution: Solution) -> str:
    polished = "" if solution.polished is None else f", {_number(cities, solution.best_energy)} polished"
    return f"{cities.name}: {cities.counted}, length {_number(cities, solution.energy)}{polished}"


def _number(cities: Cities, length: float) -> str:
    return f"{length:.0f}" if cities.whole else f"{length:.6g}"


def _result(cities: Cities, solution: Solution, order: Tensor, files: list[Path]) -> dict[str, Any]:
    return {
        "name": cities.name,
        "understood": cities.understood,
        "cities": cities.n,
        "length": solution.energy,
        "polished_length": None if solution.polished is None else solution.best_energy,
        "tour": [cities.labels[int(city)] for city in order],
        "order": [int(city) for city in order],
        "confidence": [round(float(c), 4) for c in solution.confidence],
        "runs": len(solution.energies),
        "agreement": solution.agreement,
        "status": solution.status,
        "files": [str(f) for f in files],
    }


def _stops(cities: Cities, solution: Solution, order: Tensor) -> Iterator[tuple[object, ...]]:
    """One line per stop, in the order of the tour."""
    yield "position", "city", "number in the input", "confidence"
    for place, city in enumerate(order.tolist()):
        yield place + 1, cities.labels[city], city + 1, f"{float(solution.confidence[city]):.4f}"


def _lines(cities: Cities, solution: Solution, clock: Clock, files: list[Path]) -> list[str]:
    how = "without" if cities.places is None else "by shortest links and"
    lines = [f"{cities.name}: {cities.counted}, length {_number(cities, solution.energy)} {how} local search"]
    if solution.polished is not None and cities.places is None:
        lines.append(f"with 2-opt and Or-opt: {_number(cities, solution.best_energy)}")
    runs = len(solution.energies)
    lines.append(f"best of {runs} run{'s' if runs > 1 else ''}, {clock.words()} ({solution.status})")
    return [*lines, *(f"wrote {f}" for f in files)]


def draw(
    cities: Cities,
    order: Tensor,
    title: str,
    confidence: Tensor | None = None,
    partners: Sequence[Sequence[int]] = (),
) -> Figure:
    """The cities and the round trip, in the proportions of the map; names of a few, how sure each city is, and beside whom it may well be instead."""
    from matplotlib.figure import Figure

    if cities.points is None:
        raise ValueError("Cities without coordinates cannot be drawn.")
    figure = Figure(figsize=(7.2, 6.2), layout="constrained")
    axes = draw_tour(figure.add_subplot(), cities.points, order, closed=True, confidence=confidence)
    if cities.n <= MANY_LINKS:
        draw_partners(axes, cities.points, order, partners)
        if partners:
            axes.set_xlabel(
                f"dashed: who else may be a neighbour; with these, each true one is there with {LEVEL:.0%}", fontsize=8
            )
    axes.set_title(harmless(title).replace("$", r"\$"), fontsize=10)
    if cities.n <= MOST_NAMES:
        name_points(figure, axes, cities.points.numpy(), cities.labels)
    return figure
