"""``unshuffle markers``: a genetic map from the genotypes of a cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import DRAWING, Clock, announce, json_text, png_of, progress, say, table_text, to_the_end, unless_pressed
from .doubts import LEVEL, as_lists, of_groups, wanted
from .options import Alternatives, Usual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..readers.genotypes import Genotypes
    from ..tasks.markers import LinkageMap

DOUBTFUL = 0.9
ON_ITS_SIDE = (
    "The rows are linked to each other rather than the columns: if rows are markers, add --transposed.",
    "With --transposed individuals are linked to each other rather than markers: leave it out if columns are markers.",
)


def markers(
    file: Annotated[Path, typer.Argument(help="CSV: rows are individuals, columns are named markers.")],
    lod: Annotated[
        float | None,
        typer.Option(
            "--lod", min=0.0, help="LOD that holds a linkage group together; by the number of pairs if not given."
        ),
    ] = None,
    transposed: Annotated[bool, typer.Option("--transposed", help="Rows are markers, columns individuals.")] = False,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-markers")),
) -> None:
    """Put genetic markers into linkage groups and in order, with map distances.

    Genotypes are AA, AB, BB, or A, H, B, or 0, 1, 2; empty, - or NA is missing; the genotype CSV of R/qtl2 is read as it is.
    Orders are those under which everything that was read is likeliest, wrong readings included. Writes map.csv (group, marker,
    centimorgans, confidence), map.png and result.json.

    Example: unshuffle markers cross_geno.csv
    """
    from ..readers.genotypes import on_its_side, read_genotypes
    from ..tasks.markers import linkage_map

    clock = Clock(usual.time_limit)
    with progress("markers", usual.silent, usual.time_limit) as show:
        show.stage("reading the genotypes")
        read = read_genotypes(file, transposed)
        announce(f"{understood(read)}.", usual.silent)
        doubt = on_its_side(read)
        left = clock.before(DRAWING + 1e-3 * len(read.markers))
        found = linkage_map(read, lod=lod, seed=usual.seed, time_limit=left, callback=show)
        with to_the_end():
            show.stage("drawing")
            result = summary(file, read, found, usual.seed) | ({"doubt": ON_ITS_SIDE[transposed]} if doubt else {})
            if wanted(found.status, len(read.markers), clock):
                result |= unless_pressed(lambda: {"sets": [as_lists(group.sets(LEVEL)) for group in found.groups]})
            if others:
                rest = [group.alternatives(others) for group in found.groups]
                result["alternatives"] = of_groups(rest, others, "minus log likelihood")
            picture = png_of(picture_of(found, [one["places"] for one in result.get("sets", ())]))
            result |= clock.times()
            files: dict[Path, str | bytes] = {
                usual.out / "map.csv": table_text(listing(read, found)),
                usual.out / "map.png": picture,
                usual.out / "result.json": json_text(result),
            }
            write_together(files)
    say(result, lines(result, clock, usual.out), usual.json_, usual.quiet)


def understood(read: Genotypes) -> str:
    missing = float((read.values < 0).mean())
    codes = ", ".join(code for code in read.codes if code)
    return f"{len(read.individuals)} individuals, {len(read.markers)} markers, genotypes {codes}, {missing:.1%} missing"


def summary(path: Path, read: Genotypes, found: LinkageMap, seed: int) -> dict[str, Any]:
    groups = found.groups
    return {
        "input": str(path),
        "understood": understood(read),
        "seed": seed,
        "groups": [[read.markers[k] for k in group.order.tolist()] for group in groups],
        "order": [group.order.tolist() for group in groups],
        "centimorgans": [[round(float(x), 3) for x in group.centimorgans] for group in groups],
        "confidence": [[round(float(c), 4) for c in group.confidence] for group in groups],
        "joins": [[round(float(c), 4) for c in group.joins] for group in groups],
        "error": [group.error for group in groups],
        "log likelihood": [round(group.likelihood, 3) for group in groups],
        "LOD": round(found.least_lod, 2),
        "status": found.status,
    }


def listing(read: Genotypes, found: LinkageMap) -> Iterator[tuple[object, ...]]:
    yield "group", "position", "marker", "centimorgans", "number in the input", "confidence"
    for number, group in enumerate(found.groups, 1):
        places = zip(group.order.tolist(), group.centimorgans, group.confidence, strict=True)
        for position, (k, at, sure) in enumerate(places, 1):
            yield number, position, read.markers[k], f"{at:.3f}", k + 1, f"{sure:.4f}"


def lines(result: dict[str, Any], clock: Clock, out: Path) -> list[str]:
    sizes = [len(group) for group in result["groups"]]
    single = sum(size == 1 for size in sizes)
    joins = [c for some in result["joins"] for c in some]
    length = sum(places[-1] for places in result["centimorgans"])
    doubtful = sum(c < DOUBTFUL for c in joins)
    unseen = " or nobody looked at them" if result["status"] == "interrupted" else ""
    why = f": nearby orders fit as well{unseen}" if doubtful else ""
    told = [
        f"{sum(sizes)} markers in {len(sizes)} group{'s' * (len(sizes) > 1)} (LOD {result['LOD']}), {length:.0f} centimorgans, "
        f"in {clock.words()}.",
        f"{doubtful} of {len(joins)} joins are doubtful (confidence below {DOUBTFUL}){why}.",
    ]
    if single:
        told.append(
            f"{single} marker{'s are' if single > 1 else ' is'} linked to nothing; a lower --lod holds more together."
        )
    if "doubt" in result:
        told.append(result["doubt"])
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    if "alternatives" in result:
        told.append("The next likeliest orders of every group are in the JSON.")
    return [*told, f"Look at {out / 'map.png'}; the map is {out / 'map.csv'}."]


def picture_of(found: LinkageMap, places: Sequence[Sequence[Sequence[int]]] = ()) -> Figure:
    """Every group as a bar with its markers, coloured by how sure they are; beside it the recombination of all pairs in order, with bars
    over where each marker may be as well."""
    import numpy as np
    from matplotlib.figure import Figure

    from ..plots import FINEST, coarser, draw_places

    chosen = [k for k, group in enumerate(found.groups) if len(group.order) > 1][:30] or [0]
    shown = [found.groups[k] for k in chosen]
    figure = Figure(figsize=(12, 5.6), layout="constrained")
    bars, pairs = figure.subplots(1, 2, width_ratios=(1.25, 1))
    layer = None
    for x, group in enumerate(shown):
        bars.plot([x, x], [0, group.centimorgans[-1]], color="#cccccc", linewidth=5, zorder=1, solid_capstyle="round")
        layer = bars.scatter(
            np.full(len(group.order), x), group.centimorgans, c=group.confidence, cmap="RdYlGn", vmin=0, vmax=1,
            marker="_", s=130, linewidths=1.2, zorder=2,
        )  # fmt: skip
    bars.invert_yaxis()
    bars.set(
        xticks=range(len(shown)),
        xticklabels=range(1, len(shown) + 1),
        xlabel="linkage group",
        ylabel="centimorgans",
        xlim=(-0.7, len(shown) - 0.3),
    )
    if layer is not None:
        figure.colorbar(layer, ax=bars, shrink=0.6, label="confidence of a marker")
    order = np.concatenate([group.order for group in shown])
    n, fractions = len(order), coarser(found.fractions[np.ix_(order, order)], 2 * FINEST)
    image = pairs.imshow(fractions, cmap="magma_r", vmin=0, vmax=0.5, extent=(-0.5, n - 0.5, n - 0.5, -0.5))
    ends = np.cumsum([0] + [len(group.order) for group in shown])
    if places:
        spans = [(first + min(some), first + max(some)) for k, first in zip(chosen, ends.tolist(), strict=False) for some in places[k]]  # fmt: skip
        draw_places(pairs, spans)
    for end in ends[1:-1]:
        pairs.axhline(end - 0.5, color="#31688e", linewidth=0.6)
        pairs.axvline(end - 0.5, color="#31688e", linewidth=0.6)
    told = f"markers in order; bars: places that hold the true one with {LEVEL:.0%}" if places else "markers in order"
    pairs.set(xticks=[], yticks=[], xlabel=told, title="recombination of pairs")
    figure.colorbar(image, ax=pairs, shrink=0.6)
    return figure
