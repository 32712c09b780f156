r"""Paths of items that may be turned round: strips upside down, contigs in either direction.

An item has two ends, so ``cost[i, s, k, t]``, of item k in state t directly after item i in state s, is the same join as
``cost[k, 1 - t, i, 1 - s]``, seen from the other side. Two ends that stay together are a piece of two, and the rest is `arrange_pieces`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import BadInput
from ...structure.layouts import Path
from ..request import Request
from ..sets import Shares, chain_shares
from ..solution import Polished, Solution
from .pieces import RUNS, arrange_pieces
from .solver import judge_path

NEXT = np.ones(1)  # of lags, the first alone


@dataclass(frozen=True, eq=False)
class Ends:
    """The cost of all pairs of pieces, item * 2 + state, the same from both sides."""

    cost: Float[Tensor, "pieces pieces"]

    @classmethod
    def of(cls, cost: Float[Tensor, "pieces pieces"] | tuple[Tensor, ...], path: Path) -> Ends:
        if isinstance(cost, tuple):
            raise BadInput(f"A Path takes one cost, but {len(cost)} came.")
        n = len(cost) // 2
        if path.n != n:
            raise BadInput(f"The cost of a Path of {path.n} is of {n} items: there must be as many.")
        if path.reach > 1:
            raise BadInput("Items that may be turned round have neighbours alone: leave out reach=.")
        across = cost.T[_turned(n)][:, _turned(n)]
        apart = (cost - across).masked_fill(_own(n), 0.0).abs()
        if float(apart.max()) > 1e-5 * float(cost.abs().max()):
            raise BadInput(
                "Of items with two states on a Path cost[i, s, k, t] and cost[k, 1 - t, i, 1 - s] are one join, seen from both "
                "sides, and must be the same."
            )
        return cls((cost + across) / 2)

    @property
    def n(self) -> int:
        return len(self.cost) // 2

    def between_ends(self) -> Float[np.ndarray, "ends ends"]:
        """Ends are numbered item * 2 + (0: left as it came, 1: right); piece a begins with end a and ends with the other."""
        right = self.cost.numpy()[np.arange(2 * self.n) ^ 1]
        return np.where(_own(self.n).numpy(), 0.0, (right + right.T) / 2)

    def upright(self, state: Int[Tensor, "n"]) -> Float[Tensor, "n n"]:
        """Of items in their states."""
        chosen = 2 * torch.arange(self.n) + state
        return self.cost[chosen][:, chosen]


def _turned(n: int) -> Int[Tensor, "pieces"]:
    return torch.arange(2 * n) ^ 1


def _own(n: int) -> Tensor:
    item = torch.arange(2 * n) // 2
    return item[:, None] == item


def solve_directions(layout: Path, ends: Ends, asked: Request) -> Solution:
    """Order and directions; of the two ways to walk along a path the one in which fewer items are turned."""
    generator, watch, allowed, init, runs = asked
    if allowed is not None or init is not None:
        raise BadInput(
            "Items with states take neither allowed= nor init=: their positions are found together with their states."
        )
    pieces = [np.array([2 * item, 2 * item + 1]) for item in range(ends.n)]
    found = arrange_pieces(ends.between_ends(), pieces, NEXT, generator=generator, watch=watch, runs=runs or RUNS)
    order, state = torch.from_numpy(found.pieces), torch.from_numpy(found.turned)
    if 2 * int(state.sum()) > ends.n:
        order, state = order.flip(0), 1 - state
    cost = ends.upright(state)
    energy = float(layout.energy(order, cost))
    soft, confidence = judge_path(layout, cost, order, None)
    energies = torch.tensor([energy], dtype=torch.float64)
    return Solution(order, energy, soft, confidence, energies, state=state[order])


def direction_shares(layout: Path, ends: Ends, allowed: None, found: Solution) -> Shares:
    """Of items as they stand: how often each is elsewhere without being turned."""
    return chain_shares(layout, ends.upright(standing(found)), None, found)


def standing(found: Solution) -> Int[Tensor, "n"]:
    """The state of each item."""
    state = torch.zeros_like(found.best_order)
    if found.best_state is not None:
        state[found.best_order] = found.best_state
    return state


def as_searched(layout: Path, ends: Ends, found: Solution, **_: object) -> Polished:
    """Local search is part of finding it."""
    return Polished(found.order, found.energy)
