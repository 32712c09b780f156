"""`unshuffle bench`."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..bench.timing import as_row, shown_range
from ..errors import BadInput, shown
from ..files import write_together
from .common import INTERRUPTED, harmless, json_text, png_of
from .options import Json, Out, Quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..bench.speed import Speed

Quick = Annotated[bool, typer.Option("--quick", help="Small sizes only: half a minute instead of several.")]


Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Measure this table alone, the others as --out has them: speed, scores, step, middle, tour, memory, growth or first."
    ),
]


def bench(
    out: Out = Path("unshuffle-bench"),
    quick: Quick = False,
    only: Only = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed and memory of the Sinkhorn operator on this machine.

    Forward + backward against autograd through the plain log-space loop (and POT and pygmtools, if installed), also on scores of
    a network in training and on tiny matrices; whole training steps, peak memory, growth with n, and the first call.
    Prints tables; saves bench.json and bench.png.

    Examples: unshuffle bench --out results/bench; unshuffle bench --out results/bench --only speed --only scores
    """
    notes = Console(stderr=True, quiet=quiet)
    if (warning := busy(os.cpu_count() or 1)) and not as_json:
        notes.print(warning)
    earlier = _earlier(out / "bench.json", only or ())
    nothing: dict[str, Any] = {name: [] for name in MEASURES}
    results = nothing | earlier | collect(quick, notes, only or ())
    results["machine"] = {**results.get("machine", {}), "busy": bool(warning)}
    write_together({out / "bench.json": json_text(results), out / "bench.png": png_of(draw(results))})
    if as_json:
        typer.echo(json_text(results), nl=False)
    elif not quiet:
        console = Console(width=110)
        for table in tables(results):
            if table.row_count:
                console.print(table)
        console.print(harmless(f"Saved {out / 'bench.json'} and {out / 'bench.png'}."), markup=False)
    if results.get("status") == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _earlier(file: Path, only: Sequence[str]) -> dict[str, Any]:
    """What was measured before, if not all is to be measured now."""
    unknown = [name for name in only if name not in MEASURES]
    if unknown:
        raise BadInput(f"There is no table {shown(unknown[0])} to measure: --only takes {', '.join(MEASURES)}.")
    if not only:
        return {}
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        raise BadInput(
            f"--only keeps the other tables of {file}, but that cannot be read: measure all of them first."
        ) from None


