"""Sinkhorn where not every item has a place: how far from the padded problem in float64, and how long beside the square call.

python benchmarks/partial.py
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

import unshuffle as us

SHAPES = [
    (64, 10, 8),
    (64, 10, 10),
    (64, 32, 32),
    (64, 50, 40),
    (64, 50, 50),
    (16, 100, 100),
    (16, 100, 80),
    (4, 200, 200),
    (4, 120, 200),
]


def padded(scores: Tensor, items: Tensor, positions: Tensor, iterations: int) -> Tensor:
    """The definition: n dummy items and m dummy positions, written out."""
    batch, (m, n) = scores.shape[:-2], scores.shape[-2:]
    right = items.unsqueeze(-1).expand(*batch, m, m)
    below = positions.expand(*batch, n, n)
    L = torch.cat([torch.cat([scores, right], -1), torch.cat([below, scores.new_zeros(*batch, n, m)], -1)], -2)
    for _ in range(iterations):
        L = L.log_softmax(-1).log_softmax(-2)
    return L.exp()[..., :m, :n]


def error(shape: tuple[int, ...]) -> float:
    """The largest deviation of values and gradients, relative to the largest of them or 1."""
    scores, weights = 3 * torch.randn(shape), torch.randn(shape)
    prices = torch.randn(shape[-2]), torch.randn(shape[-1])
    ours = [x.clone().requires_grad_() for x in (scores, *prices)]
    exact = [x.double().requires_grad_() for x in (scores, *prices)]
    P, Q = us.sinkhorn(ours[0], 10, reject=(ours[1], ours[2])), padded(exact[0], exact[1], exact[2], 10)
    found = (P, *torch.autograd.grad((P * weights).sum(), ours))
    expected = (Q, *torch.autograd.grad((Q * weights).sum(), exact))
    return max(
        float((a - b).detach().abs().max() / b.detach().abs().max().clamp_min(1))
        for a, b in zip(found, expected, strict=True)
    )


def seconds(shape: tuple[int, ...], **options: float) -> float:
    """Forward and backward on one core, the best of many: time of the processor, so that others on the machine do not count."""
    scores, weights = torch.randn(shape, requires_grad=True), torch.randn(shape)
    best = float("inf")
    for _ in range(30):
        start = time.process_time()
        us.sinkhorn(scores, 10, **options).backward(weights)  # pyright: ignore[reportArgumentType]
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(
        f"{'shape':>15} {'error':>9} {'square ms':>10} {'reject':>7} {'fits':>6}   (times of the square call of the larger side)"
    )
    for shape in SHAPES:
        side = max(shape[-2:])
        square = seconds((shape[0], side, side))
        reject, fits = seconds(shape, reject=0.2) / square, seconds(shape) / square
        print(f"{'x'.join(map(str, shape)):>15} {error(shape):9.1e} {1e3 * square:10.3f} {reject:7.2f} {fits:6.2f}")
