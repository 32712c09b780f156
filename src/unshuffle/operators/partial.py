r"""Not every item has a place: what it is worth to leave an item out and a position empty.

With m items and n positions the partial problem is the square one padded with dummies, all alike: a dummy item at position j
(the position stays empty) scores $r_j$, item i at a dummy position (it is left out) scores $r_i$, a dummy with a dummy 0.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import BadInput, shown, whole

Price: TypeAlias = float | Float[Tensor, "..."]
Reject: TypeAlias = Price | tuple[Price, Price]


def prices(reject: Reject, scores: Tensor) -> tuple[Float[Tensor, "*batch m 1"], Float[Tensor, "*batch 1 n"]]:
    """What an item left out scores (..., m, 1), and a position left empty (..., 1, n).

    ``reject`` is a number for both, a tensor (..., m) for the items (positions then score 0), or a pair of these.
    """
    m, n = scores.shape[-2:]
    if isinstance(reject, (tuple, list)):
        if len(reject) != 2:
            raise BadInput(f"reject must be one price or a pair (items, positions), but {len(reject)} came.")
        items, positions = reject
    else:
        items, positions = reject, 0.0 if isinstance(reject, Tensor) and reject.ndim else reject
    return _price(items, m, "item", scores).unsqueeze(-1), _price(positions, n, "position", scores).unsqueeze(-2)


def _price(price: Price, count: int, who: str, scores: Tensor) -> Tensor:
    """One per item or position, (..., count)."""
    try:
        price = torch.as_tensor(price, dtype=scores.dtype, device=scores.device)
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(f"reject must be a number, or one per item, or a pair of these, not {shown(price)}.") from None
    if price.ndim == 0:
        price = price.expand(count)
    if price.shape[-1] != count or price.ndim > scores.ndim - 1:
        raise BadInput(
            f"reject has shape {tuple(price.shape)}, but there are {count} {who}s: give one number for each."
        )
    if not bool(price.detach().isfinite().all()):
        raise BadInput(f"reject must be finite, but the price of {who} {_first(~price.detach().isfinite())} is not.")
    return price


def _first(bad: Tensor) -> int:
    return int(bad.nonzero()[0, -1])


def kept(keep: int, scores: Tensor) -> int:
    """``keep``, if so many placements fit."""
    m, n = scores.shape[-2:]
    if whole("keep", keep, 0) > min(m, n):
        raise BadInput(f"keep={keep} placements are impossible: there are {m} items and {n} positions.")
    return keep
