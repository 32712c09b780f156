"""Sinkhorn in torch, in log space, on any device; also what the kernel is measured against.

``plain_sinkhorn`` is the textbook loop with autograd through every step. ``TorchSinkhorn`` gives the same values and
gradient from the input and 2T vectors; it serves other devices and machines without numba.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .block import WHOLE, Block
from .noise import Noise, gumbel


def plain_sinkhorn(
    scores: Float[Tensor, "*batch n n"],
    iterations: int,
    used: Int[Tensor, "*batch"] | None = None,
    tolerance: float | None = None,
    alike: int = 1,
) -> Float[Tensor, "*batch n n"]:
    """Rows, then columns, ``iterations`` times, by log-softmax; autograd keeps every intermediate matrix.

    ``used`` is for each matrix after how many iterations it was left alone; ``tolerance`` leaves it alone when its rows sum to one.
    The last row and column sum to ``alike``.
    """
    going = None if tolerance is None else torch.ones_like(scores[..., 0, 0], dtype=torch.bool)
    log_rows, log_columns = log_sums(scores, alike)
    scores = scores + log_columns if alike > 1 else scores
    for t in range(iterations):
        before = scores
        scores = scores - (scores.logsumexp(-1, keepdim=True) - log_rows)
        scores = scores - (scores.logsumexp(-2, keepdim=True) - log_columns)
        if used is not None:
            going = used > t
        if going is not None:
            scores = torch.where(going[..., None, None], scores, before)
        if going is not None and tolerance is not None:
            going = going & (((scores - log_rows).exp().sum(-1) - 1).abs().amax(-1) > tolerance)
    return scores.exp()


def log_sums(scores: Tensor, alike: int) -> tuple[Tensor, Tensor]:
    """Of what rows (n, 1) and columns (1, n) shall sum to: 0, but for the last entry."""
    logs = torch.nn.functional.pad(scores.new_zeros(scores.shape[-1] - 1), (0, 1), value=math.log(alike))
    return logs.unsqueeze(-1), logs.unsqueeze(-2)


class TorchSinkhorn(torch.autograd.Function):
    r"""$f_t = -\mathrm{LSE}_j(L + g_{t-1})$, $g_t = -\mathrm{LSE}_i(L + f_t)$, $P = \exp(L + f_T + g_T)$.

    With a tolerance each matrix stops as soon as its own rows sum to 1, and ``used`` says when. The last row and column sum to
    ``alike`` instead.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, iterations: int, tolerance: float | None, alike: int = 1) -> Tensor:
        log_rows, log_columns = log_sums(scores, alike)
        f = torch.zeros_like(scores[..., :1])
        g = torch.zeros_like(scores[..., :1, :]) + log_columns
        steps: list[tuple[Tensor, Tensor]] = []
        used = None if tolerance is None else torch.full(scores.shape[:-2], iterations, device=scores.device)
        for t in range(iterations):
            going = None if used is None else (used > t)[..., None, None]
            f = _where(going, log_rows - (scores + g).logsumexp(-1, keepdim=True), f)
            g = _where(going, log_columns - (scores + f).logsumexp(-2, keepdim=True), g)
            steps.append((f, g))
            if used is not None and tolerance is not None:
                off = ((scores + f + g - log_rows).exp().sum(-1) - 1).abs().amax(-1)
                done = (off <= tolerance) & (used > t)
                used = torch.where(done, t + 1, used)
                if not torch.compiler.is_compiling() and bool((used <= t + 1).all()):
                    break
        soft = (scores + f + g).exp()
        ctx.steps, ctx.used, ctx.alike = steps, used, alike
        ctx.save_for_backward(scores, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, soft = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: differentiate the plain loop
            again = second_order([scores], scores, len(ctx.steps), grads[0], ctx.used, ctx.alike)
            return again[0], None, None, None
        log_rows, log_columns = log_sums(scores, ctx.alike)
        weighted = grads[0] * soft
        total = weighted
        f_bar = weighted.sum(-1, keepdim=True)
        g_bar = weighted.sum(-2, keepdim=True)
        for t in range(len(ctx.steps) - 1, -1, -1):
            going = None if ctx.used is None else (ctx.used > t)[..., None, None]
            f, g = ctx.steps[t]
            columns = (scores + f + g - log_columns).exp() * g_bar  # after the column step of iteration t
            pulled = f_bar - columns.sum(-1, keepdim=True)
            before = ctx.steps[t - 1][1] if t else log_columns
            rows = (scores + f + before - log_rows).exp() * pulled  # after its row step
            total = _where(going, total - columns - rows, total)
            g_bar = _where(going, -rows.sum(-2, keepdim=True), g_bar)
            f_bar = _where(going, torch.zeros_like(f_bar), f_bar)
        return total, None, None, None


def _where(going: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """The new value for matrices that go on; None stands for all of them."""
    return new if going is None else torch.where(going, new, old)


def second_order(
    inputs: list[Tensor | None], logits: Tensor, iterations: int, grad: Tensor, used: Tensor | None, alike: int = 1
) -> tuple[Tensor, Tensor | None]:
    """Gradients of the inputs that can themselves be differentiated, at the memory cost of the plain loop."""
    with torch.enable_grad():
        again = plain_sinkhorn(logits, iterations, used, alike=alike)
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in inputs)  # pyright: ignore[reportReturnType]


class Perturb(torch.autograd.Function):
    """beta * (scores + noise * g); the noise is made again for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, beta: Tensor, shape: tuple[int, ...], noise: Noise, block: Block = WHOLE
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(scores, beta)
        ctx.recipe = (shape, noise, block)
        return beta * _noisy(scores, *ctx.recipe)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta = ctx.saved_tensors
        noisy = _noisy(scores, *ctx.recipe)
        to_scores = (grads[0] * beta).sum_to_size(scores.shape)
        # a forbidden entry has no gradient, and 0 * -inf is not 0
        to_beta = (grads[0] * noisy.masked_fill(noisy == -torch.inf, 0.0)).sum_to_size(beta.shape)
        return to_scores, to_beta, None, None, None


def perturbed(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, block: Block = WHOLE
) -> Tensor:  # fmt: skip
    """What ``Perturb`` gives, in plain operations that every transform of torch knows."""
    noisy = _noisy(scores, scores.shape if samples is None else (samples, *scores.shape), noise, block)
    forbidden = noisy == -torch.inf  # 0 * -inf is not 0
    return noisy if beta is None else (beta * noisy.masked_fill(forbidden, 0.0)).masked_fill(forbidden, -torch.inf)


def _noisy(scores: Tensor, shape: tuple[int, ...], noise: Noise, block: Block) -> Tensor:
    if noise.scale == 0:
        return scores.expand(shape)
    n, batch = scores.shape[-1], scores.shape[:-2].numel()
    numbers = noise.numbers(torch.Size(shape[:-2]).numel(), batch, scores.device)
    items, positions = block.items or n, block.positions or n
    g = torch.nn.functional.pad(
        gumbel(numbers, items, positions, noise.key, scores.dtype), (0, n - positions, 0, n - items)
    )
    return scores + noise.scale * g.reshape(shape)
