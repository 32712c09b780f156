"""From scores to the best hard order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

from ..compute.threads import in_chunks
from ..compute.transforms import operator
from ..errors import BadInput
from ..shapes import Mask, Order, Scores
from .partial import Reject, kept, prices
from .permutation import rectangle, together
from .precision import widened


def assign(
    scores: Scores, allowed: Mask | None = None, *, reject: Reject | None = None, keep: int | None = None
) -> Order:
    """The order that maximises the sum of ``scores[order[j], j]`` (Hungarian), for each matrix of the batch.

    Give scores or log P, never P itself: the best permutation for P differs from the most likely one. Entries that are
    -inf or not ``allowed`` are never used. With fewer items than positions (m < n) the positions left over are -1; with
    more, the items left over are not in the order.

    With ``reject`` (a number, one per item, or a pair for items and positions, in units of the scores) any item may be left out and
    any position stay empty: what is maximised is the sum of the scores of what is placed, plus the price of every item left
    out, plus the price of every position left empty. ``keep`` asks for exactly that many placements.
    """
    rectangle(widened(scores))
    open_scores = masked(widened(scores.detach()), allowed)
    gain = open_scores
    if reject is not None:
        left_out, empty = prices(reject, open_scores)
        gain = gain - (left_out.unsqueeze(-1) + empty.unsqueeze(-2))
    return _orders(gain, reject is not None, None if keep is None else kept(keep, scores))


def _item_each(gain: Tensor, optional: bool, count: int | None) -> Tensor:
    return gain.new_empty((*gain.shape[:-2], gain.shape[-1]), dtype=torch.int64)


@operator("(Tensor gain, bool optional, int? count) -> Tensor", _item_each)
def _orders(gain: Tensor, optional: bool, count: int | None) -> Tensor:
    """The best order of each matrix, of all placements, of those that gain something (``optional``), or of exactly ``count``."""
    cost = -gain.detach().reshape(-1, *gain.shape[-2:]).cpu().numpy().astype(np.float64, copy=False)
    for what, found in (("NaN", np.isnan(cost)), ("+inf", cost == -np.inf)):
        if found.any():
            raise BadInput(f"Scores must not be {what}, but {_where(found)}.")
    best = partial(_exactly, count) if count is not None else _worthwhile if optional else _whole
    orders = np.full((len(cost), cost.shape[-1]), -1, np.int64)
    work = 3.0 * max(cost.shape[-2:], default=1) * cost.size
    in_chunks(lambda low, high: _assign(best, cost, orders, low, high), len(cost), work)
    return torch.from_numpy(orders).reshape(*gain.shape[:-2], gain.shape[-1]).to(gain.device)


Pairing: TypeAlias = tuple[np.ndarray, np.ndarray]


def _assign(best: Callable[[np.ndarray], Pairing], cost: np.ndarray, orders: np.ndarray, low: int, high: int) -> None:
    for k in range(low, high):
        try:
            items, positions = best(cost[k])
        except ValueError as error:  # scipy's word for "no perfect matching"
            own = isinstance(error, BadInput)
            raise error if own else BadInput(why_infeasible(cost[k] < np.inf, k if len(cost) > 1 else None)) from None
        orders[k, positions] = items


def _whole(cost: np.ndarray) -> Pairing:
    """Every item has a place, or every position an item, whichever there are fewer of."""
    return linear_sum_assignment(cost)


def _worthwhile(cost: np.ndarray) -> Pairing:
    """Only placements that are worth more than being left out: what costs more than nothing may as well cost nothing."""
    items, positions = linear_sum_assignment(np.minimum(cost, 0.0))
    worth = cost[items, positions] < 0
    return items[worth], positions[worth]


def _exactly(count: int, cost: np.ndarray) -> Pairing:
    """The best ``count`` placements: the square problem with n - k dummy items and m - k dummy positions that avoid each other."""
    m, n = cost.shape
    padded = np.zeros((m + n - count, m + n - count))
    padded[:m, :n] = cost
    padded[m:, n:] = np.inf
    try:
        items, positions = linear_sum_assignment(padded)
    except ValueError:
        most = _most_placements(cost < np.inf)
        raise BadInput(f"keep={count} placements are impossible: the mask lets at most {most} be made.") from None
    placed = (items < m) & (positions < n)
    return items[placed], positions[placed]


def _most_placements(allowed: np.ndarray) -> int:
    return int((maximum_bipartite_matching(csr_array(allowed), perm_type="column") >= 0).sum())


def masked(scores: Tensor, allowed: Tensor | None, floor: float = -torch.inf) -> Tensor:
    """Scores with ``floor`` where an entry is not allowed."""
    mask_for(scores, allowed)
    return scores if allowed is None else scores.masked_fill(~allowed, floor)


def alongside(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """The scores, once for each mask if these are of more than one batch."""
    mask_for(scores, allowed)
    if allowed is None or allowed.ndim == 2:
        return scores
    return scores.expand(torch.broadcast_shapes(scores.shape, allowed.shape))


def mask_for(scores: Tensor, allowed: Tensor | None) -> None:
    """Nothing, if it is none or a mask for these scores; otherwise one sentence."""
    if allowed is None:
        return
    if not isinstance(allowed, Tensor):
        raise BadInput(f"allowed must be a bool tensor (items x positions), not {type(allowed).__name__}.")
    if allowed.dtype != torch.bool or allowed.shape[-2:] != scores.shape[-2:]:
        raise BadInput(
            f"allowed must be a bool mask of shape {tuple(scores.shape[-2:])} (or with the batch in front), "
            f"not {allowed.dtype} of shape {tuple(allowed.shape)}."
        )
    if allowed.device != scores.device:
        raise BadInput(f"allowed is on {allowed.device}, but the scores are on {scores.device}: move it there.")
    if allowed.ndim > 2 and not together(allowed, scores):
        raise BadInput(f"allowed of shape {tuple(allowed.shape)} does not fit scores of shape {tuple(scores.shape)}.")


def why_infeasible(allowed: np.ndarray, matrix: int | None = None, keep: int | None = None) -> str:
    """One sentence on why no order fits the mask (items x positions), or an empty string if one does.

    Every item must have a place if there are not more of them than positions, and every position an item if there are not fewer;
    or there must be ``keep`` placements.
    """
    where = "" if matrix is None else f" of matrix {matrix}"
    m, n = allowed.shape
    if keep is not None and keep < min(m, n):
        most = _most_placements(allowed)
        few = f"keep={keep} placements are impossible: the mask{where} lets at most {most} be made."
        return few if most < keep else ""
    rows = np.flatnonzero(~allowed.any(axis=1))
    if rows.size and m <= n:
        return f"No order is possible: row {rows[0]}{where} (an item) has no allowed position."
    columns = np.flatnonzero(~allowed.any(axis=0))
    if columns.size and m >= n:
        return f"No order is possible: column {columns[0]}{where} (a position) has no allowed item."
    who, what, lines = ("items", "positions", allowed) if m <= n else ("positions", "items", allowed.T)
    match = maximum_bipartite_matching(csr_array(lines), perm_type="column")
    if (match >= 0).all():
        return ""
    crowd = _hall_violator(lines, match, int(np.flatnonzero(match < 0)[0]))
    reach = int(lines[sorted(crowd)].any(axis=0).sum())
    few = sorted(crowd)[:6]
    return (
        f"No order is possible: the {len(crowd)} {who} {few}{'...' if len(crowd) > 6 else ''}{where} "
        f"have only {reach} allowed {what} between them."
    )


def _hall_violator(allowed: np.ndarray, match: np.ndarray, row: int) -> set[int]:
    """Rows reachable from an unmatched row by alternating paths: more rows than the columns they may use."""
    owner = {int(column): r for r, column in enumerate(match) if column >= 0}
    crowd, edge = {row}, [row]
    while edge:
        for column in np.flatnonzero(allowed[edge.pop()]):
            r = owner[int(column)]
            if r not in crowd:
                crowd.add(r)
                edge.append(r)
    return crowd


def _where(found: np.ndarray) -> str:
    k, row, column = np.argwhere(found)[0]
    return f"row {row}, column {column} of matrix {k} is" if len(found) > 1 else f"row {row}, column {column} is"
