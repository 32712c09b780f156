"""The page: strips side by side along their edges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from .paper import Strip, edge_of

GAP = 0.5  # of the usual width of a strip: how wide a gap is drawn
HOLE = (127, 127, 127)  # where paper is missing: white would look like paper


def paste(
    strips: list[Strip], order: list[int], turned: Sequence[bool] | None = None, gaps: Collection[int] = ()
) -> Image.Image:
    """The page: strips side by side along their edges, on white, at the scans' own resolution.

    ``turned`` says of each place whether its strip is to be turned upside down, ``gaps`` after which places something is missing: grey. Strips
    with straight cuts are turned upright and hang from one line, the upper edge of the page.
    """
    factor = strips[0].reduced
    chosen = [strips[i] if turned is None or not turned[place] else strips[i].turned() for place, i in enumerate(order)]
    chosen = [_upright(strip) for strip in chosen]
    hang = all(s.straight and s.background for s in chosen)
    tops = [s.top * factor if hang else 0 for s in chosen]
    height = max((s.bottom - s.top) * factor if hang else s.picture.height for s in chosen)
    gap = GAP * factor * float(np.median([np.median(s.right - s.left) for s in chosen]))
    x, places = 0.0, []
    for number, (before, strip) in enumerate(zip([None, *chosen[:-1]], chosen, strict=True)):
        if before is not None:
            x += (_apart(before, strip) - max(_rim(before), 0.0) - max(_rim(strip), 0.0)) * factor
            x += gap * (number - 1 in gaps)
        places.append(x)
    least = min(place + float(s.left.min()) * factor for place, s in zip(places, chosen, strict=True))
    most = max(place + float(s.right.max() + 1) * factor for place, s in zip(places, chosen, strict=True))
    page = Image.new("RGB", (max(1, round(most - least) + 1), height), "white")
    for number in gaps:  # from within one strip to within the next, which are pasted over it
        low = places[number] + float(chosen[number].right.min()) * factor
        high = places[number + 1] + float(chosen[number + 1].left.max()) * factor
        page.paste(HOLE, (round(low - least), 0, round(high - least), height))
    for place, top, strip in zip(places, tops, chosen, strict=True):
        mask = Image.fromarray((255 * filled(strip)).astype(np.uint8)).resize(strip.picture.size)
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
    left, right = np.median(edge_of(middle, 0.5)), paper.shape[1] - 1 - np.median(edge_of(middle[:, ::-1], 0.5))
    lines = np.full(len(paper), left), np.full(len(paper), right)
    return replace(strip, picture=picture, paper=paper, left=lines[0], right=lines[1], top=top, bottom=bottom)


def _rim(strip: Strip) -> float:
    """Pixels beside an edge that the background shows through, and that are left out of the page."""
    return 0.5 if strip.background else -0.5


def filled(strip: Strip) -> np.ndarray:
    """1 between the edges: print inside the strip is paper too."""
    x, rim = np.arange(strip.paper.shape[1]), _rim(strip)
    rows = np.arange(strip.paper.shape[0])[:, None]
    between = (x >= strip.left[:, None] + rim) & (x <= strip.right[:, None] - rim)
    return (between & (rows >= strip.top) & (rows < strip.bottom)).astype(np.float64)
