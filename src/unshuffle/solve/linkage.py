r"""How likely genotypes are, given an order of markers: a hidden Markov chain along the chromosome of every individual.

The true genotype changes from marker to marker by recombination, what was read is wrong with probability ``error`` or missing:
$P(\text{read}) = \sum_{g_1 \dots g_n} \pi(g_1) \prod_a T_{r}(g_a, g_{a+1}) \prod_a e(\text{read}_a \mid g_a)$
(Lander and Green 1987). Unlike costs of pairs this sees an error for what it is: a marker that differs from both of its
sides. ``ripple`` moves markers and turns short stretches as long as that makes the data likelier; from the messages that
reach a stretch from both sides, a change inside it costs only its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..compute.copying import copy_into
from ..compute.jit import njit

WINDOW = 8  # markers between the first and the last that a move touches
NO_MASS = 1e-300
CAUTION = 2.0
"""Log likelihoods say too much by this factor: wrong readings of an individual are not independent. Of joins above 0.9 on mouse
chromosomes 1, 3, 5, 7, 96.9, 97.6, 98.2, 98.9 % are right with 1, 1.5, 2, 2.5."""


@dataclass(frozen=True)
class Cross:
    """What genotypes a cross has, 0, 1, 2 for AA, AB, BB: how often, and how recombination changes them."""

    states: tuple[int, ...]
    prior: tuple[float, ...]

    def moves(self, r: Float[np.ndarray, "*steps"]) -> Float[np.ndarray, "*steps s s"]:
        """The chances of every genotype after every other across a recombination fraction r."""
        r = np.asarray(r)
        if len(self.states) == 2:
            return np.stack([np.stack([1 - r, r], -1), np.stack([r, 1 - r], -1)], -2)
        both, one, none = r**2, r * (1 - r), (1 - r) ** 2
        rows = ([none, 2 * one, both], [one, none + both, one], [both, 2 * one, none])
        return np.stack([np.stack(row, -1) for row in rows], -2)


INTERCROSS = Cross((0, 1, 2), (0.25, 0.5, 0.25))
BACKCROSS = Cross((0, 1), (0.5, 0.5))
LINES = Cross((0, 2), (0.5, 0.5))
"""Doubled haploids, and inbred lines with their map stretched."""


def cross_of(genotypes: Int[np.ndarray, "individuals markers"]) -> Cross:
    """By the genotypes that are there: all three, or two of them; a few of a third kind are errors."""
    share = np.array([(genotypes == k).mean() for k in range(3)]) / max(float((genotypes >= 0).mean()), 1e-12)
    if share[1] < 0.05:
        return LINES
    return INTERCROSS if min(share[0], share[2]) >= 0.02 else BACKCROSS


def readings(
    genotypes: Int[np.ndarray, "individuals markers"], cross: Cross, error: float
) -> Float[np.ndarray, "markers individuals s"]:
    """The chance of what was read under each true genotype; 1 where nothing was."""
    read = genotypes.T[:, :, None]
    chance = np.where(read == np.array(cross.states), 1 - error, error / (len(cross.states) - 1))
    return np.ascontiguousarray(np.where(np.isin(read, cross.states), chance, 1.0))


def messages(
    emit: Float[np.ndarray, "n individuals s"], steps: Float[np.ndarray, "gaps s s"], prior: Float[np.ndarray, "s"]
) -> tuple[Float[np.ndarray, "n individuals s"], Float[np.ndarray, "n individuals s"], float]:
    """What the markers before each (and it) and after each say about its genotype, each summing to 1, and the log likelihood."""
    n = len(emit)
    ahead, behind = np.empty_like(emit), np.ones_like(emit)
    total = 0.0
    for a in range(n):
        into = prior if a == 0 else ahead[a - 1] @ steps[a - 1]
        joint = into * emit[a]
        mass = np.maximum(joint.sum(1, keepdims=True), NO_MASS)
        ahead[a] = joint / mass
        total += float(np.log(mass).sum())
    for a in range(n - 2, -1, -1):
        back = (behind[a + 1] * emit[a + 1]) @ steps[a].T
        behind[a] = back / np.maximum(back.sum(1, keepdims=True), NO_MASS)
    return ahead, behind, total


def recombination(
    emit: Float[np.ndarray, "n individuals s"], cross: Cross, start: float, rounds: int = 6
) -> tuple[Float[np.ndarray, "gaps"], float]:
    """Fractions between adjacent markers by expectation and maximisation, and the log likelihood that they give."""
    n, individuals, s = emit.shape
    prior = np.array(cross.prior)
    r, total = np.full(n - 1, start), 0.0
    for _ in range(rounds):
        steps = cross.moves(r)
        ahead, behind, total = messages(emit, steps, prior)
        counts = _crossings(cross, r)
        for a in range(n - 1):
            joint = ahead[a][:, :, None] * steps[a] * (emit[a + 1] * behind[a + 1])[:, None, :]
            joint /= np.maximum(joint.sum((1, 2), keepdims=True), NO_MASS)
            r[a] = float((joint.sum(0) * counts[a]).sum()) / (individuals * (1 if s == 2 else 2))
        r = r.clip(1e-4, 0.5)
    return r, total


def _crossings(cross: Cross, r: Float[np.ndarray, "gaps"]) -> Float[np.ndarray, "gaps s s"]:
    """The expected number of recombinations behind every change of genotype; between two AB they may be none or two."""
    two = len(cross.states) == 2
    counts = np.array([[0.0, 1.0], [1.0, 0.0]] if two else [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    every = np.repeat(counts[None], len(r), axis=0)
    if not two:
        every[:, 1, 1] = 2 * r**2 / ((1 - r) ** 2 + r**2)
    return every


def ripple(
    order: Int[np.ndarray, "n"],
    emit: Float[np.ndarray, "markers individuals s"],
    step: Float[np.ndarray, "s s"],
    prior: Float[np.ndarray, "s"],
    passes: int = 20,
) -> Int[np.ndarray, "n"]:
    """The order after moves of one marker and turns of short stretches that each made the data likelier.

    All gaps have one transition, ``step``: an order is not chosen for the distances that fit it.
    """
    order = np.array(order, np.int64)
    steps = np.repeat(step[None], max(len(order) - 1, 1), axis=0)
    for _ in range(passes):
        ahead, behind, _ = messages(emit[order], steps, prior)
        if not _ripple_pass(order, emit, step, prior, (ahead, behind), np.empty((0, 0, 0))):
            break
    return order


class Moves(NamedTuple):
    """What `ripple` would try at an order, and how much likelier (log likelihood) that makes the data; none does."""

    low: Int[np.ndarray, "moves"]
    high: Int[np.ndarray, "moves"]
    move: Int[np.ndarray, "moves"]
    gain: Float[np.ndarray, "moves"]

    @property
    def odds(self) -> Float[np.ndarray, "moves"]:
        """Of each against the order as it is."""
        return np.exp((self.gain / CAUTION).clip(max=50.0))

    def made(self, order: Int[np.ndarray, "n"], k: int) -> Int[np.ndarray, "n"]:
        """The order after the k-th of them."""
        other = order.copy()
        other[self.low[k] : self.high[k]] = _changed(order[self.low[k] : self.high[k]], self.move[k])
        return other


def moves_at(
    order: Int[np.ndarray, "n"],
    emit: Float[np.ndarray, "markers individuals s"],
    step: Float[np.ndarray, "s s"],
    prior: Float[np.ndarray, "s"],
) -> Moves:
    """All moves of `ripple` at this order."""
    order = np.array(order, np.int64)
    gains = np.full((len(order), WINDOW + 1, 3), -np.inf)
    if len(order) > 2:
        ahead, behind, _ = messages(emit[order], np.repeat(step[None], len(order) - 1, axis=0), prior)
        _ripple_pass(order, emit, step, prior, (ahead, behind), gains)
    low, size, move = np.nonzero(gains > -np.inf)
    return Moves(low, low + size, move, gains[low, size, move])


def link_chances(n: int, moves: Moves) -> Float[np.ndarray, "n-1"]:
    """How likely each link is against the orders of `ripple` that break it: 1 / (1 + the sum of their odds)."""
    rivals, odds = np.zeros(n + 1), moves.odds
    for broken, some in (
        (moves.low, moves.move >= 0),
        (moves.high, moves.move >= 0),
        (moves.low + 1, moves.move == 1),
        (moves.high - 1, moves.move == 2),
    ):
        np.add.at(rivals, broken[some], odds[some])
    return 1 / (1 + rivals[1:-1])


@njit(fastmath=True)
def _likelihood(window, emit, step, into, out):
    """Log likelihood of the items in ``window`` between the message that comes in and the one that comes from behind."""
    individuals, s = into.shape
    total = 0.0
    state, moved = np.empty(s), np.empty(s)
    for m in range(individuals):
        for g in range(s):
            state[g] = into[m, g]
        for w in range(window.size):
            mass = 0.0
            for g in range(s):
                value = state[g]
                if w > 0:
                    value = 0.0
                    for h in range(s):
                        value += state[h] * step[h, g]
                moved[g] = value * emit[window[w], m, g]
            for g in range(s):
                state[g] = moved[g]
                mass += moved[g]
        mass = 0.0
        for g in range(s):
            mass += state[g] * out[m, g]
        total += np.log(max(mass, 1e-300))
    return total


@njit(fastmath=True)
def _through(message, step, out):
    """A message across one gap."""
    individuals, s = message.shape
    for m in range(individuals):
        for g in range(s):
            value = 0.0
            for h in range(s):
                value += message[m, h] * step[h, g]
            out[m, g] = value


@njit
def _changed(window, move):
    """The window turned (0), with its first marker last (1), or with its last marker first (2)."""
    other = window[::-1].copy()
    if move == 1:
        copy_into(other, window[1:])
        other[-1] = window[0]
    elif move == 2:
        copy_into(other[1:], window[:-1])
        other[0] = window[-1]
    return other


@njit(fastmath=True)
def _ripple_pass(order, emit, step, prior, messages, gains):
    """Windows from the left to the right, the message from the left kept true; True if something improved.

    With ``gains`` (first place, length, move) nothing is moved, and what every move would gain is noted there.
    """
    ahead, behind = messages
    n = order.size
    individuals, s = ahead.shape[1], ahead.shape[2]
    into = np.empty((individuals, s))
    improved = False
    for low in range(n - 1):
        if low == 0:
            for m in range(individuals):
                copy_into(into[m], prior)
        else:
            _through(ahead[low - 1], step, into)
        for high in range(low + 2, min(n, low + WINDOW) + 1):
            now = _likelihood(order[low:high], emit, step, into, behind[high - 1])
            best, chosen = 1e-6, -1
            for move in range(1 if high - low == 2 else 3):
                gain = _likelihood(_changed(order[low:high], move), emit, step, into, behind[high - 1]) - now
                if gains.size > 0:
                    gains[low, high - low, move] = gain
                elif gain > best:
                    best, chosen = gain, move
            if chosen >= 0:
                copy_into(order[low:], _changed(order[low:high], chosen))
                improved = True
        for m in range(individuals):  # the message that goes on from this place
            mass = 0.0
            for g in range(s):
                ahead[low, m, g] = into[m, g] * emit[order[low], m, g]
                mass += ahead[low, m, g]
            for g in range(s):
                ahead[low, m, g] /= max(mass, 1e-300)
    return improved
