"""Straight cuts, by scissors or of a picture cut into columns: the columns of pixels on both sides of a cut."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.ndimage import map_coordinates

from ...errors import BadInput
from .columns import Adjacency, Side
from .paper import Strip
from .rough import More, StripCost, common_rows
from .shade import unshaded


def cost_of_columns(strips: list[Strip], weights: StripCost, more: More) -> Float[np.ndarray, "n n"]:
    """For straight cuts: minus the evidence of the columns of pixels on both sides, at the best vertical shift."""
    low, high, bottom, reach = common_rows(strips, 2 * weights.shifts)
    lefts, rights = both_sides(strips, bottom)
    gaps = (1, 2) if any(strip.background for strip in strips) else (1,)  # a ground takes up to one column
    seen = [left for left in (side[low:high] for side in lefts) if left.shape[1] > max(gaps) + 3]
    if not seen:
        raise BadInput("The strips are too narrow to compare: at least six pixels of width are needed.")
    page = Adjacency.learned(seen, gaps)
    on_left = np.stack(
        [page.codes(side[low:high]) for side in rights]
    )  # the right side of a strip stands left of the cut
    on_right = np.stack([page.codes(side[low:high]) for side in lefts])
    rows = slice(reach, high - low - reach)
    cost = -weights.column_weight * page.evidence(on_left, on_right, rows, 0)
    for number, shift in enumerate(sorted(range(-reach, reach + 1), key=abs)[1:]):
        if not more(number / (2 * reach)):
            break
        price = 0.5 * weights.shift_price * abs(shift)
        cost = np.minimum(cost, price - weights.column_weight * page.evidence(on_left, on_right, rows, shift))
    np.fill_diagonal(cost, 0.0)
    return cost


def both_sides(strips: list[Strip], bottom: int) -> tuple[list[Side], list[Side]]:
    """The pixels inwards of the left edges, and of the right ones."""
    grey = [unshaded(strip) for strip in strips]
    lefts = [_unrolled(g, s.left[:bottom] + _inside(s), 1, s) for g, s in zip(grey, strips, strict=True)]
    rights = [_unrolled(g, s.right[:bottom] - _inside(s), -1, s) for g, s in zip(grey, strips, strict=True)]
    return lefts, rights


def _inside(strip: Strip) -> float:
    """Pixels from an edge to where the paper's own colour is seen; without a ground that is the first pixel."""
    return 0.75 if strip.background else 0.5


def _unrolled(grey: Float[np.ndarray, "height width"], edge: Float[np.ndarray, "rows"], inwards: int, strip: Strip) -> Side:  # fmt: skip
    depth = np.arange(max(2, int(np.median(strip.right - strip.left)) - 1))
    y = np.broadcast_to(np.arange(len(edge))[:, None], (len(edge), len(depth)))
    side = map_coordinates(grey, [y, edge[:, None] + inwards * depth], order=1, mode="nearest")
    if strip.background:  # what is left of the shade
        bright = np.median(side[strip.inner], axis=0)
        side += np.median(bright) - bright
    return side
