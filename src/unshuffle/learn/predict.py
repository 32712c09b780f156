"""Order new data with a trained network: one forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import BadInput
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..relaxations.protocol import Relaxation


@dataclass(frozen=True)
class Prediction:
    """Orders of a batch of lists, and how sure the network is."""

    order: Int[Tensor, "lists n"]  # item at each position
    confidence: Float[Tensor, "lists n"]  # per item, in the order of the input: its share of the draws in this place
    scores: Float[Tensor, "lists n ..."]  # what `solve(init=...)` takes


@torch.no_grad()
def predict(
    network: nn.Module,
    items: Float[Tensor, "lists n features"],
    relax: Relaxation | None = None,
    *,
    allowed: Bool[Tensor, "#lists n n"] | None = None,
    epoch: int = 10**9,
    draws: int = 16,
    batch: int = 64,
    seed: int = 0,
) -> Prediction:
    """Order each list by the network's scores, without noise.

    The confidence of an item is its mass at its place, averaged over `draws` noisy soft permutations at the temperature
    of the end of training (`relax` at `epoch`): near 1 only if the scores leave no other place.
    """
    if not bool(torch.isfinite(items).all()):
        raise BadInput("The items hold a NaN or an infinity; a network cannot order those.")
    relax = relax or GumbelSinkhorn()
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    was_training = network.training
    network.eval()
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, len(items), batch):
        scores = network(items[start : start + batch].to(device))
        mask = allowed if allowed is None or len(allowed) == 1 else allowed[start : start + batch]
        mask = None if mask is None else mask.to(device)
        order = relax.decode(scores, allowed=mask)
        soft = relax(scores, epoch=epoch, samples=draws, generator=generator, allowed=mask).mean(0)
        mass = soft.clamp(0, 1).gather(-2, order.unsqueeze(-2)).squeeze(-2)  # at position j, of the item there
        parts.append((order, torch.empty_like(mass).scatter_(-1, order, mass), scores))
    network.train(was_training)
    order, confidence, scores = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
    return Prediction(order, confidence, scores)
