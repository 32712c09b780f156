"""The figures of single cases: a tour, a jigsaw."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from ..paper.store import Result

PHOTO = "nagasaki-boats.jpg"  # the one the runs are of
WIDTH = 280  # pixels of the pictures in the page: they are photos, and large as files


def draw_tour(result: Result | None) -> Figure | None:
    if result is None:
        return None
    figure = Figure(figsize=(9.0, 3.3), layout="constrained")
    x, y = (np.array(result.history[name]) for name in ("x", "y"))
    titles = {"given": "as given", "nearest": "nearest neighbour", "solved": "solve"}
    for ax, (name, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        order = np.array(result.history[name], dtype=int)
        around = np.append(order, order[0])
        ax.plot(x[around], y[around], "-", color="tab:blue", linewidth=0.8)
        ax.plot(x, y, ".", color="black", markersize=3)
        ax.set(title=f"{title}: {result.metrics[name]:.2f}", aspect="equal", xticks=[], yticks=[])
    return figure


def draw_jigsaw(result: Result | None) -> Figure | None:
    """The runs keep orders; the photo comes with the package."""
    if result is None:
        return None
    side = int(len(result.history["solved"]) ** 0.5)
    tiles = tiles_of(side)
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    titles = {
        "shuffled": "shuffled",
        "solved": f"put back: {100 * result.metrics['direct']:.0f} % of the tiles in place",
    }
    for ax, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        show_tiles(ax, tiles[np.array(result.history[name], dtype=int)], side, title)
    return figure


def tiles_of(side: int, width: int = WIDTH) -> np.ndarray:
    """The photo in `side` x `side` tiles."""
    with as_file(files("unshuffle") / "data" / PHOTO) as path, Image.open(path) as photo:
        scaled = photo.convert("RGB").resize((width, width * photo.height // photo.width))
    tile = np.array(scaled.size[::-1]) // side
    pixels = np.asarray(scaled)[: side * tile[0], : side * tile[1]]
    return pixels.reshape(side, tile[0], side, tile[1], 3).transpose(0, 2, 1, 3, 4).reshape(-1, *tile, 3)


def show_tiles(ax: Axes, tiles: np.ndarray, side: int, title: str) -> None:
    height, width = tiles.shape[1:3]
    picture = tiles.reshape(side, side, height, width, 3).transpose(0, 2, 1, 3, 4)
    # none: the pixels as they are, not as many as the figure has
    ax.imshow(picture.reshape(side * height, side * width, 3), interpolation="none")
    ax.set(title=title, xticks=[], yticks=[])
