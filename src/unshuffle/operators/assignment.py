"""From scores to the best hard order."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

from ..compute.threads import in_chunks
from ..compute.transforms import outside_graphs
from ..errors import BadInput
from ..shapes import Mask, Order, Scores
from .permutation import square


@outside_graphs
def assign(scores: Scores, allowed: Mask | None = None) -> Order:
    """The order that maximises the sum of ``scores[order[j], j]`` (Hungarian), for each matrix of the batch.

    Give scores or log P, never P itself: the best permutation for P differs from the most likely one. Entries that are
    -inf or not ``allowed`` are never used.
    """
    square(scores)
    open_scores = masked(scores.detach(), allowed)
    flat = open_scores.reshape(-1, *scores.shape[-2:])
    cost = -flat.cpu().numpy().astype(np.float64, copy=False)
    if np.isnan(cost).any():
        raise BadInput(f"Scores must not be NaN, but {_where_nan(cost)}.")
    orders = np.empty(cost.shape[:2], np.int64)
    n = cost.shape[-1]
    in_chunks(lambda low, high: _assign(cost, orders, low, high), len(cost), 3.0 * n * cost.size)
    return torch.from_numpy(orders).reshape(open_scores.shape[:-1]).to(scores.device)


def _assign(cost: np.ndarray, orders: np.ndarray, low: int, high: int) -> None:
    for k in range(low, high):
        try:
            items, positions = linear_sum_assignment(cost[k])
        except ValueError:  # scipy's word for "no perfect matching"
            raise BadInput(why_infeasible(cost[k] < np.inf, k if len(cost) > 1 else None)) from None
        orders[k, positions] = items


def masked(scores: Tensor, allowed: Tensor | None, floor: float = -torch.inf) -> Tensor:
    """Scores with ``floor`` where an entry is not allowed."""
    if allowed is None:
        return scores
    if not isinstance(allowed, Tensor):
        raise BadInput(f"allowed must be a bool tensor (items x positions), not {type(allowed).__name__}.")
    if allowed.dtype != torch.bool or allowed.shape[-2:] != scores.shape[-2:]:
        raise BadInput(
            f"allowed must be a bool mask of shape {tuple(scores.shape[-2:])} (or with the batch in front), "
            f"not {allowed.dtype} of shape {tuple(allowed.shape)}."
        )
    return scores.masked_fill(~allowed, floor)


def why_infeasible(allowed: np.ndarray, matrix: int | None = None) -> str:
    """One sentence on why no permutation fits the mask, or an empty string if one does."""
    where = "" if matrix is None else f" of matrix {matrix}"
    rows = np.flatnonzero(~allowed.any(axis=1))
    if rows.size:
        return f"No order is possible: row {rows[0]}{where} (an item) has no allowed position."
    columns = np.flatnonzero(~allowed.any(axis=0))
    if columns.size:
        return f"No order is possible: column {columns[0]}{where} (a position) has no allowed item."
    match = maximum_bipartite_matching(csr_array(allowed), perm_type="column")
    if (match >= 0).all():
        return ""
    row = int(np.flatnonzero(match < 0)[0])
    crowd = _hall_violator(allowed, match, row)
    reach = int(allowed[sorted(crowd)].any(axis=0).sum())
    few = sorted(crowd)[:6]
    return (
        f"No order is possible: the {len(crowd)} items {few}{'...' if len(crowd) > 6 else ''}{where} "
        f"have only {reach} allowed positions between them."
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


def _where_nan(cost: np.ndarray) -> str:
    k, row, column = np.argwhere(np.isnan(cost))[0]
    return f"row {row}, column {column} of matrix {k} is" if len(cost) > 1 else f"row {row}, column {column} is"
