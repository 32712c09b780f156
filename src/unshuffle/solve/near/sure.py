"""How sure an item's place in a long chain is: its links against links to its nearest items, its place against places beside them.

What `confidence.insertion_share` and `confidence.link_share` ask of all items is asked here of the nearest alone.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import logsumexp
from torch import Tensor

from .space import Space

SCALE = 0.3
CHUNK = 50_000  # items looked at together


def confidence_of(
    space: Space, order: Int[np.ndarray, "n"], *, closed: bool, scale: float = SCALE
) -> Float[Tensor, "n"]:
    """One number per item; ``scale`` is how much dearer a rival must be to be ruled out, in mean distances to the nearest item."""
    n = space.n
    before, after = np.full(n, -1), np.full(n, -1)
    after[order[:-1]], before[order[1:]] = order[1:], order[:-1]
    if closed:
        after[order[-1]], before[order[0]] = order[0], order[-1]
    nearest = space.between(np.arange(n), space.near[:, 0])
    unit = scale * (float(nearest[nearest > 0].mean()) if (nearest > 0).any() else 1.0)
    sure = np.ones(n)
    for items in np.array_split(np.arange(n), -(-n // CHUNK)):
        place = _place(space, items, before, after, unit)
        links = [_link(space, items, one, other, unit) for one, other in ((after, before), (before, after))]
        sure[items] = np.sqrt(place * np.minimum(*links))
    return torch.from_numpy(sure).float()


def _total(logs: np.ndarray) -> np.ndarray:
    """Logarithm of the sum over the rows' exponentials."""
    return np.asarray(logsumexp(logs, axis=1))


def _costs(space: Space, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What pairs cost, 0 where one of them is nobody (-1): beyond an end."""
    nobody = (a < 0) | (b < 0)
    return np.where(nobody, 0.0, space.between(np.where(nobody, 0, a), np.where(nobody, 0, b)))


def _place(space: Space, items: np.ndarray, before: np.ndarray, after: np.ndarray, unit: float) -> np.ndarray:
    """The share of an item's own gap among it and those beside its nearest items, once the item is taken out."""
    i, near = items[:, None], space.near[items]
    a, b = before[items], after[items]
    own = _costs(space, a, items) + _costs(space, items, b) - _costs(space, a, b)
    rivals = []
    for low, high in ((near, after[near]), (before[near], near)):
        cost = _costs(space, low, np.broadcast_to(i, low.shape)) + _costs(space, np.broadcast_to(i, high.shape), high)
        mine = (low == i) | (high == i) | (near < 0)
        rivals.append(np.where(mine, np.inf, cost - _costs(space, low, high)))
    return 1 / (1 + np.exp(np.minimum(_total(-np.concatenate(rivals, 1) / unit) + own / unit, 700)))


def _link(space: Space, items: np.ndarray, on: np.ndarray, back: np.ndarray, unit: float) -> np.ndarray:
    """The share of an item's link in one direction among its links to near items, who stand on its other side apart; and the
    same seen from the other end, in geometric mean. 1 where there is no link."""
    b = on[items]
    there = b >= 0
    share = np.ones(len(items))
    i, b = items[there], b[there]
    own = _costs(space, i, b)
    logs = np.zeros(len(i))
    for here, beyond, partner in ((i, back[i], b), (b, on[b], i)):
        near = space.near[here]
        other = (near >= 0) & (near != partner[:, None]) & (near != beyond[:, None])
        cost = np.where(other, _costs(space, np.broadcast_to(here[:, None], near.shape), near), np.inf)
        logs += np.logaddexp(0.0, _total(-cost / unit) + own / unit) / 2
    share[there] = np.exp(-logs)
    return share
