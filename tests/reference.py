"""Slow and obvious versions of the operators, to test against."""

from __future__ import annotations

import itertools

from torch import Tensor


def log_sinkhorn(scores: Tensor, iterations: int) -> Tensor:
    """Rows, then columns, in log space, with autograd through every step. The definition."""
    for _ in range(iterations):
        scores = scores - scores.logsumexp(-1, keepdim=True)
        scores = scores - scores.logsumexp(-2, keepdim=True)
    return scores.exp()


def best_order(scores: Tensor) -> tuple[float, list[int]]:
    """The best assignment of one matrix by trying all of them; order[j] is the item at position j."""
    n = scores.shape[-1]
    return max((sum(float(scores[p[j], j]) for j in range(n)), list(p)) for p in itertools.permutations(range(n)))


def tau_b(a: list[float], b: list[float]) -> float:
    """Kendall's tau-b by counting all pairs."""
    concordant = discordant = ties_a = ties_b = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        x, y = a[i] - a[j], b[i] - b[j]
        if x == 0 or y == 0:
            ties_a += x == 0
            ties_b += y == 0
        elif x * y > 0:
            concordant += 1
        else:
            discordant += 1
    pairs = len(a) * (len(a) - 1) // 2
    return (concordant - discordant) / ((pairs - ties_a) * (pairs - ties_b)) ** 0.5
