"""The Triton kernels as one differentiable torch operation: Sinkhorn(beta * (scores + noise * g))."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..block import Block
from ..in_torch import Perturb, second_order
from ..noise import Noise
from . import launch


class TritonSinkhorn(torch.autograd.Function):
    """P (samples, *scores.shape), or as the scores if samples is None; keeps the scores and 2T + 1 vectors, but not P."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, block: Block
    ) -> Tensor:  # fmt: skip
        soft, potentials = launch.forward(scores, beta, samples, noise, iterations, block)
        ctx.settings = (samples, noise, block)
        ctx.save_for_backward(scores, beta, potentials)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta, potentials = ctx.saved_tensors
        samples, noise, block = ctx.settings
        if torch.is_grad_enabled():  # a second derivative is wanted: differentiate the plain loop
            with torch.enable_grad():
                shape = grads[0].shape
                logits = scores.expand(shape) if beta is None else Perturb.apply(scores, beta, shape, noise, block)
            found = second_order([scores, beta], logits, potentials.shape[1] // 2, grads[0], None, block.alike)
        else:
            found = launch.backward(scores, beta, samples, noise, potentials, grads[0], ctx.needs_input_grad[1], block)
        return *found, None, None, None, None
