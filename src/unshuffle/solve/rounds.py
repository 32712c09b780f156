"""Annealing in rounds, for problems without levels: each run goes on from the best order it has seen, warmed up again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..operators.permutation import to_matrix
from .anneal import Pace, Pull, anneal, decode, matching_beta, scattered
from .request import Request
from .solution import Solution
from .warm import WarmState, warm_step


@dataclass(frozen=True)
class Rounds:
    """How often to warm up and how far."""

    number: int = 14
    """QAPLIB, mean gap after 1, 2, 3, 6 rounds of 16 runs: 2.0, 1.9, 1.0, 0.9 %."""
    warm: tuple[float, ...] = (0.5, 1.0)
    """Later rounds begin, in turn, at e^warm times the first beta, from half the best order and half the uniform P."""
    fresh: int = 2
    """Every so many rounds begin from scratch instead: some instances have no way from a good order to the best one."""
    pace: Pace = Pace(step=0.01, fall=float("inf"), momentum=0.0, sweeps=8, span=6.0)


MOST_TRIED = 4096  # orders that are remembered as starts for local search


@dataclass(frozen=True)
class Best:
    """The best order of each run, its energy, and the soft permutation that it was decoded from."""

    orders: Int[Tensor, "runs n"]
    energies: Float[Tensor, "runs"]
    softs: Float[Tensor, "runs n n"]
    tried: Int[Tensor, "tries n"]
    """Every order that was decoded on the way, the best ones among them."""

    def solution(self, confidence: Float[Tensor, "n"], agreement: float) -> Solution:
        """The best of the runs."""
        best = int(self.energies.argmin())
        return Solution(
            order=self.orders[best],
            energy=float(self.energies[best]),
            soft=self.softs[best],
            confidence=confidence,
            energies=self.energies,
            agreement=agreement,
            tried=self.tried,
        )

    def beside(self, other: Best) -> Best:
        """The runs of both, and the soft permutation of the best of all."""
        better = self if float(self.energies.min()) <= float(other.energies.min()) else other
        best = int(better.energies.argmin())
        orders = torch.cat((self.orders, other.orders))
        tried = torch.cat((better.orders[best : best + 1], self.tried, other.tried))[:MOST_TRIED]
        softs = better.softs[best].expand(len(orders), -1, -1)
        return Best(orders, torch.cat((self.energies, other.energies)), softs, tried)

    def unless(self, orders: Int[Tensor, "others n"], energies: Float[Tensor, "others"]) -> Best:
        """The same, unless one of these orders is better than all runs: then that stands in the place of the best."""
        best, first = int(self.energies.argmin()), int(energies.argmin())
        if float(energies[first]) >= float(self.energies[best]):
            return self
        mine = (torch.arange(len(self.orders)) == best)[:, None]
        return Best(
            torch.where(mine, orders[first], self.orders),
            torch.where(mine[:, 0], energies[first], self.energies),
            torch.where(mine[:, :, None], to_matrix(orders[first], self.softs.dtype), self.softs),
            torch.cat((orders[first : first + 1], self.tried)),
        )

    def better_of(self, other: Best) -> Best:
        wins = other.energies < self.energies
        return Best(
            torch.where(wins[:, None], other.orders, self.orders),
            torch.where(wins, other.energies, self.energies),
            torch.where(wins[:, None, None], other.softs, self.softs),
            torch.cat((self.tried, other.tried)),
        )


def anneal_rounds(
    new_pull: Callable[[], Pull],
    energy: Callable[[Int[Tensor, "runs n"]], Float[Tensor, "runs"]],
    size: tuple[int, int],
    start: float,
    asked: Request,
    *,
    rounds: Rounds,
    expected: Callable[[Tensor], float] | None = None,
) -> Best:
    """``new_pull`` makes the pull of a round (shaken anew each time), ``energy`` judges decoded orders; size: runs, n.

    ``start`` is the log beta of the first round. The energy of a run never rises from round to round.
    """
    runs, n = size
    generator, watch, allowed, init, _ = asked
    bias = None if allowed is None else torch.where(allowed, 0.0, -torch.inf)
    soft, log_beta, best = scattered(runs, n, n, 1.0, generator), start, None
    for number in range(rounds.number):
        state, pull = WarmState(soft, bias), new_pull()
        if init is not None and best is None:
            state = from_scores(init, runs, bias, generator)
            log_beta = matching_beta(state, pull, start)
        stage = f"round {number + 1} of {rounds.number}"
        anneal(state, pull, log_beta, pace=rounds.pace, watch=watch, stage=stage, energy=expected)
        orders = decode(state.soft, allowed)
        now = Best(orders, energy(orders), state.soft, orders)
        best = now if best is None else best.better_of(now)
        if watch.stopped:
            break
        if (number + 1) % rounds.fresh == 0:
            soft, log_beta = scattered(runs, n, n, 1.0, generator), start
        else:
            warm = rounds.warm[number // rounds.fresh % len(rounds.warm)]
            soft, log_beta = 0.5 * to_matrix(best.orders, torch.float32) + 0.5 / n, start + warm
    if best is None:
        raise ValueError(f"rounds must be at least 1, not {rounds.number}.")
    return best


def from_scores(init: Tensor, runs: int, bias: Tensor | None, generator: torch.Generator) -> WarmState:
    """Sinkhorn(scores), each run with a little noise of its own."""
    n = len(init)
    spread = float(init.std()) if n > 1 else 0.0
    noise = 0.05 * spread * torch.randn(runs, n, n, generator=generator)
    state = WarmState(torch.full((runs, n, n), 1 / n), bias)
    warm_step(state, -(init + noise), 1.0, sweeps=50)
    return WarmState(state.soft, bias)
