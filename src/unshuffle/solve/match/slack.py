r"""Sinkhorn for partial permutations: rows and columns sum to at most one, what is missing is left out.

The square problem padded with identical dummies, as in `operators.partial`, computed with one extra row and column that stand for
all dummies: real ones have the total 1, the extra row n (or only the surplus), the extra column m, a dummy with a dummy scores 0.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

NEVER = -1e4
"""A score in place of -inf: finite, so that differences of potentials stay numbers."""


class Slack:
    """P of scores (runs x m x n); the potentials of the last call are the start of the next.

    Without ``reject`` the smaller set has places for all and only the surplus of the larger is left out; ``even``, everyone of
    the larger set by the same share.
    """

    def __init__(self, m: int, n: int, reject: bool, even: bool = False) -> None:
        items, positions = (m, n) if reject else (0, 0) if even else (max(m - n, 0), max(n - m, 0))
        self.corner = 0.0 if reject else NEVER
        self.rows = _totals(m, positions, min(1.0, n / m) if even else 1.0).unsqueeze(-1)
        self.columns = _totals(n, items, min(1.0, m / n) if even else 1.0).unsqueeze(-2)
        self.f, self.g = torch.zeros_like(self.rows), torch.zeros_like(self.columns)

    def __call__(
        self, scores: Float[Tensor, "runs m n"], price: Float[Tensor, "runs"] | None = None, iterations: int = 10
    ) -> Float[Tensor, "runs m n"]:
        m, n = scores.shape[-2:]
        L = scores.new_full((len(scores), m + 1, n + 1), self.corner)
        L[:, :m, :n] = scores
        L[:, :m, n] = 0.0 if price is None else price[:, None]
        L[:, m, :n] = 0.0 if price is None else price[:, None]
        # one step in the log domain takes up what has changed; the rest is scaling of numbers that are near their totals
        f = self.rows - (L + self.g).logsumexp(-1, keepdim=True)
        g = self.columns - (L + f).logsumexp(-2, keepdim=True)
        K, u, v = (L + f + g).exp(), torch.ones_like(f), torch.ones_like(g)
        rows, columns = self.rows.exp(), self.columns.exp()
        for _ in range(iterations - 1):
            u = rows / (K @ v.mT).clamp_min(1e-30)
            v = columns / (u.mT @ K).clamp_min(1e-30)
        self.f, self.g = f + u.clamp_min(1e-30).log(), g + v.clamp_min(1e-30).log()
        return (u * K * v)[:, :m, :n]


def _totals(count: int, slack: int, each: float) -> Tensor:
    """Logarithms of the totals of ``count`` rows and of the extra one."""
    return torch.cat([torch.full((count,), math.log(each)), torch.tensor([math.log(slack) if slack else 2 * NEVER])])
