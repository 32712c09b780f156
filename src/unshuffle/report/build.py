"""All results in, three texts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput
from ..paper.store import Result, Store
from .figures import Picture, pictures
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
    pictures: list[Picture]


def build_report(store: Path, others: Path | None = None) -> Report:
    """`others`: another folder of results, that are added."""
    folders = [folder for folder in (store, others) if folder is not None and folder.is_dir()]
    results = [result for folder in folders for result in Store(folder)]
    if not results:
        raise BadInput(f"There are no results in {store}: run `unshuffle reproduce` first, or name another folder.")
    found = tables(results)
    about = _about(results)
    drawn = pictures(results, {table.name: table for table in found})
    failed = [result for result in results if result.error is not None]
    return Report(found, failed, markdown(found, about), latex(found, about), page(found, drawn, about), drawn)


def _about(results: Sequence[Result]) -> list[str]:
    """What this is made of."""
    runs = [result for result in results if result.task != "measured"]
    failed = [f"{result.task}-{result.key}: {result.error}" for result in runs if result.error is not None]
    scales = Counter(place.scale for result in runs for place in result.places)
    hours = sum(result.seconds for result in results) / 3600
    said = [
        f"{len(runs)} runs ("
        + (", ".join(f"scale {scale}: {count} cells" for scale, count in sorted(scales.items())) or "none")
        + f"), {len(results) - len(runs)} results of benchmarks; {hours:.1f} hours of computing in all."
    ]
    for name, value in sorted(
        {(k, v) for result in runs for k, v in result.versions.items() if k in ("torch", "unshuffle")}
    ):
        said[0] += f" {name} {value}."
    if failed:
        said.append("Failed runs: " + "; ".join(failed) + ".")
    return said
