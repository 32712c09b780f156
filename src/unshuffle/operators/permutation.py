"""Small operators on orders and (soft) permutation matrices; the convention is in ``shapes``."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ..compute.threads import in_chunks
from ..compute.transforms import outside_graphs
from ..errors import BadInput, shown
from ..shapes import Mask, Order, SoftPermutation
from .kendall import tau_kernel

EPS = 1e-8  # the paper's clamp inside the entropy


def reorder(soft: SoftPermutation, items: Float[Tensor, "*#batch n *d"]) -> Tensor:
    """``P^T X``: what stands, softly, at each position. ``items`` is (..., n) or (..., n, d)."""
    square(soft, "A soft permutation")
    if not isinstance(items, Tensor) or (items.dtype != soft.dtype and not torch.is_autocast_enabled(soft.device.type)):
        kind = items.dtype if isinstance(items, Tensor) else type(items).__name__
        raise BadInput(f"The items must be a {soft.dtype} tensor like the soft permutation, not {kind}.")
    if items.shape[-1] == soft.shape[-2] and (items.ndim < 2 or items.shape[-2] != soft.shape[-2]):
        return (items.unsqueeze(-2) @ soft).squeeze(-2)
    if items.ndim < 2 or items.shape[-2] != soft.shape[-2]:
        raise BadInput(f"{soft.shape[-2]} items are expected, but the items have shape {tuple(items.shape)}.")
    return (items.mT @ soft).mT  # not P^T X: this way round the gradient of P comes out contiguous


def inverse(order: Order) -> Order:
    """The inverse permutation: from "item at each position" to "position of each item" and back."""
    values, place = torch.sort(whole_numbers(order), dim=-1)
    if not bool((values == torch.arange(order.shape[-1], device=order.device)).all()):
        raise BadInput("An order must hold each of 0 ... n-1 exactly once, but this one does not.")
    return place


def to_matrix(order: Order, dtype: torch.dtype | None = None) -> Float[Tensor, "*batch n n"]:
    """The hard permutation matrix with ``P[order[j], j] = 1``."""
    n = whole_numbers(order).shape[-1]
    order_of(n, order)
    one_hot = torch.zeros(*order.shape, n, dtype=dtype or torch.get_default_dtype(), device=order.device)
    return one_hot.scatter_(-1, order.unsqueeze(-1).long(), 1).transpose(-1, -2)


def entropy(soft: SoftPermutation, dim: int = -1, allowed: Mask | None = None) -> Float[Tensor, "*batch n"]:
    """Entropy of each row (``dim=-1``) or column (``dim=-2``), from 0 (decided) to 1 (uniform); equation 4.

    Normalised by the logarithm of the number of allowed entries, so a row with three places left and no preference has
    entropy 1; a row with a single place has 0.
    """
    clamped = square(soft, "A soft permutation").clamp_min(EPS)
    if not isinstance(dim, int) or dim not in (-1, -2):
        raise BadInput(f"dim must be -1 (entropies of rows) or -2 (of columns), not {shown(dim)}.")
    terms = -clamped * clamped.log()
    if allowed is None:
        scale = math.log(soft.shape[dim])
        return terms.sum(dim) / scale if scale > 0 else torch.zeros_like(terms.sum(dim))
    if getattr(allowed, "dtype", None) != torch.bool or allowed.shape[-2:] != soft.shape[-2:]:
        raise BadInput(f"allowed must be a bool tensor of {soft.shape[-2]} items x {soft.shape[-1]} positions.")
    count = allowed.expand_as(soft).sum(dim)
    raw = terms.masked_fill(~allowed, 0.0).sum(dim)
    return torch.where(count > 1, raw / count.clamp_min(2).to(raw).log(), torch.zeros_like(raw))


def marginal_error(soft: SoftPermutation) -> Float[Tensor, "*batch"]:
    """How far the rows and columns are from summing to one: the largest deviation in each matrix.

    Truncated Sinkhorn normalises columns last, so what is left shows in the rows.
    """
    rows = (square(soft, "A soft permutation").sum(-1) - 1).abs().amax(-1)
    columns = (soft.sum(-2) - 1).abs().amax(-1)
    return torch.maximum(rows, columns)


@outside_graphs
def kendall_tau(a: Shaped[Tensor, "*#batch n"], b: Shaped[Tensor, "*#batch n"]) -> Float[Tensor, "*batch"]:
    """Kendall's tau-b of paired values, as ``scipy.stats.kendalltau(a, b)``, batched, in O(n log n).

    Give it values, ranks (``inverse`` of orders), or an order beside ``arange(n)``; of two orders, where names of items are
    not numbers to compare, use ``metrics.order_tau``. Undefined (NaN) if either side is constant or shorter than two.
    """
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.ndim < 1 or b.ndim < 1:
        raise BadInput("Kendall's tau compares two tensors of values, one list in the last dimension of each.")
    if a.shape[-1] != b.shape[-1]:
        raise BadInput(f"Kendall's tau compares lists of one length, but {a.shape[-1]} and {b.shape[-1]} came.")
    a, b = torch.broadcast_tensors(a, b)
    batch, n = a.shape[:-1], a.shape[-1]
    x, y = (_dense_ranks(t.reshape(-1, n)) for t in (a, b))
    tau = np.empty(x.shape[0])
    in_chunks(lambda low, high: tau_kernel(x, y, tau, low, high), x.shape[0], 50.0 * x.size)
    return torch.from_numpy(tau).reshape(batch).to(a.device)


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
    """The same order if it is one of ``n`` items: whole numbers (..., n) from 0 to n - 1; otherwise one sentence."""
    if whole_numbers(order).shape[-1] != n:
        raise BadInput(f"An order of {n} items is expected, but one of {order.shape[-1]} came.")
    if order.numel() and not 0 <= int(order.min()) <= int(order.max()) < n:
        raise BadInput(f"An order of {n} items must hold numbers from 0 to {n - 1}, but this one has others.")
    return order


def square(scores: Tensor, what: str = "Scores") -> Tensor:
    """The same scores if they are floating point (..., n, n) with n >= 1; otherwise one sentence."""
    if not isinstance(scores, Tensor):
        raise BadInput(f"{what} must be a torch tensor, not {type(scores).__name__}; torch.as_tensor makes one.")
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise BadInput(f"{what} must have shape (..., n, n) with n >= 1, not {tuple(scores.shape)}.")
    if scores.dtype not in (torch.float32, torch.float64):
        raise BadInput(f"{what} must be float32 or float64, not {scores.dtype}.")
    return scores
