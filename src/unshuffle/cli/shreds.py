"""``unshuffle strips --grid``: cross-cut shreds, put back into a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from .common import Clock, progress, say, table_text, to_the_end
from .doubts import next_best, others_of, sets_in
from .jigsaw import parse_grid
from .options import Usual
from .results import write_results

if TYPE_CHECKING:
    from ..solve.solution import Solution
    from ..structure.layouts import Grid
    from ..tasks.strips import Strip


def put_shreds_together(folder: Path, given: str, polish: bool, others: int, usual: Usual) -> None:
    """Writes page.png, order.csv and result.json."""
    import numpy as np

    from ..readers.pictures import png
    from ..tasks.strips import read_strips
    from ..tasks.strips.shreds import paste_shreds, reassemble_shreds

    grid = None if given.strip().lower() == "auto" else parse_grid(given)
    clock, out = Clock(usual.time_limit), usual.out
    with progress("strips", usual.silent, usual.time_limit) as show:
        show.stage("reading the shreds")
        found = read_strips(folder)
        if grid is not None and min(grid.width, grid.height) == 1:
            raise BadInput("--grid is for shreds cut both ways; strips that are as high as the page need none.")
        options = {"seed": usual.seed, "time_limit": clock.left, "callback": show, "polish": polish}
        solution, grid = reassemble_shreds(found, grid, **options)
        with to_the_end():
            show.stage("drawing")
            page = png(np.asarray(paste_shreds(found, solution.best_order.tolist(), grid)))
            result = summary(folder, found, grid, solution, usual.seed) | sets_in(solution, clock=clock)
            result |= others_of(solution, others) | clock.times()
            write_results(out, {"page.png": page, "order.csv": table_text(places(found, grid, solution))}, result)
    say(result, lines(result, clock.words(), out) + next_best(result, others), usual.json_, usual.quiet)


def summary(folder: Path, found: list[Strip], grid: Grid, solution: Solution, seed: int) -> dict[str, Any]:
    result = {
        "input": str(folder),
        "seed": seed,
        "strips": [shred.name for shred in found],
        "grid": f"{grid.width}x{grid.height}",
        "order": solution.order.tolist(),
        "confidence": [round(float(sure), 4) for sure in solution.confidence],
        "left_out": solution.left_out.tolist(),
        "energy": solution.energy,
        "agreement": solution.agreement,
        "background": any(shred.background for shred in found),
        "status": solution.status,
    }
    if solution.polished is not None:
        result["polished"] = {"order": solution.best_order.tolist(), "energy": solution.best_energy}
    return result


def places(found: list[Strip], grid: Grid, solution: Solution) -> Iterator[tuple[object, ...]]:
    """One line per place of the page, row by row, and what stands there."""
    yield "row", "column", "strip", "number in the input", "confidence"
    for place, shred in enumerate(solution.best_order.tolist()):
        what = (
            (found[shred].name, shred + 1, f"{float(solution.confidence[shred]):.4f}") if shred >= 0 else ("", "", "")
        )
        yield place // grid.width + 1, place % grid.width + 1, *what


def lines(result: dict[str, Any], took: str, out: Path) -> list[str]:
    sure = sum(sure > 0.5 for sure in result["confidence"])
    told = [f"{len(result['strips'])} shreds ({result['grid']}) in {took}; {sure} with a confidence above 0.5."]
    if empty := result["order"].count(-1):
        told.append(f"{empty} places of {len(result['order'])} stay empty.")
    if result["left_out"]:
        told.append(f"{len(result['left_out'])} shreds have no place.")
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    return [*told, f"The page is {out / 'page.png'}, the order {out / 'order.csv'}."]
