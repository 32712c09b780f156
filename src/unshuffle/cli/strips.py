"""``unshuffle strips``: a folder of scanned strips, put back into a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import Clock, json_text, progress, say, table_text, to_the_end
from .options import Polish, Usual

if TYPE_CHECKING:
    from ..solve.solution import Solution
    from ..tasks.strips import Strip


def strips(
    folder: Annotated[
        Path, typer.Argument(help="A folder with one picture per strip, upright, cut sides left and right.")
    ],
    polish: Polish = False,
    usual: Usual = Usual(Path("unshuffled/INPUT-strips")),
) -> None:
    """Put the strips of a shredded page back in order.

    Strips may be of different widths, on a black, white or transparent background or cut out without one, with slanted and rough
    edges and a few pixels up or down. Writes page.png, order.csv and result.json.

    Example: unshuffle strips scans/ --out page
    """
    import numpy as np

    from ..readers.pictures import png
    from ..tasks.strips import paste, read_strips, reassemble_strips

    clock = Clock(usual.time_limit)
    with progress("strips", usual.silent, usual.time_limit) as show:
        show.stage("reading the strips")
        found = read_strips(folder)
        show.given(found)
        solution = reassemble_strips(found, seed=usual.seed, time_limit=clock.left, callback=show, polish=polish)
        with to_the_end():
            order = solution.best_order.tolist()
            show.stage("drawing")
            page = png(np.asarray(paste(found, order)))
            result = summary(folder, found, solution, usual.seed) | clock.times()
            write_together(
                {
                    usual.out / "page.png": page,
                    usual.out / "order.csv": table_text(places(found, order, solution)),
                    usual.out / "result.json": json_text(result),
                }
            )
    say(result, lines(result, clock.words(), usual.out), usual.json_, usual.quiet)


def places(found: list[Strip], order: list[int], solution: Solution) -> Iterator[tuple[object, ...]]:
    yield "position", "strip", "number in the input", "confidence"
    for place, strip in enumerate(order):
        yield place + 1, found[strip].name, strip + 1, f"{float(solution.confidence[strip]):.4f}"


def doubtful(names: list[str], solution: Solution) -> list[tuple[str, str]]:
    order = solution.best_order.tolist()
    sure = solution.confidence.tolist()
    return [(names[a], names[b]) for a, b in pairwise(order) if min(sure[a], sure[b]) < DOUBTFUL]


def summary(folder: Path, found: list[Strip], solution: Solution, seed: int) -> dict[str, Any]:
    names = [strip.name for strip in found]
    result: dict[str, Any] = {
        "input": str(folder),
        "seed": seed,
        "strips": names,
        "order": solution.order.tolist(),
        "names in order": [names[i] for i in solution.order.tolist()],
        "confidence": [round(float(c), 4) for c in solution.confidence],
        "energy": solution.energy,
        "agreement": solution.agreement,
        "doubtful joins": doubtful(names, solution),
        "background": any((strip.paper < 1).any() for strip in found),
        "status": solution.status,
    }
    if solution.polished is not None:
        result["polished"] = {"order": solution.best_order.tolist(), "energy": solution.best_energy}
    return result


DOUBTFUL = 0.5


def joins(result: dict[str, Any]) -> str:
    """How many of the joins are sure and how many are not, in words; a join is as sure as the less sure of its two strips."""
    doubtful, count = result["doubtful joins"], len(result["order"]) - 1
    if not doubtful:
        return f"All {count} joins are sure (confidence above {DOUBTFUL})."
    named = ", ".join(f"{a} | {b}" for a, b in doubtful[:4]) + (", ..." if len(doubtful) > 4 else "")
    most = " Most of this page is a guess." if 2 * len(doubtful) > count else ""
    return f"{len(doubtful)} of {count} joins are doubtful (confidence below {DOUBTFUL}): {named}.{most}"


def lines(result: dict[str, Any], took: str, out: Path) -> list[str]:
    told = [f"{len(result['order'])} strips in {took}."]
    told.append(joins(result))
    if not result["background"]:
        told.append(
            "No background was seen around the strips: they were compared along the sides of the pictures, by print alone. "
            "If they lie on a ground of the paper's own colour, scan them on a darker one."
        )
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    if "polished" in result:
        told.append(f"Polish: energy {result['energy']:.6g} -> {result['polished']['energy']:.6g}.")
    told.append(f"The page is {out / 'page.png'}, the order {out / 'order.csv'}.")
    return told
