"""Names in pictures: as many as can be read, none on top of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .common import any_letters, harmless

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

MOST_NAMES = 60
LONGEST = 24  # letters of a name
AROUND = (
    (1, 0),
    (1, 1),
    (0, 1),
    (-1, 1),
    (-1, 0),
    (-1, -1),
    (0, -1),
    (1, -1),
)  # where a name may stand beside its point


def short(name: str) -> str:
    """A name as a picture can hold it; a dollar sign is no formula."""
    name = harmless(name)
    return (name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…").replace("$", r"\$")


def name_ticks(axes: Axes, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    """Names along a table, if they are few enough to be read."""
    if rows is not None and len(rows) <= MOST_NAMES:
        axes.set_yticks(range(len(rows)), [short(name) for name in rows], fontsize=6.5)
    if columns is not None and len(columns) <= MOST_NAMES:
        axes.set_xticks(range(len(columns)), [short(name) for name in columns], fontsize=6.5, rotation=90)


def name_points(figure: Figure, axes: Axes, points: np.ndarray, names: list[str]) -> int:
    """A name beside each point where there is room, the loneliest points first; returns how many names there was room for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with any_letters():
        return _beside_points(FigureCanvasAgg(figure), axes, points, [short(name) for name in names])


def _beside_points(canvas: FigureCanvasAgg, axes: Axes, points: np.ndarray, names: list[str]) -> int:
    import numpy as np

    canvas.draw()  # the layout decides where things are
    pixels = axes.transData.transform(points)
    apart = np.hypot(*(pixels[:, None] - pixels[None]).T) + 1e9 * np.eye(len(points))
    frame = axes.get_window_extent()
    taken = [_around(x, y, 4.0) for x, y in pixels]
    placed = 0
    for k in np.argsort(-apart.min(0), kind="stable").tolist():
        for right, up in AROUND:
            text = axes.annotate(
                names[k],
                (float(points[k, 0]), float(points[k, 1])),
                xytext=(5 * right, 5 * up),
                textcoords="offset points",
                fontsize=7,
                ha=("right", "center", "left")[right + 1],
                va=("top", "center", "bottom")[up + 1],
            )
            box = text.get_window_extent(canvas.get_renderer())
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                placed += 1
                break
            text.remove()
    return placed


def _around(x: float, y: float, reach: float) -> Bbox:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)