def busy(cores: int) -> str:
    """One sentence if other programs keep half of the cores or more from us."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < cores / 2:
        return ""
    return f"Others are at work on this machine (load {load:.1f} on {cores} cores): ratios hold roughly, milliseconds do not."


def collect(quick: bool, console: Console, only: Sequence[str] = ()) -> dict[str, Any]:
    """The measurements as plain data: all, or those of these names; after Ctrl-C the tables that were complete by then."""
    import torch

    from ..compute.jit import have_numba

    machine = {"cores": torch.get_num_threads(), "processor": platform.machine(), "python": platform.python_version()}
    versions = {"torch": torch.__version__, "numba": version("numba") if have_numba else "not in use"}
    found: dict[str, Any] = {}
    ended = "finished"
    with console.status("") as status:
        try:
            for name in only or MEASURES:
                found[name] = MEASURES[name](quick, status.update)
        except KeyboardInterrupt:
            if not found:
                raise
            ended = "interrupted"
    return {"machine": machine | versions, "status": ended, **found}


Say = Callable[[str], object]


def _speed(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import speed

    rows = []
    for case in speed.CASES[:2] if quick else speed.CASES:
        say(f"forward + backward, {case}")
        rows.append(as_row(speed.measure(*case, seconds=_seconds(quick))))
    return rows


def _seconds(quick: bool) -> float:
    return 0.1 if quick else 2.0


def _scores(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import speed

    rows = []
    for case in ((4096, 4, 20),) if quick else speed.TINY_MATRICES:
        say(f"tiny matrices, {case}")
        rows.append(_with_roofline(speed.measure_tiny(*case, seconds=_seconds(quick))))
    for case in ((16, 50, 10, 10.0, 20),) if quick else speed.TRAINED:
        say(f"scores of a network in training, {case}")
        rows.append(_with_roofline(speed.measure_trained(*case, seconds=_seconds(quick))))
    return rows


def _step(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import step

    rows = []
    for case in ((16, 50),) if quick else step.CASES:
        say(f"training step, {case}")
        rows.append(as_row(step.measure(*case, seconds=2 * _seconds(quick))))
    return rows


def _middle(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import step

    rows = []
    for case in ((16, 50),) if quick else step.CASES:
        say(f"training step in the middle of a training, {case}")
        rows.append(as_row(step.measure_middle(*case, seconds=2 * _seconds(quick))))
    return rows


def _tour(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import step

    say("training step of the paper's tours")
    seconds = _seconds(quick)
    found = step.measure_tours(2, 20, seconds) if quick else step.measure_tours(seconds=2 * seconds)
    return [as_row(found)]


def _memory(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import memory

    rows = []
    for iterations in () if sys.platform != "linux" else (10, 100) if quick else (10, 100, 1000):
        say(f"memory, T = {iterations}")
        rows.append(asdict(memory.measure(iterations, n=400 if quick else 1000, plain=iterations == 10)))
    return rows


def _growth(quick: bool, say: Say) -> list[dict[str, Any]]:
    from ..bench import speed

    rows = []
    for n in (10, 100) if quick else (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 4000):
        say(f"growth, n = {n}")
        rows.append(asdict(speed.growth(n)))
    return rows


def _first(quick: bool, say: Say) -> dict[str, float]:
    from ..bench import memory

    say("first call")
    return {} if quick else memory.first_calls()


MEASURES: dict[str, Callable[[bool, Say], Any]] = {
    "speed": _speed,
    "scores": _scores,
    "step": _step,
    "middle": _middle,
    "tour": _tour,
    "memory": _memory,
    "growth": _growth,
    "first": _first,
}


def _with_roofline(found: Speed) -> dict[str, Any]:
    from ..bench.speed import roofline

    bound, limit = roofline(found.batch, found.n, found.iterations)
    return as_row(found) | {"share_of_roofline": 1e3 * bound / found.ours, "limited_by": limit}


def tables(results: dict[str, Any]) -> list[Table]:
    """The same for reading."""
    speeds = _table(
        "Forward + backward, milliseconds", "batch x n, T", "ours", "plain loop", "times faster", "POT", "pygmtools"
    )
    for r in results["speed"]:
        others = ("-" if r[k] is None else f"{r[k]:.1f}" for k in ("pot", "pygmtools"))
        name = f"{r['batch']}x{r['n']}, {r['iterations']}"
        speeds.add_row(name, f"{r['ours']:.2f}", f"{r['plain']:.1f}", shown_range(r, "ratio"), *others)
    others = _table("Tiny matrices, and scores of a network in training; milliseconds", "batch x n, T", "scores", "spread", "ours",
                    "plain loop", "times faster", "times random", "roofline")  # fmt: skip
    for r in results["scores"]:
        others.add_row(
            f"{r['batch']}x{r['n']}, {r['iterations']}",
            r["scores"],
            f"{r['spread']:.0f}",
            f"{r['ours']:.2f}",
            f"{r['plain']:.1f}",
            shown_range(r, "ratio"),
            "-" if r.get("hard") is None else f"{r['hard']:.2f}",
            f"{100 * r['share_of_roofline']:.0f} %",
        )
    steps = _table("A training step (sorting, 5 samples, adaptive), milliseconds", "batch x n", "ours", "plain way", "times faster",
                   "controller adds", "entropy target adds", "without Sinkhorn", "MB", "plain MB")  # fmt: skip
    for r in results["step"] + results["middle"]:
        middle = "" if r in results["step"] else ", from [10, 11], in the middle"
        steps.add_row(
            f"{r['batch']}x{r['n']}{middle}",
            f"{r['ours']:.1f}",
            f"{r['plain']:.1f}",
            shown_range(r, "ratio"),
            *(shown_range(r, name, percent=True) for name in ("overhead", "lead")),
            "-" if r.get("rest") is None else f"{r['rest']:.1f}",
            *("-" if r[k] is None else f"{r[k]:.0f}" for k in ("ours_peak", "plain_peak")),
        )
    tours = _table("A training step of the paper's tours (8 samples, T = 50), milliseconds", "batch x n", "ours",
                   "of it loss and backward", "plain way", "times faster")  # fmt: skip
    for r in results["tour"]:
        each = (f"{r[k]:.0f}" for k in ("ours", "loss_and_backward", "plain"))
        tours.add_row(f"{r['batch']}x{r['n']}", *each, shown_range(r, "ratio"))
    peaks = _table("Peak memory beyond input, output and gradient, in matrices per batch entry",
                   "T", "ours", "of it vectors", "plain loop")  # fmt: skip
    for r in results["memory"]:
        plain = "-" if r["plain"] is None else f"{r['plain']:.1f}"
        peaks.add_row(str(r["iterations"]), f"{r['ours']:.2f}", f"{r['vectors']:.2f}", plain)
    growth = _table(
        "Growth with n, T = 10", "batch x n", "ms", "ns per entry and iteration", "share of the roofline", "limit"
    )
    for r in results["growth"]:
        each = f"{r['nanoseconds_per_entry_and_iteration']:.3f}"
        growth.add_row(
            f"{r['batch']}x{r['n']}",
            f"{r['milliseconds']:.2f}",
            each,
            f"{100 * r['share_of_roofline']:.0f} %",
            r["limited_by"],
        )
    if not results["first"]:
        return [speeds, others, steps, tours, peaks, growth]
    first = _table("Seconds", "import", "first call, nothing compiled yet", "first call of the next process")
    first.add_row(*(f"{results['first'][k]:.1f}" for k in ("import", "first_process", "second_process")))
    return [speeds, others, steps, tours, peaks, growth, first]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


def draw(results: dict[str, Any]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [f"{r['batch']}x{r['n']}\nT={r['iterations']}" for r in results["speed"]]
    left.bar(names, [r["ratio"] for r in results["speed"]], color="tab:blue")
    left.set_ylabel("times faster than the plain loop")
    left.set_title("forward + backward")
    left.tick_params(axis="x", labelsize=8)
    n = [r["n"] for r in results["growth"]]
    right.semilogx(n, [r["nanoseconds_per_entry_and_iteration"] for r in results["growth"]], "o-", color="tab:blue")
    right.set_ylim(bottom=0)
    right.set_xlabel("n")
    right.set_ylabel("ns per entry and iteration")
    right.set_title("forward + backward, T = 10")
    right.grid(True, which="both", alpha=0.3)
    return figure
