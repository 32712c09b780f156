r"""The pull of a chain of positions: $Q_a = D\,x_{a+1} + D^T x_{a-1} + \tfrac w2 (D + D^T)\,x_a$.

P is stored positions x items here. Once an annealer has left its coarsest level each position holds a few items only, so
the product with D is a handful of scaled rows of D per position: at n = 1000 seven times quicker than a dense product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...compute.jit import have_numba, njit
from ...compute.threads import in_chunks

FEW = 64  # below this many positions each holds a good part of the items, and a dense product is quicker
# lighter weights are skipped; a thousand of them would move an entry of the pull by less than 1e-3 of its spread
THRESHOLD = 1e-6


def chain_pull(
    soft: Float[Tensor, "runs positions items"],
    cost: Float[Tensor, "costs items items"],
    *,
    symmetric: bool,
    closed: bool,
    self_weight: float = 0.0,
    out: Float[Tensor, "runs positions items"] | None = None,
) -> Float[Tensor, "runs positions items"]:
    """``cost[i, k]`` is paid for item k directly after item i; one matrix for all runs or one per run.

    ``out``, if given, is written to and returned: at large n fresh memory costs as much as the product.
    """
    room = torch.empty_like(soft) if out is None else out
    if have_numba and soft.device.type == "cpu" and soft.shape[1] >= FEW:
        return _through_numba(soft, cost, symmetric, closed, self_weight, room)
    after, before = soft.roll(-1, 1), soft.roll(1, 1)
    if not closed:
        after[:, -1], before[:, 0] = 0, 0
    here = 0.5 * self_weight * soft
    if symmetric:
        return torch.matmul(after + before + 2 * here, cost, out=room)
    return torch.matmul(after + here, cost.mT, out=room).add_((before + here) @ cost)


def _through_numba(
    soft: Tensor, cost: Tensor, symmetric: bool, closed: bool, self_weight: float, out: Tensor
) -> Tensor:
    X, D, Q = soft.numpy(), cost.numpy(), out.numpy()
    runs, positions, items = X.shape
    # a row k of D is what item k asks of its successors, a row of its transpose what it asks of its predecessors
    T = D if symmetric else np.ascontiguousarray(D.transpose(0, 2, 1))
    pairs = _Pairs(D, T, symmetric, closed, np.float32(0.5 * self_weight))

    def some(low: int, high: int) -> None:
        _pull(X, pairs, np.float32(THRESHOLD), Q, low, high)

    in_chunks(some, runs * positions, 8.0 * runs * positions * items)
    return out


class _Pairs(NamedTuple):
    """What neighbours cost."""

    after: np.ndarray
    before: np.ndarray
    symmetric: bool
    closed: bool
    half: np.float32
    """Half of the self weight."""


@njit(fastmath=True)
def _pull(X, pairs, threshold, Q, low, high):
    D, T, symmetric, closed, half = pairs
    positions, items = X.shape[1:]
    for row in range(low, high):
        r, a = row // positions, row % positions
        d = r if len(D) > 1 else 0
        before, here, after, q = X[r, a - 1], X[r, a], X[r, (a + 1) % positions], Q[r, a]
        first = np.float32(0.0 if a == 0 and not closed else 1.0)
        last = np.float32(0.0 if a == positions - 1 and not closed else 1.0)
        q[:] = np.float32(0.0)
        for k in range(items):
            forward = first * before[k] + half * here[k]
            backward = last * after[k] + half * here[k]
            if symmetric:
                forward += backward
            if abs(forward) > threshold:
                costs = D[d, k]
                for i in range(items):
                    q[i] += forward * costs[i]
            if not symmetric and abs(backward) > threshold:
                costs = T[d, k]
                for i in range(items):
                    q[i] += backward * costs[i]
