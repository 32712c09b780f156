"""Pieces that stay whole, each either way round: their order and directions, by all pairs of items up to some lag apart.

The items of a piece keep their order (the bins of a contig, the columns of a strip), so the path may be cut between pieces
only. Pieces are annealed as chains, with the mean cost of the pairs across a joint; what comes out, and orders along the
pieces' nearest neighbours, are improved for the exact energy (`lags`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from ...watch import Watch
from .chains import anneal_chains, joint_costs
from .lags import improve_lags, lag_energy, nearest
from .links import linked_order
from .starts import NEIGHBOURS, geodesic_orders

MOST = 200  # pieces that are annealed: a step costs runs x pieces^3
RUNS = 8


class Arrangement(NamedTuple):
    order: Int[np.ndarray, "n"]
    """All items."""
    pieces: Int[np.ndarray, "pieces"]
    """The pieces in order."""
    turned: Int[np.ndarray, "pieces"]
    """Per piece, as given: 1 if it was turned round."""
    energy: float


def arrange_pieces(
    cost: Float[np.ndarray, "n n"],
    pieces: list[Int[np.ndarray, "items"]],
    weights: Float[np.ndarray, "reach"],
    *,
    generator: torch.Generator,
    watch: Watch,
    runs: int = RUNS,
) -> Arrangement:
    """The best order and directions that were found."""
    owner = np.empty(len(cost), np.int64)
    for number, piece in enumerate(pieces):
        owner[piece] = number
    starts = _along(cost, pieces, weights)
    if len(pieces) <= MOST:
        starts += anneal_chains(
            cost, pieces, symmetric=True, runs=runs, generator=generator, watch=watch, stage="pieces", weights=weights
        )
    elsewhere = np.where(owner[:, None] == owner[None, :], cost.max() + 1.0, cost)
    near = nearest(elsewhere)
    best, least = starts[0], np.inf
    for start in starts:
        order = improve_lags(start, cost, weights, near=near, cuts=_cuts(owner[start]), more=watch.spare)
        energy = lag_energy(order, cost, weights)
        if energy < least:
            best, least = order, energy
        if not watch.spare():
            break
    return _told(best, pieces, owner, least)


def _along(cost: np.ndarray, pieces: list[np.ndarray], weights: np.ndarray) -> list[np.ndarray]:
    """Orders along the nearest neighbours among pieces, each turned as it came, and by the cheapest joints, turned to suit them."""
    if len(pieces) < 3:
        return [np.concatenate(pieces)]
    joints = joint_costs(cost, pieces + [piece[::-1] for piece in pieces], weights)
    m = len(pieces)
    apart = joints.reshape(2, m, 2, m).min(axis=(0, 2))
    orders = geodesic_orders(np.minimum(apart, apart.T), [k for k in NEIGHBOURS if k < m])
    cheapest = linked_order(joints.reshape(2, m, 2, m).transpose(1, 0, 3, 2).reshape(2 * m, 2 * m), 2)
    return [
        *(np.concatenate([pieces[k] for k in order]) for order in orders),
        np.concatenate([pieces[k // 2][:: -1 if k % 2 else 1] for k in cheapest]),
    ]


def _cuts(owners: Int[np.ndarray, "n"]) -> np.ndarray:
    return np.r_[True, owners[1:] != owners[:-1], True]


def _told(order: np.ndarray, pieces: list[np.ndarray], owner: np.ndarray, energy: float) -> Arrangement:
    starts = np.flatnonzero(_cuts(owner[order])[:-1])
    numbers = owner[order[starts]]
    turned = np.zeros(len(pieces), np.int64)
    for start, number in zip(starts, numbers, strict=True):
        turned[number] = int(len(pieces[number]) > 1 and order[start] != pieces[number][0])
    return Arrangement(order, numbers, turned, energy)
