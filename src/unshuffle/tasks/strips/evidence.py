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

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .paper import Strip
from .rough import More, StripCost, StripEvidence
from .straight import cost_of_columns


def to_the_end(done: float) -> bool:
    return True


def strip_cost(strips: list[Strip], weights: StripCost | None = None, more: More = to_the_end) -> Float[Tensor, "n n"]:
    """``cost[i, k]``: log likelihood ratio of strip k directly right of strip i, lowest over vertical shifts; 0 is "no evidence".

    Once ``more`` says no, over the shifts that have been tried, the smallest first.
    """
    weights = weights or StripCost()
    if all(strip.straight for strip in strips):
        cost = cost_of_columns(strips, weights, more)
    else:
        cost = StripEvidence.of(strips, weights).cost(weights)
    return torch.from_numpy(cost.astype(np.float64))


def turned_cost(
    strips: list[Strip], weights: StripCost | None = None, more: More = to_the_end
) -> Float[Tensor, "n 2 n 2"]:
    """The same of strips that may be upside down (state 1). A join is one join from either side: the mean of what both say."""
    both = strip_cost([side for strip in strips for side in (strip, strip.turned())], weights, more)
    other, n = torch.arange(len(both)) ^ 1, len(strips)
    return ((both + both.T[other][:, other]) / 2).reshape(n, 2, n, 2)
