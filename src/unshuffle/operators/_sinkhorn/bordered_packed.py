"""Small matrices with a border, eight at a time: what `bordered` asks for, as `packed` does it, with the border as a last row and column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from .lanes import WIDTH
from .packed import exp_all, iterate, packed_center, packed_from, packed_into, packed_scale, pull_back
from .scaling import bounds, fill, put


class Kept(NamedTuple):
    """What the backward pass needs: P with its border and the start, in groups of eight."""

    whole: np.ndarray  # (groups, rows * columns * 8)
    first: np.ndarray  # (groups, columns * 8): v_0 / v_T
    done: np.ndarray  # (batch,): which matrices are packed, and not left to `bordered`
    flags: np.ndarray  # (2,): as there


@njit
def _sides(shape, alike, dtype):
    """Rows and columns with those of the border that are there, and how many the last of each stand for."""
    several = dtype.type(max(alike[0], 1)), dtype.type(max(alike[1], 1))
    return shape[1] + (alike[0] > 0), shape[2] + (alike[1] > 0), several


@njit(counts=False)
def _copy(source, wide, target, broad, m, n):
    """The first n of m rows, from rows of ``wide`` to rows of ``broad``: the real part to beside a border and back; both packed."""
    for i in range(m):
        own = source[i * wide * WIDTH : (i * wide + n) * WIDTH]
        line = target[i * broad * WIDTH : (i * broad + n) * WIDTH]
        for e in range(own.size):
            line[e] = own[e]


@njit(counts=False)
def _surround(X, m, n, rows, columns, given, b):
    """The prices of matrices b..b+7 as the border of X."""
    if columns > n:
        _put_prices(given.left_out, b, X[n * WIDTH :], columns * WIDTH)
    if rows > m:
        last = X[m * columns * WIDTH :]
        _put_prices(given.empty, b, last, WIDTH)
        if columns > n:
            fill(last[n * WIDTH :], given.corner)


@njit(counts=False)
def _put_prices(prices, b, out, stride):
    own = prices.shape[0] > 1
    for i in range(prices.shape[1]):
        for k in range(WIDTH):
            out[i * stride + k] = prices[b + k if own else 0, i]


@njit
def forward(given, P, T, kept, limits, low, high):
    """Groups low..high-1 of eight neighbours in the batch, where none of the eight is hard; they are noted in ``kept.done``."""
    (m, n), dtype = P.shape[1:], P.dtype
    rows, columns, alike = _sides(P.shape, given.alike, dtype)
    real, best, seen = np.empty(m * n * WIDTH, dtype), np.empty(columns * WIDTH, dtype), np.empty(4 * WIDTH, dtype)
    u, v = np.empty((T, rows * WIDTH), dtype), np.empty((T + 1, columns * WIDTH), dtype)
    room = np.empty(2 * columns * WIDTH, dtype)
    for group in range(low, high):
        b, X, first = group * WIDTH, kept.whole[group], kept.first[group]
        packed_from(given.scores[b : b + WIDTH], real, m * n)
        _copy(real, n, X, columns, m, n)
        _surround(X, m, n, rows, columns, given, b)
        packed_center(X, rows, columns, best, seen)
        # the least of all with the border is that of the real part, if dummies may meet
        if bounds(seen[:WIDTH] if given.corner > -np.inf else real)[0] == -np.inf:
            kept.flags[0] = True
        exp_all(X)
        fill(v[0], 1)
        fill(v[0, -WIDTH:], alike[1])
        if not iterate(X, alike, u, v, room, seen, limits):
            continue
        packed_scale(X, rows, columns, u[T - 1], v[T])
        _copy(X, columns, real, n, m, n)
        packed_into(real, P[b : b + WIDTH], m * n)
        for e in range(first.size):
            first[e] = v[0, e] / v[T, e]
        kept.done[b : b + WIDTH] = True


@njit
def backward(given, P, G, T, kept, back, low, high):
    """Of groups low..high-1 those that were packed."""
    (m, n), dtype = P.shape[1:], P.dtype
    rows, columns, alike = _sides(P.shape, given.alike, dtype)
    real, room = np.empty(m * n * WIDTH, dtype), np.empty((4 * columns + rows) * WIDTH, dtype)
    u, v = np.empty((T, rows * WIDTH), dtype), np.empty((T + 1, columns * WIDTH), dtype)
    by_whole, D = np.zeros(rows * columns * WIDTH, dtype), np.empty(rows * columns * WIDTH, dtype)
    for group in range(low, high):
        b = group * WIDTH
        if not kept.done[b]:
            continue
        packed_from(G[b : b + WIDTH], real, m * n)
        _copy(real, n, by_whole, columns, m, n)
        put(kept.first[group], v[0])
        pull_back(kept.whole[group], by_whole, alike, u, v, room, D)
        _copy(D, columns, real, n, m, n)
        packed_into(real, back.scores[b : b + WIDTH], m * n)
        _spend(D, m, n, rows, columns, back, b)


@njit(counts=False)
def _spend(D, m, n, rows, columns, back, b):
    """The border of D on to the prices, whose gradient is 0 where there is none."""
    for k in range(WIDTH):
        if columns > n:
            for i in range(m):
                back.left_out[b + k, i] = D[(i * columns + n) * WIDTH + k]
        if rows > m:
            for j in range(n):
                back.empty[b + k, j] = D[(m * columns + j) * WIDTH + k]
