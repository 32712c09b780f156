"""The kernels as operators of torch's library: what torch.compile, torch.export and torch.func see of them.

``unshuffle::sinkhorn`` gives P and the kernel's state, ``unshuffle::sinkhorn_backward`` makes the gradients of both; each has a fake that knows
the shapes, a gradient (the second one's through the plain loop) and a rule for vmap. NaN and impossible masks are found when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...compute.transforms import in_transform
from . import kernel
from .autograd import solved
from .block import Block
from .in_torch import perturbed, plain_sinkhorn
from .noise import Noise

STREAM = "float noise, int first, int total, int items, int positions, int alike"
STATE = "Tensor u, Tensor v, Tensor rows, Tensor columns, Tensor used, Tensor kind, Tensor start"
Call = Callable[..., Any]
State = tuple[Tensor, ...]  # u, v, rows, columns, used, kind, first, as `kernel.State` has them


def through_operation(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None,
    block: Block,
) -> Tensor:  # fmt: skip
    """P where tensors stand for others: in graphs, and inside torch.func."""
    key = noise.key if isinstance(noise.key, Tensor) else torch.tensor(noise.key)
    asked = (scores, beta, key, samples, noise.scale, noise.first, noise.total, *block, iterations, tolerance)
    if torch.compiler.is_compiling() or not in_transform(scores, beta):
        return torch.ops.unshuffle.sinkhorn(*asked)[0]
    return Forward.apply(*asked)[0]  # pyright: ignore[reportIndexIssue]


def _noise(key: Tensor, scale: float, first: int, total: int) -> Noise:
    high, low = key.tolist() if scale else (0, 0)
    return Noise(scale, (high, low), first, total)


# --- forward ---------------------------------------------------------------------------------------------------------


def forward(
    scores: Tensor, beta: Tensor | None, key: Tensor, samples: int | None, noise: float, first: int, total: int,
    items: int, positions: int, alike: int, iterations: int, tolerance: float | None,
) -> State:  # fmt: skip
    stream, block = _noise(key, noise, first, total), Block(items, positions, alike)
    given = kernel.problem(scores, beta, stream, block)
    draws, state = solved(given, scores, beta, samples or 1, iterations, tolerance, block)
    _clear(state)
    soft = draws[0] if samples is None else draws
    return soft, *(torch.from_numpy(part) for part in state[:7])


def _clear(state: kernel.State) -> None:
    """Zero where the kernel left memory as it found it: the outputs of an operator are a function of its inputs."""
    still, packed = state.kind != kernel.MOVED, state.kind == kernel.PACKED
    state.rows[still], state.columns[still] = 0, 0
    state.u[packed], state.v[packed], state.first[~packed] = 0, 0, 0
    idle = np.arange(state.u.shape[1]) >= state.used[:, None]
    for vectors in (state.u, state.v[:, :-1], state.rows, state.columns[:, :-1]):
        vectors[idle] = 0


def _empty_forward(
    scores: Tensor, beta: Tensor | None, key: Tensor, samples: int | None, noise: float, first: int, total: int,
    items: int, positions: int, alike: int, iterations: int, tolerance: float | None,
) -> State:  # fmt: skip
    n, count = scores.shape[-1], (samples or 1) * math.prod(scores.shape[:-2])
    shapes = ((count, iterations, n), (count, iterations + 1, n)) * 2 + ((count,), (count,), (count, n))
    types = (scores.dtype,) * 2 + (torch.int32,) * 2 + (torch.int64, torch.int8, scores.dtype)
    state = (scores.new_empty(shape, dtype=dtype) for shape, dtype in zip(shapes, types, strict=True))
    return scores.new_empty(scores.shape if samples is None else (samples, *scores.shape)), *state


def _keep(ctx: Any, inputs: tuple[Any, ...], output: State) -> None:
    scores, beta, key, *ctx.settings = inputs
    ctx.save_for_backward(scores, beta, key, *output)
    ctx.set_materialize_grads(False)


def _gradients(call: Call, ctx: Any, grad: Tensor | None, *_: object) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 12
    scores, beta, key, soft, *state = ctx.saved_tensors
    *stream, _iterations, tolerance = ctx.settings[1:]
    wanted = beta is not None and ctx.needs_input_grad[1]
    asked = (*stream, tolerance, wanted)
    to_scores, to_beta = call(scores, beta, key, soft, grad, *state, *asked)
    return to_scores, to_beta if wanted else None, *(None,) * 10


# --- backward --------------------------------------------------------------------------------------------------------


def backward(
    scores: Tensor, beta: Tensor | None, key: Tensor, soft: Tensor, grad: Tensor,
    u: Tensor, v: Tensor, rows: Tensor, columns: Tensor, used: Tensor, kind: Tensor, start: Tensor,
    noise: float, first: int, total: int, items: int, positions: int, alike: int, tolerance: float | None, wants_beta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients by scores and by beta (nothing, if it is not wanted)."""
    arrays = (part.detach().contiguous().numpy() for part in (u, v, rows, columns, used, kind, start))
    state = kernel.State(*arrays, forbidden=NOTHING)
    stream, block = _noise(key, noise, first, total), Block(items, positions, alike)
    given = kernel.problem(scores, beta, stream, block)
    to_scores, to_beta = kernel.backward(given, scores, beta, wants_beta, soft, grad, state)
    return to_scores, scores.new_empty(0) if to_beta is None else to_beta


