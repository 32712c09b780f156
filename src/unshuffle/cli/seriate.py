"""``unshuffle seriate``: a table whose rows (and columns) are put in an order in which neighbours are alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput
from ..plots import FINEST, coarser, draw_matrix, draw_places
from ..tasks.criteria import Criterion, Kind
from .common import DRAWING, Clock, announce, foresee, png_of, progress, say, table_text, to_the_end
from .doubts import LEVEL, alternatives_in, next_best, sets_in, spans
from .labels import MOST_NAMES, name_ticks
from .options import Alternatives, Drop, Polish, Use, Usual, names_of
from .results import write_results

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from ..readers.tables import Table
    from ..tasks.seriation import Seriation

MANY = 3e-5  # seconds for each number of a long table: its picture and its files


def seriate(
    table: Annotated[Path, typer.Argument(help="CSV of features, counts (incidence, abundance) or dissimilarities.")],
    kind: Annotated[Kind | None, typer.Option("--kind", help="What the numbers are; found out if not given.")] = None,
    criterion: Annotated[
        Criterion | None,
        typer.Option(
            "--criterion",
            help="path: length of the way through the rows; two-sum: all pairs, where neighbours say little; lags: the way over half of all "
            "lags. Path or two-sum, by what the table asks for, if not given.",
        ),
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="Order the columns as well.")] = False,
    use: Use = None,
    drop: Drop = None,
    polish: Polish = False,
    others: Alternatives = 0,
    usual: Usual = Usual(Path("unshuffled/INPUT-seriate")),
) -> None:
    """Order the rows (and columns) of a table so that neighbours are alike.

    Compares with spectral seriation and optimal leaf ordering on the same criterion; more than 2,000 rows are ordered by their near
    neighbours instead, without all pairs. Writes rows.csv (and columns.csv), the
    ordered table.csv, before-after.png and result.json.

    Example: unshuffle seriate graves.csv --columns --drop Site --drop Period
    """
    import numpy as np

    from ..readers.tables import read_table
    from ..tasks import seriation

    clock = Clock(usual.time_limit)
    with progress("seriate", usual.silent, usual.time_limit) as show:
        show.stage("reading the table")
        read = read_table(table, tuple(drop or ()), names_of(use))
        assumed = "" if kind else f" Taken as {seriation.ASSUMED[seriation.kind_of(read)]}."
        kind = kind or seriation.kind_of(read)
        many = seriation.many(read, kind)
        if many and criterion not in (None, Criterion.path):
            name = "2-SUM" if criterion is Criterion.two_sum else "A path over many lags"
            raise BadInput(
                f"{name} compares all pairs of rows, which {len(read.rows)} rows are too many for; leave --criterion out."
            )
        apart = seriation.coordinates(read, kind) if many else seriation.dissimilarity(read, kind)
        if not many:
            show.given((read, apart))
        announce(f"{understood(read)}.{assumed}", usual.silent)
        foresee(*seriation.foreseen(len(apart), criterion, usual.time_limit, many), usual.silent)
        share = 0.7 if columns and kind is not Kind.dissimilarity else 1.0  # of the time; the rest is for the columns
        left = clock.before(MANY * read.values.size if many else DRAWING + 1e-6 * len(apart) ** 2)
        limit = None if left is None else left * share
        options = {"seed": usual.seed, "time_limit": limit, "callback": show, "polish": polish}
        found = seriation.seriate_many(apart, **options) if many else seriation.seriate(apart, criterion, **options)
        across, sure = np.arange(len(read.columns)), np.zeros(len(read.columns))
        if kind is Kind.dissimilarity:
            across, sure = found.order, found.solution.confidence.numpy()
        elif columns:
            show.stage("ordering the columns")
            stopped = found.solution.status == "interrupted"
            across, sure = seriation.column_order(read, kind, found.order, usual.seed, 0.0 if stopped else clock.left)
        with to_the_end():
            show.stage("drawing")
            result = summary(table, read, kind, found, usual.seed, across if columns else None)
            result |= alternatives_in(found.solution.alternatives(others), others, "value")
            result |= sets_in(found.solution, clock=clock)
            picture = png_of(picture_of(read, found, across, spans(result, found.order.tolist())))
            rows = table_text(listing("row", read.rows, found.order, found.solution.confidence.numpy()))
            files: dict[str, str | bytes] = {"rows.csv": rows, "before-after.png": picture}
            if columns:
                files["columns.csv"] = table_text(listing("column", read.columns, across, sure))
            files["table.csv"] = table_text(ordered_table(read, found.order, across))
            result |= clock.times()
            write_results(usual.out, files, result)
    say(result, lines(result, clock, usual.out) + next_best(result, others, "value"), usual.json_, usual.quiet)


def understood(table: Table) -> str:
    named = f"named by column {table.named_by}" if table.named_by else "without names"
    few = table.columns if len(table.columns) <= 6 else [*table.columns[:3], "...", table.columns[-1]]
    ignored = f"; ignored: {', '.join(table.ignored)}" if table.ignored else ""
    width = len(table.columns)
    return f"{len(table.rows)} rows {named}, {width} column{'s' * (width > 1)} of numbers ({', '.join(few)}){ignored}"


def listing(what: str, names: list[str], order: np.ndarray, sure: np.ndarray) -> list[tuple[object, ...]]:
    lines = [(place + 1, names[k], k + 1, f"{sure[k]:.4f}") for place, k in enumerate(order.tolist())]
    return [("position", what, "number in the input", "confidence"), *lines]


def ordered_table(table: Table, rows: np.ndarray, across: np.ndarray) -> list[list[object]]:
    def line(r: int) -> list[object]:
        return [table.rows[r], *(f"{table.values[r, k]:.15g}" for k in across.tolist())]

    return [["", *(table.columns[k] for k in across.tolist())], *(line(r) for r in rows.tolist())]


def summary(
    path: Path, table: Table, kind: Kind, found: Seriation, seed: int, across: np.ndarray | None
) -> dict[str, Any]:
    from ..tasks.standard import anti_robinson, path_length, two_sum

    D, few = found.dissimilarity, len(found.order) <= 500

    def measures(order: np.ndarray) -> dict[str, float]:
        if D is None:
            return {"path length": found.value}
        both: dict[str, float] = {"path length": path_length(D, order), "2-SUM": two_sum(D, order)}
        return {**both, "anti-Robinson events": anti_robinson(D, order)} if few else both

    result: dict[str, Any] = {
        "input": str(path),
        "understood": understood(table),
        "kind": kind.value,
        "criterion": found.criterion.value,
        "seed": seed,
        "order": found.order.tolist(),
        "names in order": [table.rows[k] for k in found.order.tolist()],
        "value": found.value,
        "from": found.winner,
        "measures": measures(found.order),
        "others": {
            name: {"value": value, "measures": measures(order)} for name, (value, order) in found.others.items()
        },
        "lowest": lowest(found),
        "confidence": [round(float(c), 4) for c in found.solution.confidence],
        "status": found.solution.status,
    }
    if across is not None:
        result["column order"] = across.tolist()
    if found.solution.polished is not None:
        result["polished"] = {
            "order": found.solution.best_order.tolist(),
            "value": found.solution.best_energy,
        }
    return result


def lowest(found: Seriation) -> str:
    """Whose value is lowest; ours if they are equal up to rounding."""
    if not found.others:
        return "unshuffle"
    name, (value, _) = min(found.others.items(), key=lambda other: other[1][0])
    return "unshuffle" if found.value <= value + 1e-9 * abs(value) else name


def lines(result: dict[str, Any], clock: Clock, out: Path) -> list[str]:
    told = [
        f"{len(result['order'])} rows ({result['kind']}), criterion {result['criterion']}: {result['value']:.6g} "
        f"({result['from']}), in {clock.words()}."
    ]
    for name, other in result["others"].items():
        gap = other["value"] - result["value"]
        word = (
            "the same" if abs(gap) <= 1e-9 * abs(result["value"]) else "ours is lower" if gap > 0 else "theirs is lower"
        )
        told.append(f"{name[0].upper()}{name[1:]}: {other['value']:.6g}; {word}.")
    if "polished" in result:
        told.append(f"Polish: {result['value']:.6g} -> {result['polished']['value']:.6g}.")
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    told.append(f"Look at {out / 'before-after.png'}; the order is {out / 'rows.csv'}.")
    return told


def picture_of(table: Table, found: Seriation, across: np.ndarray, spans: Sequence[tuple[int, int]] = ()) -> Figure:
    """The table and its dissimilarities, before and after, with names where they can be read, how sure each row is and where else it may be."""
    import numpy as np
    from matplotlib.figure import Figure

    X, D, order = table.values, found.dissimilarity, found.order
    scale = np.abs(X).max(0)
    shown = X / np.where(scale > 0, scale, 1)
    if D is None:
        return picture_of_many(shown, shown[np.ix_(order, across)], found.solution.confidence.numpy()[order])
    named = [table.rows[k] for k in order], [table.columns[k] for k in across]
    few = min(len(X), MOST_NAMES)
    figure = Figure(figsize=(10.5, max(8.0, 0.24 * few)), layout="constrained")
    panels = figure.subplots(2, 3, width_ratios=(1, 0.05, 1))
    pictures = ((shown, D), (shown[np.ix_(order, across)], D[np.ix_(order, order)]))
    for line, (pair, when) in enumerate(zip(pictures, ("before", "after"), strict=True)):
        rows, columns = named if line else (table.rows, table.columns)
        for axes, values, what in zip(panels[line, ::2], pair, ("table", "dissimilarity"), strict=True):
            height, width = values.shape
            axes.imshow(
                coarser(values, 2 * FINEST), aspect="auto", cmap="viridis" if what == "table" else "magma",
                interpolation="nearest", extent=(-0.5, width - 0.5, height - 0.5, -0.5),
            )  # fmt: skip
            axes.set_title(f"{what}, {when}")
            axes.set_xlabel("columns" if what == "table" else "rows")
            if what == "table":
                axes.set_ylabel("rows")
                name_ticks(axes, rows, columns)
            else:
                axes.set(xticks=[], yticks=[])
    draw_places(panels[1, 2], spans)
    if any(high > low for low, high in spans):
        panels[1, 2].set_xlabel(f"rows; bars: places that hold the true one with {LEVEL:.0%}")
    sure = found.solution.confidence.numpy()[order][:, None]
    layer = panels[1, 1].imshow(sure, aspect="auto", cmap="RdYlGn", vmin=0, vmax=1, interpolation="nearest")
    panels[1, 1].set(xticks=[], yticks=[], title="sure")
    figure.colorbar(layer, ax=panels[1, 2], shrink=0.7, label="confidence of a row")
    panels[0, 1].set_axis_off()
    return figure


def picture_of_many(before: np.ndarray, after: np.ndarray, sure: np.ndarray) -> Figure:
    """A long table, rows as given and in order, means of neighbouring rows where there are more than a picture shows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 6.5), layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 0.08))
    for axes, values, when in zip(panels, (before, after), ("as given", "in order"), strict=False):
        draw_matrix(axes, values)
        axes.set(title=f"table, {when}", xlabel="columns", ylabel="rows")
    layer = panels[2].imshow(
        coarser(sure[:, None], FINEST), aspect="auto", cmap="RdYlGn", vmin=0, vmax=1, interpolation="nearest"
    )
    panels[2].set(xticks=[], yticks=[], title="sure")
    figure.colorbar(layer, ax=panels[2], label="confidence of a row")
    return figure
