"""Slow and obvious versions of the paper's method, entry by entry; nothing here is shared with the package."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor


def sinkhorn(scores: Tensor, iterations: int) -> Tensor:
    P = (scores - scores.max()).exp()
    for _ in range(iterations):
        P = P / P.sum(-1, keepdim=True)
        P = P / P.sum(-2, keepdim=True)
    return P


def entropy(probabilities: list[float], candidates: int) -> float:
    if candidates < 2:
        return 0.0
    return -sum(max(q, 1e-8) * math.log(max(q, 1e-8)) for q in probabilities) / math.log(candidates)


def boost(H: float, threshold: float, max_boost: float) -> float:
    return max_boost * min(max((H - threshold) / (1 - threshold), 0.0), 1.0)


def algorithm_1(Q: Tensor, beta0: float, threshold: float, max_boost: float) -> Tensor:
    """Lines 2 to 5 of Algorithm 1 for one matrix."""
    n = len(Q)
    row = [beta0 / (1 + boost(entropy(Q[i].tolist(), n), threshold, max_boost)) for i in range(n)]
    column = [beta0 / (1 + boost(entropy(Q[:, j].tolist(), n), threshold, max_boost)) for j in range(n)]
    return torch.tensor([[(row[i] + column[j]) / 2 for j in range(n)] for i in range(n)], dtype=Q.dtype)


def degree_violation(Q: Tensor) -> Tensor:
    """|d_i - 2| with E = H + H^T, H = Q V Q^T, V the cyclic shift, degrees without the diagonal."""
    n = len(Q)
    V = torch.zeros(n, n, dtype=Q.dtype)
    for p in range(n):
        V[p, (p + 1) % n] += 1
    H = Q @ V @ Q.T
    E = H + H.T
    return torch.stack([(sum(E[i, k] for k in range(n) if k != i) - 2).abs() for i in range(n)])


def pair_energy(P: Tensor, terms: list[tuple[int, int, float, Tensor]]) -> float:
    """sum over (a, b, weight, D) of weight * sum_ik P_ia D_ik P_kb."""
    n = P.shape[0]
    total = 0.0
    for a, b, weight, D in terms:
        for i in range(n):
            for k in range(n):
                total += weight * float(P[i, a] * D[i, k] * P[k, b])
    return total


def grid_neighbours(height: int, width: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    right = [(r * width + c, r * width + c + 1) for r in range(height) for c in range(width - 1)]
    below = [(r * width + c, (r + 1) * width + c) for r in range(height - 1) for c in range(width)]
    return right, below


def smoothness(tiles: Tensor, height: int, width: int, band: int, power: float) -> float:
    """tiles: (n, channels, h, w)."""
    _, channels, h, w = tiles.shape
    right, below = grid_neighbours(height, width)
    total = 0.0
    for a, b in right:
        for c, y in itertools.product(range(channels), range(h)):
            strip = [*tiles[a, c, y, w - band :].tolist(), *tiles[b, c, y, :band].tolist()]
            total += sum(abs(q - p) ** power for p, q in itertools.pairwise(strip))
    for a, b in below:
        for c, x in itertools.product(range(channels), range(w)):
            strip = [*tiles[a, c, h - band :, x].tolist(), *tiles[b, c, :band, x].tolist()]
            total += sum(abs(q - p) ** power for p, q in itertools.pairwise(strip))
    return total


def neuralsort(keys: list[float], beta: float) -> np.ndarray:
    """The published formula: descending, positions x items; softmax over items."""
    n = len(keys)
    A = [sum(abs(s - t) for t in keys) for s in keys]
    P = np.zeros((n, n))
    for k in range(1, n + 1):
        logits = np.array([((n + 1 - 2 * k) * keys[j] - A[j]) * beta for j in range(n)])
        weights = np.exp(logits - logits.max())
        P[k - 1] = weights / weights.sum()
    return P


def softsort(keys: list[float], beta: float, power: float) -> np.ndarray:
    """The published formula: descending, positions x items."""
    ranked = sorted(keys, reverse=True)
    P = np.array([[math.exp(-beta * abs(s - t) ** power) for t in keys] for s in ranked])
    return P / P.sum(1, keepdims=True)


def kendall_tau(rank_a: list[int], rank_b: list[int]) -> float:
    pairs = list(itertools.combinations(range(len(rank_a)), 2))
    agree = sum(1 if (rank_a[i] - rank_a[j]) * (rank_b[i] - rank_b[j]) > 0 else -1 for i, j in pairs)
    return agree / len(pairs)


def mask_only_tau(n: int, anchors: int) -> float:
    """The expectation by listing every anchor set and every fill of the rest."""
    values = []
    for fixed in itertools.combinations(range(n), anchors):
        free = [i for i in range(n) if i not in fixed]
        for fill in itertools.permutations(free):
            rank = list(range(n))
            for item, place in zip(free, fill, strict=True):
                rank[item] = place
            values.append(kendall_tau(rank, list(range(n))))
    return sum(values) / len(values)
