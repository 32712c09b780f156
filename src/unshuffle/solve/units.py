"""Units of cost, so that no result depends on the unit in which somebody measured: a cost's spectrum, and its near neighbours.

Where annealing starts and how strongly it amplifies itself follow from the spectrum (`steepest`); how far a path may be softened
follows from what telling near neighbours apart is worth (`in_units`).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor


def in_units(cost: Float[np.ndarray, "n n"], same: Bool[np.ndarray, "n n"] | None = None) -> Float32[np.ndarray, "n n"]:
    """The cost in units of what telling near neighbours apart is worth, 0 for an average nearest neighbour.

    The unit is the mean over items of (mean of the six nearest - the nearest): one spacing on an even curve. The result does
    not change when the cost is scaled or a constant is added to it. ``same`` (the diagonal) marks what cannot be neighbours:
    it gets each item's nearest cost, so that a soft path gains nothing by letting an item follow itself.
    """
    same = np.eye(len(cost), dtype=bool) if same is None else same
    lowest, scale = _nearest(cost, same)
    unit = (np.where(same, lowest[:, None], cost) - lowest.mean()) / scale
    return unit.astype(np.float32)


def spacing(cost: Float[np.ndarray, "n n"]) -> float:
    """The unit of `in_units`; of a single item 1."""
    return _nearest(cost, np.eye(len(cost), dtype=bool))[1] if len(cost) > 1 else 1.0


def _nearest(cost: Float[np.ndarray, "n n"], same: Bool[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, "n"], float]:
    """What each item's nearest neighbour costs, and one spacing."""
    off = np.where(same, np.inf, np.minimum(cost, cost.T))
    few = min(6, int((~same).sum(1).min()))
    near = np.sort(np.partition(off, few - 1, axis=1)[:, :few], axis=1)
    lowest = near[:, 0]
    scale = float((near.mean(1) - lowest).mean())
    widest = float(off[~same].max() - lowest.min())
    if scale <= 1e-9 * widest:  # ties everywhere near: the whole range is the unit
        scale = widest / len(cost)
    return lowest, scale if scale > 0 else 1.0


def steepest(cost: Float[Tensor, "n n"]) -> float:
    """Largest eigenvalue of minus the centred symmetric part of a cost: how strongly the uniform P wants to break up.

    Never 0 unless the cost is constant, so that it can serve as the unit of cost.
    """
    D = cost.detach().to("cpu", torch.float64).numpy()
    if len(D) < 3:
        return float(np.abs(D - D.mean()).max())
    values, _, centred = _lowest(D, 1)
    return -float(values[0]) if values[0] < 0 else float(np.abs(centred).max()) * len(D)


def smoothest(cost: Float[Tensor, "n n"], count: int) -> Float[Tensor, "n modes"]:
    """The eigenvectors behind `steepest`, at most ``count``: for distances they vary slowly over the plane, as its axes do.

    None of a cost that has none to speak of, for example one that is constant.
    """
    D = cost.detach().to("cpu", torch.float64).numpy()
    try:
        return torch.from_numpy(_lowest(D, min(count, len(D) - 1))[1].copy())
    except ArpackError:
        return torch.zeros(len(D), 0, dtype=torch.float64)


def _lowest(D: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lowest eigenvalues and their eigenvectors of the centred symmetric part, and that."""
    n, D = len(D), (D + D.T) / 2
    row = D.mean(axis=0)
    centred = D - row[:, None] - row[None, :] + row.mean()
    if n <= 64:
        values, vectors = np.linalg.eigh(centred)
    else:  # Lanczos: a few products with D instead of n^3
        start = np.cos(np.arange(n) ** 2 * 0.7)  # fixed and without structure
        operator = LinearOperator((n, n), matvec=lambda v: centred @ v, dtype=np.float64)  # pyright: ignore[reportCallIssue]
        values, vectors = eigsh(operator, k=count, which="SA", v0=start, tol=1e-3)  # pyright: ignore
    lowest = np.argsort(values)[:count]
    return values[lowest], vectors[:, lowest], centred
