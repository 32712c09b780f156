r"""Genetic maps: markers into linkage groups, each in order, with distances in centimorgans.

Pairs first: the recombination fraction of every two markers, and how likely it is against none being linked (LOD). Groups are
what pairs with a LOD hold together that no pair of unlinked markers reaches by chance. A group is ordered as a path over several
lags of these fractions; that order is right but for near markers, whose errors and gaps blur pairs. There the likelihood of
everything that was read decides (`linkage`), with an error rate that the data say themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..readers.genotypes import Genotypes
from ..solve import solve
from ..solve.linkage import Cross, Moves, cross_of, link_chances, moves_at, readings, recombination, ripple
from ..solve.sets import Sets, of_moves
from ..solve.solution import Polished
from ..structure.layouts import Path
from ..watch import Step, Watch, dispensable
from .seriation import spectral_order

REACH = 8
"""Lags that count in the first order: the more, the less a single marker's errors move it."""
ERRORS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1)
"""Rates of wrong readings that are tried."""
CHANCE = 0.01
"""Of any false link between groups, over all pairs."""
ROUNDS = 30  # of expectation and maximisation for the fraction of a pair
USUAL = 0.01  # the rate that is taken once there is no time to find it
TURNS = 3  # of error rate and order
LEAST_GAIN = -10.0  # of log likelihood: orders that fit worse are none
NONE = np.zeros(0, np.int64)
NO_MOVES = Moves(NONE, NONE, NONE, np.zeros(0))


@dataclass(frozen=True, eq=False)
class LinkageGroup:
    order: Int[np.ndarray, "markers"]
    """Markers in order, as columns of the input."""
    centimorgans: Float[np.ndarray, "markers"]
    """Places from the first marker on (Haldane's map function)."""
    joins: Float[np.ndarray, "gaps"]
    """How likely each two adjacent markers are neighbours, against nearby orders."""
    error: float
    """The rate of wrong readings under which the data are likeliest."""
    likelihood: float
    """Its logarithm, of everything that was read."""
    moves: Moves = field(repr=False)
    """What other orders nearby there are, and how likely."""

    def sets(self, level: float = 0.9, generator: torch.Generator | None = None) -> Sets:
        """Per marker in order the places in the group, and the markers beside it, that hold the true ones with this probability, as
        `Solution.sets` has them."""
        here, likely = np.arange(len(self.order)), np.flatnonzero(self.moves.gain > LEAST_GAIN).tolist()
        odds = self.moves.odds.clip(max=1.0)
        shares = of_moves(here, ((self.moves.made(here, k), float(odds[k])) for k in likely))
        found = Sets.of(shares, level, generator)
        partners = [torch.from_numpy(self.order[some.numpy()]) for some in found.partners]
        return Sets(level, found.places, partners)

    def alternatives(self, count: int = 3) -> list[Polished]:
        """The next likeliest orders nearby, with minus their log likelihoods for energies."""
        best = np.argsort(-self.moves.gain, kind="stable")[:count].tolist()
        return [
            Polished(torch.from_numpy(self.moves.made(self.order, k)), -self.likelihood - float(self.moves.gain[k]))
            for k in best
        ]

    @property
    def confidence(self) -> Float[np.ndarray, "markers"]:
        """Per marker in order, that of its weaker join."""
        return np.minimum(np.r_[1.0, self.joins], np.r_[self.joins, 1.0])


@dataclass(frozen=True, eq=False)
class LinkageMap:
    groups: list[LinkageGroup]
    status: str
    least_lod: float
    fractions: Float[np.ndarray, "m m"] = field(repr=False)
    """Of every two markers, how often they recombine."""


