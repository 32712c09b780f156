"""``unshuffle strips``: a folder of scanned strips or shreds, put back into a page or several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput
from .common import Clock, counted, progress, say, table_text, to_the_end
from .doubts import next_best, others_of, sets_in
from .options import Alternatives, Polish, Usual
from .results import write_results
from .shreds import put_shreds_together

if TYPE_CHECKING:
    from ..tasks.strips import Page, Strip


def strips(
    folder: Annotated[
        Path, typer.Argument(help="A folder with one picture per strip, upright, cut sides left and right.")
    ],
    turned: Annotated[bool, typer.Option("--turned", help="Some strips may be upside down.")] = False,
    several: Annotated[
        bool, typer.Option("--several", help="The strips are of several pages: as many are put together as there are.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Strips may be missing: draw a gap where it is likely that no two fit.")
    ] = False,
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid",
            "-g",
            help="Cross-cut shreds: how many across x down, such as 30x4; auto finds it. Without it, strips are as high as the page.",
        ),
    ] = None,
    polish: Polish = False,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-strips")),
) -> None:
    """Put the strips of a shredded page back in order.

    Strips may be of different widths, on a black, white or transparent background or cut out without one, with slanted and rough
    edges and a few pixels up or down; upside down with --turned, of several pages with --several, cut both ways with --grid. Writes
    page.png (of several page-1.png, page-2.png, ...), order.csv and result.json.

    Examples: unshuffle strips scans/ --out page; unshuffle strips scans/ --turned --several; unshuffle strips shreds/ --grid 30x4
    """
    if grid is not None:
        if turned or several or missing:
            raise BadInput("--grid takes shreds of one page, all upright: leave out --turned, --several and --missing.")
        put_shreds_together(folder, grid, polish, others, usual)
        return
    if several and polish:
        raise BadInput("--polish takes one page: leave it out, or --several.")
    import numpy as np

    from ..readers.pictures import png
    from ..tasks.strips import paste, read_strips, reassemble_page, reassemble_pages

    clock, out = Clock(usual.time_limit), usual.out
    with progress("strips", usual.silent, usual.time_limit) as show:
        show.stage("reading the strips")
        found = read_strips(folder)
        show.given(found)
        options: dict[str, Any] = {"turned": turned, "missing": missing, "seed": usual.seed}
        options |= {"time_limit": clock.left, "callback": show}
        if several:
            pages = reassemble_pages(found, **options)
        else:
            pages = [reassemble_page(found, polish=polish, **options)]
        with to_the_end():
            show.stage("drawing")
            names = [f"page-{k}.png" for k in range(1, len(pages) + 1)] if several else ["page.png"]
            gaps = [unlikely(page) if missing else [] for page in pages]
            pictures = {
                name: png(np.asarray(paste(found, page.order.tolist(), page.turned, gap)))
                for name, page, gap in zip(names, pages, gaps, strict=True)
            }
            told = [
                of_page(found, page, gap if missing else None, others, clock)
                for page, gap in zip(pages, gaps, strict=True)
            ]
            result = summary(folder, found, pages, told, several, usual.seed) | clock.times()
            write_results(out, pictures | {"order.csv": table_text(places(found, pages))}, result)
    say(result, lines(result, told, clock.words(), out) + next_best(result, others), usual.json_, usual.quiet)


def places(found: list[Strip], pages: list[Page]) -> Iterator[tuple[object, ...]]:
    """One line per strip: of which page if there are several, and whether it is turned if it may be."""
    several, state = len(pages) > 1, any(page.solution.state is not None for page in pages)
    head = ("position", "strip", "number in the input", "confidence")
    yield *(("page",) if several else ()), *head, *(("turns",) if state else ())
    for number, page in enumerate(pages, 1):
        rows = zip(page.order.tolist(), page.confidence.tolist(), page.turned, strict=True)
        for place, (strip, sure, turned) in enumerate(rows, 1):
            what = (place, found[strip].name, strip + 1, f"{sure:.4f}")
            yield *((number,) if several else ()), *what, *((2 * turned,) if state else ())


DOUBTFUL = 0.5


def unlikely(page: Page) -> list[int]:
    """The places after which the next strip is likely not the next of the page."""
    return [place for place, chance in enumerate(page.chances.tolist()) if chance < DOUBTFUL]


def of_page(found: list[Strip], page: Page, gaps: list[int] | None, others: int, clock: Clock) -> dict[str, Any]:
    """What is known of one page, by the numbers of the pile."""
    order = page.order.tolist()
    joins = [(found[a].name, found[b].name) for a, b in pairwise(order)]
    return {
        "order": order,
        **({} if page.solution.state is None else {"turns": [2 * turned for turned in page.turned]}),
        "names in order": [found[k].name for k in order],
        "confidence of joins": [round(float(chance), 4) for chance in page.chances],
        "doubtful joins": [joins[place] for place in unlikely(page)],
        **({} if gaps is None else {"gaps": gaps}),
        "energy": page.solution.best_energy,
        **sets_in(page.solution, page.strips, clock),
        **others_of(page.solution, others, page.strips, turn=2),
    }


def summary(
    folder: Path, found: list[Strip], pages: list[Page], told: list[dict[str, Any]], several: bool, seed: int
) -> dict[str, Any]:
    sure = {k: c for page in pages for k, c in zip(page.order.tolist(), page.confidence.tolist(), strict=True)}
    ended = [page.solution.status for page in pages if page.solution.status != "finished"]
    result: dict[str, Any] = {
        "input": str(folder),
        "seed": seed,
        "strips": [strip.name for strip in found],
        "confidence": [round(sure[k], 4) for k in range(len(found))],
        "background": any(strip.background for strip in found),
        "status": (ended or ["finished"])[0],
    }
    if several:
        return result | {"pages": told, "doubtful joins": [join for page in told for join in page["doubtful joins"]]}
    one = pages[0].solution
    result |= told[0] | {"order": one.order.tolist(), "energy": one.energy, "agreement": one.agreement}
    if one.polished is not None:
        result["polished"] = {"order": one.best_order.tolist(), "energy": one.best_energy}
    return result


def joins(doubtful: list[tuple[str, str]], count: int) -> str:
    """How many of the joins are sure and how many are not, in words."""
    if not doubtful:
        return f"{'All ' if count > 1 else ''}{counted(count, 'join')} {'are' if count > 1 else 'is'} sure (confidence above {DOUBTFUL})."
    named = ", ".join(f"{a} | {b}" for a, b in doubtful[:4]) + (", ..." if len(doubtful) > 4 else "")
    most = " Most of this is a guess." if 2 * len(doubtful) > count else ""
    return f"{len(doubtful)} of {count} joins are doubtful (confidence below {DOUBTFUL}): {named}.{most}"


def lines(result: dict[str, Any], pages: list[dict[str, Any]], took: str, out: Path) -> list[str]:
    sizes = [len(page["order"]) for page in pages]
    of = f", of {counted(len(pages), 'page')} ({', '.join(map(str, sizes))})" if "pages" in result else ""
    told = [f"{sum(sizes)} strips{of} in {took}."]
    told.append(joins(result["doubtful joins"], sum(sizes) - len(sizes)))
    upside_down = sum(page["turns"].count(2) for page in pages if "turns" in page)
    if any("turns" in page for page in pages):
        told.append(f"{upside_down} strips were upside down, or all the others: print alone does not say.")
    if "gaps" in pages[0]:
        told.append(f"{sum(len(page['gaps']) for page in pages)} gaps are drawn where no two strips are likely to fit.")
    if not result["background"]:
        told.append(
            "No background was seen around the strips: they were compared along the sides of the pictures, by print alone. "
            "If they lie on a ground of the paper's own colour, scan them on a darker one."
        )
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    if "polished" in result:
        told.append(f"Polish: energy {result['energy']:.6g} -> {result['polished']['energy']:.6g}.")
    where = f"The pages are {out / 'page-1.png'} and so on" if "pages" in result else f"The page is {out / 'page.png'}"
    return [*told, f"{where}, the order {out / 'order.csv'}."]
