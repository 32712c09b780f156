"""The Sinkhorn operator: scores in, soft permutation out."""

from __future__ import annotations

from torch import Tensor

from ..errors import number, whole
from ..shapes import Mask, Scores, SoftPermutation
from ._sinkhorn.engine import bordered_sinkhorn, perturbed_sinkhorn
from .assignment import masked
from .partial import LeftOut, Padded, Reject, nobody, simplest
from .permutation import rectangle
from .precision import in_full_precision


@in_full_precision
def sinkhorn(
    scores: Scores,
    iterations: int = 10,
    allowed: Mask | None = None,
    *,
    tolerance: float | None = None,
    reject: Reject | None = None,
    keep: int | None = None,
) -> SoftPermutation:
    r"""Soft permutation of ``exp(scores)``: normalise rows, then columns, ``iterations`` times.

    Multiply the scores with the inverse temperature before. Any leading batch dimensions; float16 and bfloat16 are computed in float32. The gradient
    is the exact one of the truncated iteration, and costs the output and 2T vectors of memory, whatever T. Entries that are
    -inf, or False in ``allowed``, stay zero.

    With ``tolerance``, each matrix stops as soon as its rows sum to one within it, and ``iterations`` is the cap.
    ``marginal_error`` tells how far the result is from doubly stochastic.

    With fewer items than positions (scores m x n, m < n) every item has a place and n - m positions stay empty; with more, every
    position is filled and m - n items are left out. With ``reject`` (a number, one per item, or a pair for items and positions,
    in units of the scores; gradients reach it) any item may be left out and any position stay empty, ``keep`` asks for that many placements.
    Rows and columns then sum to at most one, and what is missing is the probability of being left out: it is the real part of the square
    problem padded with dummies, as ``assign`` solves it, computed without most of them.
    """
    rectangle(scores)
    iterations = whole("iterations", iterations, 1)
    if tolerance is not None:
        number("tolerance", tolerance, above=0)
    scores, padded = masked(scores, allowed), Padded.of(scores, reject, keep)
    if padded is None:
        return perturbed_sinkhorn(scores, iterations=iterations, tolerance=tolerance)
    if keep == 0:
        return nobody(scores)
    return bordered_sinkhorn(
        scores, *simplest(reject, scores), padded.border, iterations=iterations, tolerance=tolerance
    )


def with_left_out(
    scores: Scores, iterations: int, allowed: Mask | None, left_out: LeftOut
) -> tuple[Tensor, Mask | None]:
    """``sinkhorn`` with a column for items left out and a row for positions left empty, where there may be any; and its mask."""
    padded = Padded.of(scores, *left_out)
    if padded is None:
        return sinkhorn(scores, iterations, allowed), allowed
    square = padded.scores(masked(scores, allowed), left_out.reject)
    soft = perturbed_sinkhorn(square, iterations=iterations, block=padded.border.block)
    return padded.with_left_out(soft), padded.mask(allowed)
