"""Pictures of results: a tour, a heat map, a grid of pictures, a soft permutation, a history; on given axes or new ones.

Matplotlib is loaded when something is drawn. `card` is how a result shows itself in a notebook.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .watch import Step

LINE, START, SURE, DOUBT = "#31688e", "#d1495b", "RdYlGn", "#2ec4d6"
FINEST = 256  # rows and columns of a matrix that a picture can show
MANY = 2000  # points whose rings would hide the way through them
LARGEST = 64  # pixels of a side, of a picture among many


def new_axes(ax: Axes | None, size: tuple[float, float] = (4.8, 4.4)) -> Axes:
    """The given axes, or those of a new figure of pyplot, which a notebook shows by itself."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def draw_tour(ax: Axes, points: Any, order: Any, *, closed: bool, confidence: Any = None) -> Axes:
    """The way through the points, a red ring where it begins, and how sure each of them is."""
    points, order = np.asarray(points, dtype=float), np.asarray(order)
    if points.ndim != 2 or points.shape[1] < 2 or len(points) < len(order):
        raise BadInput(
            f"points must be coordinates of all {len(order)} items (items x 2), not of shape {points.shape}."
        )
    way = points[[*order, order[0]] if closed else order]
    many = len(order) > MANY
    ax.plot(way[:, 0], way[:, 1], color=LINE, linewidth=0.5 if many else 1.2)
    size = max(0.5 if many else 2.0, 30.0 / max(1.0, len(order) / 60))
    if confidence is None:
        ax.scatter(*points[order, :2].T, s=size, color="#222222", zorder=2)
    else:
        sure = ax.scatter(
            *points[order, :2].T, s=size, c=np.asarray(confidence)[order], cmap=SURE, vmin=0, vmax=1, zorder=2,
            edgecolors="none" if many else "#222222", linewidths=0.4,
        )  # fmt: skip
        ax.figure.colorbar(sure, ax=ax, shrink=0.6, label="confidence")
    ax.scatter(*way[:1, :2].T, s=max(4 * size, 8.0), facecolors="none", edgecolors=START, linewidths=1.5, zorder=3)
    ax.set_aspect("equal")
    ax.margins(0.08)
    ax.tick_params(labelsize=8)
    return ax


def draw_partners(ax: Axes, points: Any, order: Any, partners: Sequence[Any]) -> None:
    """A thin dashed line from each point to whom it may well stand beside, and does not in this tour."""
    from matplotlib.collections import LineCollection

    points, order = np.asarray(points, dtype=float)[:, :2], np.asarray(order)
    beside = {frozenset(pair) for pair in zip(order.tolist(), np.roll(order, -1).tolist(), strict=True)}
    doubted = {frozenset((item, int(other))) for item, some in enumerate(partners) for other in some} - beside
    lines = [points[sorted(pair)] for pair in doubted]
    ax.add_collection(LineCollection(lines, colors=START, linewidths=0.6, linestyles=(0, (3, 2)), zorder=1))


def draw_places(ax: Axes, spans: Sequence[tuple[int, int]]) -> None:
    """Across a matrix in order, in the row of each item, a bar from the first to the last place it may well have; none where there is one."""
    from matplotlib.collections import LineCollection

    lines = [[(low - 0.5, k), (high + 0.5, k)] for k, (low, high) in enumerate(spans) if high > low]
    ax.add_collection(LineCollection(lines, colors=DOUBT, linewidths=min(2.5, max(0.5, 150 / max(len(spans), 1)))))


