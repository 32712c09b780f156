r"""Shredded pages: from a folder of scanned strips to the page.

The evidence that strip k stands directly right of strip i is the likelihood ratio between "their edges are one cut" and "their
edges have nothing to do with each other". For two Gaussian signals whose difference has the share e of their summed power it is
$\tfrac N2 \log e$ with N degrees of freedom. It is summed over octaves of the cut's *shape* (paper bends, so its long
wavelengths say little; every octave brings its own scale) and over the *print* beside the cut, and the best vertical shift
counts. There is nothing to normalise and hardly anything to tune: one weight for print, one for shifts.

Straight cuts, of scissors or of a picture cut into columns, have no shape, and what noise is left of it would lie. Their edges are
lines, and the columns of print beside them are compared pixel by pixel: see `columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from scipy.fft import dct
from scipy.ndimage import gaussian_filter1d, map_coordinates, median_filter
from torch import Tensor

from ..errors import BadInput
from ..readers.pictures import ENDINGS, open_picture
from ..solve.kinds import method_for, solved
from ..solve.solution import Solution
from ..structure.layouts import Path
from ..watch import Step, Watch
from .columns import Adjacency

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


@dataclass(frozen=True)
class StripCost:
    """How much the parts of the evidence count. Chosen on ten pages of one shredder (see benchmarks/solve_strips.py)."""

    print_weight: float = 0.24
    """Degrees of freedom of the print beside a cut, per row: half of it multiplies the logarithm. 0.18 to 0.37 are equal."""
    shift_price: float = 0.5
    """Nats per row of vertical shift: strips lie within a few rows of each other, rarely within ten. 0.25 to 1 are equal."""
    shifts: int = 8
    """Rows up and down that are tried."""
    longest: float = 0.46
    """Longest wavelength of the shape, as a part of the height; what is longer is bent paper."""
    shortest: float = 4.0
    """Shortest wavelength of the shape in rows: two pixels in each direction, the resolution of an edge."""
    depth: int = 3
    """How many pixels beside the cut are print."""
    column_weight: float = 0.25
    """Of straight cuts: how much the evidence of a row counts, since the strokes of print are a few rows high."""


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


def read_strips(folder: str | FilePath) -> list[Strip]:
    """All pictures of a folder, by name; other files, such as notes, are passed over."""
    folder = FilePath(folder)
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder; give the folder that holds one picture per strip.")
    pictures = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        if path.suffix.lower() in ENDINGS:
            pictures.append((path.name, open_picture(path)))
    if len(pictures) < 2:
        raise BadInput(f"{folder} holds {len(pictures)} picture(s), but at least two strips are needed.")
    return find_paper(pictures)


def find_paper(pictures: list[tuple[str, Image.Image]]) -> list[Strip]:
    """Tell paper from background: by the alpha channel if there is one, else by the colour of the pictures' borders."""
    tallest = max(image.height for _, image in pictures)
    strips = _at_scale(pictures, max(1, round(tallest / TALL)))
    astray = [float(np.quantile(np.abs(_off_line(s, edge)), 0.9)) for s in strips for edge in (s.left, s.right)]
    if float(np.median(astray)) > STRAIGHT:
        return strips
    return [_along_lines(strip) for strip in _at_scale(pictures, max(1, round(tallest / FINE)))]


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


def _at_scale(pictures: list[tuple[str, Image.Image]], factor: int) -> list[Strip]:
    reduced = [(name, image, _reduced(image, factor)) for name, image in pictures]
    clear = all(colour.shape[2] == 4 and (colour[..., 3] < 0.5).any() for _, _, colour in reduced)
    if clear:
        masks, least = [c[..., 3] for _, _, c in reduced], 0.5
    else:
        masks, least = _by_background([c[..., :3] for _, _, c in reduced])
    strips = []
    for (name, image, colour), mask in zip(reduced, masks, strict=True):
        rows = np.flatnonzero((mask > 0.5).any(axis=1))
        if not rows.size:
            raise BadInput(f"No paper was found in {name}: all of it looks like background.")
        left, right = _edge(mask, least), mask.shape[1] - 1 - _edge(mask[:, ::-1], least)
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


