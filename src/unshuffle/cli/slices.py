"""``unshuffle slices``: the order of the slices of a volume or of the frames of a film."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import Clock, announce, json_text, png_of, progress, say, table_text, to_the_end
from .doubts import alternatives_in, next_best, sets_in
from .options import Alternatives, Usual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..tasks.slices import Ordered

DOUBTFUL = 0.5  # joins below are said to be looked at
MOST_SHOWN = 240  # slices of a contact sheet


def slices(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder with one picture per slice, a TIFF or GIF of several pages, or an array as .npy."
        ),
    ],
    reach: Annotated[int, typer.Option("--reach", min=1, help="Pairs of slices up to so many places apart count.")] = 1,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-slices")),
) -> None:
    """Put the slices of a volume (histology, microscopy, MRI) or the frames of a film in order.

    Slices are brought together by small shifts (up to 6 % of their side), compared by the contrast that remains once slow changes of the light
    are taken out, and ordered so that neighbours are alike. Which end is the first cannot be known. Writes order.csv with the shift of each
    slice to the one before it, contact-sheet.png and result.json.

    Example: unshuffle slices sections/
    """
    from ..tasks.slices import order_slices, read_stack

    clock = Clock(usual.time_limit)
    with progress("slices", usual.silent, usual.time_limit) as show:
        show.stage("reading the slices")
        stack = read_stack(folder)
        sizes = {picture.shape[:2] for picture in stack.pictures}
        height, width = max(sizes)
        size = f"{width} x {height} pixels" if len(sizes) == 1 else f"up to {width} x {height} pixels"
        announce(f"{len(stack.names)} slices of {size}.", usual.silent)
        options = {"reach": reach, "seed": usual.seed, "time_limit": clock.left, "callback": show}
        found = order_slices(stack, **options)
        with to_the_end():
            show.stage("drawing")
            picture = png_of(contact_sheet(found))
            result = summary(folder, found, usual.seed) | sets_in(found.solution, clock=clock)
            result |= alternatives_in(found.solution.alternatives(others), others) | clock.times()
            write_together(
                {
                    usual.out / "order.csv": table_text(listing(found)),
                    usual.out / "contact-sheet.png": picture,
                    usual.out / "result.json": json_text(result),
                }
            )
    say(result, lines(result, clock, usual.out) + next_best(result, others), usual.json_, usual.quiet)


def summary(path: Path, found: Ordered, seed: int) -> dict[str, Any]:
    names, order = found.stack.names, found.order.tolist()
    sure = found.solution.confidence.tolist()
    return {
        "input": str(path),
        "seed": seed,
        "slices": names,
        "order": order,
        "names in order": [names[k] for k in order],
        "direction": "unknown: the reverse is as good",
        "confidence": [round(c, 4) for c in sure],
        "correlations": [round(float(c), 4) for c in found.alike],
        "shifts": [[round(float(x), 2) for x in shift] for shift in found.shifts],
        "doubtful joins": [[names[a], names[b]] for a, b in pairwise(order) if min(sure[a], sure[b]) < DOUBTFUL],
        "energy": found.solution.energy,
        "status": found.solution.status,
    }


def listing(found: Ordered) -> Iterator[tuple[object, ...]]:
    """One line per slice, in the order found."""
    yield "position", "slice", "number in the input", "down", "right", "confidence"
    sure = found.solution.confidence
    for place, (k, (down, right)) in enumerate(zip(found.order.tolist(), found.shifts.tolist(), strict=True), 1):
        yield place, found.stack.names[k], k + 1, f"{down:.1f}", f"{right:.1f}", f"{float(sure[k]):.4f}"


def lines(result: dict[str, Any], clock: Clock, out: Path) -> list[str]:
    doubtful, count = result["doubtful joins"], len(result["order"]) - 1
    named = ", ".join(f"{a} | {b}" for a, b in doubtful[:4]) + (", ..." if len(doubtful) > 4 else "")
    told = [f"{len(result['order'])} slices in {clock.words()}. Which end is the first, the slices do not tell."]
    if doubtful:
        told.append(f"{len(doubtful)} of {count} joins are doubtful (confidence below {DOUBTFUL}): {named}.")
    else:
        told.append(f"All {count} joins are sure (confidence above {DOUBTFUL}).")
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    return [*told, f"Look at {out / 'contact-sheet.png'}; the order is {out / 'order.csv'}."]


def contact_sheet(found: Ordered) -> Figure:
    """The slices in order, row by row, brought together by their shifts; below, how sure each is and how like the next."""
    import numpy as np
    from matplotlib.figure import Figure

    from ..plots import draw_pictures, squarest

    n = len(found.order)
    places = np.unique(np.linspace(0, n - 1, min(n, MOST_SHOWN)).round().astype(int))
    grey, scale = found.stack.grey, found.stack.scale
    along = np.cumsum(found.shifts, axis=0) * scale
    along -= np.median(along, axis=0)
    shown = np.stack([np.roll(grey[found.order[p]], along[p].round().astype(int), axis=(0, 1)) for p in places])
    rows, columns = squarest(len(places))
    figure = Figure(figsize=(10, 10 * rows / columns * grey.shape[1] / grey.shape[2] + 1.8), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(10 * rows / columns * grey.shape[1] / grey.shape[2], 1.3))
    draw_pictures(above, shown, np.arange(len(places)), (rows, columns))
    some = "" if len(places) == n else f", {len(places)} of them"
    above.set_title(f"{n} slices in order{some}, row by row; either end may be the first", fontsize=10)
    sure = found.solution.confidence.numpy()[found.order]
    below.fill_between(np.arange(n), sure, step="mid", color="#31688e", label="confidence")
    below.plot(np.arange(n - 1) + 0.5, found.alike, color="#d1495b", linewidth=1, label="correlation with the next")
    below.set(xlim=(-0.5, n - 0.5), ylim=(0, 1.02), xlabel="slices in order")
    below.legend(fontsize=8, loc="lower left")
    return figure
