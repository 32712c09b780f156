"""Strips as they are scanned: where the paper is, and its edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np
from jaxtyping import Float
from PIL import Image
from scipy.ndimage import median_filter

from ...errors import BadInput
from ...readers.pictures import open_picture, pictures_in

TALL = 870
"""Rows at which strips are compared; taller scans are reduced by a whole factor (here: 11 inch at 79 dpi)."""
FINE = 1740
"""Rows at which straight strips are compared: their evidence is in single strokes."""
STRAIGHT = 0.75
"""Pixels that nine tenths of the edges of straight cuts lie beside their lines at most, in the median of all edges: an edge that is
known only to the pixel is half of one astray. Tilted straight cuts: up to 0.48; ten pages of a shredder: 1.33 and more."""
OUTLINE = 0.7
"""An outline is darker than this share of the paper's brightness in more than half of the rows; print touches fewer."""

ALIKE, AROUND = 8 / 255, 0.5
"""A ground is around the strips: more than this share of the pictures' borders is within so much of it. Of ten real pages 0.84 and more; of
photos that were cut into columns 0.22 and less, but for plain backdrops."""


@dataclass(frozen=True, eq=False)
class Strip:
    """One scanned strip: grey values with paper about 1, and for each row where the paper begins and ends (sub-pixel)."""

    name: str
    picture: Image.Image
    grey: Float[np.ndarray, "height width"]
    paper: Float[np.ndarray, "height width"]
    left: Float[np.ndarray, "height"]
    right: Float[np.ndarray, "height"]
    top: int
    bottom: int
    reduced: int = 1
    """How many pixels of the picture make one of these."""
    straight: bool = False

    @property
    def background(self) -> bool:
        return bool((self.paper < 1).any())

    @property
    def inner(self) -> slice:
        """The rows of paper without its corners, which may be torn."""
        corner = (self.bottom - self.top) // 20
        return slice(self.top + corner, self.bottom - corner)

    def turned(self) -> Strip:
        """Upside down, its paper in the same rows."""
        height, width = self.grey.shape
        rows = (self.top + self.bottom - 1 - np.arange(height)).clip(0, height - 1)
        down = (self.top + self.bottom) * self.reduced - self.picture.height
        picture = self.picture.transpose(Image.Transpose.ROTATE_180)
        return replace(
            self,
            picture=picture.crop((0, -down, picture.width, picture.height - down)) if down else picture,
            grey=self.grey[rows, ::-1],
            paper=self.paper[rows, ::-1],
            left=width - 1 - self.right[rows],
            right=width - 1 - self.left[rows],
        )


def read_strips(folder: str | FilePath) -> list[Strip]:
    """All pictures of a folder, by name (strip2 before strip10); other files, such as notes, are passed over."""
    folder = FilePath(folder)
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder; give the folder that holds one picture per strip.")
    pictures = [(path.name, open_picture(path)) for path in pictures_in(folder)]
    if len(pictures) < 2:
        raise BadInput(f"{folder} holds {len(pictures)} picture(s), but at least two strips are needed.")
    return find_paper(pictures)


def find_paper(pictures: list[tuple[str, Image.Image]], *, all_paper: bool = False) -> list[Strip]:
    """Tell paper from background: by the alpha channel if there is one, else by the colour of the pictures' borders.

    ``all_paper``: it is known that there is no background.
    """
    tallest = max(image.height for _, image in pictures)
    strips = _at_scale(pictures, max(1, round(tallest / TALL)), all_paper)
    astray = [float(np.quantile(np.abs(_off_line(s, edge)), 0.9)) for s in strips for edge in (s.left, s.right)]
    if float(np.median(astray)) > STRAIGHT:
        return strips
    return [_along_lines(strip) for strip in _at_scale(pictures, max(1, round(tallest / FINE)), all_paper)]


def _off_line(strip: Strip, edge: Float[np.ndarray, "height"]) -> Float[np.ndarray, "rows"]:
    """How far the smoothed edge is from a line, row by row."""
    smooth = median_filter(edge[strip.inner], 11, mode="nearest")
    rows = np.arange(len(smooth))
    return smooth - np.polyval(np.polyfit(rows, smooth, 1), rows) if len(rows) > 2 else np.zeros(1)


def _along_lines(strip: Strip) -> Strip:
    """The same strip with edges that are lines, hardly bent; whatever lies beside them is dirt."""
    rows, inner = np.arange(len(strip.left)), strip.inner

    def line(edge: Float[np.ndarray, "height"]) -> Float[np.ndarray, "height"]:
        y, x = rows[inner], median_filter(edge[inner], 11, mode="nearest")
        if not strip.background or len(y) < 30:
            return edge
        beside = np.abs(x - np.polyval(np.polyfit(y, x, 2), y))
        near = beside <= 3 * np.median(beside) + 0.05
        return np.polyval(np.polyfit(y[near], x[near], 2), rows)

    return replace(strip, left=line(strip.left), right=line(strip.right), straight=True)


