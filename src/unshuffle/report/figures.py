"""Figures from results, as SVG."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..paper.store import SCALES, Result
from .examples import draw_jigsaw, draw_tour
from .mechanism import draw_mechanism
from .overview import draw_overview
from .pairs import pairs, where
from .summary import PaperTable

COLOURS = {
    "global": "tab:blue",
    "adaptive": "tab:orange",
    "matched": "tab:green",
    "entropy": "tab:purple",
    "strong recipe": "tab:red",
}
NAMES = {name: name for name in COLOURS} | {"matched": "matched scalar", "entropy": "entropy target"}
PAPERS_OVERHEAD = (10.0, 15.0)  # percent


@dataclass(frozen=True)
class Picture:
    title: str
    words: str
    svg: bytes

    @property
    def file(self) -> str:
        """Its name on disk."""
        return "-".join(self.title.lower().replace(",", "").split()) + ".svg"


def pictures(results: Sequence[Result], tables: dict[str, PaperTable]) -> list[Picture]:
    """All figures for which there are results."""
    drawn = (
        ("Overview", OVERVIEW, draw_overview(_latest(results, "overview"))),
        ("Mechanism", MECHANISM, draw_mechanism(case) if (case := _latest(results, "mechanism")) else None),
        ("Learning curves", CURVES, draw_curves(results, "epoch", "epoch")),
        (
            "Ambiguity and quality during training",
            ENTROPY,
            draw_curves(results, "row_entropy_mean", "mean row entropy"),
        ),
        ("Adaptive minus global, seed by seed", PAIRED, draw_pairs([tables["sorting"], tables["jigsaw"]])),
        ("Sensitivity", SENSITIVITY, draw_sensitivity(tables["sensitivity"])),
        ("Runtime", RUNTIME, draw_overhead(tables["runtime"])),
        ("A tour", TOUR, draw_tour(_latest(results, "example-tour"))),
        ("A jigsaw", JIGSAW, draw_jigsaw(_latest(results, "example-jigsaw"))),
    )
    return [Picture(title, words, svg(figure)) for title, words, figure in drawn if figure is not None]


OVERVIEW = (
    "A jigsaw in the middle of its training, with a global temperature and with the adaptive field, by the paper's loss and the same "
    "noise: rows that are undecided get a lower inverse temperature. Scores are free numbers here, not a network's; later both decode to the picture."
)
MECHANISM = (
    "One scalar temperature must serve a block of easy rows and one of hard rows. Here none does; the adaptive field does. "
    "The case is chosen so that the claim holds: see docs/reproducing.md on Proposition 1."
)
CURVES = "Kendall tau on held-out lists (they decide nothing but the kept epoch). One line per seed."
ENTROPY = "The paper's diagnostic: Kendall tau against the mean row entropy of the soft permutation, over training. One line per seed."
PAIRED = "Each dot is one seed, both methods on the same lists from the same first weights. Right of the line: adaptive is better."
SENSITIVITY = "Mean tour length over the threshold and the largest boost of the entropy controller. Smaller is better."
RUNTIME = "What the controller adds to a training step, one dot per measurement. The band is what the paper says of its own code."
TOUR = "Random cities as given, by nearest neighbour, and by solve: no training, no search."
JIGSAW = "A photo in shuffled tiles, and put back together by solve: no training, no anchors."


def svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "unshuffle"}):  # the same figure is the same file
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _latest(results: Iterable[Result], task: str) -> Result | None:
    """Of the largest scale."""
    found = [r for r in results if r.task == task and r.error is None and r.places]
    return max(found, key=lambda r: SCALES.index(r.places[0].scale), default=None)


def draw_curves(results: Sequence[Result], across: str, title: str) -> Figure | None:
    """Kendall tau of the sorting runs against `across`, one panel per value range and for the largest lists of each recipe."""
    lines: dict[tuple[str, int], list[tuple[str, dict[str, list[float]]]]] = {}
    for result in results:
        for p in result.places:
            wanted = p.table == "sorting" and p.row in COLOURS and {"tau", across} <= set(result.history)
            if wanted and p.column.isdigit() and (across == "epoch" or p.row != "strong recipe"):
                lines.setdefault((p.section, int(p.column)), []).append((p.row, result.history))
    hard = {key: found for key, found in lines.items() if len({row for row, _ in found} - {"strong recipe"}) > 1}
    sizes = sorted({n for _, n in hard})[-2:]
    panels = [key for key in sorted(hard, key=lambda key: (key[1], key[0])) if key[1] in sizes]
    return _panels(panels, lambda ax, key: _draw_lines(ax, key, hard[key], across, title)) if panels else None


def _panels(keys: Sequence[Any], draw: Callable[[Axes, Any], None]) -> Figure:
    columns = min(2, len(keys))
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax, key in zip(axes, keys, strict=False):
        draw(ax, key)
    for ax in axes[len(keys) :]:
        ax.set_axis_off()
    named = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    # below the panels: inside it hides lines
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _draw_lines(ax: Axes, key: tuple[str, int], lines: list, across: str, title: str) -> None:
    named = set()
    for row, history in sorted(lines, key=lambda line: list(COLOURS).index(line[0])):
        label = None if row in named else NAMES[row]
        ax.plot(history[across], history["tau"], color=COLOURS[row], linewidth=1.1, alpha=0.8, label=label)
        named.add(row)
    ax.set(title=f"n = {key[1]}, values in {key[0]}", xlabel=title, ylabel="Kendall tau")
    if across != "epoch":
        ax.invert_xaxis()  # training goes from soft to hard
    ax.grid(alpha=0.3)


def draw_pairs(tables: Iterable[PaperTable]) -> Figure | None:
    found = [(table, p) for table in tables for p in pairs(table) if (p.first, p.second) == ("adaptive", "global")]
    if not found:
        return None
    figure = Figure(figsize=(7.0, 0.9 + 0.28 * len(found)), layout="constrained")
    ax = figure.subplots()
    for k, (_, pair) in enumerate(found):
        ax.plot(pair.differences, [k] * len(pair.differences), "o", color="tab:orange", alpha=0.7, markersize=5)
        ax.plot([pair.mean], [k], "|", color="black", markersize=12)
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set_yticks(range(len(found)), [f"{t.name} {where(p, t)}" for t, p in found], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("Kendall tau, adaptive minus global; bar: mean")
    ax.grid(axis="x", alpha=0.3)
    return figure


def draw_sensitivity(table: PaperTable) -> Figure | None:
    rows = table.sections.get("", {})
    values = [[cells[c].mean for c in table.columns] for cells in rows.values()]
    if not values or any(v is None for line in values for v in line):
        return None
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    ax = figure.subplots()
    shown = np.array(values, dtype=float)
    image = ax.imshow(shown, cmap="viridis")
    for (i, j), value in np.ndenumerate(shown):
        dark = value < shown.min() + 0.6 * np.ptp(shown)
        ax.text(
            j, i, f"{value:.{table.digits}f}", ha="center", va="center", color="white" if dark else "black", fontsize=9
        )
    ax.set_xticks(range(len(table.columns)), table.columns)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel="largest boost b_max", ylabel="threshold H0")
    figure.colorbar(image, label="tour length")
    return figure


def draw_overhead(table: PaperTable) -> Figure | None:
    cells = table.sections.get("", {}).get("controller", {})
    measured = {column: list(cell.ours.values()) for column, cell in cells.items() if cell.ours}
    if not measured:
        return None
    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    ax = figure.subplots()
    ax.axhspan(*PAPERS_OVERHEAD, color="grey", alpha=0.2, linewidth=0, label="the paper: 10 to 15 %")
    for k, values in enumerate(measured.values()):
        ax.plot([k] * len(values), values, "o", color="tab:blue", alpha=0.7, label="ours" if k == 0 else None)
    ax.set_xticks(range(len(measured)), list(measured))
    ax.set_xlim(-0.5, len(measured) - 0.5)
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    ax.set(xlabel="lists x n", ylabel="added to a step, %")
    ax.legend(fontsize=8)
    return figure
