"""How sure an item's neighbours in a long chain are: the places of all three against the places beside their nearest items.

What `confidence.insertion_share` asks of all gaps is asked here of those beside the nearest items alone, and in units of what the places
around there cost: where items stand exactly in line, a rival may be hardly dearer and still be wrong.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.ndimage import uniform_filter1d
from scipy.special import logsumexp
from torch import Tensor

from .space import Space

SCALE = 1.8
"""How much dearer a rival must be to be ruled out, in mean costs of the places around. Of 15 noisy curves of 3,000 points, places with
a confidence above 0.9 have the right neighbours in 97.1, 97.9, 98.6 % with 1.2, 1.6, 2; expected calibration error 0.07, 0.04, 0.04."""
AROUND = 21  # places that the unit is a mean of
CHUNK = 50_000  # items looked at together


def confidence_of(space: Space, order: Int[np.ndarray, "n"], *, closed: bool) -> Float[Tensor, "n"]:
    """One number per item: how sure the place of the least sure is of itself and its two neighbours."""
    n = space.n
    before, after = np.full(n, -1), np.full(n, -1)
    after[order[:-1]], before[order[1:]] = order[1:], order[:-1]
    if closed:
        after[order[-1]], before[order[0]] = order[0], order[-1]
    own = _costs(space, before, np.arange(n)) + _costs(space, np.arange(n), after) - _costs(space, before, after)
    unit = np.empty(n)
    unit[order] = uniform_filter1d(own[order], min(AROUND, n), mode="wrap" if closed else "nearest")
    unit = np.maximum(SCALE * unit, 1e-12 * max(float(own.max()), 1e-300))
    place = np.concatenate(
        [_place(space, items, before, after, own, unit) for items in np.array_split(np.arange(n), -(-n // CHUNK))]
    )[order]
    sides = [np.roll(place, 1), np.roll(place, -1)]
    if not closed:
        sides[0][0] = sides[1][-1] = 1.0
    sure = np.empty(n)
    sure[order] = np.minimum(place, np.minimum(*sides))
    return torch.from_numpy(sure).float()


def _costs(space: Space, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What pairs cost, 0 where one of them is nobody (-1): beyond an end."""
    nobody = (a < 0) | (b < 0)
    return np.where(nobody, 0.0, space.between(np.where(nobody, 0, a), np.where(nobody, 0, b)))


def _place(
    space: Space, items: np.ndarray, before: np.ndarray, after: np.ndarray, own: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """The share of an item's own gap among it and those beside its nearest items, once the item is taken out."""
    i, near, scale = items[:, None], space.near[items], unit[items]
    rivals = []
    for low, high in ((near, after[near]), (before[near], near)):
        cost = _costs(space, low, np.broadcast_to(i, low.shape)) + _costs(space, np.broadcast_to(i, high.shape), high)
        mine = (low == i) | (high == i) | (near < 0)
        rivals.append(np.where(mine, np.inf, cost - _costs(space, low, high)))
    others = np.asarray(logsumexp(-np.concatenate(rivals, 1) / scale[:, None], axis=1))
    return 1 / (1 + np.exp(np.minimum(others + own[items] / scale, 700)))
