"""The numba kernels as one differentiable torch operation: Sinkhorn(beta * (scores + noise * g))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...compute.threads import in_chunks
from . import logspace, packed, scaling
from .in_torch import Perturb, second_order
from .lanes import WIDTH
from .noise import Noise

# Scalings must stay in (low, high), and ratios of scalings below reach: then nothing that float drops can matter,
# neither in the sums nor in P times ratios in the backward pass: e^(-87 + 33 + 33) and e^(-87 + 62) are below float32's rounding.
LIMITS = {
    torch.float32: np.exp(np.array([-33.0, 33.0, 62.0])).astype(np.float32),
    torch.float64: np.exp(np.array([-250.0, 250.0, 400.0])),
}


SMALL = range(3, 21)  # for these sizes eight matrices share the vector registers


class Unusable(Exception):
    """NaN, +inf or a row or column that is forbidden altogether; the caller finds the words."""


@dataclass(frozen=True)
class Problem:
    """What the kernels read, as flat numpy arrays that share memory with the tensors."""

    scores: np.ndarray  # (batch, n * n)
    beta: np.ndarray  # (batch,)
    field: np.ndarray  # (0, 1 or batch, n * n)
    noise: np.generic
    stream: tuple[np.generic, ...]  # two words of the key, and the place in the whole batch

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.scores, self.beta, self.field, self.noise, self.stream


def is_field(beta: Tensor | None) -> bool:
    return beta is not None and beta.shape[-2:].numel() > 1


def problem(scores: Tensor, beta: Tensor | None, noise: Noise) -> Problem:
    batch, n = scores.shape[:-2], scores.shape[-1]
    real = np.float32 if scores.dtype == torch.float32 else np.float64
    count = batch.numel()
    each = np.ones(count, real)
    field = np.empty((0, n * n), real)
    if beta is not None and is_field(beta):
        own = beta if beta.shape[:-2].numel() == 1 else beta.expand(scores.shape)
        field = _flat(own.expand(*own.shape[:-2], n, n), n)
    elif beta is not None:
        each = (
            beta.detach()
            .reshape(beta.shape[:-2] if beta.ndim > 1 else ())
            .expand(batch)
            .contiguous()
            .numpy()
            .reshape(-1)
        )
    stream = tuple(np.uint32(word) for word in (*noise.key, noise.first, noise.total or count))
    return Problem(_flat(scores, n), each, field, real(noise.scale), stream)


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    """Memory for a result. From 4 MB on numpy asks for huge pages and torch does not; below, torch's allocator is quicker."""
    if math.prod(shape) * dtype.itemsize < 2**22:
        return torch.empty(shape, dtype=dtype).numpy()
    return np.empty(shape, np.float32 if dtype == torch.float32 else np.float64)


def _flat(matrices: Tensor, n: int) -> np.ndarray:
    return matrices.detach().contiguous().numpy().reshape(-1, n * n)


def _shifts(given: Problem, n: int) -> np.ndarray:
    """What to take off the columns before anything is exponentiated, per batch entry."""
    shifts = np.empty((len(given.scores), n), given.scores.dtype)
    read = (given.scores, given.beta, given.field, shifts)
    in_chunks(lambda low, high: scaling.column_shifts(*read, low, high), len(shifts), 4.0 * given.scores.size)
    return shifts


def _one_by_one(given: Problem, shifts: np.ndarray, stop: np.generic, rest: tuple[Any, ...], work: float) -> None:
    """Every matrix that is not done yet."""
    *_, used, seen, _ = rest
    seen[scaling.HARD] = 0
    in_chunks(lambda low, high: scaling.forward(*given.arguments, shifts, stop, *rest, low, high), len(used), work)


