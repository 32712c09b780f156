r"""Lines of print across a straight cut: how far from it their letters end and begin, and whether they are there at all.

A cut between two letters meets no ink, and rows of pixels say nothing there. But the spaces of a page are alike: a few pixels
between letters, more between words, and hardly ever anything else; where all letters are of one width, their grid goes on. How often a
cut meets a space of g columns, $f(g)$, is seen inside the strips. If a line ends a columns before the cut and begins b columns
after it, the likelihood ratio of one space against two is $f(a + b) / (F(a)\,F(b))$ with $F(a) = \sum_{g \ge a} f(g)$.

A line that is missing in a strip has ended before it, and is missing in the next one too: neighbours differ in a line with the
probability `DIFFERS`, where others differ by how often the line is missing. A strip without print is evidence of nothing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter1d

from .paper import Strip
from .rough import StripCost, common_rows
from .straight import both_sides

INK = 0.35  # of how much the blackest hundredth of a page is unlike its paper
DENSE = 0.35  # of the blackest rows: less is between the lines
FEW = 4  # lines that are no page of print, and rows that are no line
PRINT = 0.1  # of the lines: a strip that has fewer is margin
DIFFERS = 0.05


def space_cost(strips: list[Strip], weights: StripCost) -> Float[np.ndarray, "n n"]:
    """Minus the evidence of the lines of one page for strip k directly right of strip i; none where there are no lines."""
    low, high, bottom, reach = common_rows(strips, 2 * weights.shifts)
    lefts, rights = ([side[low:high] for side in sides] for sides in both_sides(strips, bottom))
    width = min(side.shape[1] for side in lefts + rights)
    some = np.concatenate([side[::3].ravel() for side in lefts])
    paper = np.median(some)
    least = INK * np.quantile(np.abs(some - paper), 0.99)
    rows = np.stack([np.abs(side - paper).mean(1) for side in lefts])
    first, lines = _lines(rows, reach)
    if len(lines) < FEW or not least > 0:
        return np.zeros((len(strips), len(strips)))

    def ink(side: Float[np.ndarray, "rows depth"], top: int) -> Bool[np.ndarray, "lines width"]:
        dark = np.abs(side[:, :width] - paper) > least
        return np.stack([dark[top + a : top + b].any(0) for a, b in lines])

    begins = np.stack([ink(side, top) for side, top in zip(lefts, first, strict=True)])
    ends = np.stack([ink(side, top) for side, top in zip(rights, first, strict=True)])
    return -_evidence(begins, ends)


def _lines(rows: Float[np.ndarray, "n rows"], reach: int) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "lines 2"]]:
    """The row of each strip at which the page begins, since they lie a little higher or lower, and the lines of the page from there on."""
    length = rows.shape[1] - 2 * reach
    windows = np.lib.stride_tricks.sliding_window_view(rows, length, axis=1)  # [strip, first row, row]
    uneven = windows - gaussian_filter1d(windows, length / 30, axis=2)
    uneven = uneven / np.maximum(np.linalg.norm(uneven, axis=2, keepdims=True), 1e-9)
    strips, first = np.arange(len(rows)), np.full(len(rows), reach)
    for _ in range(5):
        first = (uneven @ uneven[strips, first].mean(0)).argmax(1)
    page = windows[strips, first].mean(0)
    dense = np.concatenate(([False], page > DENSE * np.quantile(page, 0.95), [False]))
    lines = np.flatnonzero(dense[1:] != dense[:-1]).reshape(-1, 2)
    return first, lines[np.diff(lines, axis=1)[:, 0] >= FEW]


def _evidence(begins: Bool[np.ndarray, "n lines width"], ends: Bool[np.ndarray, "n lines width"]) -> Float[np.ndarray, "n n"]:  # fmt: skip
    """From the ink of every line, inwards from the left edge of each strip and from its right one."""
    there = np.logical_and(begins.any(2), ends.any(2))
    before, after = ends.argmax(2), begins.argmax(2)
    spaces = _spaces(begins)
    missing = ((len(there) - there.sum(0) + 0.5) / (len(there) + 1)).clip(0.02, 0.98)
    alike = np.log((1 - DIFFERS) / np.stack([missing, 1 - missing]) + DIFFERS)
    printed = there.mean(1) > PRINT
    total = np.zeros((len(there), len(there)))
    for i, has in enumerate(there):
        both = has & there
        total[i] = (spaces[before[i], after] * both).sum(1)
        same = np.where(has, alike[1], alike[0])
        total[i] += printed[i] * printed * np.where(has == there, same, np.log(DIFFERS)).sum(1)
    return total


def _spaces(ink: Bool[np.ndarray, "n lines width"]) -> Float[np.ndarray, "width width"]:
    """The log likelihood ratio of a line that ends so many columns before a cut and begins so many after it."""
    strip, line, at = np.nonzero(ink)
    one_line = (np.diff(strip) == 0) & (np.diff(line) == 0)
    width = ink.shape[2]
    lengths = np.bincount(np.diff(at)[one_line] - 1, minlength=2 * width + 1).astype(float)
    length = np.arange(len(lengths))
    tries = ink.shape[0] * ink.shape[1] * (width - 1 - length).clip(1)  # places at which a space so long would be seen
    often = lengths / tries
    often[1:] = np.convolve(often[1:], (0.25, 0.5, 0.25), "same")
    often += 0.1 / ink.size
    often /= ((length + 1) * often).sum()  # a cut may meet a space anywhere in it
    least = np.cumsum(often[::-1])[::-1]
    a = np.arange(width)
    return np.log(often[a[:, None] + a] / (least[a][:, None] * least[a]))
