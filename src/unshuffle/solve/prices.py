"""What it costs to leave an item out and a position empty, as `solve` takes it or from the costs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput, number
from ..shapes import numbers
from ..structure.layouts import Cycle, Graph, Grid, Path

SPREAD = 6.0  # a link is dearer than usual from so many median deviations above the usual nearest neighbour


@dataclass(frozen=True)
class Prices:
    """Of an item left out, one for each, and of a position left empty."""

    items: Float[Tensor, "m"]
    position: float

    @classmethod
    def of(cls, reject: Any, cost: Float[Tensor, "m m"], layout: Path | Cycle | Grid | Graph) -> Prices | None:
        """``reject`` as `solve` takes it; False leaves the numbers of both to the sizes."""
        if reject is False:
            return None
        if isinstance(layout, Graph) and bool(layout.weights.diagonal().any() and cost.diagonal().any()):
            raise BadInput(
                "With prices nobody can be its own neighbour: set the diagonal of the weights or of the cost to 0."
            )
        if reject is True:
            usual = usual_price(cost, layout)
            return cls(torch.full((len(cost),), usual, dtype=cost.dtype), usual)
        return cls.told(reject, len(cost))

    @classmethod
    def told(cls, reject: Any, items: int) -> Prices:
        """A number for both, one for each item, or a pair (items, position)."""
        pair = reject if isinstance(reject, tuple) else None
        if pair is not None and len(pair) != 2:
            raise BadInput(f"reject must be one price or a pair (items, positions), but {len(pair)} came.")
        each = numbers("reject", reject if pair is None else pair[0]).detach().to("cpu", torch.float64)
        position = pair[1] if pair is not None else 0.0 if each.ndim else float(each)
        if each.ndim > 1 or (each.ndim == 1 and len(each) != items):
            raise BadInput(
                f"reject has shape {tuple(each.shape)}, but there are {items} items: give one number for each."
            )
        if not bool(each.isfinite().all()):
            raise BadInput("reject must be finite, but some prices are NaN or infinite.")
        return cls(each.expand(items), number("The price of an empty position", position))


def usual_price(cost: Float[Tensor, "m m"], layout: Path | Cycle | Grid | Graph) -> float:
    """Half of what an item pays whose links are all just dearer than usual: it is then left out, and its place empty.

    Usual is the median over items of the nearest neighbour's cost, with six median deviations (but no more than the median of
    all costs); as many links as a position has on average.
    """
    if len(cost) < 3:
        raise BadInput(f"Prices cannot be told from {len(cost)} items: give reject as a number.")
    other = ~torch.eye(len(cost), dtype=torch.bool)
    near = torch.where(other, torch.minimum(cost, cost.mT), torch.inf).min(1).values
    middle = near.median()
    dear = middle + SPREAD * (near - middle).abs().median()
    link = float(torch.minimum(dear, cost[other].median()))
    if isinstance(layout, (Path, Cycle)):
        return link
    pairs = layout.weights.abs().sum() if isinstance(layout, Graph) else sum(map(len, layout.relations()))
    links = 2 * float(pairs) / layout.n
    return link * links / 2
