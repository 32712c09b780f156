r"""The one annealing loop: $P \leftarrow \mathrm{Sinkhorn}(-\beta\,(\partial E/\partial P - \gamma P))$ while beta grows until P is decided.

A batch of runs moves together. Cycles, paths, grids, graphs and losses differ in the pull they pass, in where beta
starts (from the spectrum of the problem: just below the beta at which the uniform P loses its stability) and in nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..operators.assignment import assign
from ..watch import Watch
from .warm import WarmState, warm_step

Pull = Callable[[Float[Tensor, "runs rows columns"], float], Float[Tensor, "runs rows columns"]]
"""From the soft assignments and beta to dE/dP - gamma P: what physics calls the mean field, self-amplification included."""


@dataclass(frozen=True)
class Pace:
    """How fast to cool and how hard to damp; pure numbers, the same for problems of all sizes and scales."""

    step: float = 0.004
    """Growth of log beta per step where nothing happens. Half of it changes tours of 100 cities by less than 0.1 %."""
    fall: float = 0.05
    """Where log(1/purity), the log number of places an item is spread over, falls faster than this per step, beta waits."""
    damping: float = 0.4
    momentum: float = 0.8
    """Fields are evaluated at P + momentum (P - previous P). Measured on tours of 100: 0 / 0.5 / 0.8 give 4.5 / 4.1 / 3.5 %."""
    sweeps: int = 5
    check: int = 10
    """Steps between two looks at the clock and at the purity."""
    frozen: float = 0.98
    """Purity at which P counts as decided."""
    span: float = 6.0
    """Beta never grows by more than e^span within one call: what has not frozen by then is held by exact ties."""


def anneal(
    state: WarmState,
    pull: Pull,
    log_beta: float,
    *,
    pace: Pace,
    watch: Watch,
    stage: str = "",
    purity: float | None = None,
    energy: Callable[[Tensor], float] | None = None,
    seen: Callable[[Float[Tensor, "rows columns"]], Tensor] = torch.clone,
) -> float:
    """Cool ``state`` in place until its mean purity exceeds ``purity`` (``pace.frozen``); returns the log beta reached.

    ``seen`` makes items x positions of the soft assignment of a run, for those who watch.
    Ends early when ``watch`` says so. Deterministic: nothing random happens here.
    """

    def advance(betas: np.ndarray) -> float:
        for beta in betas.tolist():
            warm_step(
                state, pull(state.ahead, beta), beta, damping=pace.damping, momentum=pace.momentum, sweeps=pace.sweeps
            )
        return float(state.purity.mean())

    def look(beta: float) -> bool:
        now, entropy = _energy(state, energy), spread(state)
        return watch(stage=stage, beta=beta, energy=now, entropy=entropy, soft=lambda: seen(state.soft[0]))

    return cool(advance, look, log_beta, pace, pace.frozen if purity is None else purity)


def cool(
    advance: Callable[[np.ndarray], float], look: Callable[[float], bool], log_beta: float, pace: Pace, enough: float
) -> float:
    """``advance`` does a step per beta and returns the purity; goes on until that is ``enough`` or ``look`` says no.

    Beta grows by ``pace.step`` in the logarithm per step, and less while the places of an item become fewer fast.
    """
    ceiling = log_beta + pace.span
    step, width = pace.step, math.inf
    while log_beta < ceiling:
        betas = np.exp(log_beta + step * np.arange(pace.check))
        now = -math.log(max(advance(betas), 1e-30))
        log_beta += step * pace.check
        if not look(float(betas[-1])) or now < -math.log(enough):
            break
        fall = max(0.0, width - now) / pace.check if math.isfinite(width) else 0.0
        step = pace.step * min(1.0, pace.fall / fall if fall > 0 else 1.0)
        width = now
    return log_beta


def _energy(state: WarmState, energy: Callable[[Tensor], float] | None) -> float:
    if energy is not None:
        return energy(state.soft)
    if state.smooth is None:
        return math.nan
    return float(torch.einsum("rij,rij->r", state.soft, state.smooth).min())


def spread(state: WarmState) -> float:
    """Mean entropy of a row, from 0 (decided) to 1 (uniform), over the runs and at most about 256 rows of each."""
    rows, columns = state.soft.shape[1:]
    share = state.soft[:, :: max(1, rows // 256)] / state.row_mass
    total = -torch.xlogy(share, share).sum(2).mean()
    return float(total) / math.log(columns) if columns > 1 else 0.0


def decode(soft: Float[Tensor, "runs n n"], allowed: Tensor | None = None) -> Int[Tensor, "runs n"]:
    """The most likely order of each run: Hungarian on log P (not on P)."""
    return assign(soft.clamp_min(1e-30).log(), allowed)


def scattered(
    runs: int, rows: int, columns: int, row_mass: float, generator: torch.Generator, noise: float = 0.05
) -> Tensor:
    """Uniform soft assignments with a little noise: where all runs begin, and the only random thing about them."""
    draw = torch.randn(runs, rows, columns, generator=generator)
    return (row_mass / columns * (1 + noise * draw)).clamp_min(0.0)


VAGUE = 1.2  # times as pure as uniform: items of such scores could be anywhere


def matching_beta(state: WarmState, pull: Pull, low: float, span: float = 9.0) -> float:
    """The log beta at which one step keeps the purity of ``state``: where to start from given scores; not below ``low``.

    Scores that say nothing begin there: only a cold step keeps noise as sharp as it is, and would freeze it.
    """
    goal, high = float(state.purity.mean()), low + span
    if goal * state.soft.shape[2] / state.row_mass < VAGUE:
        return low
    for _ in range(20):
        middle = (low + high) / 2
        trial = WarmState(state.soft, state.bias, state.row_mass, state.column_mass)
        trial.soft = state.soft.clone()
        warm_step(trial, pull(state.soft, math.exp(middle)), math.exp(middle), sweeps=10)
        low, high = (middle, high) if float(trial.purity.mean()) < goal else (low, middle)
    return (low + high) / 2
