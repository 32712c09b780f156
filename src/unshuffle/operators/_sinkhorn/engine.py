"""Sinkhorn by the backend that ``operators.backends`` chooses, and in graphs and transforms by what those can take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...compute.jit import have_numba
from ...compute.transforms import forwards, in_transform, symbolic, transformed_in_graph
from ..backends import choose, chosen_at_run
from .block import WHOLE, Block, Border
from .checks import Unusable, check_feasible, check_finite
from .field import FieldOfSums, Lead
from .in_torch import Perturb, TorchSinkhorn, perturbed, plain_sinkhorn
from .noise import SILENT, Noise
from .on_gpu import through_gpu_operation

if TYPE_CHECKING or have_numba:
    from .autograd import BorderedSinkhorn, KernelSinkhorn
    from .kernel import SMALL
    from .operation import through_operation


def perturbed_sinkhorn(
    scores: Tensor,
    beta: Tensor | FieldOfSums | None = None,
    *,
    samples: int | None = None,
    noise: Noise = SILENT,
    iterations: int,
    tolerance: float | None = None,
    block: Block = WHOLE,
) -> Tensor:
    """Sinkhorn(beta * (scores + noise.scale * g)); with ``samples``, that many draws in front of the batch."""
    if scores.numel() == 0:
        return scores.expand(scores.shape if samples is None else (samples, *scores.shape))
    if isinstance(beta, FieldOfSums):  # made only where it can be used
        return KernelSinkhorn.apply(scores, beta, (samples, noise, iterations, tolerance, block))  # pyright: ignore[reportReturnType]
    asked = (scores, beta, samples, noise, iterations, tolerance, block)
    if forwards():
        return _plainly(*asked)
    if symbolic(scores, beta):
        in_graph = torch.compiler.is_compiling()  # in which nobody may ask for what a tensor wraps
        if transformed_in_graph():
            return _plainly(*asked)
        fixed = tolerance is None and chosen_at_run(scores.device, scores.dtype)
        if fixed and (in_graph or not in_transform(scores, beta)):
            return through_gpu_operation(scores, beta, samples, noise, iterations, block)
        if have_numba and scores.device.type in ("cpu", "meta"):
            return through_operation(*asked)
        return _through_torch(*asked) if in_graph else _plainly(*asked)
    backend, _ = choose(scores.device, scores.dtype, scores.shape[-1])
    if backend == "numba":
        return KernelSinkhorn.apply(scores, beta, asked[2:])  # pyright: ignore[reportReturnType]
    if backend == "triton" and tolerance is None:  # to stop by a tolerance, the host has to look
        return _through_triton(scores, beta, samples, noise, iterations, block)
    return _through_torch_checked(*asked)


def by_kernels(scores: Tensor) -> bool:
    """Whether the kernels of numba take them as they are."""
    return not symbolic(scores) and choose(scores.device, scores.dtype, scores.shape[-1])[0] == "numba"


def field_to_come(scores: Tensor, beta: Tensor, lead: Lead) -> FieldOfSums | None:
    """The field that a forward pass finds by itself; None where it cannot or would not pay.

    That is outside of the kernels, for small matrices, and for a beta per entry or one that learns.
    """
    n, one_each = scores.shape[-1], beta.numel() == beta.shape[:-2].numel()
    if not one_each or beta.requires_grad or forwards() or not by_kernels(scores) or n < 2 or n in SMALL:
        return None
    rows, columns = scores.new_empty((2, *scores.shape[:-1]))
    return FieldOfSums(beta, rows, columns, lead)


def bordered_sinkhorn(
    scores: Tensor,
    left_out: Tensor | float,
    empty: Tensor | float,
    border: Border,
    *,
    iterations: int,
    tolerance: float | None,
) -> Tensor:
    """The real part of Sinkhorn(scores with dummies around them): by its own kernel where that can, and else as a square."""
    symbols = symbolic(scores, left_out, empty) or forwards()
    if not symbols and tolerance is None and choose(scores.device, scores.dtype, border.size)[0] == "numba":
        try:
            return BorderedSinkhorn.apply(scores, left_out, empty, (border, iterations))  # pyright: ignore[reportReturnType]
        except Unusable:
            pass  # as a square, which can take any scores, or says what is wrong with them
    square = border.around(scores, left_out, empty)
    soft = perturbed_sinkhorn(square, iterations=iterations, tolerance=tolerance, block=border.block)
    return soft[..., : border.items, : border.positions]


def _through_triton(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, block: Block
) -> Tensor:  # fmt: skip
    """Without a look at the values, for which the host would have to wait; torch.autograd.detect_anomaly() asks for it."""
    from .in_triton.autograd import TritonSinkhorn

    looked_at = torch.is_anomaly_enabled()
    if looked_at:
        check_finite(scores, "Scores")
        if beta is not None:
            check_finite(beta, "beta")
    soft: Tensor = TritonSinkhorn.apply(scores, beta, samples, noise, iterations, block)  # pyright: ignore[reportAssignmentType]
    if looked_at:
        check_feasible(scores, soft, block)
    return soft


def _through_torch(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None,
    block: Block,
) -> Tensor:  # fmt: skip
    shape = scores.shape if samples is None else (samples, *scores.shape)
    logits = scores if beta is None else Perturb.apply(scores, beta, shape, noise, block)
    return TorchSinkhorn.apply(logits, iterations, tolerance, block.alike)  # pyright: ignore[reportReturnType]


def _through_torch_checked(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None,
    block: Block,
) -> Tensor:  # fmt: skip
    check_finite(scores, "Scores")
    if beta is not None:
        check_finite(beta, "beta")
    soft = _through_torch(scores, beta, samples, noise, iterations, tolerance, block)
    check_feasible(scores, soft, block)
    return soft


def _plainly(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None,
    block: Block,
) -> Tensor:  # fmt: skip
    """In operations that every transform of torch knows."""
    logits = perturbed(scores, beta, samples, noise, block)
    return plain_sinkhorn(logits, iterations, tolerance=tolerance, alike=block.alike)
