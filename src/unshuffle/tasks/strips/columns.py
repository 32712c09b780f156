r"""Which column of pixels stands beside which: evidence that a page teaches itself.

Straight cuts have no shape, so all that is known is the print on both sides. What adjacent columns of this very page look like is
seen a thousand times inside the strips: how often the codes a and b (two pixels each, a few grey levels) stand on the two sides
of a gap as wide as the cut's, $p(a, b)$, against $p(a)\,p(b)$, if they had nothing to do with each other. The log of the ratio,
summed over the rows, is the evidence. Rows are told apart by how much print is in them, since lines of print are
common to all strips; two blank sides are evidence of nothing, or the margins of a page would attract each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans

LEVELS = (6, 3)  # grey levels of the pixel at the cut, and of the one behind it
CLASSES = 6  # kinds of rows, from blank to full of print
PRIOR = 20.0  # pairs seen by chance, added to those that were seen
SAMPLE = 20_000  # pixels from which the grey levels are found

Side = Float[np.ndarray, "rows depth"]
"""Pixels beside a cut, the outermost first."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """What a page has taught: log ratios by kind of row and the codes of the left and of the right column."""

    ratios: Float[np.ndarray, "classes codes codes"]
    kind: Int[np.ndarray, "rows"]
    levels: tuple[np.ndarray, np.ndarray]

    @classmethod
    def learned(cls, strips: list[Float[np.ndarray, "rows width"]], gaps: tuple[int, ...]) -> Adjacency:
        """From the columns inside of strips, their rows alike; ``gaps``: how many columns on the neighbour across a cut may be."""
        pixels = np.concatenate([strip.ravel() for strip in strips])
        some = np.random.default_rng(0).choice(pixels, SAMPLE)
        levels = _between(some, LEVELS[0]), _between(some, LEVELS[1])
        grey = np.mean([strip.mean(1) for strip in strips], axis=0)
        kind = np.digitize(grey, np.quantile(grey, np.linspace(0, 1, CLASSES + 1)[1:-1]))
        codes = (len(levels[0]) + 1) * (len(levels[1]) + 1)
        seen = np.full((CLASSES, codes, codes), 1e-3)
        for strip, gap in product(strips, gaps):
            x = np.arange(1, strip.shape[1] - gap - 1)
            left, right = _codes(strip, x, x - 1, levels), _codes(strip, x + gap, x + gap + 1, levels)
            which = (kind[:, None] * codes + left) * codes + right
            seen += np.bincount(which.ravel(), minlength=seen.size).reshape(seen.shape)
        total = seen.sum((1, 2), keepdims=True)
        chance = seen.sum(2, keepdims=True) * seen.sum(1, keepdims=True) / total**2
        ratios = np.log((seen + PRIOR * chance) / ((total + PRIOR) * chance))
        ratios[:, -1, -1] = np.minimum(ratios[:, -1, -1], 0.0)
        return cls(ratios, kind, levels)

    def codes(self, side: Side) -> Int[np.ndarray, "rows"]:
        return _codes(side, np.array([0]), np.array([1]), self.levels)[:, 0]

    def evidence(self, left: Int[np.ndarray, "n rows"], right: Int[np.ndarray, "n rows"], rows: slice, shift: int) -> Float[np.ndarray, "n n"]:  # fmt: skip
        """Of each pair, codes on the left of a cut and on its right: the sum of the log ratios over ``rows``, the right shifted."""
        kind, here, there = self.kind[rows], left[:, rows], right[:, rows.start + shift : rows.stop + shift]
        total = np.zeros((len(left), len(right)), np.float32)
        for code in np.unique(here):
            worth = self.ratios[kind, code, there].astype(np.float32)
            total += (here == code).astype(np.float32) @ worth.T
        return total.astype(np.float64)


def _between(values: np.ndarray, count: int) -> Float[np.ndarray, "levels"]:
    """Where to part grey values into ``count`` groups, or fewer if there are fewer."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.zeros(0)
    centres = np.sort(kmeans(values, np.linspace(low, high, count))[0])
    return (centres[1:] + centres[:-1]) / 2


def _codes(pixels: np.ndarray, near: np.ndarray, far: np.ndarray, levels: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.digitize(pixels[:, near], levels[0]) * (len(levels[1]) + 1) + np.digitize(pixels[:, far], levels[1])
