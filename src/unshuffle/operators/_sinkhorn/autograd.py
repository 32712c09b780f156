"""The kernels as one differentiable torch operation: Sinkhorn(beta * (scores + noise * g))."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import BadInput
from . import bordered, kernel
from .block import Block, Border
from .checks import check_feasible, check_finite
from .field import FieldOfSums
from .in_torch import Perturb, plain_sinkhorn, second_order
from .logits import Problem
from .noise import Noise


def solved(
    given: Problem, scores: Tensor, beta: Tensor | FieldOfSums | None, samples: int, iterations: int, tolerance: float | None,
    block: Block,
) -> tuple[Tensor, kernel.State]:  # fmt: skip
    """What the kernel's forward gives, or one sentence."""
    try:
        lead = beta.lead if isinstance(beta, FieldOfSums) else None
        draws, state = kernel.forward(given, scores, samples, iterations, tolerance, lead)
    except kernel.Unusable:
        if isinstance(beta, FieldOfSums):
            raise  # who computes it the other way finds the words
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
        beta: Tensor | FieldOfSums | None,
        asked: tuple[int | None, Noise, int, float | None, Block],
    ) -> Tensor:
        samples, noise, iterations, tolerance, block = asked  # one argument: torch looks at each
        given = kernel.problem(scores, beta, noise, block)
        draws, ctx.state = solved(given, scores, beta, samples or 1, iterations, tolerance, block)
        soft = draws.squeeze_(0) if samples is None else draws  # in place: a view would cost more
        ctx.given, ctx.noise, ctx.block, ctx.takes_products = given, noise, block, True
        ctx.field = beta if isinstance(beta, FieldOfSums) else None
        ctx.save_for_backward(scores, beta if ctx.field is None else None, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta, soft = ctx.saved_tensors
        if torch.is_grad_enabled():
            beta = beta if ctx.field is None else ctx.field.whole()
            found = _differentiable(scores, beta, grads[0], ctx.noise, ctx.state, ctx.block)
        else:
            found = kernel.backward(ctx.given, scores, beta, ctx.needs_input_grad[1], soft, grads[0], ctx.state)
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


class BorderedSinkhorn(torch.autograd.Function):
    """The real part of P (*batch, m, n) of scores and prices (..., m) and (..., n), or one number for all.

    Raises `kernel.Unusable` for what is no easy problem.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, left_out: Tensor | float, empty: Tensor | float, asked: tuple[Border, int]
    ) -> Tensor:
        border, iterations = asked
        m, n = scores.shape[-2:]
        flat = scores.detach().contiguous().numpy().reshape(-1, m * n)
        prices = _each(left_out, m, scores), _each(empty, n, scores)
        ctx.given = bordered.Given(flat, *prices, flat.dtype.type(border.corner), border.alike)
        P, ctx.kept = kernel.forward_bordered(ctx.given, m, iterations, border.placed > 0)
        soft = torch.from_numpy(P.reshape(scores.shape))
        ctx.asked, tensors = asked, [price if isinstance(price, Tensor) else None for price in (left_out, empty)]
        ctx.numbers = [price if own is None else None for price, own in zip((left_out, empty), tensors, strict=True)]
        ctx.save_for_backward(scores, *tensors, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, *tensors, soft = ctx.saved_tensors
        prices = [own if number is None else number for own, number in zip(tensors, ctx.numbers, strict=True)]
        if torch.is_grad_enabled():
            return *_differentiable_part(scores, *prices, grads[0], *ctx.asked), None  # pyright: ignore[reportCallIssue]
        P, G = (x.detach().contiguous().numpy().reshape(-1, *soft.shape[-2:]) for x in (soft, grads[0]))
        back = kernel.backward_bordered(ctx.given, P, G, ctx.asked[1], ctx.kept)
        to_scores = torch.from_numpy(back.scores.reshape(soft.shape))
        to_prices = (
            torch.from_numpy(found.reshape(*soft.shape[:-2], found.shape[1])).sum_to_size(price.shape)
            if wanted
            else None
            for found, price, wanted in zip(back[1:], prices, ctx.needs_input_grad[1:3], strict=True)
        )
        return to_scores, *to_prices, None


def _each(price: Tensor | float, count: int, scores: Tensor) -> np.ndarray:
    """(1 or batch, count)."""
    if not isinstance(price, Tensor):
        return _same(price, count, scores.dtype == torch.float32)
    own = price.detach() if price.ndim == 1 else price.detach().expand(*scores.shape[:-2], count)
    return own.contiguous().numpy().reshape(-1, count)


@functools.lru_cache(16)
def _same(price: float, count: int, single: bool) -> np.ndarray:
    return np.full((1, count), price, np.float32 if single else np.float64)


def _differentiable_part(
    scores: Tensor, left_out: Tensor | float, empty: Tensor | float, grad: Tensor, border: Border, iterations: int
) -> tuple[Tensor | None, ...]:
    """As `_differentiable`, around the real part."""
    inputs = (scores, left_out, empty)
    with torch.enable_grad():
        square = plain_sinkhorn(border.around(*inputs), iterations, alike=border.block.alike)
        again = square[..., : border.items, : border.positions]
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if isinstance(x, Tensor) and x.requires_grad else None for x in inputs)
