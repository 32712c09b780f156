"""Whether the Triton kernels can be trusted on a device: before their first use, a small case is compared with plain torch."""

from __future__ import annotations

import functools
import warnings

import torch

from ..block import Block
from ..in_torch import perturbed, plain_sinkhorn
from ..noise import Noise
from . import launch

CLOSE = 1e-4  # of the largest entry or gradient; float32 rounding leaves about 1e-6


def why_not(device: torch.device, n: int) -> str | None:
    """Nothing if the kernels for n are right on this device; otherwise the reason why they are not used, of which is warned once."""
    return _tried(device, launch.blocks_for(n, launch.lanes_of(device)))


@functools.cache
def _tried(device: torch.device, blocks: launch.Blocks) -> str | None:
    try:
        with torch.inference_mode(False), torch.enable_grad():
            worst = deviation(device, blocks)
    except Exception as error:  # whatever compilers, drivers and devices may raise: plain torch still works
        trouble = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    else:
        trouble = None if worst < CLOSE else f"a small case is off by {worst:.1g}"
    if trouble:
        warnings.warn(
            f"The Triton kernels are not used on {device} ({trouble}); Sinkhorn runs through plain torch there.",
            stacklevel=2,
        )
    return trouble


def deviation(device: torch.device, blocks: launch.Blocks) -> float:
    """How far P and its gradients are from plain torch, relative to the largest, with all that the kernels can do."""
    n = max(2, blocks.side - 1) if blocks.together else blocks.side + 1  # something is left over at the edges
    generator = torch.Generator().manual_seed(0)
    scores, beta, grad = torch.rand(3, 2 * 3, n, n, generator=generator, dtype=torch.float32)
    scores, beta = 8 * scores[:3], 0.5 + beta[:3]
    scores[1, 0, 1:] = -torch.inf
    scores, beta, grad = (x.to(device) for x in (scores, beta, grad.reshape(2, 3, n, n)))
    noise, real = Noise(1.0, (2**32 - 5, 7), 2, 9), Block(n - 1, max(1, n - 2), 2)
    soft, potentials = launch.forward(scores, beta, 2, noise, 3, real, blocks)
    ours = (soft, *launch.backward(scores, beta, 2, noise, potentials, grad, True, real, blocks))
    exact = [x.double().requires_grad_() for x in (scores, beta)]
    expected = plain_sinkhorn(perturbed(exact[0], exact[1], 2, noise, real), 3, alike=real.alike)
    gradients = torch.autograd.grad(expected, exact, grad.double())
    pairs = zip(ours, (expected.detach(), *gradients), strict=True)
    return max(float((a - b).abs().nan_to_num(torch.inf).max() / b.abs().max()) for a, b in pairs if a is not None)
