"""Sinkhorn(beta * (scores + noise * g)) and its gradient by the Triton kernels, without waiting for the device.

Scores of any floating dtype that float32 holds come out in the same dtype; inside all is float32. Values are not looked at: a
NaN, +inf, or a row or column that is forbidden altogether makes its own matrix NaN and leaves the others alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from ...backends import LARGEST_WHOLE
from ..block import WHOLE, Block
from ..noise import Noise, rows_at_once
from . import tiled, whole

PER_PROGRAM = 1024  # entries at least: small matrices share a program
PER_THREAD = 8  # entries of L: with more, the gradient of 64 x 64 no longer fits into the registers
MOST_THREADS = 1024
TILE = 32


class Blocks(NamedTuple):
    """How matrices are cut into programs: ``together`` of them padded to ``side``, or tiles of ``side`` if that is 0."""

    side: int
    together: int
    warps: int


def blocks_for(n: int, lanes: int) -> Blocks:
    """Blocks for a device with that many threads in a warp."""
    side = TILE if n > LARGEST_WHOLE else max(2, triton.next_power_of_2(n))
    together = max(1, PER_PROGRAM // side**2)
    threads = min(MOST_THREADS, together * side**2 // PER_THREAD)
    return Blocks(side, together if n <= LARGEST_WHOLE else 0, threads // lanes)


def forward(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, real: Block = WHOLE,
    blocks: Blocks | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """P, with ``samples`` in front if there are, and the potentials g_0, f_1, g_1, ..., f_T, g_T of each matrix, in double precision."""
    n, batch = scores.shape[-1], scores.shape[:-2].numel()
    matrices = (samples or 1) * batch
    given = _Given(scores, beta, noise, real)
    potentials = torch.empty((matrices, 2 * iterations + 1, n), dtype=torch.float64, device=scores.device)
    shape = scores.shape if samples is None else (samples, *scores.shape)
    blocks = blocks or blocks_for(n, lanes_of(scores.device))
    with torch.cuda.device_of(scores):
        if blocks.together:
            soft = torch.empty(shape, dtype=scores.dtype, device=scores.device)
            _run(
                whole.forward, (triton.cdiv(matrices, blocks.together),), blocks,
                *given.matrices, soft, potentials, matrices, batch, n, iterations, *given.sums, *given.stream,
                **given.flags, SIDE=blocks.side, TOGETHER=blocks.together,
            )  # fmt: skip
        else:
            soft = _tiled_forward(given, matrices, potentials, blocks).reshape(shape).to(scores.dtype)
    return soft, potentials


def backward(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, potentials: Tensor, grad: Tensor,
    to_beta: bool = False, real: Block = WHOLE, blocks: Blocks | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradients of scores and, if wanted, of beta, from that of P."""
    n, batch = scores.shape[-1], scores.shape[:-2].numel()
    matrices, iterations = potentials.shape[0], potentials.shape[1] // 2
    given = _Given(scores, beta, noise, real)
    grad = grad.reshape(matrices, n, n)
    kind = "none" if not to_beta or beta is None else "field" if beta.shape[-2:].numel() > 1 else "each"
    blocks = blocks or blocks_for(n, lanes_of(scores.device))
    with torch.cuda.device_of(scores):
        if blocks.together:
            dtype = scores.dtype if samples in (None, 1) else torch.float32
            back = torch.empty((matrices, n, n), dtype=dtype, device=scores.device)
            shape = {"none": (0,), "each": (matrices, 1, 1), "field": (matrices, n, n)}[kind]
            back_beta = torch.empty(shape, dtype=torch.float32, device=scores.device)
            _run(
                whole.backward, (triton.cdiv(matrices, blocks.together),), blocks, *given.matrices, grad, *grad.stride(),
                potentials, back, back_beta, matrices, batch, n, iterations, given.sums[0], *given.stream, **given.flags, TO_BETA=kind, SIDE=blocks.side, TOGETHER=blocks.together,
            )  # fmt: skip
        else:
            back, back_beta = _tiled_backward(given, potentials, grad, kind, blocks)
    to_scores = back.reshape(-1, *scores.shape).sum(0) if matrices > batch else back.reshape(scores.shape)
    if kind == "none" or beta is None:
        return to_scores.to(scores.dtype), None
    summed = back_beta.reshape(-1, *scores.shape[:-2], *back_beta.shape[1:]).sum(0).sum_to_size(beta.shape)
    return to_scores.to(scores.dtype), summed.to(beta.dtype)


class _Given:
    """The arguments that tell the kernels what L is: tensors with their strides (0 where beta is broadcast), and the noise."""

    def __init__(self, scores: Tensor, beta: Tensor | None, noise: Noise, real: Block) -> None:
        n, self.batch = scores.shape[-1], scores.shape[:-2].numel()
        flat = scores.reshape(self.batch, n, n)
        factor = flat if beta is None else beta.expand(scores.shape).reshape(self.batch, n, n)
        self.matrices = (flat, *flat.stride(), factor, *factor.stride())
        words = (*noise.key, noise.first, noise.total or self.batch)
        items, positions = real.items or n, real.positions or n
        self.stream = (float(noise.scale), *map(signed, words), rows_at_once(positions), items, positions)
        high = float(np.float32(math.log(real.alike)))
        self.sums = (
            float(real.alike),
            high,
            math.log(real.alike) - high,
        )  # of the last row and column, and the logarithm as a pair
        self.flags: dict[str, Any] = {"WITH_BETA": beta is not None, "NOISY": noise.scale != 0}


