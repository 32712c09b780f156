r"""How likely a join is: the costs are logarithms of likelihood ratios, so $e^{-c/T}$ against all others that its two edges could have.

An edge has one neighbour at most, and so has every other: the masses are Sinkhorn's, with the border of the page as one more: the
first strip has it on its left, the last on its right. Rows of print and of a cut are not independent, as the
ratios take them to be, so they say too much; how much is T.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

ROUGH, STRAIGHT = 2.0, 0.5
"""T for both kinds of cuts. Chosen on five real pages, whole, painted over and in parts, and on nine rendered ones; reported on others by
benchmarks/solve_shredded.py."""
SWEEPS, NEAR = 1000, 1e-3  # at most, and how near to their masses all edges are


def join_chances(
    cost: Float[np.ndarray, "pieces pieces"], temperature: float, alone: float = 1.0
) -> Float[np.ndarray, "pieces pieces"]:
    """The probability that piece b stands directly right of piece a, from the costs of all pairs; infinite ones are none.

    ``alone``: so many edges on each side have no neighbour; a page that is complete has one, its border.
    """
    n = len(cost)
    logits = np.zeros((n + 1, n + 1))
    logits[:n, :n] = -cost / temperature
    logits[n, n] = -np.inf
    mass = np.zeros(n + 1)
    mass[n] = np.log(alone)
    for _ in range(SWEEPS):
        apart = mass - np.asarray(logsumexp(logits, axis=1))
        logits += apart[:, None]
        logits += mass - np.asarray(logsumexp(logits, axis=0))
        if np.abs(apart).max() < NEAR:
            break
    return np.exp(logits[:n, :n])


def usual(cost: Float[np.ndarray, "pieces pieces"]) -> tuple[float, float]:
    """What a pair costs, and how far from it most do: nearly all of them are none."""
    every = cost[np.isfinite(cost)]
    middle = float(np.median(every))
    return middle, 1.4826 * float(np.median(np.abs(every - middle)))
