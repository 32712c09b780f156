"""`unshuffle report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import write_together
from .common import harmless, json_text
from .options import Json, Out, Quiet

Folder = Annotated[Path, typer.Option("--store", help="Folder of the result files of `unshuffle reproduce`.")]
Figures = Annotated[Path | None, typer.Option("--figures", help="A folder for the figures as SVG files, too.")]
Others = Annotated[Path | None, typer.Option("--others", help="Another folder of result files, that are added.")]


def report(
    store: Folder = Path("results/runs"),
    others: Others = None,
    out: Out = Path("unshuffle-report"),
    figures: Figures = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the paper's tables and figures with ours beside them.

    From result files alone: report.md, report.tex and report.html, one page with everything in it that opens without network.

    Example: unshuffle report --store results/runs --out results/report --figures docs/images/paper
    """
    from ..report.build import build_report

    made = build_report(store, others)
    texts = {"report.md": made.markdown, "report.tex": made.latex, "report.html": made.html}
    wanted: dict[Path, str | bytes] = {out / name: text for name, text in texts.items()}
    if figures is not None:
        wanted |= {figures / picture.file: picture.svg for picture in made.pictures}
    files = write_together(wanted)
    if as_json:
        cells = {
            table.name: sum(
                bool(cell.ours) for rows in table.sections.values() for row in rows.values() for cell in row.values()
            )
            for table in made.tables
        }
        typer.echo(json_text({"files": [str(f) for f in files], "cells": cells, "failed": len(made.failed)}), nl=False)
    elif not quiet:
        for file in files:
            typer.echo(harmless(f"Wrote {file}."))
        if made.failed:
            typer.echo(f"{len(made.failed)} runs failed; the report names them.")