def lanes_of(device: torch.device) -> int:
    """Threads in a warp: 32 on NVIDIA, 64 on most of AMD."""
    return torch.cuda.get_device_properties(device).warp_size if device.type == "cuda" else 32


def signed(word: int) -> int:
    """The same 32 bits as a number that Triton always takes for an int32."""
    return word - 2**32 if word >= 2**31 else word


def options(blocks: Blocks) -> dict[str, Any]:
    return {"num_warps": blocks.warps, "enable_fp_fusion": False}


def _run(kernel: Any, grid: tuple[int, ...], blocks: Blocks, *arguments: Any, **constants: Any) -> None:
    kernel[grid](*arguments, **constants, **options(blocks))


def _tiled_forward(given: _Given, matrices: int, potentials: Tensor, blocks: Blocks) -> Tensor:
    iterations, n = potentials.shape[1] // 2, potentials.shape[2]
    tiles = _Tiles(given, matrices, potentials, blocks)
    potentials[:, 0] = 0.0
    potentials[:, 0, -1] = math.log(given.sums[0])
    for found in range(1, 2 * iterations + 1):
        tiles.half_step(found, found - 1)
    P = tiles.logits
    _run(tiled.write_soft, tiles.grid, blocks, P, P, potentials, potentials.stride(0), n, **tiles.sides)
    return P


def _tiled_backward(
    given: _Given, potentials: Tensor, grad: Tensor, kind: str, blocks: Blocks
) -> tuple[Tensor, Tensor]:  # fmt: skip
    matrices, n = grad.shape[:2]
    iterations = potentials.shape[1] // 2
    tiles = _Tiles(given, matrices, potentials, blocks)
    f_bar, g_bar = torch.zeros((2, matrices, iterations, n), dtype=torch.float32, device=grad.device)
    last = 2 * iterations
    tiles.pull(last - 1, last, grad, f_bar[:, -1], 1.0)
    tiles.pull(last, last - 1, grad, g_bar[:, -1], 1.0)
    for t in range(iterations, 0, -1):
        g_bar[:, t - 1, -1] /= given.sums[0]
        tiles.pull(2 * t - 1, 2 * t, g_bar[:, t - 1], f_bar[:, t - 1], -1.0)
        f_bar[:, t - 1, -1] /= given.sums[0]
        if t > 1:
            tiles.pull(2 * t - 2, 2 * t - 1, f_bar[:, t - 1], g_bar[:, t - 2], -1.0)
    count = tiles.grid[1] * tiles.grid[2]
    shape = {"none": (0,), "each": (matrices, count), "field": (matrices, n, n)}[kind]
    to_beta = torch.empty(shape, dtype=torch.float32, device=grad.device)
    _run(
        tiled.write_gradient, tiles.grid, blocks, tiles.logits, *given.matrices, grad, *grad.stride(), potentials,
        f_bar, g_bar, to_beta, given.batch, n, iterations, *given.stream, **given.flags, TO_BETA=kind, **tiles.sides,
    )  # fmt: skip
    return tiles.logits, to_beta.sum(1).reshape(-1, 1, 1) if kind == "each" else to_beta


class _Tiles:
    """L written out, and the half steps on it. Odd potentials belong to rows, even ones to columns."""

    def __init__(self, given: _Given, matrices: int, potentials: Tensor, blocks: Blocks) -> None:
        n = potentials.shape[2]
        self.potentials, self.blocks, self.alike = potentials, blocks, given.sums[0]
        self.grid = (matrices, triton.cdiv(n, blocks.side), triton.cdiv(n, blocks.side))
        self.sides: dict[str, Any] = {"ROWS": blocks.side, "COLUMNS": blocks.side}
        self.logits = torch.empty((matrices, n, n), dtype=torch.float32, device=potentials.device)
        _run(
            tiled.write_logits, self.grid, blocks, *given.matrices, self.logits, given.batch, n, *given.stream,
            **given.flags, **self.sides,
        )  # fmt: skip

    def half_step(self, found: int, known: int) -> None:
        self._run(tiled.half_step, found, found, known, self.potentials.shape[2], self.alike)

    def pull(self, own: int, other: int, weight: Tensor, out: Tensor, sign: float) -> None:
        """``weight`` is a matrix, or a vector along the other side."""
        if weight.ndim == 2:
            strides = (weight.stride(0), 0, weight.stride(1))
        else:
            strides = (weight.stride(0), *(weight.stride()[1:] if own % 2 else weight.stride()[:0:-1]))
        size = self.potentials.shape[2]
        self._run(tiled.pull, own, own, other, weight, *strides, out, out.stride(0), size, sign)

    def _run(self, kernel: Any, own: int, *rest: Any) -> None:
        n, side = self.potentials.shape[2], self.blocks.side
        strides = (n, 1) if own % 2 else (1, n)  # of the own and the other side in L
        _run(
            kernel, self.grid[:2], self.blocks, self.logits, *strides, self.potentials, self.potentials.stride(0), *rest,
            OWN=side, OTHER=side,
        )  # fmt: skip
