"""Up to seven items all orders are tried: annealing has nothing to gain there, and exact ties nothing to freeze by."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

from ..operators.permutation import to_matrix
from ..structure.layouts import Layout
from .solution import Runs

TINY = 7  # 5040 orders


def solve_tiny(layout: Layout, cost: Tensor, allowed: Tensor | None) -> Runs:
    """The best of all orders, found for certain: confidence and agreement are 1."""
    orders = torch.tensor(list(permutations(range(layout.n))))
    if allowed is not None:
        orders = orders[allowed[orders, torch.arange(layout.n)].all(dim=1)]
    energies = layout.energy(orders, cost)
    best = int(energies.argmin())
    order = orders[best : best + 1]
    return Runs(
        orders=order,
        energies=energies[best : best + 1],
        soft=to_matrix(order[0], torch.float32),
        confidence=torch.ones(layout.n),
        agreement=1.0,
    )
