"""A network in the middle of a training, and the scores that Sinkhorn meets there, made on the spot by a short, seeded training.

The paper's sorting network learns for a moment to sort numbers from [0, 1] or [10, 11] the paper's way. For the scores its output is then
multiplied by the power of two that brings the mean entropy of the rows to a target, as a temperature that follows an entropy
does. From [10, 11] they spread over hundreds and thousands: rows are nearly equal, and a large factor tells them apart.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from ..networks import ItemScorer
from ..operators.gumbel import gumbel_sinkhorn
from ..operators.permutation import entropy, reorder
from ..operators.sinkhorn import sinkhorn
from ..structure.losses import monotone

STEPS = {"early": 20, "late": 150}
ENTROPY = 0.4  # of a row, as a share of log n
LISTS = 8  # per step of the short training


@functools.cache
def network(n: int, low: float, steps: int) -> ItemScorer:
    """The scorer after that many steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(n)
        scorer = ItemScorer(n)
    optimiser = torch.optim.Adam(scorer.parameters(), 5e-3)
    draw = torch.Generator().manual_seed(n)
    for _ in range(steps):
        items = lists(LISTS, n, low, draw)
        soft = gumbel_sinkhorn(scorer(items), 1.0, noise=1.0, samples=1, generator=draw)
        optimiser.zero_grad()
        monotone(reorder(soft, items)).mean().backward()
        nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
        optimiser.step()
    return scorer


def lists(batch: int, n: int, low: float, draw: torch.Generator) -> Tensor:
    """Numbers from [low, low + 1]."""
    return low + torch.rand(batch, n, 1, generator=draw)


def scores(batch: int, n: int, low: float, steps: int) -> Tensor:
    """Logits of fresh lists, sharp enough for the target, ready for Sinkhorn."""
    found = network(n, low, steps)(lists(batch, n, low, torch.Generator().manual_seed(n + 1))).detach()
    while found.abs().max() < 2000 and float(entropy(sinkhorn(found)).mean()) > ENTROPY:
        found = 2 * found
    return found