def pair_fractions(
    genotypes: Int[np.ndarray, "individuals markers"], cross: Cross, more: Callable[[], bool] = lambda: True
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """Of every two markers the likeliest recombination fraction, as near as there is time for ``more``, and its LOD against unlinked ones."""
    there = [(genotypes == k).astype(np.float64) for k in cross.states]
    counts = np.stack([np.stack([a.T @ b for b in there]) for a in there])
    both = counts.sum((0, 1))
    s = len(cross.states)
    changes = np.abs(np.subtract.outer(np.arange(s), np.arange(s))).astype(float)
    seen = np.einsum("gh,ghij->ij", changes, counts)
    meioses = np.maximum(both * (1 if s == 2 else 2), 1.0)
    r = (seen / meioses).clip(1e-4, 0.5)
    for _ in range(ROUNDS if s == 3 else 0):  # two AB side by side may hide two recombinations
        if not more():
            break
        r = ((seen + 2 * counts[1, 1] * r**2 / ((1 - r) ** 2 + r**2)) / meioses).clip(1e-4, 0.5)
    chance = np.moveaxis(cross.moves(r), (-2, -1), (0, 1))
    free = cross.moves(np.array(0.5))[:, :, None, None]
    lod = (counts * (np.log10(np.maximum(chance, 1e-12)) - np.log10(free))).sum((0, 1))
    return np.where(both > 0, r, 0.5), np.where(both > 0, lod, 0.0)


def least_lod(markers: int) -> float:
    """The LOD that no pair of unlinked markers reaches, but for a chance of 1 %: a LOD of L happens to one of 10^L pairs."""
    return max(3.0, math.log10(max(markers * (markers - 1) / 2, 1) / CHANCE))


def linkage_map(
    genotypes: Genotypes,
    *,
    lod: float | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> LinkageMap:
    """Groups, the largest first, each in order; ``lod`` is what holds a group together."""
    cross = cross_of(genotypes.values)
    least = least_lod(len(genotypes.markers)) if lod is None else lod
    with Watch(time_limit, callback) as watch:
        fractions, lods = pair_fractions(genotypes.values, cross, watch.spare)
        linked = (lods >= least) & (fractions < 0.4)
        label = connected_components(csr_array(linked), directed=False)[1]
        members = sorted((np.flatnonzero(label == k) for k in np.unique(label)), key=len, reverse=True)
        groups = []
        for number, group in enumerate(members, 1):
            watch.show(Step(watch.seconds, f"group {number} of {len(members)}", 0.0, math.nan, math.nan))
            groups.append(_ordered(genotypes.values[:, group], group, fractions, cross, seed, watch))
    return LinkageMap(groups, watch.status, least, fractions)


def _ordered(
    values: Int[np.ndarray, "individuals some"],
    group: Int[np.ndarray, "some"],
    fractions: Float[np.ndarray, "m m"],
    cross: Cross,
    seed: int,
    watch: Watch,
) -> LinkageGroup:
    n = len(group)
    if n == 1:
        return LinkageGroup(group, np.zeros(1), np.ones(0), 0.0, 0.0, NO_MOVES)
    cost = fractions[np.ix_(group, group)].copy()
    np.fill_diagonal(cost, 0.0)
    order = _first_order(cost, seed, watch) if watch.spare() else spectral_order(cost)
    prior = np.array(cross.prior)
    error, r, likelihood = _error_rate(values, order, cross) if watch.spare() else _at_once(values, order, cross)
    for _ in range(TURNS if n > 2 else 0):
        if not watch.spare():
            break
        emit, step = readings(values, cross, error), cross.moves(np.array(r.mean()))
        better = ripple(order, emit, step, prior)
        settled = np.array_equal(better, order)
        order = better
        error, r, likelihood = _error_rate(values, order, cross, error)
        if settled:
            break
    moves, joins = NO_MOVES, np.zeros(n - 1)  # what nobody has time to look at is doubtful
    with dispensable():
        if watch.status != "interrupted":
            moves = moves_at(order, readings(values, cross, error), cross.moves(np.array(r.mean())), prior)
            joins = link_chances(n, moves)
    haldane = -50 * np.log1p(-2 * np.minimum(r, 0.49))
    return LinkageGroup(group[order], np.r_[0.0, np.cumsum(haldane)], joins, error, likelihood, moves)


def _first_order(cost: Float[np.ndarray, "n n"], seed: int, watch: Watch) -> Int[np.ndarray, "n"]:
    n = len(cost)
    left = None if watch.time_limit is None else max(0.0, (watch.time_limit - watch.seconds) / 2)
    found = solve(Path(n, reach=min(REACH, n - 1)), cost=cost, seed=seed, time_limit=left)
    if found.status == "interrupted":  # Ctrl-C is meant for all groups
        watch.status = "interrupted"
    return found.order.numpy()


def _at_once(
    values: np.ndarray, order: Int[np.ndarray, "n"], cross: Cross
) -> tuple[float, Float[np.ndarray, "gaps"], float]:
    """The same as `_error_rate` where there is no time: for a usual rate."""
    return USUAL, *recombination(readings(values[:, order], cross, USUAL), cross, 0.01, rounds=2)


def _error_rate(
    values: np.ndarray, order: Int[np.ndarray, "n"], cross: Cross, near: float | None = None
) -> tuple[float, Float[np.ndarray, "gaps"], float]:
    """The rate under which the data in this order are likeliest, the fractions that go with it, and the log likelihood."""
    rates = ERRORS
    if near is not None:
        k = ERRORS.index(near)
        rates = ERRORS[max(k - 1, 0) : k + 2]
    tried = [(e, *recombination(readings(values[:, order], cross, e), cross, 0.01)) for e in rates]
    return max(tried, key=lambda entry: entry[2])
