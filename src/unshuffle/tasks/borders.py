"""Where the tiles of a shuffled picture meet: the steps from pixel to pixel are larger there, at equal distances."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..structure.layouts import Grid

SMALLEST = 8  # pixels of a tile's side
BESIDE = 4  # lines to either side with which a line is compared
PLAIN, HIGHEST = 3.0, 8.0
"""How far, in robust standard deviations, a line must stand out to be a border, and what counts at most: one edge of the
picture's own must not speak for many lines. The blocks of a JPEG stand out by 4 at most, and not all of them."""
SHARE, MEAN = (
    0.75,
    6.0,
)  # of the lines between tiles: how many stand out (some tiles are where they belong), and by how much on average


def find_grid(pixels: Float[np.ndarray, "height width channels"]) -> Grid | None:
    """The grid in which the picture is shuffled; None if no borders show, as in a picture that is whole."""
    grey = pixels.astype(np.float64)[..., :3].mean(2) * (255.0 / np.iinfo(pixels.dtype).max)
    rows, columns = _tiles(_steps(grey.T)), _tiles(_steps(grey))
    return None if rows == columns == 1 else Grid(rows, columns)


def _steps(grey: Float[np.ndarray, "along across"]) -> Float[np.ndarray, "across-1"]:
    """How much larger the steps across each line are than those beside it, in robust standard deviations."""
    steps = np.log(np.abs(np.diff(grey, axis=1)).mean(0) + 0.25)
    window = 2 * BESIDE + 1
    if len(steps) < window:
        return np.zeros(len(steps))
    above = steps - np.convolve(np.pad(steps, BESIDE, mode="reflect"), np.ones(window) / window, "valid")
    above -= np.median(above)
    return above / (1.4826 * np.median(np.abs(above)) + 1e-6)


def _tiles(steps: Float[np.ndarray, "lines"]) -> int:
    """The largest number of equal parts between all of which there are borders; 1 if there are none."""
    size = len(steps) + 1
    for count in range(size // SMALLEST, 1, -1):
        lines = steps[np.arange(1, count) * (size // count) - 1]
        if (lines > PLAIN).mean() >= SHARE and lines.clip(0, HIGHEST).mean() >= MEAN:
            return count
    return 1
