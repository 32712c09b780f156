r"""Points of a line, a plane or space, laid over each other: what distances alone have matched is judged by how far apart it lies.

The offset of two points that are the same is normal with deviation $\sigma$ in each of d directions; strangers lie anywhere, as
densely as those that are left out. Pairs and motion follow from each other (expectation maximisation): P is the partial permutation of
$-|x_i - y_k|^2 / 2\sigma^2$ at the price at which a stranger is as likely, the motion is the rotation or mirror image that brings
the pairs of P together (Procrustes), and $\sigma$ what they are then apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .slack import Slack
from .starts import double_centred

DIRECTIONS = 3
NOISE = (1.25, 1.57, 2.68)
"""How many points lie in the volume of the noise, $(2\\pi)^{d/2} \\sigma^d$, in units of (sigma / mean nearest distance)^d, on a
line, in the plane and in space."""
FEWEST = 4
"""Pairs that a motion of points in space needs, and one to judge it by."""


@dataclass(frozen=True)
class Overlaid:
    scores: Float[Tensor, "m n"]
    """Log-likelihoods of the pairs, 0 for two points in the same place."""
    price: float
    """Of a point left out, in the same units."""
    soft: Float[Tensor, "m n"]


def coordinates(D: Float[Tensor, "n n"]) -> Float[Tensor, "n 3"] | None:
    """Places that have these distances (classical scaling); None if they are no distances in a space of up to three dimensions."""
    values, vectors = torch.linalg.eigh(double_centred(-0.5 * D.double() ** 2))
    few = min(DIRECTIONS, len(values))
    largest = values[-few:]
    if float(values.abs().sum() - largest.clamp_min(0).sum()) > 1e-6 * float(values.abs().sum()):
        return None
    return torch.nn.functional.pad(vectors[:, -few:] * largest.clamp_min(0).sqrt(), (DIRECTIONS - few, 0))


def flat(places: Float[Tensor, "n 3"] | None) -> bool:
    """Whether they lie in a plane or on a line."""
    return places is not None and int(torch.linalg.matrix_rank(places, rtol=1e-3)) < DIRECTIONS


def overlaid(
    X: Float[Tensor, "m 3"],
    Y: Float[Tensor, "n 3"],
    P: Float[Tensor, "m n"],
    prior: Tensor | None = None,
    pull: Tensor | None = None,
    rounds: int = 15,
) -> Overlaid | None:
    """From the pairs P; None if there are too few to know the motion."""
    d = max(1, *(int(torch.linalg.matrix_rank(Z, rtol=1e-3)) for Z in (X, Y)))
    nearest = torch.cat([_nearest(X), _nearest(Y)]).mean().item()
    project, scores, price = Slack(*P.shape, reject=True), P, 0.0
    for _ in range(rounds):
        pairs = float(P.sum())
        if pairs < FEWEST:
            return None
        apart = moved_together(X, Y, P.double())
        variance = float((P * apart).sum()) / d / (pairs - (d + 1) / 2)  # less the motion's own freedom, d (d + 1) / 2
        variance = max(variance, (1e-3 * nearest) ** 2)
        odds = math.log(min(_strangers(P, pairs) * NOISE[d - 1] * (math.sqrt(variance) / nearest) ** d, 0.6))
        scores, price = (-apart / (2 * variance)).float(), odds / 2
        if prior is not None:
            scores = scores - odds * prior
        P = project(*_doubled(scores if pull is None else scores + pull, odds, pairs), iterations=30)[0]
    return Overlaid(scores, price, P)


def _nearest(X: Float[Tensor, "n 3"]) -> Tensor:
    """Distances to the nearest other point in another place."""
    apart = torch.cdist(X, X)
    nearest = torch.where(apart > 1e-9 * apart.max(), apart, torch.inf).min(1).values
    return nearest[nearest.isfinite()]


def _doubled(scores: Tensor, odds: float, pairs: float) -> tuple[Tensor, Tensor]:
    """Scores and price of a partial permutation whose pair is to no pair as its likelihood is to the odds.

    With as many dummies that meet dummies as there are pairs, P / (left out in A x left out in B) is the exponential of score - 2 price
    over their number; and being left out in A and in B is one event, not two: hence everything twice.
    """
    return 2 * scores[None], torch.tensor([odds - math.log(pairs) / 2])


def _strangers(P: Float[Tensor, "m n"], pairs: float) -> float:
    """Chances of two strangers to meet, by the chances of a pair to be, where points lie as densely as they do."""
    m, n = P.shape
    return max(m - pairs, 1.0) * max(n - pairs, 1.0) / (pairs * (m + n) / 2)


def moved_together(X: Float[Tensor, "m 3"], Y: Float[Tensor, "n 3"], P: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """Squared offsets after the rotation or mirror image and the shift that bring the pairs of P together."""
    X = X - P.sum(1) @ X / P.sum()
    Y = Y - P.sum(0) @ Y / P.sum()
    U, _, V = torch.linalg.svd(X.T @ P @ Y)
    return torch.cdist(X @ U @ V, Y, compute_mode="donot_use_mm_for_euclid_dist") ** 2
