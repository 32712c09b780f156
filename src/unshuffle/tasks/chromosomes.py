"""Which bins are of one chromosome, along one path through everything.

A joint is cut if the pairs across it are likelier as pairs from anywhere than as neighbours, the clearest joint first. What neighbours are like,
every bin's strongest contacts tell: an order that was stopped on its way has too many wrong ones among them, and chromosomes would stay
mixed. Such an order has the parts of a chromosome in several places, too, so ends of different parts whose pairs are likelier as
neighbours, by what is usual along the order, are joined again, the clearest first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..solve.path.links import linked_chains

REACH = 5
"""Lags that count. From 2 to 10 all give the same orders of yeast chromosomes; at 20 their arms change places."""
FAR = 4  # times the reach: pairs further apart than that are from anywhere


class Bell(NamedTuple):
    """A normal distribution."""

    middle: float
    spread: float

    @classmethod
    def of(cls, sample: np.ndarray) -> Bell:
        """By its median and quartiles."""
        low, middle, high = np.percentile(sample, [25, 50, 75])
        return cls(float(middle), max((high - low) / 1.349, 1e-3))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        return -0.5 * ((x - self.middle) / self.spread) ** 2 - math.log(self.spread)


class Usual(NamedTuple):
    """Logarithms of contacts along an order: of pairs 1, 2, ... places apart, and of pairs from anywhere."""

    near: list[Bell]
    far: Bell | None

    @classmethod
    def of(cls, logs: Float[np.ndarray, "n n"]) -> Usual:
        n = len(logs)
        apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        far = logs[apart > min(FAR * REACH, max(REACH, n // 2))]
        near = [Bell.of(np.diagonal(logs, lag)) for lag in range(1, min(REACH, n - 1) + 1)]
        return cls(near, Bell.of(far) if len(far) >= 10 else None)

    def of_strongest(self, logs: Float[np.ndarray, "n n"]) -> Usual:
        """The same with near ones as in the best order: of each bin the two strongest contacts are one place away, the next two two places."""
        others = logs.copy()
        np.fill_diagonal(others, -np.inf)
        strongest = -np.sort(-others, axis=1)[:, :-1]
        pairs = [strongest[:, 2 * k : 2 * k + 2] for k in range(len(self.near))]
        return Usual([Bell.of(p) if p.size else bell for p, bell in zip(pairs, self.near, strict=True)], self.far)

    def evidence(self, x: np.ndarray, lag: int) -> np.ndarray:
        """The log likelihood ratio of pairs: as such so far apart on a chromosome, against pairs from anywhere; 1 if nothing is far."""
        return np.ones(x.shape) if self.far is None else self.near[lag - 1].log_density(x) - self.far.log_density(x)


def told_apart(
    logs: Float[np.ndarray, "n n"], order: Int[np.ndarray, "some"], contig: np.ndarray, wanted: int | None = None
) -> list[Int[np.ndarray, "bins"]]:
    """The groups of an order, ``wanted`` of them if that is given; contigs stay whole."""
    ordered = logs[np.ix_(order, order)]
    usual = Usual.of(ordered)
    parts = cut_apart(logs, order, contig, usual.of_strongest(ordered), wanted or 1)
    ways = [part[::way] for part in parts for way in (1, -1)]
    against = -joint_evidence(logs, ways, usual)
    chains = linked_chains(against, 2, most=0.0 if wanted is None else np.inf, fewest=wanted or 1)
    return [np.concatenate([ways[k] for k in chain]) for chain in chains]


def cut_apart(
    logs: Float[np.ndarray, "n n"], order: Int[np.ndarray, "some"], contig: np.ndarray, usual: Usual, fewest: int = 1
) -> list[Int[np.ndarray, "bins"]]:
    """The order cut wherever the pairs across a joint are likelier from anywhere, into ``fewest`` parts or more; never inside of a contig."""
    ordered = logs[np.ix_(order, order)]
    evidence = [usual.evidence(np.diagonal(ordered, lag), lag) for lag in range(1, len(usual.near) + 1)]
    may = np.r_[False, contig[1:] != contig[:-1]]  # before this position
    cuts: list[int] = [0, len(order)]
    support = {(0, len(order)): _weakest(evidence, may, 0, len(order))}
    while True:
        part, (value, joint) = min(support.items(), key=lambda entry: entry[1][0])
        if joint < 0 or (len(support) >= fewest and value >= 0):
            break
        del support[part]
        cuts.append(joint)
        for low, high in ((part[0], joint), (joint, part[1])):
            support[low, high] = _weakest(evidence, may, low, high)
    return np.split(order, sorted(cuts)[1:-1])


def _weakest(evidence: list[np.ndarray], may: np.ndarray, low: int, high: int) -> tuple[float, int]:
    """The joint inside [low, high) that the pairs across it, of this part alone, speak for least; -1 if there is none."""
    total = np.zeros(high - low + 1)
    for lag, values in enumerate(evidence, start=1):
        some = values[low : max(low, high - lag)]
        for shift in range(1, lag + 1):
            total[shift : shift + len(some)] += some
    total[: high - low][~may[low:high]] = np.inf
    total[[0, -1]] = np.inf
    joint = int(total.argmin())
    return (float(total[joint]), low + joint) if np.isfinite(total[joint]) else (math.inf, -1)


def joint_evidence(
    logs: Float[np.ndarray, "n n"], parts: list[Int[np.ndarray, "bins"]], usual: Usual
) -> Float[np.ndarray, "parts parts"]:
    """How much the pairs across a joint speak for it, of each part directly after each other."""
    total = np.zeros((len(parts), len(parts)))
    for back in range(len(usual.near)):
        for on in range(len(usual.near) - back):
            long, wide = (np.array([len(part) > k for part in parts]) for k in (back, on))
            last = [part[-1 - back] if some else part[0] for part, some in zip(parts, long, strict=True)]
            first = [part[on] if some else part[0] for part, some in zip(parts, wide, strict=True)]
            total += usual.evidence(logs[np.ix_(last, first)], back + on + 1) * np.outer(long, wide)
    return total
