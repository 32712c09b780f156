"""All results in, three texts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput
from ..paper.store import Result, Store
from .figures import pictures
from .others import joined, measured_elsewhere
from .page import page
from .summary import PaperTable, tables
from .text import latex, markdown


@dataclass(frozen=True)
class Report:
    tables: list[PaperTable]
    failed: list[Result]
    markdown: str
    latex: str
    html: str


def build_report(store: Path, others: Path | None = None) -> Report:
    """`others`: the folder with the results of the benchmarks, for the rows that they measured."""
    runs = list(Store(store)) if store.is_dir() else []
    elsewhere = measured_elsewhere(others) if others is not None else []
    if not runs and not elsewhere:
        raise BadInput(f"There are no results in {store}: run `unshuffle reproduce` first, or name another folder.")
    results = joined(runs, elsewhere)
    found = tables(results)
    about = _about(runs, elsewhere)
    drawn = pictures(results, {table.name: table for table in found})
    failed = [result for result in runs if result.error is not None]
    return Report(found, failed, markdown(found, about), latex(found, about), page(found, drawn, about))


def _about(runs: Sequence[Result], elsewhere: Sequence[Result]) -> list[str]:
    """What this is made of."""
    failed = [f"{result.task}-{result.key}: {result.error}" for result in runs if result.error is not None]
    scales = Counter(place.scale for result in runs for place in result.places)
    hours = sum(result.seconds for result in (*runs, *elsewhere)) / 3600
    said = [
        f"{len(runs)} runs by unshuffle reproduce ("
        + (", ".join(f"scale {scale}: {count} cells" for scale, count in sorted(scales.items())) or "none")
        + f"), {len(elsewhere)} results of benchmarks; {hours:.1f} hours of computing in all."
    ]
    for name, value in sorted(
        {(k, v) for result in runs for k, v in result.versions.items() if k in ("torch", "unshuffle")}
    ):
        said[0] += f" {name} {value}."
    if failed:
        said.append("Failed runs: " + "; ".join(failed) + ".")
    return said
