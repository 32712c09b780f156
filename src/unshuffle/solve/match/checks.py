"""What a user gives to ``match``, checked once at the door; each refusal is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import BadInput, function, number
from ..checks import numbers

COORDINATES = 3
"""Features of up to so many columns are places in space."""
ROUNDING = 1e-5
"""Share of the largest distance by which the two ways between two items may differ: single precision, few printed digits."""


def structures(
    A: Any, B: Any, distances: bool, metric: Callable[[Tensor], Tensor] | None
) -> tuple[Tensor, Tensor, bool]:
    """Distances within A and within B, and whether they can be in the same units."""
    if metric is not None:
        if distances:
            raise BadInput("metric= makes distances of features; with distances=True there is nothing to make.")
        function("metric", metric, "lambda X: torch.cdist(X, X)")
    X, Y = _table("A", A), _table("B", B)
    if distances:
        return _distances("A", X), _distances("B", Y), True
    if metric is not None:
        return (
            _distances("metric(A)", _table("metric(A)", metric(X))),
            _distances("metric(B)", _table("metric(B)", metric(Y))),
            True,
        )
    if max(X.shape[1], Y.shape[1]) <= COORDINATES:
        return euclidean(X), euclidean(Y), X.shape[1] == Y.shape[1]
    return _by_columns(X), _by_columns(Y), False


def _by_columns(X: Tensor) -> Tensor:
    return euclidean(X) if X.shape[1] <= COORDINATES else correlation(X)


def euclidean(X: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    return torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")


def correlation(X: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """One minus the correlation of two rows: what counts is the profile, not its level or scale."""
    X = X - X.mean(1, keepdim=True)
    X = X / X.norm(dim=1, keepdim=True).clamp_min(1e-12)
    D = (1 - X @ X.T).clamp_min(0).fill_diagonal_(0)
    return torch.where(D < 1e-12, 0.0, D)  # equal profiles, up to rounding


def counted(D: Float[Tensor, "n n"]) -> bool:
    """Whether distances are counts, such as hops in a graph: fewer different ones than there are items. By chance they agree as
    often as not, so that their agreement says nothing."""
    return len(D) > 2 and len(D.unique()) - 1 < len(D)


def twins(D: Float[Tensor, "n n"], known: list[Float[Tensor, "n _"]]) -> Float[Tensor, "n n"]:
    """Means over those that can change places without a change to any distance, or to what is known of each.

    The rows of two such items differ at most in the distance between the two, which either has where the other has a zero.
    """
    square = (D**2).sum(1)
    apart = square[:, None] + square - 2 * D @ D - 2 * D**2
    same = apart <= len(D) * (ROUNDING * D.max()) ** 2
    for rows in known:
        same &= torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist") == 0
    first = same.int().argmax(1)
    members = (first[:, None] == first).float()
    return members / members.sum(1)


def _table(name: str, value: Any) -> Float[Tensor, "n d"]:
    table = numbers(name, value)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2:
        raise BadInput(f"{name} must be a matrix (items x features), not of shape {tuple(table.shape)}.")
    table = table.detach().to("cpu", torch.float64)
    if not table.numel():
        raise BadInput(f"{name} is empty (shape {tuple(table.shape)}): there is nothing to match.")
    if not table.isfinite().all():
        row, column = (~table.isfinite()).nonzero()[0].tolist()
        raise BadInput(f"{name} must be finite, but row {row}, column {column} is {float(table[row, column])}.")
    return table


def _distances(name: str, D: Tensor) -> Float[Tensor, "n n"]:
    if D.shape[0] != D.shape[1]:
        raise BadInput(f"{name} must be a square matrix of distances, not of shape {tuple(D.shape)}.")
    if float(D.min()) < 0:
        row, column = (D < 0).nonzero()[0].tolist()
        raise BadInput(f"{name} must be distances, but row {row}, column {column} is {float(D[row, column]):g}.")
    if len(D) > 1 and D.max() > 0 and bool((D.diagonal() == D.max()).all()):
        raise BadInput(
            f"{name} must be distances, but all items are farthest from themselves, as in a matrix of similarities; give "
            f"{name}.max() - {name} if that is meant."
        )
    one_way = (D - D.T).abs() > ROUNDING * D.max()
    if bool(one_way.any()):
        row, column = one_way.nonzero()[0].tolist()
        raise BadInput(
            f"{name} must be the same from both ends, but row {row}, column {column} is {float(D[row, column]):g} and the other "
            f"way round {float(D[column, row]):g}; give ({name} + {name}.T) / 2 if their mean is meant."
        )
    return ((D + D.T) / 2).fill_diagonal_(0)


def prior(scores: Any, m: int, n: int) -> Tensor | None:
    if scores is None:
        return None
    scores = numbers("prior", scores).detach().to("cpu", torch.float32)
    if tuple(scores.shape) != (m, n):
        raise BadInput(f"prior must be scores of {m} items of A x {n} items of B, not of shape {tuple(scores.shape)}.")
    if not scores.isfinite().all():
        raise BadInput("prior must be finite scores, but some are NaN or infinite.")
    return scores


def anchors(pairs: Any, m: int, n: int) -> Tensor | None:
    if pairs is None:
        return None
    known = numbers("anchors", pairs).detach().cpu()
    if not known.numel():
        return None
    if known.ndim != 2 or known.shape[1] != 2:
        raise BadInput(f"anchors must be pairs (item of A, item of B), k x 2, not of shape {tuple(known.shape)}.")
    if known.dtype == torch.bool or not bool((known == known.round()).all() if known.is_floating_point() else True):
        raise BadInput("anchors must be whole numbers, the indices of items.")
    known = known.long()
    for column, (who, count) in enumerate((("A", m), ("B", n))):
        items = known[:, column]
        outside = items[(items < 0) | (items >= count)]
        if len(outside):
            raise BadInput(f"anchors name item {int(outside[0])} of {who}, which has {count} items (0 to {count - 1}).")
        twice = items.unique(return_counts=True)
        if int(twice[1].max()) > 1:
            raise BadInput(f"anchors name item {int(twice[0][twice[1].argmax()])} of {who} more than once.")
    return known


def share(reject: Any) -> float | None:
    return None if reject is None else number("reject", reject, above=0, below=1)