NOTHING: Any = torch.zeros(1, dtype=torch.bool).numpy()


def _empty_backward(
    scores: Tensor, beta: Tensor | None, key: Tensor, soft: Tensor, grad: Tensor,
    u: Tensor, v: Tensor, rows: Tensor, columns: Tensor, used: Tensor, kind: Tensor, start: Tensor,
    noise: float, first: int, total: int, items: int, positions: int, alike: int, tolerance: float | None, wants_beta: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    empty = scores.new_empty(0) if beta is None or not wants_beta else scores.new_empty(beta.shape)
    return scores.new_empty(scores.shape), empty


def _keep_again(ctx: Any, inputs: tuple[Any, ...], output: State) -> None:
    scores, beta, key, soft, grad, u, _, _, _, used, _, _, *ctx.settings = inputs
    ctx.iterations, ctx.samples = u.shape[1], len(soft) if soft.ndim > scores.ndim else None
    ctx.save_for_backward(scores, beta, key, grad, used)


def _second(ctx: Any, by_scores: Tensor, by_beta: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient's own gradient: of what the plain loop would give, as a function of scores, beta and the gradient."""
    scores, beta, key, grad, used = ctx.saved_tensors
    scale, first, total, *block, tolerance, wants_beta = ctx.settings
    noise, block = Noise(scale, key, first, total), Block(*block)
    stops = None if tolerance is None else used.reshape(grad.shape[:-2])

    def plain(*inputs: Tensor) -> Tensor:
        logits = perturbed(inputs[0], inputs[1] if wants_beta else beta, ctx.samples, noise, block)
        return plain_sinkhorn(logits, ctx.iterations, stops, alike=block.alike)

    def gradients(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(plain, *inputs)[1](grad)

    inputs, against = ((scores, beta), (by_scores, by_beta)) if wants_beta else ((scores,), (by_scores,))
    to_grad, to_scores, *to_beta = torch.func.vjp(gradients, grad, *inputs)[1](against)
    if beta is not None and not wants_beta and ctx.needs_input_grad[1]:
        raise RuntimeError("A second derivative by beta needs the first one: ask for both.")
    return to_scores, to_beta[0] if wants_beta else None, None, None, to_grad, *(None,) * 15


# --- vmap: one more dimension of the batch, but with noise one matrix after the other, so that all have the same ------


def _in_front(x: Any, dim: int | None, size: int) -> Any:
    if x is None:
        return None
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _aligned(beta: Tensor | None, ndim: int) -> Tensor | None:
    """(B, *shape) with ones between, so that shape still broadcasts to the last dimensions of scores with this many."""
    return None if beta is None else beta.reshape(len(beta), *(1,) * (ndim - beta.ndim), *beta.shape[1:])


def _one_by_one(call: Any, size: int, dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    def of(k: int) -> list[Any]:
        return [x if dim is None else x.select(dim, k) for x, dim in zip(arguments, dims, strict=True)]

    found = [call(*of(k)) for k in range(size)]
    return tuple(torch.stack(parts) for parts in zip(*found, strict=True)), (0,) * len(found[0])


def _forward_over(call: Call, info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    scores, beta, key, samples, noise, *rest = arguments
    size = info.batch_size
    if noise:
        return _one_by_one(call, size, dims, arguments)
    scores = _in_front(scores, dims[0], size)
    beta = _aligned(_in_front(beta, dims[1], size), scores.ndim)
    soft, *state = call(scores, beta, key, samples, noise, *rest)
    apart = (part.reshape(samples or 1, size, -1, *part.shape[1:]).transpose(0, 1).flatten(1, 2) for part in state)
    return (soft, *apart), (0 if samples is None else 1, *(0,) * 7)


def _backward_over(call: Call, info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    size, noise = info.batch_size, arguments[12]
    if noise or dims[5] is None:  # or all have one state
        return _one_by_one(call, size, dims, arguments)
    fronts = [_in_front(x, dim, size) for x, dim in zip(arguments[:12], dims[:12], strict=True)]
    scores, beta, _, soft, grad, *state = fronts
    own = None if beta is None else beta.shape
    beta, key = _aligned(beta, scores.ndim), arguments[2]
    samples = soft.shape[1] if soft.ndim > scores.ndim else None
    if samples is not None:
        soft, grad = soft.transpose(0, 1), grad.transpose(0, 1)
    # as the forward pass had them: samples, then vmap, then the batch
    joined = (part.reshape(size, samples or 1, -1, *part.shape[2:]).transpose(0, 1).flatten(0, 2) for part in state)
    to_scores, to_beta = call(scores, beta, key, soft, grad, *joined, *arguments[12:])
    return (to_scores, to_beta.reshape(own) if to_beta.numel() else to_beta), (0, 0 if to_beta.numel() else None)


# --- for graphs: operators of torch's library --------------------------------------------------------------------------

_forward = torch.library.custom_op(
    "unshuffle::sinkhorn",
    forward,
    mutates_args=(),
    schema=f"(Tensor scores, Tensor? beta, Tensor key, int? samples, {STREAM}, int iterations, float? tolerance)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_backward = torch.library.custom_op(
    "unshuffle::sinkhorn_backward",
    backward,
    mutates_args=(),
    schema=f"(Tensor scores, Tensor? beta, Tensor key, Tensor soft, Tensor grad, {STATE}, {STREAM},"
    " float? tolerance, bool wants_beta) -> (Tensor, Tensor)",
)
_forward.register_fake(_empty_forward)
_forward.register_autograd(partial(_gradients, _backward), setup_context=_keep)
_forward.register_vmap(partial(_forward_over, _forward))
_backward.register_fake(_empty_backward)
_backward.register_autograd(_second, setup_context=_keep_again)
_backward.register_vmap(partial(_backward_over, _backward))


# --- for torch.func: it takes the gradient of an autograd.Function, but not that of an operator ------------------------


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> State:
        return forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: State) -> None:
        _keep(ctx, inputs, output)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return _gradients(Backward.apply, ctx, *grads)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        return _forward_over(Forward.apply, info, in_dims, *inputs)


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return backward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: State) -> None:
        _keep_again(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return _second(ctx, *grads)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        return _backward_over(Backward.apply, info, in_dims, *inputs)
