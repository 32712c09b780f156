"""Which strips are of one page: where its lines of print are is seen in every strip of a page, and differs from page to page."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.ndimage import gaussian_filter1d

from .paper import Strip
from .rough import common_rows

ALIKE = 0.3
"""Correlation of the lines of print from which on two chains of strips are of one page. Of chains of five strips of ten real
pages: of one page 0.46 and more in nine of ten cases, of two pages 0.24 and less in 19 of 20."""
LOOSE = 4  # strips: fewer are no page, and go where they fit
WIDE = 0.6  # of the widest chain: two that are both as wide are two pages
BLANK = 0.3  # of the usual contrast of lines: less is margin
EVEN = 0.2  # autocorrelation from which on lines are evenly spaced
SHIFTS = 3  # rows up and down: more would bring the lines of any two pages into line


@dataclass(frozen=True)
class Lines:
    """How dark the rows of each strip are, as it came and upside down, against the rows around; and how wide it is."""

    dark: Float[np.ndarray, "n 2 rows"]
    width: Float[np.ndarray, "n"]

    @classmethod
    def of(cls, strips: list[Strip]) -> Lines:
        low, high, _, _ = common_rows(strips, SHIFTS)
        dark = np.stack([[darkness(s)[low:high] for s in (strip, strip.turned())] for strip in strips])
        width = np.array([float(np.median(s.right - s.left)) * len(s.left) / s.grey.shape[0] for s in strips])
        return cls(dark - gaussian_filter1d(dark, (high - low) / 30, axis=-1), width)


def darkness(strip: Strip) -> Float[np.ndarray, "height"]:
    rim = 0.1 * float(np.median(strip.right - strip.left))
    x = np.arange(strip.grey.shape[1])
    inside = (x > strip.left[:, None] + rim) & (x < strip.right[:, None] - rim)
    return ((1 - strip.grey) * inside).sum(1) / np.maximum(inside.sum(1), 1)


def pitch_cost(shreds: list[Strip], weight: float) -> Float[np.ndarray, "n n"]:
    """Of the second shred directly below the first: lines of print are evenly spaced, so the last of the one and the first of the
    other, as far as from line to line, look alike. ``weight``: degrees of freedom of a row."""
    dark = [darkness(s)[s.top : s.bottom] for s in shreds]
    rows = min(map(len, dark))
    dark = [d - gaussian_filter1d(d, rows / 8) for d in dark]
    power = np.abs(np.fft.rfft([d[:rows] for d in dark], 2 * rows, axis=1)) ** 2
    again = np.fft.irfft(power.sum(0))[: rows // 3]
    lags = np.arange(len(again))
    again = again / np.maximum(again[0] * (rows - lags) / rows, 1e-12)
    fell = int(np.argmax(again < 0))  # beyond the line itself
    pitch = fell + int(again[fell:].argmax()) if fell else 0
    if not pitch or again[pitch] < EVEN:
        return np.zeros((len(shreds), len(shreds)))
    last, first = np.stack([d[-pitch:] for d in dark]), np.stack([d[:pitch] for d in dark])
    last, first = last - last.mean(1, keepdims=True), first - first.mean(1, keepdims=True)
    powers = (last**2).sum(1), (first**2).sum(1)
    floor = 0.1 * float(np.median(np.concatenate(powers))) + 1e-12
    alike = last @ first.T / np.sqrt(np.outer(powers[0] + floor, powers[1] + floor))
    return 0.5 * weight * pitch * np.sign(alike) * np.log1p(-(alike.clip(-0.99, 0.99) ** 2))


@dataclass(frozen=True)
class _Chain:
    items: list[int]
    dark: Float[np.ndarray, "2 rows"]
    """The mean over its strips, as the chain stands and upside down."""
    width: float

    def with_(self, other: _Chain, turned: bool) -> _Chain:
        there = other.dark[::-1] if turned else other.dark
        width = self.width + other.width
        return _Chain(self.items + other.items, (self.dark * self.width + there * other.width) / width, width)


def pages_of(chains: list[Int[np.ndarray, "some"]], states: int, lines: Lines) -> Int[np.ndarray, "n"]:
    """The number of the page of each strip, -1 of those that have no lines to tell by, from chains of pieces (strip * states + state).

    The two that are most alike are of one page, and so on, as long as they are alike.
    """
    left = [_chain(chain, states, lines) for chain in chains]
    usual = np.median([chain.dark[0].std() for chain in left if len(chain.items) >= LOOSE] or [np.inf])
    left = [chain for chain in left if chain.dark[0].std() > BLANK * usual]
    while len(left) > 1:
        alike, a, b, turned = _most_alike(left, states)
        if alike < ALIKE:
            break
        merged = left[a].with_(left[b], bool(turned))
        left = [chain for k, chain in enumerate(left) if k not in (a, b)] + [merged]
    label = np.full(len(lines.width), -1)
    pages = sorted((chain for chain in left if len(chain.items) >= LOOSE), key=lambda chain: min(chain.items))
    for number, page in enumerate(pages):
        label[page.items] = number
    return label


def _chain(pieces: Int[np.ndarray, "some"], states: int, lines: Lines) -> _Chain:
    items, state = pieces // states, pieces % states
    width = lines.width[items]
    dark = [np.average(lines.dark[items, (state + turn) % 2], axis=0, weights=width) for turn in (0, 1)]
    return _Chain(items.tolist(), np.stack(dark), float(width.sum()))


def _most_alike(chains: list[_Chain], states: int) -> tuple[float, int, int, int]:
    """How much, which two, and whether one of them is upside down. Wide ones may be whole pages with lines in the same rows: they are
    compared by what tells each from all wide ones."""
    wide = WIDE * max(chain.width for chain in chains)
    common = np.mean([chain.dark for chain in chains if chain.width >= wide], axis=0)
    apart = [replace(chain, dark=chain.dark - common) if chain.width >= wide else chain for chain in chains]

    def alike(a: int, b: int, turned: int) -> float:
        near = _alike(chains[a], chains[b], turned)
        whole = min(chains[a].width, chains[b].width) >= wide
        return min(near, _alike(apart[a], apart[b], turned)) if whole else near

    pairs = [(a, b, turned) for a in range(len(chains)) for b in range(a) for turned in range(states)]
    return max((alike(*pair), *pair) for pair in pairs)


def _alike(one: _Chain, other: _Chain, turned: int) -> float:
    """The best correlation over small shifts."""
    a, b = one.dark[0][SHIFTS:-SHIFTS], other.dark[turned]
    windows = np.lib.stride_tricks.sliding_window_view(b, len(a))
    a, windows = a - a.mean(), windows - windows.mean(1, keepdims=True)
    return float((windows @ a / np.maximum(np.linalg.norm(windows, axis=1) * np.linalg.norm(a), 1e-12)).max())
