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
    (64, 20, 20),
    (64, 24, 24),
    (64, 32, 32),
    (64, 50, 40),
    (64, 50, 50),
    (32, 64, 64),
    (16, 100, 100),
    (16, 100, 80),
    (16, 128, 128),
    (4, 200, 200),
    (4, 120, 200),
    (4, 300, 300),
    (4, 300, 200),
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


def seconds(shape: tuple[int, ...], backward: bool, **options: float) -> float:
    """On one core, the best of many: time of the processor, so that others on the machine do not count."""
    scores, weights = torch.randn(shape, requires_grad=backward), torch.randn(shape)
    best = float("inf")
    for _ in range(60):
        start = time.process_time()
        soft = us.sinkhorn(scores, 10, **options)  # pyright: ignore[reportArgumentType]
        if backward:
            soft.backward(weights)
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("times of the square call of the larger side: forward, and with the gradient")
    print(f"{'shape':>15} {'error':>9} {'square ms':>16} {'reject':>14} {'fits':>14}")
    for shape in SHAPES:
        side, row = max(shape[-2:]), ["", "", ""]
        for backward in (False, True):
            square = seconds((shape[0], side, side), backward)
            row[0] += f"{1e3 * square:8.3f}"
            row[1] += f"{seconds(shape, backward, reject=0.2) / square:7.2f}"
            row[2] += f"{seconds(shape, backward) / square:7.2f}"
        print(f"{'x'.join(map(str, shape)):>15} {error(shape):9.1e} " + " ".join(row))
