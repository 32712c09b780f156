"""Gumbel-Sinkhorn with one inverse temperature, a field of them, or a controller that makes the field."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..compute.transforms import symbolic
from ..errors import BadInput, called_with, function, number, shown, whole
from ..shapes import Mask, Scores
from ._sinkhorn.block import WHOLE
from ._sinkhorn.checks import Unusable
from ._sinkhorn.engine import perturbed_sinkhorn
from ._sinkhorn.field import FieldOfSums
from ._sinkhorn.noise import SILENT, Noise, new_key
from .assignment import masked
from .partial import Padded, Reject, nobody
from .permutation import broadcasts, rectangle
from .precision import in_full_precision

CONTROLLER = "Q, beta0, allowed"


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
    *,
    reject: Reject | None = None,
    keep: int | None = None,
) -> Float[Tensor, "*draws m n"]:
    r"""$P = \mathrm{Sinkhorn}(\beta\odot(S + g))$ with Gumbel(0, 1) noise $g$; Algorithm 1 with ``local``.

    ``beta`` is a number, or anything that broadcasts to the scores: one per matrix (..., 1, 1) or a field (..., n, n). It is above 0, and
    one sentence says where it is not, but entries of a whole field, tensors on a GPU and in a graph are not looked at for it.
    ``local(Q, beta, allowed)`` may turn it into a field, given the noise-free $Q = \mathrm{Sinkhorn}(\beta\,S)$ without
    gradient. ``samples`` adds a leading dimension of independent draws. ``noise`` scales g; with 0, nothing is drawn.
    Gradients reach the scores and beta. The noise is a function of 64 bits drawn from ``generator``.

    ``share = (first, total)`` says that ``scores[0], scores[1], ...`` are entries first, first + 1, ... of a batch of total
    entries: processes that split a batch, with generators in one state, draw what one process with all of it would.

    ``reject`` and ``keep`` are those of ``sinkhorn``, ``reject`` in units of the scores, so that beta multiplies it too. Only the real
    entries have noise: what it is worth to be left out is a price, not a guess. A field of betas then has one more row, for positions left empty,
    and one more column, for items left out; and so has the Q that ``local`` sees, where being left out is one more outcome.
    """
    soft, padded = soft_square(
        scores, beta, samples, local, iterations, generator, noise, allowed, share, reject=reject, keep=keep
    )
    if padded is None:
        return soft
    return nobody(scores, samples) if keep == 0 else padded.real(soft)


def soft_square(
    scores: Scores,
    beta: float | Tensor,
    samples: int | None,
    local: Callable[..., Tensor] | None,
    iterations: int,
    generator: torch.Generator | None,
    noise: float,
    allowed: Mask | None,
    share: tuple[int, int] | None,
    reject: Reject | None,
    keep: int | None,
) -> tuple[Float[Tensor, "*draws size size"], Padded | None]:
    """``gumbel_sinkhorn`` with the dummies, if there are any."""
    rectangle(scores)
    iterations = whole("iterations", iterations, 1)
    samples = None if samples is None else whole("samples", samples, 1)
    loudness(noise)
    padded = Padded.of(scores, reject, keep)
    base = as_beta(beta, scores, padded)
    scores = masked(scores, allowed)
    if padded is not None:
        scores, allowed = padded.scores(scores, reject), padded.mask(allowed)
    block = WHOLE if padded is None else padded.border.block
    if local is not None:
        function("local", local, "us.LocalTemperature()")
        if not torch.compiler.is_compiling() and not _leads(type(local)):
            controller(local)  # of others more is asked where they fail: to look at arguments takes time
        if padded is not None and not getattr(local, "partial", True):
            raise BadInput(
                "The degrees of a tour are of items that all have a place; where some are left out (reject, keep, more items or "
                "more positions), take another signal, such as us.ExcessEntropy()."
            )
    drawn = Noise(float(noise), new_key(generator), *_place(scores, share)) if noise else SILENT

    def soft(beta: Tensor | FieldOfSums) -> Tensor:
        return perturbed_sinkhorn(scores, beta, samples=samples, noise=drawn, iterations=iterations, block=block)

    if (of_scores := getattr(local, "of_scores", None)) is not None and padded is None and allowed is None:
        field = of_scores(scores.detach(), base)
        with suppress(Unusable):  # the other way can take it, or finds the words
            if field is not None:
                return soft(field), padded
    led = base if local is None else _led(local, scores, base, iterations, allowed, padded)
    return soft(_field(led, padded)), padded


def _led(
    local: Callable[..., Tensor],
    scores: Tensor,
    beta: Tensor,
    iterations: int,
    allowed: Mask | None,
    padded: Padded | None,
) -> Tensor:
    """What ``local`` makes of beta."""
    block = WHOLE if padded is None else padded.border.block
    with torch.no_grad():
        settled = perturbed_sinkhorn(scores.detach(), _field(beta, padded).detach(), iterations=iterations, block=block)
    seen = settled if padded is None else padded.with_left_out(settled)
    try:
        return as_beta(local(seen, beta, allowed), seen)
    except TypeError:
        controller(local)
        raise


def controller(local: Any) -> None:
    """Nothing, if it can be called as ``local(Q, beta, allowed)``; otherwise one sentence."""
    if callable(local) and not called_with(local, CONTROLLER) and called_with(local, "Q"):
        ours = "us." if type(local).__module__.startswith("unshuffle.") else ""
        raise BadInput(
            f"local must be a controller, a function of ({CONTROLLER}), not a signal: write us.LocalTemperature({ours}{shown(local)})."
        )
    function("local", local, "us.LocalTemperature()", CONTROLLER)


@functools.cache
def _leads(kind: type) -> bool:
    """Whether it may be called as a controller is, as far as its name tells: for what is of this package, by the names of its arguments."""
    ours = kind.__module__.startswith("unshuffle.")
    return not ours or called_with(getattr(kind, "forward", kind.__call__), f"self, {CONTROLLER}")


def _field(beta: Tensor, padded: Padded | None) -> Tensor:
    return beta if padded is None else padded.field(beta)


def loudness(noise: Any) -> None:
    """Nothing, if it is a scale of the noise; otherwise one sentence. A gradient for it would be lost without a word."""
    if isinstance(noise, Tensor) and noise.requires_grad:
        raise BadInput("noise is a number that is not learned: no gradient reaches it; give noise.item().")
    number("noise", noise, least=0)


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


def as_beta(beta: float | Tensor, scores: Tensor, padded: Padded | None = None) -> Tensor:
    """beta as a tensor that broadcasts to the scores, with a row and a column for dummies; above 0 where that is free to check."""
    if not isinstance(beta, Tensor):
        value = number("beta (the inverse temperature)", beta, above=0)
        return scores.new_full((), value)  # filled where it is: new_tensor would copy, and wait for a GPU
    above_zero(beta)
    beta = beta.to(scores)
    if padded is not None and not padded.priced and broadcasts(beta, scores.shape):
        beta = padded.outside(beta)
    shape = scores.shape if padded is None else (*scores.shape[:-2], *padded.shape)
    if not broadcasts(beta, shape):
        left_out = "" if padded is None else ", with one more row and column for what is left empty and out"
        raise BadInput(f"beta of shape {tuple(beta.shape)} does not broadcast to scores {tuple(shape)}{left_out}.")
    return beta


def above_zero(beta: Tensor) -> None:
    """Nothing, if these inverse temperatures are above 0, or if to know it were not free: of a whole field, on a GPU, in a graph."""
    if beta.device.type != "cpu" or (beta.ndim > 1 and 1 not in beta.shape[-2:]) or not beta.numel() or symbolic(beta):
        return
    least = float(beta.detach().min()) if beta.ndim else beta.item()
    if least <= 0:  # NaN is told with its place where it is met
        raise BadInput(f"beta (the inverse temperature) must be above 0 everywhere, but its least entry is {least:g}.")
