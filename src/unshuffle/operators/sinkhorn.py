"""The Sinkhorn operator: scores in, soft permutation out."""

from __future__ import annotations

from ..errors import number, whole
from ..shapes import Mask, Scores, SoftPermutation
from ._sinkhorn.engine import perturbed_sinkhorn
from .assignment import masked
from .permutation import square
from .precision import in_full_precision


@in_full_precision
def sinkhorn(
    scores: Scores, iterations: int = 10, allowed: Mask | None = None, *, tolerance: float | None = None
) -> SoftPermutation:
    r"""Soft permutation of ``exp(scores)``: normalise rows, then columns, ``iterations`` times.

    Multiply the scores with the inverse temperature before. Any leading batch dimensions; float16 and bfloat16 are computed in float32. The gradient
    is the exact one of the truncated iteration, and costs the output and 2T vectors of memory, whatever T. Entries that are
    -inf, or False in ``allowed``, stay zero.

    With ``tolerance``, each matrix stops as soon as its rows sum to one within it, and ``iterations`` is the cap.
    ``marginal_error`` tells how far the result is from doubly stochastic.
    """
    square(scores)
    whole("iterations", iterations, 1)
    if tolerance is not None:
        number("tolerance", tolerance, above=0)
    return perturbed_sinkhorn(masked(scores, allowed), iterations=iterations, tolerance=tolerance)
