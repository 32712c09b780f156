"""Up to seven items all orders are tried: annealing has nothing to gain there, and exact ties nothing to freeze by."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ..structure.layouts import Layout

MOST = 7  # items: 5040 orders


def best_of_all(layout: Layout, cost: Any, allowed: Tensor | None) -> tuple[Int[Tensor, "n"], float]:
    """The first of the best orders, and its energy."""
    orders = torch.tensor(list(permutations(range(layout.n))))
    if allowed is not None:
        orders = orders[allowed[orders, torch.arange(layout.n)].all(dim=1)]
    energies = layout.energy(orders, cost)
    best = int(energies.argmin())
    return orders[best], float(energies[best])
