"""Chooses how Sinkhorn is computed: the numba kernel on a CPU, torch elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..shapes import BadInput
from ._philox import gumbel
from ._torch import TorchSinkhorn
from .assignment import why_infeasible


def perturbed_sinkhorn(
    scores: Tensor,
    beta: Tensor | None = None,
    *,
    samples: int | None = None,
    noise: float = 0.0,
    key: tuple[int, int] = (0, 0),
    iterations: int,
    tolerance: float | None = None,
) -> Tensor:
    """Sinkhorn(beta * (scores + noise * g)); with ``samples``, that many draws in front of the batch."""
    soft = _through_torch(scores, beta, samples, noise, key, iterations, tolerance)
    return soft


def _through_torch(
    scores: Tensor,
    beta: Tensor | None,
    samples: int | None,
    noise: float,
    key: tuple[int, int],
    iterations: int,
    tolerance: float | None,
) -> Tensor:
    shape = scores.shape if samples is None else (samples, *scores.shape)
    if scores.numel() == 0:
        return scores.expand(shape)
    _check(scores)
    logits = scores if beta is None else Perturb.apply(scores, beta, shape, noise, key)
    soft: Tensor = TorchSinkhorn.apply(logits, iterations, tolerance)  # pyright: ignore[reportAssignmentType]
    _check_feasible(scores, soft)
    return soft


class Perturb(torch.autograd.Function):
    """beta * (scores + noise * g); the noise is made again for the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, beta: Tensor, shape: tuple[int, ...], noise: float, key: Any) -> Tensor:
        ctx.save_for_backward(scores, beta)
        ctx.recipe = (shape, noise, key)
        return beta * _noisy(scores, *ctx.recipe)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta = ctx.saved_tensors
        noisy = _noisy(scores, *ctx.recipe)
        to_scores = (grads[0] * beta).sum_to_size(scores.shape)
        # a forbidden entry has no gradient, and 0 * -inf is not 0
        to_beta = (grads[0] * noisy.masked_fill(noisy == -torch.inf, 0.0)).sum_to_size(beta.shape)
        return to_scores, to_beta, None, None, None


def _noisy(scores: Tensor, shape: tuple[int, ...], noise: float, key: tuple[int, int]) -> Tensor:
    if noise == 0:
        return scores.expand(shape)
    n = scores.shape[-1]
    count = int(torch.Size(shape).numel() // (n * n))
    return scores + noise * gumbel(count, n, key, scores.dtype, scores.device).reshape(shape)


def _check(scores: Tensor) -> None:
    bad = scores.isnan() | (scores == torch.inf)
    if bool(bad.any()):
        *_, row, column = bad.nonzero()[0].tolist()
        word = "NaN" if bool(scores.isnan().any()) else "+inf"
        raise BadInput(f"Scores must be finite (or -inf to forbid), but row {row}, column {column} is {word}.")


def _check_feasible(scores: Tensor, soft: Tensor) -> None:
    """A mask without a perfect matching leaves some row of a column-normalised matrix short by at least 1/n."""
    n = scores.shape[-1]
    forbidden = scores == -torch.inf
    if not bool(forbidden.any()):
        return
    short = ~((soft.detach().sum(-1) - 1).abs().amax(-1) < 1 / n)  # NaN counts as short
    short = short.reshape(-1, *scores.shape[:-2]).any(0).reshape(-1)
    flat = forbidden.reshape(-1, n, n)
    for k in short.nonzero().flatten().tolist():
        reason = why_infeasible(~flat[k].cpu().numpy(), k if len(flat) > 1 else None)
        if reason:
            raise BadInput(reason)
