r"""One level of the tour solver: n items on m bins of s = n/m positions, annealed until an item covers few of them.

Few bins: all of P, by dense products. Many: only the items that can matter in a bin (`ring`): at n = 300 tours of
the same length in a quarter of the time of a core (6.4 to 1.2-1.7 s a round).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from ...compute.jit import have_numba
from ...watch import Watch
from ..anneal import Pace, Pull, anneal, cool, matching_beta
from ..warm import WarmState, warm_step
from .chain import chain_pull
from .ring import Ring, RingPull, expected_cost, ring_steps

DENSE = 25  # up to so many bins an item may be anywhere
SEEN = 1e-3  # share of an item that keeps its place in a bin's list; 1e-4 is slower and no better
NEAR = 5  # an item also stays in the lists of the bins at and beside which its nearest neighbours stand; 0 costs 0.3 %, 8 = 5

MELT = 20
"""Steps in which a hard tour becomes as soft as its beta; lists made of the hard tour would hold it where it is."""


@dataclass(frozen=True)
class Level:
    """What the pull of a level is made of; costs in units of the problem's spectrum."""

    cost: Float[Tensor, "costs n n"]
    """One matrix, or one per run."""
    fine: Float[Tensor, "1 n n"]
    """The costs themselves, for the energy that is shown."""
    symmetric: bool
    bins: int
    self_weight: float
    gamma: Callable[[float], float]
    """Self-amplification at a given beta."""
    unit: float
    pace: Pace
    enough: float
    """Purity at which the level is done."""

    @property
    def s(self) -> float:
        return self.cost.shape[-1] / self.bins

    @property
    def weight(self) -> float:
        """Of $D p_A$ in the pull: what the s - 1 links inside a bin pay, and the free self-weight."""
        return 2 * (self.s - 1) + self.self_weight


def anneal_level(
    level: Level,
    soft: Float[Tensor, "runs bins n"],
    log_beta: float,
    *,
    bias: Tensor | None,
    near: Tensor,
    match: bool,
    melt: bool,
    watch: Watch,
    stage: str,
) -> tuple[Tensor, float]:
    """The soft tours and log beta at the end of the level; ``near`` lists every item's nearest neighbours.

    ``match``: begin at the beta that keeps ``soft`` as soft as it is. ``melt``: it is harder than beta, so let it spread first.
    """
    if match or melt:
        state = WarmState(soft, bias, row_mass=level.s)
        pull = dense_pull(level, torch.empty_like(state.soft))
        log_beta = matching_beta(state, pull, log_beta) if match else log_beta
        for _ in range(MELT if melt else 0):
            beta = math.exp(log_beta)
            warm_step(state, pull(state.ahead, beta), beta, damping=level.pace.damping, sweeps=level.pace.sweeps)
        soft = state.soft
    anneal_it = _sparse if have_numba and bias is None and level.bins > DENSE else _dense
    return anneal_it(level, soft, log_beta, bias, near, watch, stage)


def _dense(
    level: Level, soft: Tensor, log_beta: float, bias: Tensor | None, near: Tensor, watch: Watch, stage: str
) -> tuple[Tensor, float]:
    state = WarmState(soft, bias, row_mass=level.s)
    pull = dense_pull(level, torch.empty_like(state.soft))
    log_beta = anneal(
        state,
        pull,
        log_beta,
        pace=level.pace,
        watch=watch,
        stage=stage,
        purity=level.enough,
        energy=_energy(level),
        seen=lambda soft: soft.T.clone(),
    )
    return state.soft, log_beta


def dense_pull(level: Level, room: Tensor) -> Pull:
    r"""$Q_A = (D p_{A+1} + D^T p_{A-1} + \tfrac w2 (D + D^T) p_A)/s - \gamma p_A$, written to ``room``."""

    def at(soft: Tensor, beta: float) -> Tensor:
        q = chain_pull(soft, level.cost, symmetric=level.symmetric, closed=True, self_weight=level.weight, out=room)
        return q.mul_(1 / level.s**2).sub_(soft, alpha=level.gamma(beta) / level.s)

    return at


def _energy(level: Level) -> Callable[[Tensor], float]:
    """Expected length of the best run, in the user's units."""

    def energy(soft: Tensor) -> float:
        q = chain_pull(soft, level.fine, symmetric=level.symmetric, closed=True, self_weight=2 * (level.s - 1))
        return float(torch.einsum("rai,rai->r", soft, q).min()) / (2 * level.s**2) * level.unit

    return energy


def _sparse(
    level: Level, soft: Tensor, log_beta: float, bias: Tensor | None, near: Tensor, watch: Watch, stage: str
) -> tuple[Tensor, float]:
    rings = [Ring.of(run, _kept(run, near.numpy())) for run in soft.numpy()]
    after = level.cost.numpy()
    before = after if level.symmetric else np.ascontiguousarray(after.transpose(0, 2, 1))
    pull, pace = RingPull(after, before, level.weight), level.pace

    def advance(betas: np.ndarray) -> float:
        gammas = np.array([level.gamma(beta) for beta in betas])
        ring_steps(rings, pull, betas, gammas, damping=pace.damping, momentum=pace.momentum, sweeps=pace.sweeps)
        return float(np.mean([ring.purity for ring in rings]))

    def look(beta: float) -> bool:
        length = min(expected_cost(ring, level.fine[0].numpy()) for ring in rings) * level.unit
        entropy = float(np.mean([ring.entropy for ring in rings]))
        return watch(
            stage=stage, beta=beta, energy=length, entropy=entropy, soft=lambda: torch.from_numpy(rings[0].dense().T)
        )

    log_beta = cool(advance, look, log_beta, pace, level.enough)
    return torch.from_numpy(np.stack([ring.dense() for ring in rings])), log_beta


def _kept(soft: Float32[np.ndarray, "bins n"], near: np.ndarray) -> Bool[np.ndarray, "bins n"]:
    """Where an item may stand: where it is seen now, and at or beside the bins in which its neighbours mostly stand."""
    bins, n = soft.shape
    keep = soft > SEEN
    mostly = soft.argmax(0)
    item, bin = np.repeat(np.arange(n), near.shape[1]), mostly[near.ravel()]
    for step in (-1, 0, 1):
        keep[(bin + step) % bins, item] = True
        keep[(mostly + step) % bins, np.arange(n)] = True
    return keep
