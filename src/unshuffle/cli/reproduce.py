"""`unshuffle reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import BadInput, whole
from .common import INTERRUPTED, can_be_written, errors, json_text, one_of
from .options import Quiet

if TYPE_CHECKING:
    from ..paper.run import Planned
    from ..paper.store import Result, Store

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table or figure of the paper, or all.")]
ScaleName = Annotated[
    str,
    typer.Option(
        "--scale",
        help="smoke: a minute; cpu: some hours on two cores, cuts stated; sizes: the paper's sizes, fewer epochs of pictures and tours, days; paper: in full.",
    ),
]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Which ones, with commas between (default: 0,1,2; smoke: 0,1).")
]
Folder = Annotated[
    Path, typer.Option("--store", help="Folder of the result files: what is there is not computed again.")
]
Only = Annotated[str | None, typer.Option("--only", help="Only rows whose name contains this.")]
Rows = Annotated[
    list[str] | None, typer.Option("--row", help="Only the row of exactly this name (can be given several times).")
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="Only this column, such as 100 (can be given several times).")
]
Sections = Annotated[
    list[str] | None, typer.Option("--section", help='Only this part of the table, such as "[10, 11]".')
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of pictures for the jigsaws.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes at a time.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 ... (default: cuda if there is one).")]
Limit = Annotated[
    float | None, typer.Option("--limit-minutes", min=0.0, help="Save and stop after so long; the next call goes on.")
]
Executor = Annotated[str, typer.Option("--executor", help="local: processes here; ray: tasks on a Ray cluster.")]
Address = Annotated[str | None, typer.Option("--address", help="Of the Ray cluster (default: one is started here).")]
Retry = Annotated[bool, typer.Option("--retry", help="Compute failed runs again.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output.")]


def reproduce(
    table: TableName,
    scale: ScaleName = "cpu",
    seeds: Seeds = None,
    store: Folder = Path("results/runs"),
    only: Only = None,
    row: Rows = None,
    column: Columns = None,
    section: Sections = None,
    data: Data = None,
    workers: Workers = 1,
    device: Device = None,
    limit_minutes: Limit = None,
    executor: Executor = "local",
    address: Address = None,
    retry: Retry = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute a table of the paper, ours beside the paper's.

    Every run is a file in the store, so an interrupted table goes on where it stopped, and several processes can work on
    one store. Failed runs are kept with their error and stop nothing; at the end the exit code is 1.

    Example: unshuffle reproduce sorting --scale smoke --store runs
    """
    from ..learn.team import usable
    from ..paper.executor import Local, not_yet_computed
    from ..paper.store import SCALES, Store
    from ..paper.tables import NEED_PICTURES, TABLES, Wanted

    can_be_written(store)
    one_of("TABLE", table, (*TABLES, "all"))
    one_of("--scale", scale, SCALES)
    one_of("--executor", executor, ("local", "ray"))
    if data is not None and not data.is_dir():
        raise BadInput(f"--data must be a folder of pictures, but there is no folder {data}.")
    if device is not None and executor == "local":
        usable(device)  # or every run would fail, and be kept as failed
    names = [name for name in TABLES if data is not None or name not in NEED_PICTURES] if table == "all" else [table]
    if table == "all" and data is None and not quiet:
        errors.print("Without --data FOLDER the jigsaw tables are left out.")
    wanted = Wanted(scale, _numbers(seeds or ("0,1" if scale == "smoke" else "0,1,2")), data)  # pyright: ignore[reportArgumentType]
    planned = _chosen([one for name in names for one in TABLES[name](wanted)], only, row, column, section)
    results = Store(store)
    missing = not_yet_computed(planned, results, retry)
    with _Progress(len(planned), len(planned) - len(missing), quiet) as shown:
        limit = None if limit_minutes is None else 60 * limit_minutes
        if executor == "ray":
            from ..paper.cluster import OnRay

            undone = OnRay(address, device, limit)(missing, results, shown.tell)
        else:
            undone = Local(workers, device, limit)(missing, results, shown.tell)
    not_yet_computed(planned, results, retry=False)  # runs that stand in several tables are noted in each
    failed = _show(names, planned, results, undone, as_json, quiet)
    if undone:
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(1)


