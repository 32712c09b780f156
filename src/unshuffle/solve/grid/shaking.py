"""A layout shaken: segments jump beside tiles that they may belong to, at a temperature that falls. Kernels.

Where a seam says little it takes several together to tell what is right, and no step that makes the whole better leads there from what is wrong:
tiles hold together by their few clear seams, in segments that all fit somewhere, more or less. At a temperature segments come apart and try
each other, thousands of times per tile, and what fits on all sides stays longest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...compute.copying import places_into
from ...compute.jit import njit
from .affinity import Affinities
from .seams import NO_MASK, at
from .segments import Bench, shift

HOT, COLD = 5.0, 3.0
"""Temperatures, in units of score over the logarithm of the number of loose tiles, since so many places rival with the right one: at the first
plain regions fall apart, below the second hardly anything moves."""
JUMPS = 8000
"""That are tried per loose tile, at 1 to 8 microseconds each. Chosen on two crops of 32 x 24 tiles of a noisy black sky."""
STEPS = 50  # of temperature
AT_ONCE = 100_000  # jumps between two looks at whether to go on: some tenths of a second
WEAK = 0.1  # affinity of a seam that is wrong, or too plain to tell
LIKELY = 2.0  # mean rank of the partner beside which a tile tries to go
ALONE = 0.05  # share of the jumps of single tiles, whatever they hold to
LARGEST = 64  # tiles that jump together: more are in place, or would not find room


def shaken(
    order: np.ndarray, belief: Affinities, rng: np.random.Generator, more: Callable[[], bool] = lambda: True
) -> np.ndarray:
    """The layout after that, as far as there was time for ``more``; it may be worse. Only tiles with weak seams jump, and what they hold to."""
    order = np.array(order, dtype=np.int64)
    for temperature in np.geomspace(HOT, COLD, STEPS):
        if not more():
            break
        loose = order[(belief.weak_seams(order, WEAK) > 0).reshape(-1)]
        if len(loose) < 2:
            break
        jumps, heat = JUMPS * len(loose) // STEPS, temperature / np.log(len(loose))
        for done in range(0, jumps, AT_ONCE):
            if done and not more():
                break
            draws = rng.random((min(AT_ONCE, jumps - done), 6), np.float32)
            shake(order, loose, belief.worth, belief.glue, belief.bonds, heat, draws)
    return order


class Held(NamedTuple):
    """Tiles that jump together: their numbers, and marks of their cells."""

    tiles: np.ndarray
    inside: np.ndarray


@njit
def _held(held, t, u, order, place, glue, least):
    """How many tiles hold to tile t by seams above ``least``; 0 if they are too many or tile u is among them."""
    tiles, inside = held
    right, below, h, w = glue
    tiles[0], size, low = t, 1, 0
    inside[place[t]] = True
    while low < size:
        a = tiles[low]
        y, x = place[a] // w, place[a] % w
        low += 1
        for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            if y + dy < 0 or y + dy >= h or x + dx < 0 or x + dx >= w:
                continue
            c = (y + dy) * w + x + dx
            if inside[c]:
                continue
            b = order[c]
            one, other = (a, b) if dy + dx > 0 else (b, a)
            if (at(right, one, other) if dy == 0 else at(below, one, other)) <= least:
                continue
            if b == u or size == tiles.size:
                _release(held, size, place)
                return 0
            inside[c], tiles[size] = True, b
            size += 1
    return size


@njit
def _contact(order, place, seams, t, u, side):
    """Gain by the seam of tile t with tile u on that side of it alone, less the two that are there now."""
    right, below, h, w = seams
    seam = right if side < 2 else below
    step, last = (1, w - 1) if side < 2 else (w, h - 1)
    a, b = (t, u) if side % 2 == 0 else (u, t)
    after, before = place[a], place[b]
    gain = at(seam, a, b)
    if (after % w if side < 2 else after // w) < last:
        gain -= at(seam, a, order[after + step])
    if (before % w if side < 2 else before // w) > 0:
        gain -= at(seam, order[before - step], b)
    return gain


@njit
def _release(held, size, place):
    for q in range(size):
        held.inside[place[held.tiles[q]]] = False


@njit
def shake(order, loose, seams, glue, bonds, temperature, draws):
    """One jump per row of random numbers, kept as often as its loss of score permits at this temperature; in place."""
    h, w = seams.h, seams.w
    n = h * w
    partner, strength = bonds
    place = np.empty(n, np.int64)
    places_into(place, order)
    inside = np.zeros(n, np.bool_)
    bench = Bench(
        order, place, seams, NO_MASK, inside, np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n, np.int64)
    )
    held, left = Held(np.empty(LARGEST, np.int64), inside), np.empty(LARGEST, np.int64)
    side_y, side_x = np.array([0, 0, 1, -1]), np.array([1, -1, 0, 0])
    for k in range(draws.shape[0]):
        t, side = loose[int(draws[k, 0] * loose.size)], int(draws[k, 1] * 4)
        rank = min(int(-LIKELY * np.log(1 - draws[k, 2])), partner.shape[2] - 1)
        u = partner[side, t, rank]
        dy = place[u] // w - side_y[side] - place[t] // w
        dx = place[u] % w - side_x[side] - place[t] % w
        if strength[side, t, rank] <= 0 or (dy == 0 and dx == 0):
            continue
        if _contact(order, place, seams, t, u, side) <= temperature * np.log(1 - draws[k, 5]):
            continue
        # squared: rather low, so that what holds together by plain seams moves together, too
        least = 2.0 if draws[k, 3] < ALONE else ((draws[k, 3] - ALONE) / (1 - ALONE)) ** 2
        size = _held(held, t, u, order, place, glue, least)
        if size == 0:
            continue
        tiles = held.tiles[:size]
        least_gain = temperature * np.log(1 - draws[k, 4])
        gain = shift(bench, tiles, dy, dx, least_gain)
        _release(held, size, place)
        if gain <= least_gain:
            continue
        for q in range(size):
            left[q] = place[tiles[q]]
        for q in range(size):
            for c in (left[q], left[q] + dy * w + dx):
                place[order[c]] = c