def _edge(mask: Float[np.ndarray, "height width"], least: float) -> Float[np.ndarray, "height"]:
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


def strip_cost(strips: list[Strip], weights: StripCost | None = None) -> Float[Tensor, "n n"]:
    """``cost[i, k]``: log likelihood ratio of strip k directly right of strip i, lowest over vertical shifts; 0 is "no evidence"."""
    weights = weights or StripCost()
    if all(strip.straight for strip in strips):
        cost = _cost_of_columns(strips, weights)
    else:
        cost = StripEvidence.of(strips, weights).cost(weights)
    return torch.from_numpy(cost.astype(np.float64))


def _cost_of_columns(strips: list[Strip], weights: StripCost) -> Float[np.ndarray, "n n"]:
    """For straight cuts: minus the evidence of the columns of pixels on both sides, at the best vertical shift."""
    ground = any(strip.background for strip in strips)
    inside = 1.0 if ground else 0.5  # where the paper's own colour begins; without background that is the first pixel
    low, high, bottom, reach = _common_rows(strips, 2 * weights.shifts)
    lefts = [_unrolled(s, s.left[:bottom] + inside, 1) for s in strips]
    rights = [_unrolled(s, s.right[:bottom] - inside, -1) for s in strips]
    seen = [left for left in (side[low:high] for side in lefts) if left.shape[1] > 2 * inside + 3]
    if not seen:
        raise BadInput("The strips are too narrow to compare: at least six pixels of width are needed.")
    page = Adjacency.learned(seen, round(2 * inside))
    on_left = np.stack(
        [page.codes(side[low:high]) for side in rights]
    )  # the right side of a strip stands left of the cut
    on_right = np.stack([page.codes(side[low:high]) for side in lefts])
    rows = slice(reach, high - low - reach)
    costs = [
        0.5 * weights.shift_price * abs(shift) - weights.column_weight * page.evidence(on_left, on_right, rows, shift)
        for shift in range(-reach, reach + 1)
    ]
    cost = np.min(costs, axis=0)
    np.fill_diagonal(cost, 0.0)
    return cost


def _unrolled(strip: Strip, edge: Float[np.ndarray, "rows"], inwards: int) -> Float[np.ndarray, "rows depth"]:
    """Pixels inwards of an edge, row by row; where there is a background, without the shade that it leaves beside the edge."""
    depth = np.arange(max(2, int(np.median(strip.right - strip.left)) - 1))
    y = np.broadcast_to(np.arange(len(edge))[:, None], (len(edge), len(depth)))
    side = map_coordinates(strip.grey, [y, edge[:, None] + inwards * depth], order=1, mode="nearest")
    if strip.background:
        bright = np.median(side[strip.inner], axis=0)
        side += np.median(bright) - bright
    return side


