"""Layouts: where the positions are and which of them are neighbours.

A layout and a pair cost make an energy. ``cost[i, k]`` is the cost of item ``k`` standing directly after item ``i``
(right of it, below it); it need not be symmetric. A layout is a list of *relations*, each a set of (first, second)
pairs of positions that share one cost matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import BadInput, dense, shown, whole
from ..operators.permutation import order_of
from ..shapes import numbers

Pairs: TypeAlias = Int[Tensor, "pairs 2"]


@dataclass(frozen=True)
class Path:
    r"""Positions 0, 1, ..., n-1 in a line; each is followed by the next.

    ``reach`` r: pairs up to r places apart count as well, a pair d apart with the weight $(r + 1 - d) / r$ (banded
    anti-Robinson form, Earle and Hurley 2015). Neighbours alone, r = 1, cannot tell a path from a folded one that comes
    back beside itself; a few lags can. At r = n - 1 all pairs count, as in linear seriation.
    """

    n: int
    reach: int = 1

    def __post_init__(self) -> None:
        whole("The length of a Path", self.n, 1)
        whole("The reach of a Path", self.reach, 1)

    @property
    def weights(self) -> tuple[float, ...]:
        """Of pairs 1, 2, ... places apart."""
        return tuple((self.reach + 1 - lag) / self.reach for lag in range(1, min(self.reach, max(self.n - 1, 1)) + 1))

    def relations(self) -> tuple[Pairs, ...]:
        """One per lag."""
        first = [torch.arange(max(self.n - lag, 0)) for lag in range(1, len(self.weights) + 1)]
        return tuple(torch.stack((a, a + lag), dim=1) for lag, a in enumerate(first, start=1))

    def energy(self, order: Int[Tensor, "*batch n"], cost: Tensor | Sequence[Tensor]) -> Tensor:
        return hard_energy(self, order, cost)


@dataclass(frozen=True)
class Cycle:
    """Positions 0, 1, ..., n-1 in a ring; the last is followed by the first."""

    n: int

    def __post_init__(self) -> None:
        whole("The length of a Cycle", self.n, 1)

    def relations(self) -> tuple[Pairs, ...]:
        first = torch.arange(self.n)
        return (torch.stack((first, (first + 1) % self.n), dim=1),)

    def energy(self, order: Int[Tensor, "*batch n"], cost: Tensor | Sequence[Tensor]) -> Tensor:
        return hard_energy(self, order, cost)


@dataclass(frozen=True)
class Grid:
    """``height`` x ``width`` positions in raster order; two relations, right neighbours and lower neighbours."""

    height: int
    width: int

    def __post_init__(self) -> None:
        whole("The height of a Grid", self.height, 1)
        whole("The width of a Grid", self.width, 1)

    @property
    def n(self) -> int:
        return self.height * self.width

    def relations(self) -> tuple[Pairs, ...]:
        cell = torch.arange(self.n).reshape(self.height, self.width)
        right = torch.stack((cell[:, :-1].reshape(-1), cell[:, 1:].reshape(-1)), dim=1)
        below = torch.stack((cell[:-1].reshape(-1), cell[1:].reshape(-1)), dim=1)
        return right, below

    def energy(self, order: Int[Tensor, "*batch n"], cost: Tensor | Sequence[Tensor]) -> Tensor:
        return hard_energy(self, order, cost)


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Any weighted graph of positions: ``weights[a, b]`` multiplies the cost of the items at a and b (Koopmans-Beckmann)."""

    weights: Float[Tensor, "n n"]

    def __repr__(self) -> str:
        return f"Graph(n={len(self.weights)})"

    def __post_init__(self) -> None:
        try:
            w = numbers("The weights of a Graph", self.weights)
        except BadInput:
            dense("The weights of a Graph", self.weights)
            raise BadInput(f"The weights of a Graph must be a square matrix, not {shown(self.weights)}.") from None
        if w.ndim != 2 or w.shape[0] != w.shape[1] or w.shape[0] < 1:
            raise BadInput(f"The weights of a Graph must be a square matrix, not of shape {tuple(w.shape)}.")
        if not torch.isfinite(w).all():
            raise BadInput("The weights of a Graph must be finite numbers, but some are NaN or infinite.")
        object.__setattr__(self, "weights", w if w.is_floating_point() else w.to(torch.get_default_dtype()))

    @property
    def n(self) -> int:
        return self.weights.shape[0]

    def energy(self, order: Int[Tensor, "*batch n"], cost: Float[Tensor, "n n"]) -> Tensor:
        (cost,) = pair_costs(self, cost, 1)
        order_of(self.n, order)
        among = cost[order.unsqueeze(-1), order.unsqueeze(-2)]
        return (self.weights.to(among) * among).sum(dim=(-2, -1))


Layout: TypeAlias = Path | Cycle | Grid | Graph


def relation_costs(layout: Path | Cycle | Grid, cost: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """One cost matrix per relation; a single matrix serves all of them."""
    return pair_costs(layout, cost, len(layout.relations()))


def pair_costs(layout: Layout, cost: Tensor | Sequence[Tensor], count: int) -> list[Tensor]:
    """``count`` cost matrices (..., n, n); otherwise one sentence."""
    costs: list[Any] = (
        [cost] * count if isinstance(cost, Tensor) else list(cost) if isinstance(cost, (list, tuple)) else [cost]
    )
    name, n = type(layout).__name__, layout.n
    for c in costs:
        if not isinstance(c, Tensor):
            raise BadInput(f"The cost of a {name} must be a tensor of {n} x {n} (items x items), not {shown(c)}.")
        if tuple(c.shape[-2:]) != (n, n):
            raise BadInput(f"The cost of a {name} of {n} must be {n} x {n} (items x items), not {tuple(c.shape)}.")
    if len(costs) != count:
        raise BadInput(f"A {name} has {count} neighbour relation(s), but {len(costs)} costs came.")
    return costs


def relation_weights(layout: Path | Cycle | Grid) -> tuple[float, ...]:
    """How much each relation counts."""
    return layout.weights if isinstance(layout, Path) else (1.0,) * len(layout.relations())


def hard_energy(layout: Path | Cycle | Grid, order: Int[Tensor, "*batch n"], cost: Tensor | Sequence[Tensor]) -> Tensor:
    """Sum over neighbouring positions (a, b) of ``cost[order[a], order[b]]``, relations weighted as the layout says."""
    total = torch.zeros(order_of(layout.n, order).shape[:-1])
    relations = zip(layout.relations(), relation_costs(layout, cost), relation_weights(layout), strict=True)
    for pairs, c, weight in relations:
        total = total.to(c) + weight * c[order[..., pairs[:, 0]], order[..., pairs[:, 1]]].sum(dim=-1)
    return total
