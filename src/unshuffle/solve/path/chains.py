r"""Annealing whole chains of items: what several runs agree on stays together, what they dispute is annealed again.

The links that all of the best orders share are taken as settled; what remains is a much smaller path problem whose items
are chains, each of which may be turned round when the cost is symmetric. Turning costs one more state per chain: with
states (s, o), the row of chain s is normalised over positions and orientations together, which is the same as a plain
Sinkhorn on $-\tfrac1\beta\log\sum_o e^{-\beta Q_{so,a}}$ with the orientation $\omega_{so,a} \propto e^{-\beta Q_{so,a}}$ inside.
"""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...watch import Watch
from ..anneal import Pace, anneal, decode, scattered
from ..units import in_units, steepest
from ..warm import WarmState

# Chosen on 9 sets of 7 to 61 chains (spirals, sines, helices, points in the plane). Cooling twice as slowly gains 0.3 %.
PACE = Pace(step=0.01, damping=1.0, momentum=0.0, span=9.0)
DAMPING = 0.5
"""Of the pull, done here and not by the loop: each orientation has its own."""
START = 0.9
"""Where runs begin, times the beta at which the uniform P loses its stability. At several times that beta, folds freeze in."""
FEW = 6
"""Up to so many chains all arrangements are tried: at most 46,080."""
NEXT = np.ones(1)
"""Weights of lags: neighbours alone."""
SELF = 0.5
GAMMA = 0.75
"""Self-amplification is GAMMA sqrt(beta). A constant one leaves one run in three undecided at any beta."""


def common_chains(orders: list[np.ndarray], symmetric: bool) -> list[np.ndarray]:
    """The first order, cut wherever a link is not in all of the others."""
    first = orders[0]
    n = len(first)
    shared = np.ones(n - 1, bool)
    for other in orders[1:]:
        follower = np.full(n, -1)
        follower[other[:-1]] = other[1:]
        link = follower[first[:-1]] == first[1:]
        if symmetric:
            link |= follower[first[1:]] == first[:-1]
        shared &= link
    return np.split(first, np.flatnonzero(~shared) + 1)


class _ChainPull:
    """dE/dP - gamma P for chains at positions; remembers the orientations between two calls."""

    def __init__(self, cost: Float[Tensor, "states states"], chains: int) -> None:
        self.cost, self.chains = cost, chains
        self.first: Tensor | None = None
        self.smooth: Tensor | None = None

    def __call__(self, soft: Float[Tensor, "runs m m"], beta: float) -> Float[Tensor, "runs m m"]:
        turns = len(self.cost) > self.chains
        states = soft
        if turns:
            first = torch.full_like(soft, 0.5) if self.first is None else self.first
            states = torch.cat((soft * first, soft * (1 - first)), dim=1)
        # the ends reflect: the slowest mode of the soft path is then the monotone one
        after = torch.cat((states[:, :, 1:], states[:, :, -1:]), dim=2)
        before = torch.cat((states[:, :, :1], states[:, :, :-1]), dim=2)
        here = 0.5 * SELF * states
        pull = self.cost @ (after + here) + self.cost.T @ (before + here) - GAMMA * math.sqrt(beta) * states
        self.smooth = pull if self.smooth is None else torch.lerp(self.smooth, pull, DAMPING)
        if not turns:
            return self.smooth
        one, other = self.smooth.split(self.chains, dim=1)
        self.first = torch.sigmoid(beta * (other - one))
        return -torch.logaddexp(-beta * one, -beta * other) / beta


def joint_costs(
    cost: Float[np.ndarray, "n n"], states: list[np.ndarray], weights: Float[np.ndarray, "reach"] = NEXT
) -> Float[np.ndarray, "states states"]:
    """What each chain directly after each other costs: the mean over the pairs across the joint, weighted by their lags."""
    total = np.zeros((len(states), len(states)))
    count = np.zeros_like(total)
    for back in range(len(weights)):
        for on in range(len(weights) - back):
            ends, heads = (np.array([len(s) > k for s in states]) for k in (back, on))
            last = np.array([s[-1 - back] if e else s[0] for s, e in zip(states, ends, strict=True)])
            first = np.array([s[on] if h else s[0] for s, h in zip(states, heads, strict=True)])
            share = weights[back + on] * np.outer(ends, heads)
            total += share * cost[np.ix_(last, first)]
            count += share
    return total / count


def best_arrangement(
    cost: np.ndarray, chains: list[np.ndarray], symmetric: bool, weights: Float[np.ndarray, "reach"] = NEXT
) -> np.ndarray:
    """The best order of a few chains, by trying all."""
    states = chains + [chain[::-1] for chain in chains] if symmetric else chains
    links = joint_costs(cost, states, weights)
    orders = np.array(list(permutations(range(len(chains)))))
    if symmetric:
        turned = len(chains) * np.array(list(product((0, 1), repeat=len(chains))))
        orders = (orders[:, None, :] + turned[None, :, :]).reshape(-1, len(chains))
    best = orders[links[orders[:, :-1], orders[:, 1:]].sum(1).argmin()]
    return np.concatenate([states[s] for s in best])


def anneal_chains(
    cost: np.ndarray,
    chains: list[np.ndarray],
    *,
    symmetric: bool,
    runs: int,
    generator: torch.Generator,
    watch: Watch,
    stage: str,
    weights: Float[np.ndarray, "reach"] = NEXT,
) -> list[np.ndarray]:
    """``runs`` orders of all items, from uniform soft permutations of the chains."""
    m = len(chains)
    if m <= FEW:
        return [best_arrangement(cost, chains, symmetric, weights)]
    turns = symmetric and any(len(chain) > 1 for chain in chains)
    states = chains + [chain[::-1] for chain in chains] if turns else chains
    same = np.equal.outer(np.arange(len(states)) % m, np.arange(len(states)) % m)
    links = torch.from_numpy(in_units(joint_costs(cost, states, weights), same))
    pull = _ChainPull(links, m)
    unstable = len(links) / ((2 + SELF) * max(steepest(links), 1e-12))
    state = WarmState(scattered(runs, m, m, 1.0, generator))
    home = torch.from_numpy(np.argsort(np.concatenate(chains), kind="stable"))
    home = torch.arange(m).repeat_interleave(torch.tensor([len(chain) for chain in chains]))[home]
    seen = {"stage": stage, "seen": lambda soft: soft[home]}  # an item is where its chain is
    anneal(state, pull, math.log(START * unstable), pace=PACE, watch=watch, **seen)
    found = []
    for run, order in enumerate(decode(state.soft).numpy()):
        position = np.arange(m)
        reverse = np.zeros(m, bool)
        if turns and pull.first is not None:
            reverse = pull.first[run].numpy()[order, position] < 0.5
        found.append(np.concatenate([states[s + m * r] for s, r in zip(order, reverse, strict=True)]))
    return found
