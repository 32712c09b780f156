"""``unshuffle match``: which row of one table is which row of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput
from ..files import write_together
from .common import Clock, announce, json_text, png_of, progress, say, table_text, to_the_end
from .doubts import LEVEL, wanted
from .options import Drop, Usual

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from ..readers.tables import Table
    from ..solve.match.front import Match


def match(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="CSV of the first set, an item per row: features or distances.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="CSV of the second set; other columns, other rows.")],
    distances: Annotated[bool, typer.Option("--distances", help="Both tables are square, distances of rows.")] = False,
    prior: Annotated[
        Path | None,
        typer.Option(
            "--prior",
            help="CSV of scores, rows of A by rows of B, by name if it names them; 1 weighs as much as structure.",
        ),
    ] = None,
    anchors: Annotated[
        Path | None, typer.Option("--anchors", help="CSV of known pairs: a row of A and a row of B, by name.")
    ] = None,
    reject: Annotated[
        float | None, typer.Option("--reject", help="Share of structure that must agree for a pair, between 0 and 1.")
    ] = None,
    drop: Drop = None,
    usual: Usual = Usual(Path("unshuffled/FIRST-INPUT-match")),
) -> None:
    """Match the rows of two tables by what each table knows of its own rows.

    Nothing needs to be known across the tables; --prior and --anchors help where something is. Writes pairs.csv with a confidence
    for every pair, left-out.csv, pairs.png (the two sets side by side) and result.json.

    Example: unshuffle match cells-rna.csv cells-atac.csv --anchors known.csv
    """
    from ..readers.tables import read_table
    from ..solve.match.front import match as find

    clock = Clock(usual.time_limit)
    first, second = (read_table(path, _present(path, tuple(drop or ()), (a, b))) for path in (a, b))
    announce(f"{understood(first, 'A')}; {understood(second, 'B')}.", usual.silent)
    if distances:
        first, second = square(a, first, "A"), square(b, second, "B")
    scores = None if prior is None else read_prior(prior, first, second)
    known = None if anchors is None else read_anchors(anchors, first, second)
    with progress("match", usual.silent, usual.time_limit) as show:
        show.given((first, second))
        found = find(
            first.values,
            second.values,
            distances=distances,
            reject=reject,
            prior=scores,
            anchors=known,
            seed=usual.seed,
            time_limit=clock.left,
            callback=show,
        )
        with to_the_end():
            show.stage("drawing")
            picture = png_of(picture_of((first, second), found, distances))
            result = summary((a, b), (first, second), found, usual.seed) | clock.times()
            if wanted(found.status, len(found.soft), clock):
                sets = [[k if k < len(second.rows) else None for k in some.tolist()] for some in found.sets(LEVEL)]
                result["sets"] = {"level": LEVEL, "partners": sets}
            files: dict[Path, str | bytes] = {
                usual.out / "pairs.csv": table_text([("A", "B", "confidence"), *_listed(found, first, second)]),
                usual.out / "left-out.csv": table_text([("set", "row"), *_left_out(result)]),
                usual.out / "pairs.png": picture,
                usual.out / "result.json": json_text(result),
            }
            write_together(files)
    say(result, lines(result, clock.words(), usual.out), usual.json_, usual.quiet)


def _present(path: Path, drop: tuple[str, ...], both: tuple[Path, Path]) -> tuple[str, ...]:
    """Of the columns to leave out, those that this table has; a name that neither has is an error of the reader."""
    from ..readers.cells import read_cells

    sheets = {p: read_cells(p) for p in both}
    titles = {p: {sheet.title(k).casefold() for k in range(sheet.width)} for p, sheet in sheets.items()}
    other = both[1] if path == both[0] else both[0]
    return tuple(name for name in drop if name.casefold() in titles[path] or name.casefold() not in titles[other])


def understood(table: Table, who: str) -> str:
    width = len(table.columns)
    height = len(table.rows)
    return f"{who}: {height} row{'s' * (height > 1)}, {width} column{'s' * (width > 1)} of numbers"


def square(path: Path, table: Table, who: str) -> Table:
    """Distances with the columns in the order of the rows, where they have the same names."""
    from ..readers.tables import placed

    columns = placed(table.columns, table, path, who)
    return replace(table, values=table.values[:, columns], columns=[table.columns[k] for k in columns])


def read_prior(path: Path, first: Table, second: Table) -> np.ndarray:
    """Scores in the order of the rows of A and of B: by their names, or as they come if they have other names."""
    from ..readers.tables import placed, read_table

    scores = read_table(path)
    return scores.values[placed(scores.rows, first, path, "A")][:, placed(scores.columns, second, path, "B")]


def read_anchors(path: Path, first: Table, second: Table) -> list[tuple[int, int]]:
    """Known pairs by the names of the rows (rows without names are called 1, 2, 3, ...); a line of titles may come first."""
    from ..readers.cells import read_cells

    sheet = read_cells(path, words=True)
    if sheet.width != 2:
        raise BadInput(f"{path} must have two columns, a row of A and a row of B, but has {sheet.width}.")
    numbers = [{name: k for k, name in enumerate(table.rows)} for table in (first, second)]
    pairs = sheet.body
    first_known = any(cell in known for cell, known in zip(pairs[0], numbers, strict=True))
    if not first_known and len(pairs) > 1 and not any(cell.strip().isdecimal() for cell in pairs[0]):
        pairs = pairs[1:]  # titles over names, which look alike; a number is no title
    for pair in pairs:
        for cell, known, who, table in zip(pair, numbers, "AB", (first, second), strict=True):
            if cell not in known:
                raise BadInput(
                    f"{path} names {cell[:40]!r}, which is no row of {who} ({table.rows[0]} to {table.rows[-1]})."
                )
    return [(numbers[0][x], numbers[1][y]) for x, y in pairs]


def _listed(found: Match, first: Table, second: Table) -> list[tuple[object, ...]]:
    both = zip(found.pairs.tolist(), found.confidence.tolist(), strict=True)
    return [(first.rows[i], second.rows[k], f"{c:.4f}") for (i, k), c in both]


def _left_out(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(who, name) for who in "AB" for name in result["left_out"][who]]


def summary(paths: tuple[Path, Path], tables: tuple[Table, Table], found: Match, seed: int) -> dict[str, Any]:
    out = zip("AB", tables, found.left_out, strict=True)
    return {
        "input": [str(path) for path in paths],
        "seed": seed,
        "structure": found.structure,
        "pairs": found.pairs.tolist(),
        "names": [[tables[0].rows[i], tables[1].rows[k]] for i, k in found.pairs.tolist()],
        "confidence": [round(c, 4) for c in found.confidence.tolist()],
        "left_out": {who: [table.rows[k] for k in items.tolist()] for who, table, items in out},
        "energy": found.energy if len(found.pairs) > 1 else None,
        "status": found.status,
    }


def lines(result: dict[str, Any], took: str, out: Path) -> list[str]:
    sets = [len(result["left_out"][who]) for who in "AB"]
    told = [
        f"{len(result['pairs'])} pair{'s' * (len(result['pairs']) != 1)} by {result['structure']}, in {took}; left out: {sets[0]} of A, {sets[1]} of B."
    ]
    if not result["pairs"]:
        told.append("All are left out: no pair has enough structure in common (a smaller --reject asks for less).")
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    told.append(f"Look at {out / 'pairs.png'}; the pairs are {out / 'pairs.csv'}.")
    return told


def picture_of(tables: tuple[Table, Table], found: Match, distances: bool) -> Figure:
    """The two sets side by side, lines between the items of a pair, the darker the surer."""
    import numpy as np
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    A, B = (flat(table.values, distances) for table in tables)
    i, k = found.pairs.numpy().T
    if len(i) > 2:
        B = _turned(A, B, i, k)
    B[:, 0] += 1.35
    sure = found.confidence.numpy()
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    shade = sure / max(float(sure.max()), 1e-12) if len(sure) else sure
    order = np.argsort(shade)
    links = LineCollection(list(np.stack([A[i], B[k]], 1)[order]), cmap="viridis_r", linewidths=0.9)
    links.set_array(sure[order])
    links.set_clim(0, 1)
    crowded = min(1.0, 12 / np.sqrt(max(len(i), 1)))
    links.set_alpha((crowded * (0.15 + 0.75 * shade[order])).tolist())
    axes.add_collection(links)
    for X, left_out, who in ((A, found.left_out[0], "A"), (B, found.left_out[1], "B")):
        matched = np.ones(len(X), bool)
        matched[left_out.numpy()] = False
        axes.scatter(*X[matched].T, s=14, color="#12403c", zorder=3)
        axes.scatter(*X[~matched].T, s=16, facecolors="white", edgecolors="#c04030", zorder=3)
        axes.text(X[:, 0].mean(), max(A[:, 1].max(), B[:, 1].max()) + 0.04, who, ha="center", fontsize=13)
    counted = f"{len(i)} pair{'s' * (len(i) != 1)}"
    axes.set_title(f"{counted} by {found.structure}; red circles are left out", pad=20)  # above A and B
    if len(i):
        figure.colorbar(links, ax=axes, label="confidence", fraction=0.03)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.axis("off")
    return figure


def flat(values: np.ndarray, distances: bool) -> np.ndarray:
    """Every item on a sheet of size 1: its coordinates if there are two, otherwise the two leading directions."""
    import numpy as np
    import torch

    from ..compute.threads import small_steps
    from ..solve.match.checks import structures
    from ..solve.match.starts import directions

    X = values
    if distances or values.shape[1] != 2:
        D, _, _ = structures(values, values, distances, None)
        with small_steps():  # where others work too, threads that wait for each other take seconds
            X = directions(-0.5 * D**2, min(2, len(D)))[0].flip(-1).to(torch.float64).numpy()
        X = np.pad(X, ((0, 0), (0, 2 - X.shape[1])))
    return (X - X.mean(0)) / max(float(np.ptp(X, axis=0).max()), 1e-12)


def _turned(A: np.ndarray, B: np.ndarray, i: np.ndarray, k: np.ndarray) -> np.ndarray:
    """B turned and mirrored so that its pairs lie as A's do (orthogonal Procrustes): links that cross are then mistakes."""
    import numpy as np

    U, _, V = np.linalg.svd(B[k].T @ A[i])
    return B @ U @ V
