"""What orders of rows are measured by, and the spectral one, which every other is compared with."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh


def path_length(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> float:
    return float(D[order[:-1], order[1:]].sum())


def two_sum(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> float:
    place = np.arange(len(order))
    alike = D.max() - D[np.ix_(order, order)]
    return float((alike * (place[:, None] - place[None, :]) ** 2).sum() / 2)


def anti_robinson(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> int:
    """Triples a < b < c of positions with D_ab > D_ac or D_bc > D_ac: times that going further brings you nearer."""
    R = D[np.ix_(order, order)]
    n, events = len(order), 0
    for a in range(n):
        right, left = R[a, a + 1 :], R[a, :a][::-1]
        for side in (right, left):
            events += int((np.triu(side[:, None] > side[None, :] + 1e-12, 1)).sum())
    return events


def spectral_order(D: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "n"]:
    """By the Fiedler vector of the similarities max D - D (Atkins, Boman and Hendrickson 1998): 2-SUM relaxed."""
    alike = D.max() - D
    np.fill_diagonal(alike, 0.0)
    laplacian = np.diag(alike.sum(1)) - alike
    last = min(1, len(D) - 1)
    return np.argsort(eigh(laplacian, subset_by_index=(last, last))[1][:, 0], kind="stable")