def draw_matrix(
    ax: Axes, values: Any, cmap: str = "viridis", label: str = "", limits: tuple[float, float] | None = None
) -> Axes:
    """A heat map; of a matrix too fine to be shown, means of blocks."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 2:
        raise BadInput(f"A heat map is of a matrix, not of shape {values.shape}.")
    height, width = values.shape
    least, most = limits or (None, None)
    layer = ax.imshow(
        coarser(values, FINEST), aspect="auto", cmap=cmap, interpolation="nearest",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5), vmin=least, vmax=most,
    )  # fmt: skip
    ax.figure.colorbar(layer, ax=ax, shrink=0.7, label=label)
    return ax


def coarser(values: np.ndarray, most: int) -> np.ndarray:
    """Means of blocks, so that neither side is longer than ``most``."""
    for axis in (0, 1):
        n = values.shape[axis]
        if n > most:
            edges = np.linspace(0, n, most + 1).astype(int)
            total = np.add.reduceat(values, edges[:-1], axis=axis)
            count = np.diff(edges).reshape((-1, 1) if axis == 0 else (1, -1))
            values = total / count
    return values


def draw_soft(ax: Axes, soft: Any, order: Any = None) -> Axes:
    """A soft permutation; with an order, its rows are in that order, and what is sure is on the diagonal."""
    soft = np.asarray(soft, dtype=float)
    rows = soft if order is None else soft[np.asarray(order)]
    draw_matrix(ax, rows, cmap="magma", label="how much of it", limits=(0.0, max(float(rows.max(initial=0)), 1e-12)))
    ax.set(xlabel="position", ylabel="item" if order is None else "item, as ordered")
    return ax


def draw_pictures(ax: Axes, pictures: Any, order: Any, shape: tuple[int, int], frame: int = 1) -> Axes:
    """Pictures (n x height x width, with or without channels) in their places of a grid of ``shape`` rows and columns."""
    pictures, order = np.asarray(pictures), np.asarray(order)
    (rows, columns), needed = shape, int(order.max(initial=-1)) + 1
    if pictures.ndim not in (3, 4) or len(pictures) < needed:
        raise BadInput(f"pictures must be {needed} arrays (n x height x width [x channels]), not {pictures.shape}.")
    finer = max(1, min(pictures.shape[1:3]) // LARGEST)
    tiles = pictures[:, ::finer, ::finer]
    if tiles.dtype != np.uint8:
        low, high = float(tiles.min()), float(tiles.max())
        tiles = ((tiles - low) / max(high - low, 1e-12) * 255).astype(np.uint8)
    tiles = tiles[..., None].repeat(3, -1) if tiles.ndim == 3 else tiles
    tiles = tiles.repeat(3, -1) if tiles.shape[-1] == 1 else tiles[..., :3]
    height, width = tiles.shape[1:3]
    sheet = np.full((rows * (height + frame), columns * (width + frame), 3), 255, np.uint8)
    for place, item in enumerate(order[: rows * columns].tolist()):
        if item >= 0:  # nobody stands in an empty place
            y, x = divmod(place, columns)
            y, x = y * (height + frame), x * (width + frame)
            sheet[y : y + height, x : x + width] = tiles[item]
    ax.imshow(sheet)
    ax.set_axis_off()
    return ax


def draw_history(ax: Axes, history: Sequence[Step]) -> Axes:
    """Energy (left) and entropy (right) against seconds."""
    seconds = [step.seconds for step in history]
    energy, entropy = ([getattr(step, name) for step in history] for name in ("energy", "entropy"))
    ax.plot(seconds, energy, color=LINE, linewidth=1.1)
    ax.set(xlabel="seconds", ylabel="energy")
    ax.yaxis.label.set_color(LINE)
    other = ax.twinx()
    other.plot(seconds, entropy, color=START, linewidth=0.9, alpha=0.8)
    other.set(ylabel="entropy")
    other.yaxis.label.set_color(START)
    if any(math.isfinite(value) for value in entropy):
        other.set_ylim(bottom=0)
    return ax


def draw_records(ax: Axes, records: Sequence[dict[str, Any]], names: Sequence[str]) -> Axes:
    """Numbers of a training's log against the epoch, each between its least and its greatest."""
    for name, colour in zip(names, (LINE, START, "#3a7d44", "#8a5a9e"), strict=False):
        values = np.array([record[name] for record in records], dtype=float)
        low, span = float(np.nanmin(values)), max(float(np.nanmax(values) - np.nanmin(values)), 1e-12)
        label = f"{name} ({low:.3g} to {low + span:.3g})" if len(values) > 1 else f"{name} {low:.3g}"
        ax.plot([record["epoch"] + 1 for record in records], (values - low) / span, color=colour, label=label)
    ax.set(xlabel="epoch", yticks=[])
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize=8)
    return ax


def squarest(n: int) -> tuple[int, int]:
    """Rows and columns of a grid that n pictures fit in."""
    rows = max(1, math.isqrt(n))
    return rows, -(-n // rows)


def card(title: str, lines: Sequence[str], draw: Callable[[Axes], object]) -> str:
    """HTML for notebooks: a small picture, and beside it a title and a few lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.1, 2.5), layout="constrained", dpi=100)
    draw(figure.add_subplot())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode()
    told = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return (
        '<div style="display:flex;gap:1em;align-items:center;flex-wrap:wrap">'
        f'<img alt="{escape(title)}" style="background:white" src="data:image/png;base64,{picture}">'
        f"<div><strong>{escape(title)}</strong>{told}</div></div>"
    )


def how_sure(confidence: Any) -> str:
    """One line: how many of the items are sure, and the least sure of them."""
    sure = np.asarray(confidence, dtype=float).reshape(-1)
    if not sure.size:
        return "nothing to be sure of"
    return f"{int((sure > 0.9).sum())} of {sure.size} sure (confidence above 0.9), median {np.median(sure):.2f}, lowest {sure.min():.2f}"
