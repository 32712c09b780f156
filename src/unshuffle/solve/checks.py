"""What a user gives to ``solve``, checked once at the door; each refusal is one sentence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import BadInput, whole
from ..operators.assignment import why_infeasible
from ..shapes import numbers


def costs(cost: Any) -> Tensor | tuple[Tensor, ...]:
    if isinstance(cost, (list, tuple)) and len(cost) and hasattr(cost[0], "ndim"):
        return tuple(_matrix(numbers("A cost", c)) for c in cost)
    return _matrix(numbers("A cost", cost))


def _matrix(cost: Tensor) -> Tensor:
    """Kept in double precision: energies are sums of thousands of costs. The annealers go on in single precision."""
    if cost.ndim != 2 or cost.shape[0] != cost.shape[1]:
        batch = "; many instances of one layout are for us.solve_all" if cost.ndim == 3 else ""
        raise BadInput(f"A cost must be a square matrix (items x items), not of shape {tuple(cost.shape)}{batch}.")
    if not torch.isfinite(cost).all():
        raise BadInput("A cost must be finite, but some entries are NaN or infinite; use a large number or allowed=.")
    return cost.detach().to("cpu", torch.float64)


def states_of(cost: Any) -> int | None:
    """Of costs between items in states, (items, states, items, states), the number of states; None without states."""
    first = cost[0] if isinstance(cost, (list, tuple)) and len(cost) else cost
    shape = tuple(getattr(first, "shape", ()))
    return int(shape[1]) if len(shape) == 4 else None


def pieces(cost: Any, states: int) -> Tensor | tuple[Tensor, ...]:
    """The same as matrices of items in states, numbered item * states + state."""
    if isinstance(cost, (list, tuple)):
        return tuple(_of_pieces(numbers("A cost", c), states) for c in cost)
    return _of_pieces(numbers("A cost", cost), states)


def _of_pieces(cost: Tensor, states: int) -> Tensor:
    n = len(cost)
    if tuple(cost.shape) != (n, states, n, states) or not cost.numel():
        raise BadInput(
            f"The cost of items with states is (items, states, items, states), the same of both, not of shape {tuple(cost.shape)}."
        )
    return _matrix(cost.reshape(n * states, n * states))


def one(given: Any, layout: Any) -> Tensor:
    cost = single(given, layout)
    if len(cost) != layout.n:
        raise BadInput(
            f"The cost of a {type(layout).__name__} of {layout.n} must be {layout.n} x {layout.n}, not {len(given)} x {len(given)}: "
            f"there are {len(given)} items (reject= says what leaving some out costs)."
        )
    return cost


def single(given: Any, layout: Any) -> Tensor:
    """The one cost matrix, of any size."""
    if isinstance(given, tuple):
        raise BadInput(f"A {type(layout).__name__} takes one cost matrix, but {len(given)} came.")
    return exactly_symmetric(given)


def chain(given: Any, path: Any) -> Tensor:
    cost = one(given, path)
    if path.reach > 1 and not torch.equal(cost, cost.mT):
        raise BadInput(f"A Path with reach={path.reach} needs a symmetric cost: further apart, nobody follows anybody.")
    return cost


def exactly_symmetric(cost: Tensor) -> Tensor:
    """A cost that differs from its transpose by rounding alone is meant to be symmetric.

    `torch.cdist` in single precision gives short distances to 3e-4 of a usual one. Not of the longest: that may be "never".
    """
    rounding = 3e-4 * float(cost.abs().median()) if len(cost) else 0.0
    return (cost + cost.mT) / 2 if torch.allclose(cost, cost.mT, rtol=1e-5, atol=rounding) else cost


def pair(given: Tensor | tuple[Tensor, ...], grid: Any, states: int = 1) -> tuple[Tensor, Tensor]:
    """Costs of right and of lower neighbours, one matrix serves both; of as many items as the grid has cells, if one is given."""
    both = (given, given) if isinstance(given, Tensor) else given
    if len(both) != 2:
        raise BadInput(f"A Grid takes cost=(right, below), but {len(both)} matrices came.")
    for matrix in both:
        items = len(matrix) // states
        if grid is not None and items != grid.n:
            raise BadInput(
                f"The costs of a Grid of {grid.n} cells must be {grid.n} x {grid.n}, not {items} x {items}: "
                f"there are {items} items. For more or fewer items than positions give reject=, a price, True or False."
            )
    if len(both[0]) != len(both[1]):
        raise BadInput(f"The two costs of a Grid are of different items: {len(both[0])} and {len(both[1])}.")
    return both[0], both[1]


def mask(allowed: Any, items: int, positions: int) -> Tensor | None:
    if allowed is None:
        return None
    pairs = numbers("allowed", allowed).cpu()
    if pairs.dtype != torch.bool or tuple(pairs.shape) != (items, positions):
        raise BadInput(
            f"allowed must be a bool matrix of {items} items x {positions} positions, not {pairs.dtype} of shape {tuple(pairs.shape)}."
        )
    return None if bool(pairs.all()) else pairs


def feasible(pairs: Tensor | None) -> Tensor | None:
    """The same, if every item can have a position of its own."""
    reason = None if pairs is None else why_infeasible(pairs.numpy())
    if reason:
        raise BadInput(reason)
    return pairs


STARTS = 5.0  # scores of an order to start from


def start(init: Any, items: int, positions: int, *, by_order: bool = False) -> Tensor | None:
    """Scores (items x positions) to start from, also of an order; ``by_order``: the order itself, and nothing else will do."""
    if init is None:
        return None
    given = numbers("init", init).detach().cpu()
    if given.ndim == 1:
        order = _order(given, items, positions)
        if by_order:
            return order
        return STARTS * torch.nn.functional.one_hot(order, items).mT.float()
    if by_order:
        raise BadInput(
            f"init of so many items must be an order, {items} whole numbers: scores would be a whole matrix."
        )
    scores = given.to(torch.float32)
    if tuple(scores.shape) != (items, positions):
        raise BadInput(
            f"init must be scores of {items} items x {positions} positions, not of shape {tuple(scores.shape)}."
        )
    if not torch.isfinite(scores).all():
        raise BadInput("init must be finite scores, but some are NaN or infinite; forbid pairs with allowed=.")
    return scores


def _order(given: Tensor, items: int, positions: int) -> Tensor:
    whole_ones = given.double() == given.long()
    if (
        items != positions
        or len(given) != items
        or not whole_ones.all()
        or given.long().sort().values.ne(torch.arange(items)).any()
    ):
        raise BadInput(
            f"init as an order must name each of the items 0 to {items - 1} once, at the position where it starts."
        )
    return given.long()


def count(runs: int | None) -> int | None:
    return None if runs is None else whole("runs", runs, 1)
