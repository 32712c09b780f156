"""The kernels as one differentiable torch operation: Sinkhorn(beta * (scores + noise * g))."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import BadInput
from . import kernel
from .block import Block
from .checks import check_feasible, check_finite
from .in_torch import Perturb, second_order
from .logits import Problem
from .noise import Noise


def solved(
    given: Problem, scores: Tensor, beta: Tensor | None, samples: int, iterations: int, tolerance: float | None, block: Block
) -> tuple[Tensor, kernel.State]:  # fmt: skip
    """What the kernel's forward gives, or one sentence."""
    try:
        draws, state = kernel.forward(given, scores, samples, iterations, tolerance)
    except kernel.Unusable:
        check_finite(scores, "Scores")
        if beta is not None:
            check_finite(beta, "beta")
        check_feasible(scores, scores, block)
        raise BadInput("The scores times beta are too large to compute with; scale them down.") from None
    if state.forbidden[0]:
        check_feasible(scores, draws, block)
    return draws, state


class KernelSinkhorn(torch.autograd.Function):
    """P (samples, *scores.shape), or as the scores if samples is None; keeps P and 2T vectors."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        beta: Tensor | None,
        asked: tuple[int | None, Noise, int, float | None, Block],
    ) -> Tensor:
        samples, noise, iterations, tolerance, block = asked  # one argument: torch looks at each
        given = kernel.problem(scores, beta, noise, block)
        draws, ctx.state = solved(given, scores, beta, samples or 1, iterations, tolerance, block)
        soft = draws.squeeze_(0) if samples is None else draws  # in place: a view would cost more
        ctx.given, ctx.noise, ctx.block = given, noise, block
        ctx.save_for_backward(scores, beta, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta, soft = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = _differentiable(scores, beta, grads[0], ctx.noise, ctx.state, ctx.block)
        else:
            draws, grad = (x.reshape(-1, *scores.shape) for x in (soft, grads[0]))
            found = kernel.backward(ctx.given, scores, beta, ctx.needs_input_grad[1], draws, grad, ctx.state)
        return *found, None


def _differentiable(
    scores: Tensor, beta: Tensor | None, grad: Tensor, noise: Noise, state: kernel.State, block: Block
) -> tuple[Tensor, Tensor | None]:
    """The gradient as a function that can be differentiated again, through the plain loop."""
    iterations = state.u.shape[1]
    used = torch.from_numpy(state.used).reshape(grad.shape[:-2]) if (state.used < iterations).any() else None
    with torch.enable_grad():
        logits = scores.expand(grad.shape) if beta is None else Perturb.apply(scores, beta, grad.shape, noise, block)
    return second_order([scores, beta], logits, iterations, grad, used, block.alike)