def _chosen(planned: list[Planned], only: str | None, *exact: list[str] | None) -> list[Planned]:
    """What was asked for; a sentence that says what there is, if that is nothing."""
    kept = [one for one in planned if only is None or only in one.place.row]
    if not kept:
        raise BadInput(f"No row has {only!r} in its name, so there is nothing to compute; leave out --only to see all.")
    for part, wanted in zip(("row", "column", "section"), exact, strict=True):
        there = list(dict.fromkeys(getattr(one.place, part) for one in kept))
        for word in wanted or ():
            one_of(f"--{part}", word, there)
        kept = [one for one in kept if not wanted or getattr(one.place, part) in wanted]
    return kept


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(whole("A seed", int(part), 0) for part in text.split(",")))
    except ValueError:
        raise BadInput(f"Seeds are whole numbers with commas between, such as 0,1,2, not {text!r}.") from None


class _Progress:
    """A bar on a terminal; a line per finished run in a log."""

    def __init__(self, total: int, done: int, quiet: bool) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.quiet = quiet
        self.bar = Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal)
        self.task = self.bar.add_task("", total=total, completed=done)
        self.done, self.total = done, total

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, one: Planned, result: Result) -> None:
        self.done += 1
        p = one.place
        where = " ".join(word for word in (p.table, p.section, p.row, p.column, f"seed {p.seed}") if word)
        numbers = result.error or "  ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
        line = f"[{self.done}/{self.total}] {where}: {numbers}  ({result.seconds:.0f} s)"
        self.bar.update(self.task, advance=1, description=where)
        if not self.quiet:
            self.bar.console.print(line, markup=False, soft_wrap=True)


def _show(names: list[str], planned: list[Planned], store: Store, undone: int, as_json: bool, quiet: bool) -> int:
    """Returns how many runs failed."""
    from ..report.summary import reported, table

    names = [name for name in names if name in reported()]
    stored = store.by_task()
    read = [result for one in planned if (result := one.found(stored)) is not None]
    unique = list({result.key: result for result in read}.values())
    failed = [result for result in unique if result.error is not None]
    if as_json:
        cells = [
            {"table": name, "section": section, "row": row, "column": column, "ours": list(cell.ours.values())}
            | {"paper": cell.paper, "difference": cell.difference, "cuts": cell.cuts}
            for name in names
            for section, rows in table(name, unique).sections.items()
            for row, cells in rows.items()
            for column, cell in cells.items()
            if cell.ours
        ]
        summary = {"runs": len(unique), "failed": len(failed), "undone": undone, "cells": cells}
        typer.echo(json_text(summary), nl=False)
    elif not quiet:
        console = Console(width=None if sys.stdout.isatty() else 150)
        for name in names:
            for shown in _tables(name, unique):
                console.print(shown)
        for result in failed:
            console.print(f"Failed: {result.task}-{result.key}: {result.error}", markup=False, soft_wrap=True)
        if undone:
            console.print(f"{undone} runs are left: the same command goes on with them.")
    return len(failed)


def _tables(name: str, results: list[Result]) -> list[Table]:
    from ..report.summary import table
    from ..report.words import cell_text

    found, shown = table(name, results), []
    for section, rows in found.sections.items():
        columns = [c for c in found.columns if any(row[c].ours for row in rows.values())]
        view = Table(title=" ".join(filter(None, (found.title, section))) + ": ours (paper)", title_justify="left")
        view.add_column("")
        for column in columns:
            view.add_column(column, justify="right")
        for row, cells in rows.items():
            view.add_row(found.names[row], *(cell_text(cells[c], found.digits, found.paper_digits) for c in columns))
        if columns:
            shown.append(view)
    return shown
