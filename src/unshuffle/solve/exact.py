"""Few items: all orders are tried. Annealing has nothing to gain there, and exact ties nothing to freeze by."""

from __future__ import annotations

from itertools import permutations
from math import comb, perm
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ..structure.layouts import Layout

MOST = 7  # items: 5040 orders
MOST_PARTIAL = 100_000  # orders of which some positions may be empty


def all_orders(n: int, allowed: Tensor | None) -> Int[Tensor, "orders n"]:
    orders = torch.tensor(list(permutations(range(n))))
    return orders if allowed is None else orders[allowed[orders, torch.arange(n)].all(dim=1)]


def best_of_all(layout: Layout, cost: Any, allowed: Tensor | None) -> tuple[Int[Tensor, "n"], float]:
    """The first of the best orders, and its energy."""
    orders = all_orders(layout.n, allowed)
    energies = layout.energy(orders, cost)
    best = int(energies.argmin())
    return orders[best], float(energies[best])


def count_partial(m: int, n: int, least: int) -> int:
    """Ways to place at least so many of m items at n positions."""
    return sum(comb(n, k) * perm(m, k) for k in range(least, min(m, n) + 1))


def partial_orders(m: int, n: int, least: int, allowed: Tensor | None) -> Int[Tensor, "orders n"]:
    """All of them, position by position; an empty one is -1 and comes last."""
    orders = np.empty((1, 0), np.int64)
    open_places = np.ones((m, n), bool) if allowed is None else allowed.numpy()
    for j in range(n):
        taken = (orders[:, :, None] == np.arange(m)).any(1)
        enough = (orders >= 0).sum(1) + n - j - 1 >= least
        before, item = np.nonzero(np.column_stack((~taken & open_places[:, j], enough)))
        orders = np.column_stack((orders[before], np.where(item < m, item, -1)))
    return torch.from_numpy(orders)
