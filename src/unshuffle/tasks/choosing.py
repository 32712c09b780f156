r"""What a table asks for: the shortest path through its rows, or 2-SUM, which looks at all pairs.

The shortest path is right where rows lie along a curve, however that winds. In noise of many columns, and where most rows have nothing in
common, all near rows are about as far apart as others are, and the shortest path goes wherever chance leads it. So a short
order and one of low 2-SUM are compared. 2-SUM is chosen if

- *neighbours allow it*: its order is shorter than nine of ten that a walk meets at the temperature of sets (`solve.sets`), which are as long as the
  true one may be;
- *the short one does not explain the table much better*: by how well the rows beside a row, up to 1, 2, 4, ... places away, foretell its
  dissimilarities to all others. A spiral in noise passes the first test, since neighbours say little there, but not this one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ..solve.local_search import always, improve_path
from ..solve.sets import SOME, walk_around
from ..structure.layouts import Path
from ..watch import Stopped
from .criteria import Criterion
from .standard import path_length, spectral_order, two_sum
from .two_sum import improved

LINKAGES = ("average", "complete", "single")
MUCH = 2.0
"""So many times the error, over all scales, is much; chosen on made tables (gradients, curves, blocks, counts), where it hardly matters."""


def criterion_for(D: Float[np.ndarray, "n n"], more: Callable[[], bool] = always) -> Criterion:
    """2-SUM where its order is as likely as a short one and explains the table about as well, path length everywhere else.

    `Stopped` is raised where ``more`` says on the way that nobody waits.
    """
    if len(D) < 4 or not np.ptp(squareform(D, checks=False)):
        return Criterion.path
    short = short_order(D, more)
    if not more():
        raise Stopped
    broad = min((improved(D, start) for start in (spectral_order(D), short)), key=lambda order: two_sum(D, order))
    same = np.array_equal(broad, short) or np.array_equal(broad, short[::-1])
    if same or path_length(D, broad) > allowed_length(D, short, more) * (1 + 1e-9):
        return Criterion.path
    left, left_by_broad, least = unexplained(D, short), unexplained(D, broad), 1e-12 * D.var()
    much = np.log((left_by_broad + least) / (left + least)).mean() > np.log(MUCH)
    return Criterion.path if much else Criterion.two_sum


def short_order(D: Float[np.ndarray, "n n"], more: Callable[[], bool] = always) -> Int[np.ndarray, "n"]:
    """The shortest path that local search finds from hierarchical clusterings."""
    apart = squareform(D, checks=False)
    starts = np.array([leaves_list(linkage(apart, method)) for method in LINKAGES], np.int64)
    orders = improve_path(torch.from_numpy(starts), torch.from_numpy(D), more=more).numpy()
    return min(orders, key=lambda order: path_length(D, order))


def allowed_length(
    D: Float[np.ndarray, "n n"], short: Int[np.ndarray, "n"], more: Callable[[], bool] = always
) -> float:
    """How long the true order may be, as far as neighbours can tell."""
    lengths = [path_length(D, order) for order in walk_around(Path(len(D)), D, short, count=SOME, more=more)]
    return float(np.quantile(lengths, 0.1))


def unexplained(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> Float[np.ndarray, "scales"]:
    """The mean square error with which rows up to 1, 2, 4, ... places away, to a quarter of all, foretell the dissimilarities of a row."""
    R, n = D[np.ix_(order, order)], len(order)
    others = ~np.eye(n, dtype=bool)
    return np.array([_error(R, others, 2**k) for k in range(max(1, (n // 4).bit_length()))])


def _error(R: Float[np.ndarray, "n n"], others: np.ndarray, h: int) -> float:
    """Of each row's numbers by their means over the rows up to h away, itself and the column's own row left out."""
    count = _around(others.astype(float), h) - others
    total = _around(np.where(others, R, 0.0), h) - np.where(others, R, 0.0)
    known = others & (count > 0.5)
    return float(np.square(R - total / np.maximum(count, 1.0))[known].mean())


def _around(values: Float[np.ndarray, "n n"], h: int) -> Float[np.ndarray, "n n"]:
    """Sums over the rows from h before each to h after it."""
    row, sums = np.arange(len(values)), np.concatenate((np.zeros((1, values.shape[1])), values.cumsum(0)))
    return sums[np.minimum(row + h + 1, len(values))] - sums[np.maximum(row - h, 0)]