def _at_scale(pictures: list[tuple[str, Image.Image]], factor: int, all_paper: bool = False) -> list[Strip]:
    reduced = [(name, image, _reduced(image, factor)) for name, image in pictures]
    clear = all(colour.shape[2] == 4 and (colour[..., 3] < 0.5).any() for _, _, colour in reduced)
    if all_paper:
        masks, least = [np.ones_like(c[..., 0]) for _, _, c in reduced], 0.5
    elif clear:
        masks, least = [c[..., 3] for _, _, c in reduced], 0.5
    else:
        masks, least = _by_background([c[..., :3] for _, _, c in reduced])
    strips = []
    for (name, image, colour), mask in zip(reduced, masks, strict=True):
        rows = np.flatnonzero((mask > 0.5).any(axis=1))
        if not rows.size:
            raise BadInput(f"No paper was found in {name}: all of it looks like background.")
        left, right = edge_of(mask, least), mask.shape[1] - 1 - edge_of(mask[:, ::-1], least)
        grey, ends = colour[..., :3].mean(2), (int(rows[0]), int(rows[-1]) + 1)
        strips.append(Strip(name, image, grey, mask, left, right, *ends, reduced=factor))
    return strips


def _reduced(image: Image.Image, factor: int) -> Float[np.ndarray, "height width 4"]:
    """RGBA in [0, 1], averaged over blocks of ``factor`` pixels."""
    if image.mode.startswith(("I", "F")):  # 16 bits and more
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if values.max() > 255 else 255.0
        image = Image.fromarray((values / top * 255).round().clip(0, 255).astype(np.uint8))
    small = image.convert("RGBA")
    if factor > 1:
        small = small.reduce(factor)
    return np.asarray(small, dtype=np.float64) / 255


def _by_background(colours: list[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """How much of each pixel is not background, 0 to 1, and how much the edge of the paper is at least.

    All is paper if the borders show no background. Print is as unlike a white background as can be, but may be like a black one.
    A dark outline on a bright background is what is left of a dark one that was painted over; it is taken for what it was.
    """
    border = np.concatenate([c[:, side].reshape(-1, 3) for c in colours for side in (0, -1)])
    levels, counts = np.unique((border * 255).round().astype(int), axis=0, return_counts=True)
    ground = levels[counts.argmax()] / 255
    spans = [_span(c, ground) for c in colours]
    everything = [np.ones(c.shape[:2]) for c in colours]  # the borders look like the paper: cut out without a margin
    around = float((np.abs(border - ground).max(axis=1) < ALIKE).mean())
    if around < AROUND or not np.mean([_unbroken(r) for r, *_ in spans]) > 0.5:
        return everything, 0.5
    paper = np.median(np.concatenate([c[r, (a + b) // 2] for c, (r, a, b) in zip(colours, spans, strict=True)]), axis=0)
    rims = [c[r, side].mean(1) for c, (r, *sides) in zip(colours, spans, strict=True) for side in sides]
    if ground.mean() > OUTLINE * paper.mean() and np.median(np.concatenate(rims)) < OUTLINE * paper.mean():
        return [_within(c.mean(2) / paper.mean(), *s) for c, s in zip(colours, spans, strict=True)], 0.1
    apart = float(np.abs(ground - paper).max())
    if not apart > 3 / 255:
        return everything, 0.5
    masks = [(np.abs(c - ground).max(axis=2) / apart).clip(0, 1) for c in colours]
    if apart < 40 / 255:  # little contrast, as of white paper on white: noise would look like paper
        masks = [median_filter(m, (5, 1)) for m in masks]
    return masks, 0.1 if ground.mean() < paper.mean() else 0.5


def _span(colour: Float[np.ndarray, "height width 3"], ground: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in which something is not background, and where in each of them the first and the last such pixel is."""
    other = np.abs(colour - ground).max(axis=2) > 2.5 / 255
    rows = np.flatnonzero(other.any(axis=1))
    return rows, other[rows].argmax(axis=1), colour.shape[1] - 1 - other[rows][:, ::-1].argmax(axis=1)


def _unbroken(rows: np.ndarray) -> bool:
    """Unlike lines of print, paper that can be told from its background is seen in every row."""
    return rows.size > 0.9 * (np.ptp(rows) + 1) if rows.size else False


def _within(
    values: Float[np.ndarray, "height width"], rows: np.ndarray, first: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """``values`` up to 1 from the first to the last pixel of the rows, 0 elsewhere."""
    x, kept = np.arange(values.shape[1]), np.zeros_like(values)
    kept[rows] = np.where((x >= first[:, None]) & (x <= last[:, None]), values[rows].clip(0, 1), 0.0)
    return kept


def edge_of(mask: Float[np.ndarray, "height width"], least: float) -> Float[np.ndarray, "height"]:
    """Where each row's paper begins, from the left, between pixels.

    The first pixel that is not background and the one after it give the row's own level, and half of it is the edge, but
    not less than ``least``: on black, a fixed level would draw the edge inwards wherever dark print touches the cut.
    """
    height, width = mask.shape
    row = np.arange(height)
    some = mask > 0.8 * least
    has = some.any(axis=1)
    first = some.argmax(axis=1)
    level = np.maximum(0.5 * np.maximum(mask[row, first], mask[row, np.minimum(first + 1, width - 1)]), least)
    beyond = (mask > level[:, None]) & (np.arange(width) >= first[:, None])
    place = beyond.argmax(axis=1)
    before = np.where(place > 0, mask[row, np.maximum(place - 1, 0)], 0.0)
    here = mask[row, place]
    edge = place - np.where(place > 0, (here - level) / np.maximum(here - before, 1e-6), 0.5)
    return np.interp(row, row[has], edge[has]) if has.any() else np.zeros(height)
