"""The overview figure: shuffled tiles, the field of inverse temperatures, the soft permutation, and what it decodes to."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..paper.store import Result
from .examples import show_tiles, tiles_of


def draw_overview(result: Result | None) -> Figure | None:
    if result is None:
        return None
    place = np.array(result.history["place"], dtype=int)
    side, n = int(len(place) ** 0.5), len(place)
    tiles = tiles_of(side, width=140)  # shown small, three times
    figure = Figure(figsize=(10.4, 5.0), layout="constrained")
    cells = figure.add_gridspec(2, 4, width_ratios=(1.3, 1, 1, 1.3))
    show_tiles(figure.add_subplot(cells[:, 0]), tiles[place], side, "shuffled tiles")
    fields = {name: np.array(result.history[f"field {name}"]).reshape(n, n) for name in ("global", "adaptive")}
    low, high = min(f.min() for f in fields.values()), max(f.max() for f in fields.values())
    sharp = np.argsort(place)  # rows by the true place of the tile, so that a right P is a diagonal
    for line, (name, field) in enumerate(fields.items()):
        P = np.array(result.history[f"soft {name}"]).reshape(n, n)
        shown = ((field, r"$\beta_{ij}$", low, high, "viridis"), (P, "P", 0.0, 1.0, "magma"))
        for column, (matrix, title, least, most, colours) in enumerate(shown, 1):
            ax = figure.add_subplot(cells[line, column])
            image = ax.imshow(matrix[sharp], vmin=least, vmax=most, cmap=colours)
            ax.set(xticks=[], yticks=[], title=f"{name}: {title}", xlabel="position")
            ax.set_ylabel("tile, by its true place" if column == 1 else "")
            figure.colorbar(image, ax=ax, shrink=0.7)
        placed = np.array(result.history[f"placed {name}"], dtype=int)
        said = f"decoded: {round(result.metrics[f'direct {name}'] * n)} of {n} in place"
        show_tiles(figure.add_subplot(cells[line, 3]), tiles[placed], side, said)
    return figure
