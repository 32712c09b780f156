"""Small operators on orders and (soft) permutation matrices; the convention is in ``shapes``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from ..compute.threads import in_chunks
from ..compute.transforms import operator
from ..errors import BadInput, dense, shown, whole
from ..shapes import Mask, Order, SoftPermutation
from .blend import blend
from .kendall import tau_b
from .precision import in_full_precision, widened

EPS = 1e-8  # the paper's clamp inside the entropy


def reorder(soft: SoftPermutation, items: Float[Tensor, "*#batch m *d"]) -> Tensor:
    """``P^T X``: what stands, softly, at each position. ``items`` is (..., m) or (..., m, d), for m items.

    By an order there is nothing to blend: ``items[order]`` is in order, and ``to_matrix(order)`` a permutation that this takes.
    """
    if isinstance(soft, Tensor) and soft.dtype in (torch.int64, torch.int32):
        raise BadInput(
            f"A soft permutation is asked for, not whole numbers of shape {tuple(soft.shape)}: by an order, write items[order], or "
            "us.reorder(us.to_matrix(order), items) for a batch of orders."
        )
    rectangle(widened(soft), "A soft permutation")
    if not isinstance(items, Tensor) or (items.dtype != soft.dtype and not torch.is_autocast_enabled(soft.device.type)):
        kind = items.dtype if isinstance(items, Tensor) else type(items).__name__
        raise BadInput(f"The items must be a {soft.dtype} tensor like the soft permutation, not {kind}.")
    m, shape = soft.shape[-2], items.shape
    features = items.ndim > 1 and shape[-2] == m
    if not features and (items.ndim < 1 or shape[-1] != m):
        raise BadInput(f"{m} items are expected, but the items have shape {tuple(shape)}.")
    if _broadcast(soft.shape[:-2], shape[: -2 if features else -1]) is None:
        raise BadInput(
            f"Items of shape {tuple(shape)} do not fit soft permutations of shape {tuple(soft.shape)}: their batches differ."
        )
    return _reorder(soft, items, not features)


@in_full_precision
def _reorder(soft: Tensor, items: Tensor, one_each: bool) -> Tensor:
    items = items.to(soft.dtype)
    return blend(soft, items.unsqueeze(-1)).squeeze(-1) if one_each else blend(soft, items)


def inverse(order: Order, items: int | None = None) -> Int[Tensor, "*batch items"]:
    """The inverse permutation: from "item at each position" to "position of each item" and back.

    An order may have empty positions (-1), and ``items`` (as many as positions, if it is not said) may be more than there are
    positions: items that are nowhere in it come back as -1.
    """
    return _inverse(whole_numbers(order), None if items is None else whole("items", items, 0))


def _place_each(order: Tensor, items: int | None) -> Tensor:
    return order.new_empty((*order.shape[:-1], order.shape[-1] if items is None else items), dtype=torch.int64)


@operator("(Tensor order, int? items) -> Tensor", _place_each)
def _inverse(order: Tensor, items: int | None) -> Tensor:
    n = order.shape[-1]
    m = n if items is None else items
    if items is None and (order.numel() == 0 or int(order.min()) >= 0):
        values, place = torch.sort(order, dim=-1)
        if not bool((values == torch.arange(n, device=order.device)).all()):
            raise BadInput("An order must hold each of 0 ... n-1 exactly once, but this one does not.")
        return place
    place = torch.full((*order.shape[:-1], m + 1), -1, dtype=torch.int64, device=order.device)
    positions = torch.arange(n, device=order.device).expand(order.shape)
    place.scatter_(-1, _slots(order, m), positions)
    return place[..., :m].contiguous()


def to_matrix(
    order: Order, dtype: torch.dtype | None = None, items: int | None = None
) -> Float[Tensor, "*batch items n"]:
    """The hard permutation matrix with ``P[order[j], j] = 1``; the column of an empty position (-1) is zero.

    It has a row for each of ``items`` (as many as positions, if it is not said), and no item stands twice.
    """
    m = whole_numbers(order).shape[-1] if items is None else whole("items", items, 1)
    one_hot = torch.zeros(*order.shape, m + 1, dtype=dtype or torch.get_default_dtype(), device=order.device)
    return one_hot.scatter_(-1, _slots(order, m).unsqueeze(-1), 1)[..., :m].transpose(-1, -2)


@operator("(Tensor order, int items) -> Tensor", lambda order, items: torch.empty_like(order, dtype=torch.int64))
def _slots(order: Order, items: int) -> Order:
    """Item at each position as an index into items + 1 places, the last of them for nobody; no item stands twice."""
    _within(order, -1, items)
    slots = torch.where(order < 0, items, order).long()
    taken = torch.zeros((*order.shape[:-1], items + 1), dtype=torch.bool, device=order.device).scatter_(-1, slots, True)
    if int(taken[..., :items].sum()) != int((order >= 0).sum()):
        raise BadInput("An order must hold no item twice, but this one does.")
    return slots


def _within(order: Order, least: int, items: int) -> None:
    if order.numel() and not least <= int(order.min()) <= int(order.max()) < items:
        raise BadInput(f"An order of {items} items must hold numbers from 0 to {items - 1}, but this one has others.")


@in_full_precision
def entropy(soft: SoftPermutation, dim: int = -1, allowed: Mask | None = None) -> Float[Tensor, "*batch lines"]:
    """Entropy of each row (``dim=-1``) or column (``dim=-2``), from 0 (decided) to 1 (uniform); equation 4.

    Normalised by the logarithm of the number of allowed entries, so a row with three places left and no preference has
    entropy 1; a row with a single place has 0.
    """
    clamped = rectangle(soft, "A soft permutation").clamp_min(EPS)
    if not isinstance(dim, int) or dim not in (-1, -2):
        raise BadInput(f"dim must be -1 (entropies of rows) or -2 (of columns), not {shown(dim)}.")
    terms = -clamped * clamped.log()
    if allowed is None:
        scale = math.log(soft.shape[dim])
        return terms.sum(dim) / scale if scale > 0 else torch.zeros_like(terms.sum(dim))
    if getattr(allowed, "dtype", None) != torch.bool or allowed.shape[-2:] != soft.shape[-2:]:
        raise BadInput(f"allowed must be a bool tensor of {soft.shape[-2]} items x {soft.shape[-1]} positions.")
    if not broadcasts(allowed, soft.shape):
        raise BadInput(
            f"allowed of shape {tuple(allowed.shape)} does not fit soft permutations of {tuple(soft.shape)}."
        )
    count = allowed.expand_as(soft).sum(dim)
    raw = terms.masked_fill(~allowed, 0.0).sum(dim)
    return torch.where(count > 1, raw / count.clamp_min(2).to(raw).log(), torch.zeros_like(raw))


@in_full_precision
def marginal_error(soft: SoftPermutation) -> Float[Tensor, "*batch"]:
    """How far the rows and columns are from summing to one: the largest deviation in each matrix.

    Truncated Sinkhorn normalises columns last, so what is left shows in the rows.
    """
    rows = (square(soft, "A soft permutation").sum(-1) - 1).abs().amax(-1)
    columns = (soft.sum(-2) - 1).abs().amax(-1)
    return torch.maximum(rows, columns)


def kendall_tau(a: Shaped[Tensor, "*#batch n"], b: Shaped[Tensor, "*#batch n"]) -> Float[Tensor, "*batch"]:
    """Kendall's tau-b of paired values, as ``scipy.stats.kendalltau(a, b)``, batched, in O(n log n).

    Give it values, ranks (``inverse`` of orders), or an order beside ``arange(n)``; of two orders, where names of items are
    not numbers to compare, use ``metrics.order_tau``. In whole numbers -1 stands for nowhere (an item left out): such entries
    do not count. Undefined (NaN) if either side is constant or shorter than two.
    """
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.ndim < 1 or b.ndim < 1:
        raise BadInput("Kendall's tau compares two tensors of values, one list in the last dimension of each.")
    if a.shape[-1] != b.shape[-1]:
        raise BadInput(f"Kendall's tau compares lists of one length, but {a.shape[-1]} and {b.shape[-1]} came.")
    if not together(a, b):
        raise BadInput(f"Kendall's tau cannot pair lists of {tuple(a.shape)} with lists of {tuple(b.shape)}.")
    return _tau(*torch.broadcast_tensors(a, b))


def _one_each(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[:-1], dtype=torch.float64)


@operator("(Tensor a, Tensor b) -> Tensor", _one_each)
def _tau(a: Tensor, b: Tensor) -> Tensor:
    batch, n = a.shape[:-1], a.shape[-1]
    if n < 2:
        return a.new_full(batch, torch.nan, dtype=torch.float64)
    missing = _nowhere(a) | _nowhere(b)
    if bool(missing.any()):
        lists = zip(a.reshape(-1, n), b.reshape(-1, n), ~missing.reshape(-1, n), strict=True)
        return torch.stack([kendall_tau(x[here], y[here]) for x, y, here in lists]).reshape(batch)
    x, y = (_dense_ranks(t.reshape(-1, n)) for t in (a, b))
    tau = np.empty(x.shape[0])

    def some(low: int, high: int) -> None:
        tau[low:high] = tau_b(x[low:high], y[low:high])

    in_chunks(some, x.shape[0], 50.0 * x.size)
    return torch.from_numpy(tau).reshape(batch).to(a.device)


def _nowhere(places: Tensor) -> Tensor:
    if places.is_floating_point() or places.dtype == torch.bool:
        return torch.zeros(places.shape, dtype=torch.bool, device=places.device)
    return places == -1


def _dense_ranks(values: Shaped[Tensor, "lists n"]) -> np.ndarray:
    """Integers 0, 1, ... that compare like the values."""
    if values.is_floating_point() and bool(values.isnan().any()):
        raise BadInput("Kendall's tau cannot rank NaN.")
    values = values.detach().cpu()
    ordered, where = values.sort(dim=-1)
    steps = torch.zeros_like(where)
    steps[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(-1)
    return torch.empty_like(where).scatter_(-1, where, steps).numpy()


def whole_numbers(order: Tensor) -> Tensor:
    """The same order if it is a tensor (..., n) of whole numbers; otherwise one sentence."""
    if not isinstance(order, Tensor) or order.ndim < 1 or order.dtype not in (torch.int64, torch.int32):
        kind = f"{order.dtype} of shape {tuple(order.shape)}" if isinstance(order, Tensor) else type(order).__name__
        raise BadInput(f"An order must be a tensor (..., n) of whole numbers, the item at each position, not {kind}.")
    return order


def order_of(n: int, order: Tensor) -> Tensor:
    """The same order if it is one of ``n`` items: each of 0 ... n - 1 once, (..., n); otherwise one sentence."""
    if whole_numbers(order).shape[-1] != n:
        raise BadInput(f"An order of {n} items is expected, but one of {order.shape[-1]} came.")
    _within(order, 0, n)
    _slots(order, n)
    return order


def broadcasts(values: Tensor, shape: tuple[Any, ...]) -> bool:
    """Whether values would do for a tensor of this shape."""
    return _broadcast(values.shape, shape) == shape


def together(a: Tensor, b: Tensor) -> bool:
    """Whether their batches go together, and what they are batches of."""
    return _broadcast(a.shape, b.shape) is not None


def _broadcast(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...] | None:
    try:
        return torch.broadcast_shapes(a, b)
    except RuntimeError:
        return None


def square(scores: Tensor, what: str = "Scores") -> Tensor:
    """The same scores if they are floating point (..., n, n) with n >= 1; otherwise one sentence."""
    _tensor(scores, what)
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        sizes = f": {scores.shape[-2]} items for {scores.shape[-1]} positions" if scores.ndim > 1 else ""
        raise BadInput(f"{what} must have shape (..., n, n) with n >= 1, not {tuple(scores.shape)}{sizes}.")
    return _real(scores, what)


def rectangle(scores: Tensor, what: str = "Scores") -> Tensor:
    """The same scores if they are floating point (..., items, positions), at least one of each; otherwise one sentence."""
    _tensor(scores, what)
    if scores.ndim < 2 or 0 in scores.shape[-2:]:
        raise BadInput(
            f"{what} must have shape (..., items, positions) with at least one of each, not {tuple(scores.shape)}."
        )
    return _real(scores, what)


def _tensor(scores: Tensor, what: str) -> None:
    if not isinstance(scores, Tensor):
        raise BadInput(f"{what} must be a torch tensor, not {type(scores).__name__}; torch.as_tensor makes one.")
    dense(what, scores)


def _real(scores: Tensor, what: str) -> Tensor:
    if scores.dtype not in (torch.float32, torch.float64):
        raise BadInput(f"{what} must be float32 or float64, not {scores.dtype}.")
    return scores
