"""The shade that a ground leaves beside a straight edge: how much of a pixel is ground depends on how far from the edge it is.

How much that is, a strip says itself: print touches fewer than half of the rows, so the median of all pixels that are equally far
from the edge is paper and ground, mixed as they are there. What is left without the ground is the print's own grey.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from .paper import Strip

FAR, STEPS = 4, 8  # pixels beside an edge that may be shaded, and how many kinds of distances there are in one
FEW = 30  # pixels that have no median to speak of
LEAST = 0.35  # of a pixel: if less of it is paper, nothing is known of its print


def unshaded(strip: Strip) -> Float[np.ndarray, "height width"]:
    """Grey values as if there were no ground; beyond the edges as just inside of them."""
    if not strip.background:
        return strip.grey
    x, inner = np.arange(strip.grey.shape[1]), strip.inner
    ground, paper = np.median(strip.grey[strip.paper < 0.05]), np.median(strip.grey[inner][strip.paper[inner] > 0.95])
    if not abs(paper - ground) > 0:
        return strip.grey
    share = np.ones_like(strip.grey)
    for far in (x - strip.left[:, None], strip.right[:, None] - x):
        places, shares = _by_distance(far[inner].ravel(), ((strip.grey[inner] - ground) / (paper - ground)).ravel())
        if len(places):
            share = np.where(far < FAR, np.interp(far, places, shares), share)
    known = share > LEAST
    first, last = known.argmax(1)[:, None], len(x) - 1 - known[:, ::-1].argmax(1)[:, None]
    grey = ground + (strip.grey - ground) / share.clip(LEAST, 2.0)
    return np.take_along_axis(grey, x.clip(first, last), axis=1)


def _by_distance(far: Float[np.ndarray, "pixels"], shares: Float[np.ndarray, "pixels"]) -> tuple[list[float], list[float]]:  # fmt: skip
    """The distances that there are, and the median of the pixels at each."""
    near = (far > -1) & (far < FAR)
    far, shares = far[near], shares[near]
    kind = np.floor(far * STEPS).astype(int)
    kinds = [kind == k for k in np.unique(kind)]
    kinds = [some for some in kinds if some.sum() > FEW]
    return [float(far[some].mean()) for some in kinds], [float(np.median(shares[some])) for some in kinds]