class KernelSinkhorn(torch.autograd.Function):
    """Forward in the scaling form; hard matrices again in log space. Saves P and 2T vectors."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        beta: Tensor | None,
        draws: int | None,
        noise: Noise,
        iterations: int,
        tolerance: float | None,
        report: list[bool],
    ) -> Tensor:
        n = scores.shape[-1]
        given = problem(scores, beta, noise)
        batch, samples = len(given.scores), draws or 1
        P = _empty((samples * batch, n, n), scores.dtype)
        soft = torch.from_numpy(P.reshape(scores.shape if draws is None else (draws, *scores.shape)))
        u = np.empty((samples * batch, iterations, n), P.dtype)
        v = np.empty((samples * batch, iterations + 1, n), P.dtype)
        used, seen = np.zeros(samples * batch, np.int64), np.zeros(4, np.int64)
        rest = (P, u, v, used, seen, LIMITS[scores.dtype])
        shifts = _shifts(given, n) if scaling.looks_weak(*given.arguments[:3]) else np.empty((0, n), P.dtype)
        stop = P.dtype.type(-1 if tolerance is None else tolerance)
        work = P.size * (10.0 + 2 * iterations)
        groups = samples * (batch // WIDTH) if n in SMALL and tolerance is None else 0
        if groups:
            in_chunks(
                lambda low, high: packed.forward_packed(*given.arguments, shifts, *rest, low, high), groups, work / 4
            )
        if not groups or batch % WIDTH or seen[scaling.HARD]:
            _one_by_one(given, shifts, stop, rest, work)
        if seen[scaling.HARD] and not len(shifts) and ((shifts := _shifts(given, n)) < 0).any():
            _one_by_one(given, shifts, stop, rest, work)
        ctx.hard = Hard.solve(given, stop, P, used, iterations) if seen[scaling.HARD] else None
        report.append(bool(seen[scaling.FORBIDDEN]))
        ctx.given, ctx.easy, ctx.settings = given, (u, v, used, seen), (samples, noise, iterations)
        ctx.save_for_backward(scores, beta, soft)
        return soft

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, beta, soft = ctx.saved_tensors
        if torch.is_grad_enabled():
            used = abs(ctx.easy[2])
            if ctx.hard is not None:
                used[ctx.hard.which] = ctx.hard.used
            counts = torch.from_numpy(used).reshape(soft.shape[:-2])
            to_scores, to_beta = _differentiable(scores, beta, grads[0], counts, *ctx.settings[1:])
        else:
            to_scores, to_beta = _backward(ctx, scores, beta if ctx.needs_input_grad[1] else None, soft, grads[0])
        return to_scores, to_beta, None, None, None, None, None


def _backward(
    ctx: Any, scores: Tensor, wanted: Tensor | None, soft: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor | None]:
    given, samples, iterations = ctx.given, ctx.settings[0], ctx.settings[2]
    batch, n = len(given.scores), scores.shape[-1]
    shares = min(samples, -(-torch.get_num_threads() // batch))  # a small batch is split by samples instead
    P, G = (t.detach().contiguous().numpy().reshape(-1, n, n) for t in (soft, grad))
    to_scores = _empty((shares, batch, n * n), scores.dtype)
    to_beta = np.empty((shares if wanted is not None and not is_field(wanted) else 0, batch), P.dtype)
    to_field = np.empty((shares if is_field(wanted) else 0, batch, n * n), P.dtype)
    outs = (to_scores, to_beta, to_field)
    u, v, used, seen = ctx.easy
    rest = (P, G, u, v, used, samples, *outs, np.zeros((shares, batch), np.bool_))
    work = P.size * (10.0 + 4 * iterations)
    if seen[scaling.PACKED]:
        groups = shares * (batch // WIDTH)
        in_chunks(lambda low, high: packed.backward_packed(*given.arguments, *rest, low, high), groups, work / 4)
    if seen[scaling.EASY] or seen[scaling.HARD]:
        in_chunks(lambda low, high: scaling.backward(*given.arguments, *rest, low, high), shares * batch, work)
    if ctx.hard is not None:
        ctx.hard.backward(given, P, G, outs)
    back = torch.from_numpy((to_scores.sum(0) if shares > 1 else to_scores).reshape(scores.shape))
    if wanted is None:
        return back, None
    if is_field(wanted):
        return back, torch.from_numpy(to_field.sum(0)).reshape(scores.shape).sum_to_size(wanted.shape)
    return back, torch.from_numpy(to_beta.sum(0)).reshape(*scores.shape[:-2], 1, 1).sum_to_size(wanted.shape)


@dataclass(frozen=True)
class Hard:
    """The hard matrices of a batch: which they are (grouped by batch entry) and their log potentials."""

    which: np.ndarray
    starts: np.ndarray
    f: np.ndarray
    g: np.ndarray
    used: np.ndarray

    @staticmethod
    def solve(given: Problem, stop: np.generic, P: np.ndarray, easy: np.ndarray, iterations: int) -> Hard:
        n, batch = P.shape[-1], len(given.scores)
        which = np.flatnonzero(easy == 0)
        which = which[np.argsort(which % batch, kind="stable")]
        starts = np.append(np.flatnonzero(np.diff(which % batch, prepend=-1)), len(which))
        f, g = np.empty((len(which), iterations, n)), np.empty((len(which), iterations + 1, n))
        used = np.empty(len(which), np.int64)
        rest = (stop, P, which, f, g, used)
        work = len(which) * n * n * iterations * 20.0
        in_chunks(lambda low, high: logspace.forward_hard(*given.arguments, *rest, low, high), len(which), work)
        if not used.all():
            raise Unusable
        return Hard(which, starts, f, g, used)

    def backward(self, given: Problem, P: np.ndarray, G: np.ndarray, outs: tuple[np.ndarray, ...]) -> None:
        rest = (P, G, self.which, self.starts, self.f, self.g, self.used, *outs)
        work = self.f.size * P.shape[-1] * 20.0
        in_chunks(
            lambda low, high: logspace.backward_hard(*given.arguments, *rest, low, high), len(self.starts) - 1, work
        )


def _differentiable(
    scores: Tensor, beta: Tensor | None, grad: Tensor, used: Tensor, noise: Noise, iterations: int
) -> tuple[Tensor, Tensor | None]:
    """The gradient as a function that can be differentiated again, through the plain loop."""
    with torch.enable_grad():
        logits = scores.expand(grad.shape) if beta is None else Perturb.apply(scores, beta, grad.shape, noise)
    return second_order([scores, beta], logits, iterations, grad, used if bool((used < iterations).any()) else None)
