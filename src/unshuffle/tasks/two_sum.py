r"""How sure an order by 2-SUM is: what it costs to move each row a few places, against what chance makes of such costs.

$\sum_{i<k} a_{ik} (r_i - r_k)^2$ changes by $\sum_k (a_{ik} - a_{jk}) (2 (p - r_k) + 1)$ when the rows i and j at the places p and p + 1
change theirs. If similarities differ from row to row by chance alone, by s, that has the spread $s\sqrt{\sum_k (2 (p - r_k) + 1)^2}$. What
changes steadily along the order is no chance, so s is measured by how far rows are from the middle of their neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..solve.local_search import improve_two_sum
from ..solve.path.walk import COUNT, nearby_by_two_sum
from ..solve.sets import AGAIN, SOME, Shares, of_orders
from ..solve.solution import Solution

FURTHEST = 4  # places
SURE, NEAR = 0.8, 1.2
"""Of that spread: the scale on which moves are judged for the confidence, and the temperature of the walk for sets. The first was chosen on
103 made tables of counts, the second on 115; benchmarks/solve_sets.py reports others. With 1, 1.2, 1.3 sets at 90 % that leave the last out
by chance hold the true place in 87, 90, 91 %."""


@dataclass(frozen=True, eq=False)
class RowMoves:
    """One row to another place, those between one place on: from where to where, and its odds against staying."""

    start: Int[np.ndarray, "moves"]
    end: Int[np.ndarray, "moves"]
    odds: Float[np.ndarray, "moves"]


def moves_of(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> RowMoves:
    """All moves over a few places, each judged by what is usual by chance."""
    alike = _similarities(D)[np.ix_(order, order)]
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
    scaled = gain / np.maximum(SURE * usual, 1e-300)
    return RowMoves(start, end, np.exp(-scaled.clip(0.0, 700.0)))


def _similarities(D: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    alike = D.max() - D
    np.fill_diagonal(alike, 0.0)
    return alike


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
    """How much the similarities of two neighbouring rows to a third differ, trends apart; of three rows anything may be chance."""
    n = len(alike)
    if n < 4:
        return math.inf
    bends = np.square(np.diff(alike, 2, axis=0)) / 3  # of what is chance alone, as large as a difference
    k = np.arange(n - 2)
    bends[k, k] = bends[k, k + 1] = bends[k, k + 2] = 0.0
    return float(np.sqrt(bends.sum() / ((n - 2) * (n - 3))))


def improved(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The order after exchanges of two rows, however far apart, that each lowered 2-SUM, until none does."""
    return improve_two_sum(order, _similarities(D))


def confidence_of(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> Float[Tensor, "n"]:
    """Per row, how sure both of its neighbours are, against the moves that part it from either."""
    n = len(order)
    if n < 3:
        return torch.ones(n)
    moves, rivals = moves_of(D, order), np.zeros(n + 1)
    p, q, odds = moves.start, moves.end, moves.odds
    near, onward = np.abs(p - q) == 1, q > p
    parted = ((np.minimum(p, q), near), (np.maximum(p, q) + 1, near), (p, ~near), (p + 1, ~near), (q + onward, ~near))
    for joint, some in parted:
        np.add.at(rivals, joint[some], odds[some])
    rivals[[0, n]] = 0.0  # nothing is parted there
    sure = np.empty(n)
    sure[order] = 1 / (1 + rivals[:-1] + rivals[1:])
    return torch.from_numpy(sure).float()


def shares_of(D: Float[np.ndarray, "n n"], found: Solution) -> Shares:
    """For `Solution.sets`: how often each row is elsewhere in orders nearly as good.

    A walk among them, at a temperature measured along the orders that it leads to: the best one is smoother than the truth.
    """
    alike, best, rng = _similarities(D), found.best_order.numpy(), np.random.default_rng(0)
    place = np.arange(len(best))
    size = math.sqrt(np.square(2 * (place[:, None] - place) + 1).sum(1).mean())
    orders = best[None]
    for count in (SOME,) * AGAIN + (COUNT,):
        chance = float(np.mean([_by_chance(alike[np.ix_(order, order)]) for order in orders]))
        orders = nearby_by_two_sum(best, alike, max(NEAR * size * chance, 1e-300), rng, count)
    return of_orders(np.concatenate((best[None], orders)), closed=False, reversible=True)
