"""Sinkhorn in torch, in log space, on any device; also what the kernel is measured against.

``plain_sinkhorn`` is the textbook loop with autograd through every step. ``TorchSinkhorn`` gives the same values and
gradient from the input and 2T vectors; it serves other devices and machines without numba.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .noise import Noise, gumbel


def plain_sinkhorn(scores: Float[Tensor, "*batch n n"], iterations: int) -> Float[Tensor, "*batch n n"]:
    """Rows, then columns, ``iterations`` times, by log-softmax; autograd keeps every intermediate matrix."""
    for _ in range(iterations):
        scores = scores - scores.logsumexp(-1, keepdim=True)
        scores = scores - scores.logsumexp(-2, keepdim=True)
    return scores.exp()


class TorchSinkhorn(torch.autograd.Function):
    r"""$f_t = -\mathrm{LSE}_j(L + g_{t-1})$, $g_t = -\mathrm{LSE}_i(L + f_t)$, $P = \exp(L + f_T + g_T)$."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, iterations: int, tolerance: float | None) -> Tensor:
        f = torch.zeros_like(scores[..., :1])
        g = torch.zeros_like(scores[..., :1, :])
        steps: list[tuple[Tensor, Tensor]] = []
        soft = scores
        for _ in range(iterations):
            f = -(scores + g).logsumexp(-1, keepdim=True)
            g = -(scores + f).logsumexp(-2, keepdim=True)
            steps.append((f, g))
            if tolerance is not None and _row_error((scores + f + g).exp()) <= tolerance:
                break
        soft = (scores + f + g).exp()
        ctx.steps, ctx.iterations = steps, len(steps)
        ctx.save_for_backward(scores, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, soft = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: differentiate the plain loop
            return second_order([scores], scores, ctx.iterations, grads[0])[0], None, None
        weighted = grads[0] * soft
        total = weighted
        f_bar = weighted.sum(-1, keepdim=True)
        g_bar = weighted.sum(-2, keepdim=True)
        for t in range(ctx.iterations - 1, -1, -1):
            f, g = ctx.steps[t]
            columns = (scores + f + g).exp()  # after the column step of iteration t
            f_bar = f_bar - (columns * g_bar).sum(-1, keepdim=True)
            total = total - columns * g_bar
            before = ctx.steps[t - 1][1] if t else torch.zeros_like(g)
            rows = (scores + f + before).exp()  # after its row step
            total = total - rows * f_bar
            g_bar = -(rows * f_bar).sum(-2, keepdim=True)
            f_bar = torch.zeros_like(f_bar)
        return total, None, None


def second_order(
    inputs: list[Tensor | None], logits: Tensor, iterations: int, grad: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Gradients of the inputs that can themselves be differentiated, at the memory cost of the plain loop."""
    with torch.enable_grad():
        again = plain_sinkhorn(logits, iterations)
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in inputs)  # pyright: ignore[reportReturnType]


class Perturb(torch.autograd.Function):
    """beta * (scores + noise * g); the noise is made again for the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, beta: Tensor, shape: tuple[int, ...], noise: Noise) -> Tensor:
        ctx.save_for_backward(scores, beta)
        ctx.recipe = (shape, noise)
        return beta * _noisy(scores, *ctx.recipe)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta = ctx.saved_tensors
        noisy = _noisy(scores, *ctx.recipe)
        to_scores = (grads[0] * beta).sum_to_size(scores.shape)
        # a forbidden entry has no gradient, and 0 * -inf is not 0
        to_beta = (grads[0] * noisy.masked_fill(noisy == -torch.inf, 0.0)).sum_to_size(beta.shape)
        return to_scores, to_beta, None, None


def perturbed(scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise) -> Tensor:
    """What ``Perturb`` gives, in plain operations that every transform of torch knows."""
    noisy = _noisy(scores, scores.shape if samples is None else (samples, *scores.shape), noise)
    forbidden = noisy == -torch.inf  # 0 * -inf is not 0
    return noisy if beta is None else (beta * noisy.masked_fill(forbidden, 0.0)).masked_fill(forbidden, -torch.inf)


def _noisy(scores: Tensor, shape: tuple[int, ...], noise: Noise) -> Tensor:
    if noise.scale == 0:
        return scores.expand(shape)
    n, batch = scores.shape[-1], scores.shape[:-2].numel()
    numbers = noise.numbers(torch.Size(shape[:-2]).numel(), batch, scores.device)
    return scores + noise.scale * gumbel(numbers, n, noise.key, scores.dtype).reshape(shape)


def _row_error(soft: Tensor) -> float:
    return float((soft.sum(-1) - 1).abs().amax()) if soft.numel() else 0.0
