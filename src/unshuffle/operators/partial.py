r"""Not every item has a place: what it is worth to leave an item out and a position empty.

With m items and n positions the partial problem is the square one padded with dummies, all alike: a dummy item at position j
(the position stays empty) scores $r_j$, item i at a dummy position (it is left out) scores $r_i$, a dummy with a dummy 0. With
``keep`` placements there are n - k dummy items and m - k dummy positions, and they avoid each other. Without ``reject`` and ``keep``
as many are placed as fit.

Sinkhorn treats dummies that are alike alike, so one row and one column can stand for many of them: `Padded` is a square of size
max(m, n) + 1 at most, where the definition has m + n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..compute.transforms import symbolic
from ..errors import BadInput, shown, whole
from ._sinkhorn.block import Border
from .permutation import broadcasts

Price: TypeAlias = float | Float[Tensor, "..."] | list[float] | np.ndarray
Reject: TypeAlias = Price | tuple[Price, Price]
Told: TypeAlias = float | Float[Tensor, "..."]  # one price for all, or one for each


class LeftOut(NamedTuple):
    """Who may have no place: what `sinkhorn` and `assign` take as ``reject`` and ``keep``."""

    reject: Reject | None = None
    keep: int | None = None

    def times(self, factor: float | Tensor) -> LeftOut:
        """The prices in other units."""
        if self.reject is None:
            return self
        if isinstance(self.reject, tuple):
            return LeftOut(tuple(factor * price for price in self.reject), self.keep)  # pyright: ignore
        return LeftOut(factor * self.reject, self.keep)  # pyright: ignore

    def some(self, scores: Tensor, step: int) -> LeftOut:
        """The prices of every so many matrices of a batch, if that is flattened."""
        if self.reject is None:
            return self
        batch, each = scores.shape[:-2], prices(self.reject, scores.detach())
        chosen = (price.detach().expand(*batch, -1).reshape(-1, price.shape[-1])[::step] for price in each)
        return LeftOut(tuple(chosen), self.keep)  # pyright: ignore


NOBODY = LeftOut()


def prices(reject: Reject | None, scores: Tensor) -> tuple[Float[Tensor, "*batch m"], Float[Tensor, "*batch n"]]:
    """What each item scores when it is left out, and each position when it stays empty; nothing, if there are no prices.

    ``reject`` is a number for both, one per item (..., m) (positions then score 0), or a pair of these, which is a tuple.
    """
    m, n = scores.shape[-2:]
    if reject is None:
        return scores.new_zeros(m), scores.new_zeros(n)
    told = as_told(reject)
    if isinstance(told, tuple):
        items, positions = told
    else:
        items, positions = told, 0.0 if isinstance(told, Tensor) and told.ndim else told
    return _price(items, m, "item", scores), _price(positions, n, "position", scores)


def simplest(reject: Reject | None, scores: Tensor) -> tuple[float | Tensor, float | Tensor]:
    """`prices`, but one number for all as it is: to make tensors of it takes longer than a small problem."""
    if reject is None:
        return 0.0, 0.0
    return (reject, reject) if _is_number(reject) else prices(reject, scores)  # pyright: ignore[reportReturnType]


def as_told(reject: Any) -> Told | tuple[Told, Told]:
    """Prices as numbers and tensors, of lists and arrays too; otherwise one sentence."""
    if not isinstance(reject, tuple):
        return _one_or_each(reject)
    if len(reject) != 2:
        raise BadInput(f"reject must be one price or a pair (items, positions), but {len(reject)} came.")
    return _one_or_each(reject[0]), _one_or_each(reject[1])


def _is_number(price: Any) -> bool:
    # compared: a graph with symbolic numbers knows no math.isfinite
    return isinstance(price, float) and -math.inf < price < math.inf


def _one_or_each(price: Any) -> Told:
    if isinstance(price, Tensor) or _is_number(price):
        return price
    try:
        each = None if isinstance(price, (bool, str)) else np.asarray(price, np.float64)
    except (TypeError, ValueError, RuntimeError):
        each = None
    if each is None:
        raise BadInput(f"reject must be a number, or one per item, or a pair of these, not {shown(price)}.")
    if not np.isfinite(each).all():
        raise BadInput(f"reject must be finite, not {shown(price)}.")
    return torch.from_numpy(each) if each.ndim else float(each)


def _price(price: Told, count: int, who: str, scores: Tensor) -> Tensor:
    """One per item or position, (..., count)."""
    if not isinstance(price, Tensor):
        return scores.new_full((count,), price)
    price = price.to(scores)
    if price.ndim == 0:
        price = price.expand(count)
    if price.shape[-1] != count or (price.ndim > 1 and not broadcasts(price, (*scores.shape[:-2], count))):
        batch = f" and batches of {tuple(scores.shape[:-2])}" if scores.ndim > 2 else ""
        raise BadInput(
            f"reject has shape {tuple(price.shape)}, but there are {count} {who}s{batch}: give one number for each."
        )
    if price.device.type == "cpu" and not symbolic(price) and not bool(price.detach().isfinite().all()):
        first = int((~price.detach().isfinite()).nonzero()[0, -1])
        raise BadInput(f"reject must be finite, but the price of {who} {first} is not.")
    return price


def kept(keep: int, scores: Tensor) -> int:
    """``keep``, if so many placements fit."""
    m, n = scores.shape[-2:]
    placements = whole("keep", keep, 0)
    if placements > min(m, n):
        raise BadInput(f"keep={placements} placements are impossible: there are {m} items and {n} positions.")
    return placements


def nobody(scores: Tensor, samples: int | None = None) -> Tensor:
    """What ``keep=0`` leaves: no placement at all, which the padded problem comes to only after many iterations."""
    scores = scores if samples is None else scores.expand(samples, *scores.shape)
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool), 0.0)  # with a gradient, of zeros


@dataclass(frozen=True)
class Padded:
    """The square problem that a partial one is part of: the real scores, then dummies, the last of which stand for several each."""

    items: int
    positions: int
    size: int
    alike: int  # dummies that the last row, and the last column, stand for
    priced: bool  # whether being left out has a price, and so a temperature
    meet: bool  # whether dummies may be with dummies

    @classmethod
    def of(cls, scores: Tensor, reject: Reject | None, keep: int | None) -> Padded | None:
        """Nothing for square scores of which all are placed."""
        m, n = scores.shape[-2:]
        fewer = min(m, n)
        keep = None if keep is None else kept(keep, scores)
        if reject is None and keep is None:
            keep = fewer
        if m == n == keep:
            return None
        alike = fewer if keep is None else fewer - keep
        return cls(m, n, max(m, n) + (alike > 0), max(alike, 1), reject is not None, keep is None)

    @property
    def border(self) -> Border:
        everyone = self.size - 1 + self.alike
        alike = (everyone - self.items, everyone - self.positions)
        return Border(self.items, self.positions, self.size, alike, 0.0 if self.meet else -math.inf)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the real part with, where there are dummies, one row for positions left empty and one column for items left out."""
        return self.items + (self.size > self.items), self.positions + (self.size > self.positions)

    def scores(self, scores: Tensor, reject: Reject | None) -> Float[Tensor, "*batch size size"]:
        """Scores with dummies; gradients reach the prices."""
        return self.border.around(scores, *prices(reject, scores))

    def field(self, beta: Tensor) -> Tensor:
        """A beta for every entry of the square from one of this shape, whose last row and column serve all dummies; one for all as it is."""
        if beta.ndim < 2 or beta.shape[-2:].numel() == 1:
            return beta
        batch, (rows, columns) = beta.shape[:-2], self.shape
        beta = beta.expand(*batch, rows, columns)
        beta = torch.cat([beta, beta[..., -1:, :].expand(*batch, self.size - rows, columns)], -2)
        return torch.cat([beta, beta[..., -1:].expand(*batch, self.size, self.size - columns)], -1)

    def outside(self, beta: Tensor) -> Tensor:
        """A field for the real entries as one of this shape: where there is no price, any temperature will do."""
        if beta.ndim < 2 or beta.shape[-2:].numel() == 1:
            return beta
        beta = beta.expand(*beta.shape[:-2], self.items, self.positions)
        (rows, columns) = self.shape
        return torch.nn.functional.pad(beta, (0, columns - self.positions, 0, rows - self.items), value=1.0)

    def mask(self, allowed: Tensor | None) -> Tensor | None:
        """A mask in this shape: who may be left out, and what may stay empty, is no matter of the mask."""
        if allowed is None:
            return None
        rows, columns = self.shape
        return torch.nn.functional.pad(allowed, (0, columns - self.positions, 0, rows - self.items), value=True)

    def real(self, square: Tensor) -> Float[Tensor, "*batch items positions"]:
        return square[..., : self.items, : self.positions]

    def with_left_out(self, square: Tensor) -> Tensor:
        """The real part of a soft permutation and, in one row and one column, how much of each is left empty and left out."""
        m, n = self.items, self.positions
        if self.size > m:
            square = torch.cat([square[..., :m, :], square[..., m:, :].sum(-2, keepdim=True)], -2)
        if self.size > n:
            square = torch.cat([square[..., :n], square[..., n:].sum(-1, keepdim=True)], -1)
        return square

    def gain(self, soft: Tensor) -> Float[Tensor, "*batch items positions"]:
        r"""What every placement gains by the square of a soft permutation: $\log P_{ij} - \log P_{i\cdot} - \log P_{\cdot j} + \log P_{\cdot\cdot}$.

        The scalings of Sinkhorn cancel, so it is beta times the score less both prices, noise included: soft and hard agree.
        """
        logs = self.with_left_out(soft).clamp_min(torch.finfo(soft.dtype).tiny).log()
        m, n = self.items, self.positions
        gain = logs[..., :m, :n]
        if self.size > n:
            gain = gain - logs[..., :m, n:]
        if self.size > m:
            gain = gain - logs[..., m:, :n]
        return gain + logs[..., m:, n:] if self.meet else gain

    @property
    def choice(self) -> LeftOut:
        """How `assign` decides on gains."""
        return LeftOut(0.0) if self.meet else LeftOut(None, self.items + self.positions + 1 - self.size - self.alike)
