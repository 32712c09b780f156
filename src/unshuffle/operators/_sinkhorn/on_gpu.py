"""Sinkhorn on a GPU as an operator of torch's library: what torch.compile and torch.export see of it there.

``unshuffle::sinkhorn_on_gpu`` gives P and the potentials of all iterations, from which ``unshuffle::sinkhorn_on_gpu_backward`` makes the
gradients. Who computes them is chosen when they run, on the device at hand: the Triton kernels, or the same formulas in torch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..backends import choose
from .block import Block
from .in_torch import log_sums, perturbed
from .noise import Noise

STREAM = "float noise, int first, int total, int items, int positions, int alike"


def through_gpu_operation(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, block: Block
) -> Tensor:  # fmt: skip
    key = noise.key if isinstance(noise.key, Tensor) else torch.tensor(noise.key)
    asked = (scores, beta, key, samples, noise.scale, noise.first, noise.total, *block, iterations)
    return torch.ops.unshuffle.sinkhorn_on_gpu(*asked)[0]


class InTorch:
    """What `in_triton.launch` does, in torch: P and the potentials g_0, f_1, g_1, ..., f_T, g_T, and the gradients from them."""

    @staticmethod
    def forward(
        scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, block: Block
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        L = perturbed(scores.float(), beta, samples, noise, block)
        log_rows, log_columns = log_sums(L, block.alike)
        g = log_columns.expand(*L.shape[:-2], 1, -1)
        kept = [g.squeeze(-2)]
        f = torch.zeros_like(L[..., :1])
        for _ in range(iterations):
            f = log_rows - (L + g).logsumexp(-1, keepdim=True)
            g = log_columns - (L + f).logsumexp(-2, keepdim=True)
            kept += [f.squeeze(-1), g.squeeze(-2)]
        potentials = torch.stack(kept, -2).reshape(-1, len(kept), L.shape[-1]).double()
        return (L + f + g).exp().to(scores.dtype), potentials

    @staticmethod
    def backward(
        scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, potentials: Tensor, grad: Tensor,
        wants_beta: bool, block: Block,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        noisy = perturbed(scores.float(), None, samples, noise, block)
        L = perturbed(scores.float(), beta, samples, noise, block)
        log_rows, log_columns = log_sums(L, block.alike)
        kept = potentials.to(L).reshape(*L.shape[:-2], *potentials.shape[1:]).unbind(-2)
        total = grad * (L + kept[-2].unsqueeze(-1) + kept[-1].unsqueeze(-2)).exp()
        f_bar, g_bar = total.sum(-1, keepdim=True), total.sum(-2, keepdim=True)
        for t in range(len(kept) - 1, 0, -2):
            before, f, g = kept[t - 2].unsqueeze(-2), kept[t - 1].unsqueeze(-1), kept[t].unsqueeze(-2)
            columns = (L + f + g - log_columns).exp() * g_bar
            rows = (L + f + before - log_rows).exp() * (f_bar - columns.sum(-1, keepdim=True))
            total = total - columns - rows
            f_bar, g_bar = torch.zeros_like(f_bar), -rows.sum(-2, keepdim=True)
        to_scores = (total if beta is None else total * beta).sum_to_size(scores.shape).to(scores.dtype)
        if beta is None or not wants_beta:
            return to_scores, None
        return to_scores, (total * noisy.masked_fill(noisy == -torch.inf, 0.0)).sum_to_size(beta.shape).to(beta.dtype)


def _backend(scores: Tensor) -> Any:
    if choose(scores.device, scores.dtype, scores.shape[-1])[0] != "triton":
        return InTorch
    from .in_triton import launch

    return launch


def _noise(key: Tensor, scale: float, first: int, total: int) -> Noise:
    high, low = key.tolist() if scale else (0, 0)  # on the CPU: nothing waits for the device
    return Noise(scale, (high, low), first, total)


@torch.library.custom_op(
    "unshuffle::sinkhorn_on_gpu",
    mutates_args=(),
    schema=f"(Tensor scores, Tensor? beta, Tensor key, int? samples, {STREAM}, int iterations) -> (Tensor, Tensor)",
)
def _forward(
    scores: Tensor, beta: Tensor | None, key: Tensor, samples: int | None, noise: float, first: int, total: int,
    items: int, positions: int, alike: int, iterations: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    stream, block = _noise(key, noise, first, total), Block(items, positions, alike)
    return _backend(scores).forward(scores, beta, samples, stream, iterations, block)


@_forward.register_fake
def _(
    scores: Tensor, beta: Tensor | None, key: Tensor, samples: int | None, noise: float, first: int, total: int,
    items: int, positions: int, alike: int, iterations: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    n, count = scores.shape[-1], (samples or 1) * math.prod(scores.shape[:-2])
    soft = scores.new_empty(scores.shape if samples is None else (samples, *scores.shape))
    return soft, scores.new_empty((count, 2 * iterations + 1, n), dtype=torch.float64)


@torch.library.custom_op(
    "unshuffle::sinkhorn_on_gpu_backward",
    mutates_args=(),
    schema=f"(Tensor scores, Tensor? beta, Tensor key, Tensor potentials, Tensor grad, int? samples, {STREAM}, bool wants_beta)"
    " -> (Tensor, Tensor)",
)
def _backward(
    scores: Tensor, beta: Tensor | None, key: Tensor, potentials: Tensor, grad: Tensor, samples: int | None,
    noise: float, first: int, total: int, items: int, positions: int, alike: int, wants_beta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients by scores and by beta (nothing, if it is not wanted)."""
    stream, block = _noise(key, noise, first, total), Block(items, positions, alike)
    back = _backend(scores).backward(scores, beta, samples, stream, potentials, grad, wants_beta, block)
    return back[0], scores.new_empty(0) if back[1] is None else back[1]


@_backward.register_fake
def _(
    scores: Tensor, beta: Tensor | None, key: Tensor, potentials: Tensor, grad: Tensor, samples: int | None,
    noise: float, first: int, total: int, items: int, positions: int, alike: int, wants_beta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    by_beta = scores.new_empty(0) if beta is None or not wants_beta else beta.new_empty(beta.shape)
    return scores.new_empty(scores.shape), by_beta


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    scores, beta, key, ctx.samples, *ctx.stream, _ = inputs
    ctx.save_for_backward(scores, beta, key, output[1])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, *_: object) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    wanted = ctx.saved_tensors[1] is not None and ctx.needs_input_grad[1]
    to_scores, to_beta = torch.ops.unshuffle.sinkhorn_on_gpu_backward(
        *ctx.saved_tensors, grad, ctx.samples, *ctx.stream, wanted
    )
    return to_scores, to_beta if wanted else None, *(None,) * 9


_forward.register_autograd(_gradients, setup_context=_keep)
