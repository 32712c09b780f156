r"""How sure an order by 2-SUM is: what it costs to move each row a few places, against what chance makes of such costs.

$\sum_{i<k} a_{ik} (r_i - r_k)^2$ changes by $\sum_k (a_{ik} - a_{jk}) (2 (p - r_k) + 1)$ when the rows i and j at the places p and p + 1
change theirs. If similarities differ from row to row by chance alone, by s, that has the spread $s\sqrt{\sum_k (2 (p - r_k) + 1)^2}$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..solve.sets import Shares, of_moves
from ..solve.solution import Solution

FURTHEST = 4  # places
SURE = 0.8
"""Of that spread: the scale on which moves are judged for sets. Chosen on 16 made tables of counts; benchmarks/solve_sets.py reports others."""
BOTH = 1.0
"""The same for the confidence: on 30 made tables (others again) it is right in 0.26 of the cases and says 0.36, 0.30, 0.26 with 0.6, 0.8, 1."""


@dataclass(frozen=True, eq=False)
class RowMoves:
    """One row to another place, those between one place on: from where to where, and its odds against staying."""

    start: Int[np.ndarray, "moves"]
    end: Int[np.ndarray, "moves"]
    odds: Float[np.ndarray, "moves"]

    def made(self, k: int, n: int) -> Int[np.ndarray, "n"]:
        """Rows 0, 1, ... after the k-th move."""
        return np.insert(np.delete(np.arange(n), self.start[k]), self.end[k], self.start[k])


def moves_of(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"], scale: float = SURE) -> RowMoves:
    """All moves over a few places, judged on this scale."""
    alike = (D.max() - D)[np.ix_(order, order)]
    np.fill_diagonal(alike, 0.0)
    n = len(order)
    pairs = [
        (p, q)
        for p in range(n)
        for q in range(max(0, p - FURTHEST), min(n, p + FURTHEST + 1))
        if q not in (p, p - 1)  # neighbours change places once
    ]
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    gain = np.array([_change(alike, p, q) for p, q in pairs])
    place = np.arange(n)
    usual = np.sqrt(np.square(2 * (start[:, None] - place) + 1).sum(1) * np.abs(end - start)) * _by_chance(alike)
    scaled = gain / np.maximum(scale * usual, 1e-300)
    return RowMoves(start, end, np.exp(-scaled.clip(0.0, 700.0)))


def _change(alike: Float[np.ndarray, "n n"], p: int, q: int) -> float:
    """What the criterion gains when the row at p goes to q."""
    place = np.arange(len(alike))
    new = place.copy()
    step = 1 if q > p else -1
    passed = np.arange(p + step, q + step, step)
    new[p], new[passed] = q, passed - step
    moved = np.r_[p, passed]
    each = alike[moved] * (np.square(new[moved, None] - new) - np.square(moved[:, None] - place))
    return float(each.sum() - each[:, moved].sum() / 2)


def _by_chance(alike: Float[np.ndarray, "n n"]) -> float:
    """How much the similarities of two neighbouring rows to a third differ."""
    n = len(alike)
    steps = np.square(np.diff(alike, axis=0))
    k = np.arange(n - 1)
    steps[k, k] = steps[k, k + 1] = 0.0
    return float(np.sqrt(steps.sum() / max((n - 1) * (n - 2), 1)))


def confidence_of(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> Float[Tensor, "n"]:
    """Per row, how sure the weaker of its two neighbours is, against the moves that part them."""
    n = len(order)
    if n < 3:
        return torch.ones(n)
    moves, rivals = moves_of(D, order, BOTH), np.zeros(n + 1)
    p, q, odds = moves.start, moves.end, moves.odds
    near, onward = np.abs(p - q) == 1, q > p
    parted = ((np.minimum(p, q), near), (np.maximum(p, q) + 1, near), (p, ~near), (p + 1, ~near), (q + onward, ~near))
    for joint, some in parted:
        np.add.at(rivals, joint[some], odds[some])
    link = 1 / (1 + rivals[1:-1])
    sure = np.empty(n)
    sure[order] = np.minimum(np.r_[1.0, link], np.r_[link, 1.0])
    return torch.from_numpy(sure).float()


def shares_of(D: Float[np.ndarray, "n n"], found: Solution) -> Shares:
    """For `Solution.sets`."""
    order = found.best_order.numpy()
    moves = moves_of(D, order)
    return of_moves(order, ((moves.made(k, len(order)), odds) for k, odds in enumerate(moves.odds.tolist())))
