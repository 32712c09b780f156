"""Straight cuts, by scissors or of a picture cut into columns: the columns of pixels on both sides of a cut."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.ndimage import map_coordinates

from ...errors import BadInput
from .columns import Adjacency
from .paper import Strip
from .rough import More, StripCost, common_rows


def cost_of_columns(strips: list[Strip], weights: StripCost, more: More) -> Float[np.ndarray, "n n"]:
    """For straight cuts: minus the evidence of the columns of pixels on both sides, at the best vertical shift."""
    ground = any(strip.background for strip in strips)
    inside = 1.0 if ground else 0.5  # where the paper's own colour begins; without background that is the first pixel
    low, high, bottom, reach = common_rows(strips, 2 * weights.shifts)
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
    cost = -weights.column_weight * page.evidence(on_left, on_right, rows, 0)
    for number, shift in enumerate(sorted(range(-reach, reach + 1), key=abs)[1:]):
        if not more(number / (2 * reach)):
            break
        price = 0.5 * weights.shift_price * abs(shift)
        cost = np.minimum(cost, price - weights.column_weight * page.evidence(on_left, on_right, rows, shift))
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
