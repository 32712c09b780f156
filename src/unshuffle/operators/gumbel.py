"""Gumbel-Sinkhorn with one inverse temperature, a field of them, or a controller that makes the field."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput, function, number, shown, whole
from ..shapes import Mask, Scores
from ._sinkhorn.engine import perturbed_sinkhorn
from ._sinkhorn.noise import SILENT, Noise, new_key
from .assignment import masked
from .permutation import square
from .precision import in_full_precision


@in_full_precision
def gumbel_sinkhorn(
    scores: Scores,
    beta: float | Float[Tensor, "..."] = 1.0,
    samples: int | None = None,
    local: Callable[..., Tensor] | None = None,
    iterations: int = 10,
    generator: torch.Generator | None = None,
    noise: float = 1.0,
    allowed: Mask | None = None,
    share: tuple[int, int] | None = None,
) -> Float[Tensor, "*draws n n"]:
    r"""$P = \mathrm{Sinkhorn}(\beta\odot(S + g))$ with Gumbel(0, 1) noise $g$; Algorithm 1 with ``local``.

    ``beta`` is a number, or anything that broadcasts to the scores: one per matrix (..., 1, 1) or a field (..., n, n).
    ``local(Q, beta, allowed)`` may turn it into a field, given the noise-free $Q = \mathrm{Sinkhorn}(\beta\,S)$ without
    gradient. ``samples`` adds a leading dimension of independent draws. ``noise`` scales g; with 0, nothing is drawn.
    Gradients reach the scores and beta. The noise is a function of 64 bits drawn from ``generator``.

    ``share = (first, total)`` says that ``scores[0], scores[1], ...`` are entries first, first + 1, ... of a batch of total
    entries: processes that split a batch, with generators in one state, draw what one process with all of it would.
    """
    square(scores)
    whole("iterations", iterations, 1)
    if samples is not None:
        whole("samples", samples, 1)
    number("noise", noise, least=0)
    beta = as_beta(beta, scores)
    scores = masked(scores, allowed)
    if local is not None:
        function("local", local, "us.LocalTemperature()")
        with torch.no_grad():
            settled = perturbed_sinkhorn(scores.detach(), beta.detach(), iterations=iterations)
        beta = as_beta(local(settled, beta, allowed), scores)
    return perturbed_sinkhorn(
        scores,
        beta,
        samples=samples,
        noise=Noise(float(noise), new_key(generator), *_place(scores, share)) if noise else SILENT,
        iterations=iterations,
    )


def _place(scores: Tensor, share: tuple[int, int] | None) -> tuple[int, int]:
    """First matrix and number of matrices of the whole batch, as ``Noise`` counts them."""
    if share is None:
        return 0, 0
    try:
        first, total = (int(entry) for entry in share)
    except (TypeError, ValueError):
        raise BadInput(f"share must be two whole numbers, (first, total), not {shown(share)}.") from None
    entries = len(scores) if scores.ndim > 2 else 1
    if not 0 <= first <= first + entries <= total:
        raise BadInput(
            f"share=({first}, {total}) has no room for {entries} entries: first + entries may be at most total."
        )
    each = scores.shape[1:-2].numel()  # further batch dimensions stay together
    return first * each, total * each


def as_beta(beta: float | Tensor, scores: Tensor) -> Tensor:
    """beta as a tensor that broadcasts to the scores; positive and finite where that is free to check."""
    if not isinstance(beta, Tensor):
        value = number("beta (the inverse temperature)", beta, above=0)
        return scores.new_full((), value)  # filled where it is: new_tensor would copy, and wait for a GPU
    try:
        fits = torch.broadcast_shapes(beta.shape, scores.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise BadInput(f"beta of shape {tuple(beta.shape)} does not broadcast to scores {tuple(scores.shape)}.")
    return beta.to(scores)
