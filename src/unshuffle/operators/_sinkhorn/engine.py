"""Chooses how Sinkhorn is computed, the numba kernels on a CPU or torch elsewhere, and says what is wrong with bad scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...compute.jit import have_numba
from ...compute.transforms import in_transform
from ...errors import BadInput
from ..assignment import why_infeasible
from .in_torch import Perturb, TorchSinkhorn, perturbed, plain_sinkhorn
from .noise import SILENT, Noise

if TYPE_CHECKING or have_numba:
    from .autograd import KernelSinkhorn
    from .kernel import Unusable


def perturbed_sinkhorn(
    scores: Tensor,
    beta: Tensor | None = None,
    *,
    samples: int | None = None,
    noise: Noise = SILENT,
    iterations: int,
    tolerance: float | None = None,
) -> Tensor:
    """Sinkhorn(beta * (scores + noise.scale * g)); with ``samples``, that many draws in front of the batch."""
    if scores.numel() == 0:
        return scores.expand(scores.shape if samples is None else (samples, *scores.shape))
    if in_transform(scores, beta):
        if tolerance is not None:
            raise BadInput(
                "Inside torch.func the iterations must be a fixed number: call sinkhorn without a tolerance."
            )
        return plain_sinkhorn(perturbed(scores, beta, samples, noise), iterations)
    if have_numba and scores.device.type == "cpu":
        return _through_kernel(scores, beta, samples, noise, iterations, tolerance)
    return _through_torch(scores, beta, samples, noise, iterations, tolerance)


def _through_kernel(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None
) -> Tensor:  # fmt: skip
    forbidden: list[bool] = []
    try:
        soft: Tensor = KernelSinkhorn.apply(scores, beta, samples, noise, iterations, tolerance, forbidden)  # pyright: ignore[reportAssignmentType]
    except Unusable:
        check_finite(scores, "Scores")
        if beta is not None:
            check_finite(beta, "beta")
        check_feasible(scores, scores)
        raise BadInput("The scores times beta are too large to compute with; scale them down.") from None
    if forbidden[0]:
        check_feasible(scores, soft)
    return soft


def _through_torch(
    scores: Tensor, beta: Tensor | None, samples: int | None, noise: Noise, iterations: int, tolerance: float | None
) -> Tensor:  # fmt: skip
    shape = scores.shape if samples is None else (samples, *scores.shape)
    check_finite(scores, "Scores")
    if beta is not None:
        check_finite(beta, "beta")
    logits = scores if beta is None else Perturb.apply(scores, beta, shape, noise)
    soft: Tensor = TorchSinkhorn.apply(logits, iterations, tolerance)  # pyright: ignore[reportAssignmentType]
    check_feasible(scores, soft)
    return soft


def check_finite(values: Tensor, name: str) -> None:
    """NaN and +inf in one sentence; -inf in scores forbids an entry and is fine."""
    bad = values.isnan() | (values == torch.inf)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        word = "NaN" if bool(values[tuple(where)].isnan()) else "+inf"
        place = f"row {where[-2]}, column {where[-1]}" if len(where) > 1 else "it"
        batch = f" of matrix {', '.join(map(str, where[:-2]))}" if len(where) > 2 else ""
        raise BadInput(f"{name} must be finite (-inf forbids an entry), but {place}{batch} is {word}.")


def check_feasible(scores: Tensor, soft: Tensor) -> None:
    """A mask without a perfect matching leaves some row of a column-normalised matrix off by at least 1/n."""
    n = scores.shape[-1]
    forbidden = scores.detach() == -torch.inf
    if not bool(forbidden.any()):
        return
    off = ~((soft.detach().sum(-1) - 1).abs().amax(-1) < 1 / n)  # NaN counts as off
    off = off.reshape(-1, *scores.shape[:-2]).any(0).reshape(-1)
    flat = forbidden.reshape(-1, n, n)
    for k in off.nonzero().flatten().tolist():
        reason = why_infeasible(~flat[k].cpu().numpy(), k if len(flat) > 1 else None)
        if reason:
            raise BadInput(reason)
