"""``unshuffle hic``: chromosomes from the contacts of their bins or contigs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import (
    DRAWING,
    Clock,
    announce,
    counted,
    json_text,
    png_of,
    progress,
    say,
    table_text,
    to_the_end,
    unless_pressed,
)
from .doubts import LEVEL, as_lists, of_groups, spans, wanted
from .options import Alternatives, Usual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..readers.contacts import Contacts
    from ..tasks.hic import Scaffolds

DOUBTFUL = 0.9  # joins below are said to be looked at
FEW = 30  # groups of which the sizes are told
GAP = 100  # base pairs between contigs of an AGP file where nobody knows: the length that the format gives to "U"


def hic(
    file: Annotated[Path, typer.Argument(help=".cool, .mcool, or a square matrix of contacts as .npy, .npz or CSV.")],
    contigs: Annotated[
        Path | None,
        typer.Option("--contigs", help="CSV with the contig of every bin in its last column, one row per bin."),
    ] = None,
    bins: Annotated[bool, typer.Option("--bins", help="Order single bins, also of a file that knows contigs.")] = False,
    chromosomes: Annotated[
        int | None, typer.Option("--chromosomes", min=1, help="How many there are; found out if not given.")
    ] = None,
    resolution: Annotated[
        int | None, typer.Option("--resolution", min=1, help="Base pairs of a bin; which one of an .mcool to use.")
    ] = None,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-hic")),
) -> None:
    """Order bins or contigs of a genome by their contacts (Hi-C), turn contigs, tell chromosomes apart.

    Several sequences in a .cool file, an array called contig in an .npz, or --contigs say which bins stand together; without
    them every bin is on its own. Pairs up to five bins apart count, so that a fold is not taken for an order. Writes order.csv,
    scaffolds.agp, before-after.png with the confidence along it, and result.json. Reading .cool needs the extra hic (h5py).

    Examples: unshuffle hic contacts.npz --chromosomes 16; unshuffle hic assembly.mcool --resolution 10000
    """
    from ..readers.contacts import read_contacts
    from ..tasks.hic import scaffold

    clock = Clock(usual.time_limit)
    with progress("hic", usual.silent, usual.time_limit) as show:
        show.stage("reading the contacts")
        contacts = read_contacts(file, contigs=contigs, resolution=resolution, apart=bins)
        announce(f"{understood(contacts)}.", usual.silent)
        left = clock.before(DRAWING + 5e-7 * len(contacts.bins) ** 2)
        found = scaffold(contacts, chromosomes=chromosomes, seed=usual.seed, time_limit=left, callback=show)
        with to_the_end():
            show.stage("drawing")
            result = summary(file, found, usual.seed)
            if wanted(found.status, len(found.order), clock):
                result |= unless_pressed(lambda: {"sets": as_lists(found.sets(LEVEL))})
            if others:
                result["alternatives"] = of_groups(found.alternatives(others), others)
            picture = png_of(picture_of(found, spans_of(found, result)))
            result |= clock.times()
            files: dict[Path, str | bytes] = {
                usual.out / "order.csv": table_text(listing(found)),
                usual.out / "scaffolds.agp": agp(found),
                usual.out / "before-after.png": picture,
                usual.out / "result.json": json_text(result),
            }
            write_together(files)
    say(result, lines(result, found, clock, usual.out), usual.json_, usual.quiet)


def understood(contacts: Contacts) -> str:
    single = len(contacts.contigs) == len(contacts.bins)
    what = "on their own" if single else f"of {len(contacts.contigs)} contigs"
    size = f" of {contacts.resolution:,} base pairs" if contacts.resolution > 1 else ""
    weighted = "taken as balanced" if contacts.balanced else "counted, and balanced here"
    return f"{len(contacts.bins)} bins{size}, {what}; contacts {weighted}"


def summary(path: Path, found: Scaffolds, seed: int) -> dict[str, Any]:
    contacts = found.contacts
    return {
        "input": str(path),
        "understood": understood(contacts),
        "seed": seed,
        "order": found.order.tolist(),
        "groups": [group.tolist() for group in found.groups],
        "contigs": [
            [{"name": contacts.contigs[k], "direction": "-" if turned else "+"} for k, turned in pieces]
            for pieces in found.pieces
        ],
        "joins": [[round(float(c), 4) for c in joins] for joins in found.joins],
        "confidence": [round(float(c), 4) for c in found.confidence],
        "left_out": found.left_out.tolist(),
        "status": found.status,
    }


def listing(found: Scaffolds) -> Iterator[tuple[object, ...]]:
    """One line per bin, in the order found."""
    contacts, sure = found.contacts, found.confidence
    yield "position", "group", "bin", "contig", "direction", "number in the input", "confidence"
    position = 0
    for number, (group, pieces) in enumerate(zip(found.groups, found.pieces, strict=True), 1):
        turned = dict(pieces)
        for k in group.tolist():
            position += 1
            contig = int(contacts.contig[k])
            way = "turned" if turned[contig] else "as given"
            yield position, number, contacts.bins[k], contacts.contigs[contig], way, k + 1, f"{sure[k]:.4f}"


def agp(found: Scaffolds) -> str:
    """AGP 2.1: every group a scaffold of its contigs, with gaps of unknown length that contacts bridge."""
    contacts = found.contacts
    told = ["##agp-version\t2.1"]
    for number, pieces in enumerate(found.pieces, 1):
        at, part = 1, 0
        for k, (contig, turned) in enumerate(pieces):
            if k > 0:
                part += 1
                gap = (at, at + GAP - 1, part, "U", GAP, "scaffold", "yes", "proximity_ligation")
                told.append("\t".join(map(str, (f"group{number}", *gap))))
                at += GAP
            part += 1
            length = int(contacts.lengths[contig])
            name = contacts.contigs[contig].replace("\t", " ")
            placed = (at, at + length - 1, part, "W", name, 1, length, "-" if turned else "+")
            told.append("\t".join(map(str, (f"group{number}", *placed))))
            at += length
    return "\n".join(told) + "\n"


def lines(result: dict[str, Any], found: Scaffolds, clock: Clock, out: Path) -> list[str]:
    count, joins = len(found.groups), [c for some in found.joins for c in some]
    doubtful = sum(c < DOUBTFUL for c in joins)
    sizes = sorted((len(group) for group in found.groups), reverse=True) if count > FEW else map(len, found.groups)
    named = ", ".join(str(size) for size in list(sizes)[:FEW]) + " and fewer" * (count > FEW)
    told = [
        f"{len(result['order'])} bins in {count} group{'s' * (count > 1)} of {named}, in {clock.words()}.",
        f"{doubtful} of {len(joins)} joins are doubtful (confidence below {DOUBTFUL}).",
    ]
    if len(found.left_out):
        told.append(f"Left out: {counted(len(found.left_out), 'bin')} without contacts.")
    if result["status"] != "finished":
        parts = "; groups may be parts of one chromosome, or still hold parts of several" if count > 1 else ""
        told.append(f"Stopped early ({result['status']}): this is the best so far{parts}.")
    if "alternatives" in result:
        told.append("The next best orders of every group are in the JSON.")
    return [*told, f"Look at {out / 'before-after.png'}; the order is {out / 'order.csv'}."]


def spans_of(found: Scaffolds, result: dict[str, Any]) -> list[tuple[int, int]]:
    """Where each bin in order may be as well; places are counted in its group."""
    ends = [0, *itertools.accumulate(map(len, found.groups))]
    return [span for k, group in enumerate(found.groups) for span in spans(result, group.tolist(), ends[k])]


def picture_of(found: Scaffolds, spans: Sequence[tuple[int, int]] = ()) -> Figure:
    """The contact map as given and in the order found, groups apart, with where bins may be as well and the confidence along it."""
    import numpy as np
    from matplotlib.figure import Figure

    from ..plots import FINEST, coarser, draw_places

    figure = Figure(figsize=(11.5, 6.3), layout="constrained")
    panels = figure.subplots(2, 2, height_ratios=(1, 0.16))
    logs = found.logs.copy()
    low, high = np.percentile(logs, [5, 99])
    np.fill_diagonal(logs, high)
    n = len(logs)
    shown: dict[str, Any] = {"cmap": "magma", "vmin": low, "vmax": high, "interpolation": "nearest", "aspect": "auto"}
    shown["extent"] = (-0.5, n - 0.5, n - 0.5, -0.5)
    panels[0, 0].imshow(coarser(logs, 2 * FINEST), **shown)
    panels[0, 0].set_title("contacts, as given")
    order = found.order
    shown["extent"] = (-0.5, len(order) - 0.5, len(order) - 0.5, -0.5)
    panels[0, 1].imshow(coarser(logs[np.ix_(order, order)], 2 * FINEST), **shown)
    panels[0, 1].set_title(f"ordered, {len(found.groups)} group{'s' * (len(found.groups) > 1)}")
    draw_places(panels[0, 1], spans)
    ends = np.cumsum([len(group) for group in found.groups])[:-1]
    for end in ends:
        panels[0, 1].axhline(end - 0.5, color="white", linewidth=0.6)
        panels[0, 1].axvline(end - 0.5, color="white", linewidth=0.6)
    for axes in panels[0]:
        axes.set(xticks=[], yticks=[], xlabel="bins")
    if any(high > low for low, high in spans):
        panels[0, 1].set_xlabel(f"bins; bars: places that hold the true one with {LEVEL:.0%}")
    below = panels[1, 1]
    sure = found.confidence[order]
    below.fill_between(np.arange(len(sure)), sure, step="mid", color="#31688e")
    below.set(xlim=(-0.5, len(sure) - 0.5), ylim=(0, 1.02), ylabel="sure", xlabel="bins in order")
    for end in ends:
        below.axvline(end - 0.5, color="#999999", linewidth=0.6)
    panels[1, 0].set_axis_off()
    return figure
