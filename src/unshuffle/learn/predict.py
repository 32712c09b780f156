"""Order new data with a trained network: one forward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import BadInput
from ..operators.assignment import assign
from ..operators.sinkhorn import sinkhorn
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..relaxations.protocol import Relaxation

ITERATIONS = 50  # sharp temperatures need more than the ten of training
LAST = 10**9  # an epoch after all schedules
SURE = 0.995


@dataclass(frozen=True)
class Prediction:
    """Orders of a batch of lists, and how sure the network is."""

    order: Int[Tensor, "lists n"]  # item at each position
    confidence: Float[Tensor, "lists n"]  # per item, in the order of the input: its soft mass at its place
    scores: Float[Tensor, "lists n ..."]  # what `solve(init=...)` takes


def predict(
    network: nn.Module,
    items: Float[Tensor, "lists n features"],
    relax: Relaxation | None = None,
    *,
    allowed: Bool[Tensor, "#lists n n"] | None = None,
    beta: float | None = None,
    batch: int = 64,
) -> Prediction:
    """Order each list by the network's scores: one forward pass, no noise.

    The confidence of an item is its mass at its place in the soft permutation at `beta`. Take the one that
    `calibrated_beta` finds on lists whose order is known; without it the relaxation's last temperature serves, which
    tells sure items from unsure ones but is no probability.
    """
    if not bool(torch.isfinite(items).all()):
        raise BadInput("The items hold a NaN or an infinity; a network cannot order those.")
    relax = relax or GumbelSinkhorn()
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    was_training = network.training
    network.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(items), batch):
            scores = network(items[start : start + batch].to(device))
            mask = allowed if allowed is None or len(allowed) == 1 else allowed[start : start + batch]
            mask = None if mask is None else mask.to(device)
            order = relax.decode(scores, allowed=mask)
            parts.append((order, _mass(relax, scores, order, mask, beta), scores))
    network.train(was_training)
    order, confidence, scores = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
    return Prediction(order, confidence, scores)


def _mass(relax: Relaxation, scores: Tensor, order: Tensor, allowed: Tensor | None, beta: float | None) -> Tensor:
    """Per item, how much of it stands at its place."""
    if beta is not None and scores.ndim > order.ndim:
        soft = sinkhorn(beta * scores, ITERATIONS, allowed)
    else:  # keys instead of scores, or nothing known about the temperature
        soft = relax(scores, epoch=LAST, allowed=allowed)
    mass = soft.clamp(0, 1).gather(-2, order.unsqueeze(-2)).squeeze(-2)  # at position j, of the item there
    return torch.empty_like(mass).scatter_(-1, order, mass)


def calibrated_beta(
    scores: Float[Tensor, "lists n n"], truth: Int[Tensor, "lists n"], allowed: Bool[Tensor, "#lists n n"] | None = None
) -> float:
    """The inverse temperature at which the mean confidence is the share of items that are in their true place.

    One number, found by bisection on lists that were neither trained on nor are reported. At most `SURE` is asked for:
    a finite number of lists without a mistake does not prove that there are none.
    """
    order = assign(scores, allowed)
    target = min((order == truth).float().mean().item(), SURE)
    low, high = -10.0, 14.0  # log beta
    for _ in range(30):
        middle = (low + high) / 2
        soft = sinkhorn(math.exp(middle) * scores, ITERATIONS, allowed)
        mean = soft.gather(-2, order.unsqueeze(-2)).mean().item()
        low, high = (middle, high) if mean < target else (low, middle)
    return math.exp((low + high) / 2)