def _common_rows(strips: list[Strip], shifts: int) -> tuple[int, int, int, int]:
    """First and last row to compare, the last that all strips have, and how far they can be shifted."""
    top, bottom = max(s.top for s in strips), min(s.bottom for s in strips)
    margin = 15 * (bottom - top) // TALL  # corners are torn and rounded
    low, high, reach = top + margin, bottom - margin, min(shifts, max(0, (bottom - top) // 20))
    if high - low - 2 * reach < 16:
        raise BadInput(
            f"The strips share only {max(0, bottom - top)} rows of paper; scan them upright and at one height."
        )
    return low, high, bottom, reach


def reassemble_strips(
    strips: list[Strip],
    weights: StripCost | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Solution:
    """The order of the strips, left to right."""
    layout = Path(len(strips))
    with Watch(time_limit, callback) as watch:
        watch(stage="compare the edges")
        method, cost, sizes = method_for(layout, strip_cost(strips, weights), None)
        return solved(method, layout, cost, sizes, watch, seed=seed, polish=polish)


@dataclass(frozen=True, eq=False)
class StripEvidence:
    """What does not depend on the two weights, so that these can be compared cheaply: per shift, pair by pair."""

    shape: Float[np.ndarray, "shifts n n"]
    print: Float[np.ndarray, "shifts n n"]
    rows: int

    @staticmethod
    def of(strips: list[Strip], weights: StripCost) -> StripEvidence:
        low, high, bottom, reach = _common_rows(strips, weights.shifts)
        inner = (low + reach, high - reach)
        rights, lefts = np.stack([s.right[:bottom] for s in strips]), np.stack([s.left[:bottom] for s in strips])
        ink_right, ink_left = _ink(strips, bottom, weights.depth)
        shape, print_ = [], []
        for shift in range(-reach, reach + 1):
            here, there = slice(*inner), slice(inner[0] + shift, inner[1] + shift)
            shape.append(_shape(rights[:, here], lefts[:, there], weights))
            print_.append(_correlation(ink_right[:, here], ink_left[:, there]))
        return StripEvidence(np.stack(shape), np.stack(print_), inner[1] - inner[0])

    def cost(self, weights: StripCost) -> Float[np.ndarray, "n n"]:
        reach = len(self.shape) // 2
        price = weights.shift_price * np.abs(np.arange(-reach, reach + 1))[:, None, None]
        ink = 0.5 * weights.print_weight * self.rows * np.log1p(-(self.print.clip(0, 0.999) ** 2))
        cost = (self.shape + ink + price).min(axis=0)
        np.fill_diagonal(cost, 0.0)
        return cost


def _shape(right: np.ndarray, left: np.ndarray, weights: StripCost) -> Float[np.ndarray, "n n"]:
    r"""$\sum_b \tfrac{N_b}2 \min(0, \log \frac{|r - l|_b^2}{|r|_b^2 + |l|_b^2})$ over octaves b of the two edges' cosine transforms."""
    rows = right.shape[1]
    R, L = (np.asarray(dct(_straightened(edge), norm="ortho", axis=1)) for edge in (right, left))
    total = np.zeros((len(R), len(L)))
    wave = weights.longest * rows
    while wave > weights.shortest:
        low, high = round(2 * rows / wave), round(2 * rows / max(wave / 2, weights.shortest))
        r, l = R[:, low:high], L[:, low:high]
        power = (r * r).sum(1)[:, None] + (l * l).sum(1)[None, :]
        floor = 0.02 * (high - low)  # variance of an edge's place is not known better than to 0.1 pixel
        total += (
            (high - low) / 2 * np.minimum(0.0, np.log((power - 2 * r @ l.T + floor).clip(floor / 2) / (power + floor)))
        )
        wave /= 2
    return total


def _straightened(edge: np.ndarray) -> np.ndarray:
    """Without its mean and slope: strips are scanned at slightly different angles."""
    y = np.linspace(-1, 1, edge.shape[1])
    return edge - edge.mean(1, keepdims=True) - np.outer(edge @ y / (y @ y), y)


def _ink(strips: list[Strip], bottom: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Darkness just inside the right and left edges, without what all strips have in common: the lines of print."""
    right = np.stack([_beside(s, s.right[:bottom], -1, depth) for s in strips])
    left = np.stack([_beside(s, s.left[:bottom], 1, depth) for s in strips])
    lines = (right.mean(0) + left.mean(0)) / 2
    both = [ink - np.outer((ink @ lines / max(lines @ lines, 1e-12)).clip(0), lines) for ink in (right, left)]
    return both[0], both[1]


def _beside(strip: Strip, edge: np.ndarray, inwards: int, depth: int) -> np.ndarray:
    smooth = median_filter(edge, 11, mode="nearest")
    rows = np.arange(len(edge))
    places = [np.clip(smooth + inwards * d, 0, strip.grey.shape[1] - 1) for d in range(1, depth + 1)]
    dark = 1 - np.mean([map_coordinates(strip.grey, [rows, x], order=1, mode="nearest") for x in places], axis=0)
    dark = gaussian_filter1d(dark, 0.6)
    return (dark - np.median(dark) - 0.04).clip(
        0, 0.47
    )  # ten grey levels are paper; more than half black is just print


def _correlation(right: np.ndarray, left: np.ndarray) -> Float[np.ndarray, "n n"]:
    """Cosine; a tenth of the median power on top, so that blank margins are evidence of nothing."""
    powers = (right * right).sum(1), (left * left).sum(1)
    floor = 0.1 * float(np.median(np.concatenate(powers))) + 1e-9
    return right @ left.T / np.sqrt(np.outer(powers[0] + floor, powers[1] + floor))


def paste(strips: list[Strip], order: list[int]) -> Image.Image:
    """The page: strips side by side along their edges, on white, at the scans' own resolution.

    Strips with straight cuts are turned upright and hang from one line, the upper edge of the page.
    """
    factor = strips[0].reduced
    chosen = [_upright(strips[i]) for i in order]
    hang = all(s.straight and s.background for s in chosen)
    tops = [s.top * factor if hang else 0 for s in chosen]
    height = max((s.bottom - s.top) * factor if hang else s.picture.height for s in chosen)
    x, places = 0.0, []
    for before, strip in zip([None, *chosen[:-1]], chosen, strict=True):
        if before is not None:
            x += (_apart(before, strip) - max(_rim(before), 0.0) - max(_rim(strip), 0.0)) * factor
        places.append(x)
    least = min(place + float(s.left.min()) * factor for place, s in zip(places, chosen, strict=True))
    most = max(place + float(s.right.max() + 1) * factor for place, s in zip(places, chosen, strict=True))
    page = Image.new("RGB", (max(1, round(most - least) + 1), height), "white")
    for place, top, strip in zip(places, tops, chosen, strict=True):
        mask = Image.fromarray((255 * _filled(strip)).astype(np.uint8)).resize(strip.picture.size)
        page.paste(strip.picture.convert("RGB"), (round(place - least), -top), mask)
    return page


def _apart(before: Strip, strip: Strip) -> float:
    """From the left border of one scan to that of the next, if the edges of their strips touch."""
    top = max(before.top, strip.top)
    rows = slice(top, max(min(before.bottom, strip.bottom), top + 1))
    return float(np.median(before.right[rows] - strip.left[rows]))


LEVEL = 0.05  # degrees of tilt that nobody sees


def _upright(strip: Strip) -> Strip:
    """A strip with straight edges that lies askew on its ground, turned so that they are vertical; others as they are."""
    inner = strip.inner
    rows = np.arange(len(strip.left))[inner]
    if not (strip.straight and strip.background) or len(rows) < 2:
        return strip
    slope = np.mean([np.polyfit(rows, edge[inner], 1)[0] for edge in (strip.left, strip.right)])
    tilt = float(np.degrees(np.arctan(slope)))
    if abs(tilt) < LEVEL:
        return strip
    picture = strip.picture.convert("RGB").rotate(-tilt, Image.Resampling.BICUBIC, expand=True)
    mask = Image.fromarray(strip.paper.astype(np.float32))
    paper = np.asarray(mask.rotate(-tilt, Image.Resampling.BILINEAR, expand=True)).astype(np.float64)
    found = np.flatnonzero((paper > 0.5).sum(1) > 0.5 * np.median(strip.right - strip.left))
    top, bottom = int(found[0]), int(found[-1]) + 1
    middle = paper[(3 * top + bottom) // 4 : (top + 3 * bottom) // 4 + 1]
    left, right = np.median(_edge(middle, 0.5)), paper.shape[1] - 1 - np.median(_edge(middle[:, ::-1], 0.5))
    lines = np.full(len(paper), left), np.full(len(paper), right)
    return replace(strip, picture=picture, paper=paper, left=lines[0], right=lines[1], top=top, bottom=bottom)


def _rim(strip: Strip) -> float:
    """Pixels beside an edge that the background shows through, and that are left out of the page."""
    return 0.5 if strip.background else -0.5


def _filled(strip: Strip) -> np.ndarray:
    """1 between the edges: print inside the strip is paper too."""
    x, rim = np.arange(strip.paper.shape[1]), _rim(strip)
    rows = np.arange(strip.paper.shape[0])[:, None]
    between = (x >= strip.left[:, None] + rim) & (x <= strip.right[:, None] - rim)
    return (between & (rows >= strip.top) & (rows < strip.bottom)).astype(np.float64)
