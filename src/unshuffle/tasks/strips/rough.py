"""Rough cuts, by a shredder: the shape of the cut and the print beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.fft import dct
from scipy.ndimage import gaussian_filter1d, map_coordinates, median_filter

from ...errors import BadInput
from .paper import TALL, Strip

LEAST = 8  # rows to compare by

More = Callable[[float], bool]
"""Told how much is done, 0 to 1, says whether to go on."""


@dataclass(frozen=True)
class StripCost:
    """How much the parts of the evidence count. Chosen on ten pages of one shredder (see benchmarks/solve_strips.py)."""

    print_weight: float = 0.24
    """Degrees of freedom of the print beside a cut, per row: half of it multiplies the logarithm. 0.18 to 0.37 are equal."""
    shift_price: float = 0.5
    """Nats per row of vertical shift: strips lie within a few rows of each other, rarely within ten. 0.25 to 1 are equal."""
    shifts: int = 8
    """Rows up and down that are tried."""
    longest: float = 0.46
    """Longest wavelength of the shape, as a part of the height; what is longer is bent paper."""
    shortest: float = 4.0
    """Shortest wavelength of the shape in rows: two pixels in each direction, the resolution of an edge."""
    depth: int = 3
    """How many pixels beside the cut are print."""
    column_weight: float = 0.25
    """Of straight cuts: how much the evidence of a row counts, since the strokes of print are a few rows high."""


def common_rows(strips: list[Strip], shifts: int) -> tuple[int, int, int, int]:
    """First and last row to compare, the last that all strips have, and how far they can be shifted."""
    top, bottom = max(s.top for s in strips), min(s.bottom for s in strips)
    margin = 15 * (bottom - top) // TALL  # corners are torn and rounded
    low, high, reach = top + margin, bottom - margin, min(shifts, max(0, (bottom - top) // 20))
    if high - low - 2 * reach < LEAST:
        raise BadInput(
            f"The strips share only {max(0, bottom - top)} rows of paper; scan them upright and at one height."
        )
    return low, high, bottom, reach


@dataclass(frozen=True, eq=False)
class StripEvidence:
    """What does not depend on the two weights, so that these can be compared cheaply: per shift, pair by pair."""

    shape: Float[np.ndarray, "shifts n n"]
    print: Float[np.ndarray, "shifts n n"]
    rows: int

    @staticmethod
    def of(strips: list[Strip], weights: StripCost) -> StripEvidence:
        low, high, bottom, reach = common_rows(strips, weights.shifts)
        inner = (low + reach, high - reach)
        rights, lefts = np.stack([s.right[:bottom] for s in strips]), np.stack([s.left[:bottom] for s in strips])
        ink_right, ink_left = _ink(strips, bottom, weights.depth)
        shape, print_ = [], []
        for shift in range(-reach, reach + 1):
            here, there = slice(*inner), slice(inner[0] + shift, inner[1] + shift)
            shape.append(_shape(rights[:, here], lefts[:, there], weights))
            print_.append(_correlation(ink_right[:, here], ink_left[:, there]))
        return StripEvidence(np.stack(shape), np.stack(print_), inner[1] - inner[0])

    def cost(self, weights: StripCost) -> Float[np.ndarray, "n n"]:
        reach = len(self.shape) // 2
        price = weights.shift_price * np.abs(np.arange(-reach, reach + 1))[:, None, None]
        ink = 0.5 * weights.print_weight * self.rows * np.log1p(-(self.print.clip(0, 0.999) ** 2))
        cost = (self.shape + ink + price).min(axis=0)
        np.fill_diagonal(cost, 0.0)
        return cost


def _shape(right: np.ndarray, left: np.ndarray, weights: StripCost) -> Float[np.ndarray, "n n"]:
    r"""$\sum_b \tfrac{N_b}2 \min(0, \log \frac{|r - l|_b^2}{|r|_b^2 + |l|_b^2})$ over octaves b of the two edges' cosine transforms."""
    rows = right.shape[1]
    R, L = (np.asarray(dct(_straightened(edge), norm="ortho", axis=1)) for edge in (right, left))
    total = np.zeros((len(R), len(L)))
    wave = weights.longest * rows
    while wave > weights.shortest:
        low, high = round(2 * rows / wave), round(2 * rows / max(wave / 2, weights.shortest))
        r, l = R[:, low:high], L[:, low:high]
        power = (r * r).sum(1)[:, None] + (l * l).sum(1)[None, :]
        floor = 0.02 * (high - low)  # variance of an edge's place is not known better than to 0.1 pixel
        total += (
            (high - low) / 2 * np.minimum(0.0, np.log((power - 2 * r @ l.T + floor).clip(floor / 2) / (power + floor)))
        )
        wave /= 2
    return total


def _straightened(edge: np.ndarray) -> np.ndarray:
    """Without its mean and slope: strips are scanned at slightly different angles."""
    y = np.linspace(-1, 1, edge.shape[1])
    return edge - edge.mean(1, keepdims=True) - np.outer(edge @ y / (y @ y), y)


def _ink(strips: list[Strip], bottom: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Darkness just inside the right and left edges, without what all strips have in common: the lines of print."""
    right = np.stack([_beside(s, s.right[:bottom], -1, depth) for s in strips])
    left = np.stack([_beside(s, s.left[:bottom], 1, depth) for s in strips])
    lines = (right.mean(0) + left.mean(0)) / 2
    both = [ink - np.outer((ink @ lines / max(lines @ lines, 1e-12)).clip(0), lines) for ink in (right, left)]
    return both[0], both[1]


def _beside(strip: Strip, edge: np.ndarray, inwards: int, depth: int) -> np.ndarray:
    smooth = median_filter(edge, 11, mode="nearest")
    rows = np.arange(len(edge))
    places = [np.clip(smooth + inwards * d, 0, strip.grey.shape[1] - 1) for d in range(1, depth + 1)]
    dark = 1 - np.mean([map_coordinates(strip.grey, [rows, x], order=1, mode="nearest") for x in places], axis=0)
    dark = gaussian_filter1d(dark, 0.6)
    return (dark - np.median(dark) - 0.04).clip(
        0, 0.47
    )  # ten grey levels are paper; more than half black is just print


def _correlation(right: np.ndarray, left: np.ndarray) -> Float[np.ndarray, "n n"]:
    """Cosine; a tenth of the median power on top, so that blank margins are evidence of nothing."""
    powers = (right * right).sum(1), (left * left).sum(1)
    floor = 0.1 * float(np.median(np.concatenate(powers))) + 1e-9
    return right @ left.T / np.sqrt(np.outer(powers[0] + floor, powers[1] + floor))
