"""The numba kernels as two plain functions: forward gives P and the state that backward needs, of shapes known beforehand."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...compute.memory import empty_array
from ...compute.threads import in_chunks
from ..product import Product
from . import bordered, bordered_packed, one_by_one, packed
from .block import WHOLE, Block
from .checks import Unusable
from .field import FieldOfSums, Lead
from .lanes import WIDTH
from .logits import Gradients, Problem
from .noise import Noise
from .scaling import EASY, MOVED, PACKED, State, Upon

__all__ = ["EASY", "MOVED", "PACKED", "State", "Unusable", "backward", "forward", "is_field", "problem"]

# The smallest product of a row's and a column's sum, the largest sum, and the largest ratio of scalings u v of any iteration and the
# last: then nothing that float drops can matter, neither in the sums nor in P times ratios in the backward pass, because
# e^(-87 + 70) is below float32's rounding.
LIMITS = {
    torch.float32: np.exp(np.array([-70.0, 60.0, 70.0])).astype(np.float32),
    torch.float64: np.exp(np.array([-600.0, 300.0, 600.0])),
}
TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
SMALL = range(3, 21)  # for these sizes eight matrices share the vector registers


def forward(
    given: Problem, scores: Tensor, samples: int, iterations: int, tolerance: float | None, lead: Lead | None = None
) -> tuple[Tensor, State]:  # fmt: skip
    """P (samples, *scores.shape) of these scores, which ``given`` is the problem of, and the state.

    With ``lead`` the sums that make the field are written into ``given`` on the way; forbidden entries are `Unusable` there: whether an
    order fits them is seen in all of Q.
    """
    n, batch = scores.shape[-1], len(given.scores)
    M, dtype = samples * batch, given.scores.dtype
    P, state = _room(M, n, iterations, dtype)
    stop = dtype.type(-1 if tolerance is None else tolerance)
    limits, work = LIMITS[scores.dtype], P.size * (10.0 + 2 * iterations)
    groups = samples * (batch // WIDTH) if n in SMALL and tolerance is None else 0
    if groups:
        in_chunks(lambda low, high: packed.forward_packed(given, P, state, limits, low, high), groups, work / 4)
    if np.count_nonzero(state.kind) < M:
        led = _none((), dtype.type) if lead is None else _numbers(lead, n, dtype.type)
        quiet = given if lead is None else _quiet(given, n)
        rest = given, quiet, led, stop, samples, P, state, limits
        # the samples of a matrix have one field, so they stay together, if there are matrices enough for all threads
        each = samples if lead is not None and batch >= 8 * torch.get_num_threads() else 1
        in_chunks(lambda low, high: one_by_one.forward(*rest, each * low, each * high), M // each, work)
        if np.count_nonzero(state.kind) < M or (lead is not None and state.forbidden[0]):
            raise Unusable
    return torch.from_numpy(P.reshape(samples, *scores.shape)), state


def _room(count: int, n: int, iterations: int, dtype: np.dtype) -> tuple[np.ndarray, State]:
    """For the soft permutations of so many matrices, and their state."""
    real = TORCH[dtype]
    state = State(
        u=empty_array((count, iterations, n), real),
        v=empty_array((count, iterations + 1, n), real),
        rows=np.empty((count, iterations, n), np.int32),
        columns=np.empty((count, iterations + 1, n), np.int32),
        used=np.zeros(count, np.int64),
        kind=np.zeros(count, np.int8),
        first=np.empty((count, n), dtype),
        forbidden=np.zeros(1, np.bool_),
    )
    return empty_array((count, n, n), real), state


def _quiet(given: Problem, n: int) -> Problem:
    """Without noise and field."""
    real = given.scores.dtype.type
    return given._replace(rows=_none((n,), real), columns=_none((n,), real), noise=real(0))


@functools.lru_cache(16)
def _numbers(lead: Lead, n: int, real: type[np.floating]) -> np.ndarray:
    """As `one_by_one` reads them: in what a nat is counted, the threshold, what is above it, and the boost."""
    return np.array([1 / math.log(n), lead.threshold, 1 - lead.threshold, lead.max_boost], real)


def backward(
    given: Problem, scores: Tensor, beta: Tensor | None, wants_beta: bool, P: Tensor, G: Tensor, state: State
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradients by scores and, if wanted, by beta, for G = dloss/dP; ``state`` is what forward gave for the same problem."""
    n, batch = scores.shape[-1], len(given.scores)
    soft, upon = P.detach().contiguous().numpy().reshape(-1, n, n), _upon(G, n)
    samples = len(soft) // batch
    shares = min(samples, -(-torch.get_num_threads() // batch))  # a small batch is split by samples instead
    by_field = wants_beta and is_field(beta)
    outs = Gradients(
        scores=empty_array((shares, batch, n * n), scores.dtype),
        beta=np.empty((shares if wants_beta and not by_field else 0, batch), soft.dtype),
        field=np.empty((shares if by_field else 0, batch, n * n), soft.dtype),
        filled=np.zeros((shares, batch), np.bool_),
    )
    limits, work = LIMITS[scores.dtype], soft.size * (10.0 + 4 * state.u.shape[1])
    rest = (given, soft, upon, state, outs, samples)
    grouped = np.count_nonzero(state.kind == PACKED)
    if grouped:
        in_chunks(lambda low, high: packed.backward_packed(*rest, low, high), shares * (batch // WIDTH), work / 4)
    if grouped < len(soft):
        in_chunks(lambda low, high: one_by_one.backward(*rest, limits, low, high), shares * batch, work)
    to_scores = torch.from_numpy((outs.scores.sum(0) if shares > 1 else outs.scores).reshape(scores.shape))
    if beta is None or not wants_beta:
        return to_scores, None
    if by_field:
        return to_scores, torch.from_numpy(outs.field.sum(0)).reshape(scores.shape).sum_to_size(beta.shape)
    return to_scores, torch.from_numpy(outs.beta.sum(0)).reshape(*scores.shape[:-2], 1, 1).sum_to_size(beta.shape)


def _upon(G: Tensor, n: int) -> Upon:
    """The gradient by P as the kernels take it; small matrices, of which eight are done at once, take it in full."""
    if not isinstance(G, Product) or G.whole is not None or n in SMALL:
        none = _none((0, n), _real(G))
        return Upon(G.detach().contiguous().numpy().reshape(-1, n, n), none, none)
    left, right = (x.expand(*G.right.shape[:-2], n, -1).mT.detach().contiguous().numpy() for x in (G.left, G.right))
    return Upon(_none((n, n), _real(G.right)), left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *left.shape[-2:]))


class Bordered(NamedTuple):
    """What `backward_bordered` needs beside P: of small matrices, eight at a time, and of the others; None where there are none of them."""

    packed: bordered_packed.Kept | None
    others: bordered.Kept | None


def forward_bordered(given: bordered.Given, m: int, iterations: int, counted: bool) -> tuple[np.ndarray, Bordered]:
    """The real part of P (batch, m, n), and what is kept; ``counted``: as many placements are wanted as a mask may not let be made."""
    batch, n, dtype = len(given.scores), given.empty.shape[1], given.scores.dtype
    P = empty_array((batch, m, n), TORCH[dtype])
    limits, work = LIMITS[TORCH[dtype]], P.size * (10.0 + 2 * iterations)
    done, flags = np.zeros(batch, np.bool_), np.zeros(2, np.bool_)
    eights = others = None
    if batch >= WIDTH and max(m, n) in SMALL and m * n >= WIDTH:
        groups, rows, columns = batch // WIDTH, m + (given.alike[0] > 0), n + (given.alike[1] > 0)
        whole = empty_array((groups, rows * columns * WIDTH), TORCH[dtype])
        eights = bordered_packed.Kept(whole, np.empty((groups, columns * WIDTH), dtype), done, flags)
        rest = given, P, iterations, eights, limits
        in_chunks(lambda low, high: bordered_packed.forward(*rest, low, high), groups, work / 4)
    if np.count_nonzero(done) < batch:
        others = bordered.Kept(
            column=np.empty((batch, m), dtype),
            row=np.empty((batch, n), dtype),
            corner=np.empty(batch, dtype),
            u=np.empty((batch, iterations, m), dtype),
            v=np.empty((batch, iterations, n), dtype),
            ends=np.empty((batch, iterations, 2), dtype),
            done=done,
            flags=flags,
        )
        in_chunks(lambda low, high: bordered.forward(given, P, others, limits, low, high), batch, work)
    if flags[1] or (counted and flags[0]):
        raise Unusable
    return P, Bordered(eights, others)


def backward_bordered(
    given: bordered.Given, P: np.ndarray, G: np.ndarray, iterations: int, kept: Bordered
) -> bordered.Back:
    """The gradients by scores and prices, for G = dloss/dP."""
    batch, m, n = P.shape
    back = bordered.Back(
        empty_array(P.shape, TORCH[P.dtype]), np.zeros((batch, m), P.dtype), np.zeros((batch, n), P.dtype)
    )
    work = P.size * (10.0 + 4 * iterations)
    eights, others = kept
    if eights is not None:
        rest = given, P, G, iterations, eights, back
        in_chunks(lambda low, high: bordered_packed.backward(*rest, low, high), batch // WIDTH, work / 4)
    if others is not None:
        in_chunks(lambda low, high: bordered.backward(given, P, G, others, back, low, high), batch, work)
    return back


def is_field(beta: Tensor | None) -> bool:
    return beta is not None and beta.shape[-2:].numel() > 1


def problem(scores: Tensor, beta: Tensor | FieldOfSums | None, noise: Noise, block: Block = WHOLE) -> Problem:
    """What the kernels read; the arrays share memory with the tensors where they can.

    ``beta`` is a number, one per matrix (*batch, 1, 1), or a field (*batch, n, n).
    """
    batch, n = scores.shape[:-2], scores.shape[-1]
    real = _real(scores)
    count = batch.numel()
    each, rows, columns = _ones(count, real), _none((n,), real), _none((n,), real)
    field = _none((n * n,), real)
    if isinstance(beta, FieldOfSums):
        rows, columns = (part.contiguous().numpy().reshape(-1, n) for part in (beta.rows, beta.columns))
        beta = beta.base
    if beta is not None and is_field(beta):
        own = beta if beta.shape[:-2].numel() == 1 else beta.expand(scores.shape)
        field = _flat(own.expand(*own.shape[:-2], n, n), n)
    elif beta is not None:
        own = beta.detach().reshape(beta.shape[:-2] if beta.ndim > 1 else ())
        each = own.expand(batch).contiguous().numpy().reshape(-1)
    stream = _words(*noise.key, noise.first, noise.total or count)
    real_part = (block.items or n, block.positions or n, block.alike)
    return Problem(_flat(scores, n), each, field, rows, columns, real(noise.scale), stream, real_part)


def _real(values: Tensor) -> type[np.floating]:
    return np.float32 if values.dtype == torch.float32 else np.float64


@functools.lru_cache(16)
def _none(shape: tuple[int, ...], real: type[np.floating]) -> np.ndarray:
    return np.empty((0, *shape), real)


@functools.lru_cache(16)  # where there is no noise and no temperature, most calls ask for the same
def _ones(count: int, real: type[np.floating]) -> np.ndarray:
    return np.ones(count, real)


@functools.lru_cache(16)
def _words(*numbers: int) -> tuple[np.uint32, ...]:
    return tuple(np.uint32(number) for number in numbers)


def _flat(matrices: Tensor, n: int) -> np.ndarray:
    return matrices.detach().contiguous().numpy().reshape(-1, n * n)
