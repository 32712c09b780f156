r"""Sinkhorn where not every item has a place, of easy matrices: the real scores, m x n, and beside them one column and one row for the dummies.

As in `scaling`, with dummies that are all alike: item i left out scores ``left_out[i]``, position j left empty ``empty[j]``. The column stands for
as many dummy positions as its sum says, the row for as many dummy items; one that stands for none is not there. The
real part stays as it was given, contiguous and of its own size, and the border costs an iteration 2 (m + n) numbers more.

A batch with a matrix whose scalings leave the safe range is done again as a padded square.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import exp_below
from .lanes import extremes, lower_row, pulled, scale_row, sweep_four
from .lines import lay_out, new_lines, weighted_rows
from .scaling import bounds, dot, fill, gather, gradient, pull_by_fours, put, weigh_gradient


class Given(NamedTuple):
    """What is asked for."""

    scores: np.ndarray  # (batch, m * n)
    left_out: np.ndarray  # (1 or batch, m)
    empty: np.ndarray  # (1 or batch, n)
    corner: np.generic  # what a dummy with a dummy scores
    alike: tuple[int, int]  # dummy items and dummy positions


class Kept(NamedTuple):
    """What the backward pass needs beside the real part of P, for each matrix: its border, and all scalings."""

    column: np.ndarray  # (batch, m) of P
    row: np.ndarray  # (batch, n) of P
    corner: np.ndarray  # (batch,) of P
    u: np.ndarray  # (batch, T, m)
    v: np.ndarray  # (batch, T, n)
    ends: np.ndarray  # (batch, T, 2): the scalings of the row and the column of the border
    done: np.ndarray  # (batch,): which matrices are left out here, because they were packed
    flags: np.ndarray  # (2,): whether an entry is forbidden, whether a matrix is hard


class Back(NamedTuple):
    """Where gradients go."""

    scores: np.ndarray  # (batch, m, n)
    left_out: np.ndarray  # (batch, m)
    empty: np.ndarray  # (batch, n)


@njit(fastmath=True, counts=False)
def _start(K, left_out, empty, corner, alike, column, row, tops):
    """K, column, row = e^scores over the largest of each row; e^corner likewise; and whether nothing is forbidden."""
    m, n = K.shape
    flat, least = K.reshape(m * n), np.inf
    for i in range(m):
        low, tops[i] = extremes(flat, i * n, n)
        least = min(least, low)
        if alike[1]:
            tops[i] = max(tops[i], left_out[i])
        column[i] = exp_below(left_out[i] - tops[i]) if alike[1] else 0
    if n >= 256:
        for i in range(m):
            top = tops[i]
            for j in range(n):
                K[i, j] = exp_below(K[i, j] - top)
    else:
        for i in range(m):
            lower_row(K, i, tops[i], n)
        for e in range(flat.size):
            flat[e] = exp_below(flat[e])
    if not alike[0]:
        fill(row, 0)
        return row.dtype.type(0), least > -np.inf
    top = bounds(empty)[1]
    if alike[1]:
        top = max(top, corner)
    for j in range(n):
        row[j] = exp_below(empty[j] - top)
    return exp_below(corner - top) if alike[1] else row.dtype.type(0), least > -np.inf


@njit(fastmath=True, counts=False)
def _sweep(K, lines, v, beside, totals, u, sums):
    """totals = K v + beside, u = 1 / totals, sums = K^T u."""
    m, n = K.shape
    one = K.dtype.type(1)
    if lines[0].shape[0]:
        weighted_rows(lines[1], v, totals, m)
        for i in range(m):
            totals[i] += beside[i]
            u[i] = one / totals[i]
        weighted_rows(lines[0], u, sums, n)
        return
    fill(sums, 0)
    for i in range(0, m - 3, 4):
        sweep_four(K, i, v, beside, totals, u, sums, n, i)
    if m >= 4 and m % 4:
        sweep_four(K, m - 4, v, beside, totals, u, sums, n, m - m % 4)
    elif m < 4:
        for i in range(m):
            totals[i] = dot(K[i], v) + beside[i]
            u[i] = one / totals[i]
            for j in range(n):
                sums[j] += K[i, j] * u[i]
    if m >= 4:
        gather(sums, n)


@njit(fastmath=True)
def _iterate(K, lines, column, row, corner, alike, u, v, ends, totals, sums, beside, limits):
    """All iterations, and P in K, column and row; whether the matrix is easy."""
    T, m, n = u.shape[0], *K.shape
    one = K.dtype.type(1)
    # a border that is not there has a sum of its own, 1, and touches no other
    alone_row, alone_column = one if alike[0] == 0 else one - one, one if alike[1] == 0 else one - one
    items, positions = K.dtype.type(max(alike[0], 1)), K.dtype.type(max(alike[1], 1))
    before, end = np.ones(n, K.dtype), positions
    least_row = least_column = most_row = most_column = one
    for t in range(T):
        for i in range(m):
            beside[i] = column[i] * end
        _sweep(K, lines, before, beside, totals, u[t], sums)
        bottom = dot(row, before) + corner * end + alone_row
        ends[t, 0] = items / bottom
        for j in range(n):
            sums[j] += row[j] * ends[t, 0]
            v[t, j] = one / sums[j]
        right = dot(column, u[t]) + corner * ends[t, 0] + alone_column
        ends[t, 1] = positions / right
        low, high = bounds(totals[:m])
        least_row, most_row = min(least_row, min(low, bottom)), max(high, bottom)
        low, high = bounds(sums[:n])
        least_column, most_column = min(least_column, min(low, right)), max(high, right)
        # a NaN anywhere in K is in one of the totals and so in each of the sums
        if not (least_row * least_column > limits[0] and max(most_row, most_column) < limits[1]) or sums[0] != sums[0]:
            return False
        before, end = v[t], ends[t, 1]
    far = most_row / least_row * most_column / least_column > limits[2]
    if far and _farthest(u, ends[:, 0], one - one, one - one) * _farthest(v, ends[:, 1], one, positions) > limits[2]:
        return False
    for i in range(m):
        scale_row(K, i, u[T - 1, i], v[T - 1], n)
        column[i] *= u[T - 1, i] * ends[T - 1, 1]
    for j in range(n):
        row[j] *= ends[T - 1, 0] * v[T - 1, j]
    return True


@njit(counts=False)
def _farthest(x, end, start, start_of_end):
    """The largest ratio of a scaling, of any iteration or the start, to that of the last."""
    T, n = x.shape
    most = start_of_end
    for t in range(T):
        most = max(most, end[t])
    most /= end[T - 1]
    for j in range(n):
        highest = start
        for t in range(T):
            highest = max(highest, x[t, j])
        most = max(most, highest / x[T - 1, j])
    return most


@njit
def forward(given, P, kept, limits, low, high):
    """Those of matrices low..high-1 that are not packed; stops at one that is hard."""
    m, n = P.shape[1:]
    lines = new_lines(m, n, P)
    totals, sums = np.empty(m + 8, P.dtype), np.empty(n + 8, P.dtype)
    beside = np.empty(m, P.dtype)
    for b in range(low, high):
        if kept.done[b]:
            continue
        K, column, row = P[b], kept.column[b], kept.row[b]
        put(given.scores[b], K.reshape(m * n))
        left_out, empty = given.left_out[b % given.left_out.shape[0]], given.empty[b % given.empty.shape[0]]
        corner, free = _start(K, left_out, empty, given.corner, given.alike, column, row, totals)
        if not free:
            kept.flags[0] = True
        lay_out(K, lines)
        u, v, ends = kept.u[b], kept.v[b], kept.ends[b]
        if not _iterate(K, lines, column, row, corner, given.alike, u, v, ends, totals, sums, beside, limits):
            kept.flags[1] = True
            return
        kept.corner[b] = corner * ends[-1, 0] * ends[-1, 1]


@njit(fastmath=True, counts=False)
def _pull(P, lines, s, a, first, r, totals, sums):
    """r = -a (first + a (P s)), sums = P^T r."""
    m, n = P.shape
    if lines[0].shape[0]:
        weighted_rows(lines[1], s, totals, m)
        pulled(totals, a, first, r, m)
        weighted_rows(lines[0], r, sums, n)
        return
    pull_by_fours(P, s, a, first, r, sums, m)


@njit(fastmath=True, counts=False)
def _recursion(P, lines, column, row, corner, G, alike, u, v, ends, a, s, r, c, tips, f, g, totals, sums):
    """As `scaling.recursion`, with the border: a, r (T, at least m), s, c (T, at least n), and of the border the same four in ``tips``."""
    T, m, n = u.shape[0], *P.shape
    one, zero = P.dtype.type(1), P.dtype.type(0)
    items, positions = P.dtype.type(max(alike[0], 1)), P.dtype.type(max(alike[1], 1))
    lay_out(P, lines)
    for i in range(m):
        totals[i] = one / u[T - 1, i]
    for j in range(n):
        c[0, j] = sums[j] = one / v[T - 1, j]
    for t in range(T):
        for i in range(m):
            a[t, i] = u[t, i] * totals[i]
        tips[t, 0] = ends[t, 0] / ends[T - 1, 0]
        tips[t, 3] = (ends[t - 1, 1] if t else positions) / ends[T - 1, 1]
    for t in range(1, T):
        for j in range(n):
            c[t, j] = v[t - 1, j] * sums[j]
    weigh_gradient(P, G, f, g)
    f_end = g_end = zero
    for t in range(T - 1, -1, -1):
        for j in range(n):
            s[t, j] = -(c[t + 1, j] if t + 1 < T else one) * g[j]
        s_end = -(tips[t + 1, 3] if t + 1 < T else one) * g_end / positions
        for i in range(m):
            f[i] += a[t, i] * column[i] * s_end
        r_end = -tips[t, 0] * (f_end + tips[t, 0] * (dot(row, s[t, :n]) + corner * s_end)) / items
        _pull(P, lines, s[t, :n], a[t, :m], f, r[t, :m], totals, sums)
        for j in range(n):
            g[j] = c[t, j] * (sums[j] + row[j] * r_end)
        g_end = tips[t, 3] * (dot(column, r[t, :m]) + corner * r_end)
        tips[t, 1], tips[t, 2] = s_end, r_end
        fill(f, zero)


@njit(fastmath=True, counts=False)
def _gradient(P, column, row, G, a, s, r, c, tips, D, to_left_out, to_empty):
    """D = P (G + sum_t a_t s_t^T + r_t c_{t-1}^T), and likewise on the border, where G is 0."""
    (m, n), T = P.shape, len(a)
    gradient(P, G, a, c, r, s, D, False)
    fill(to_left_out, 0)
    fill(to_empty, 0)
    for t in range(T):
        for i in range(m):
            to_left_out[i] += a[t, i] * tips[t, 1] + r[t, i] * tips[t, 3]
        for j in range(n):
            to_empty[j] += tips[t, 0] * s[t, j] + tips[t, 2] * c[t, j]
    for i in range(m):
        to_left_out[i] *= column[i]
    for j in range(n):
        to_empty[j] *= row[j]


@njit
def backward(given, P, G, kept, back, low, high):
    (m, n), T = P.shape[1:], kept.u.shape[1]
    lines = new_lines(m, n, P)
    stride = max(m, n)
    a, s = np.empty((T, stride), P.dtype), np.empty((T, stride), P.dtype)
    r, c = np.empty((T, stride), P.dtype), np.empty((T, stride), P.dtype)
    f, g, tips = np.empty(m, P.dtype), np.empty(n, P.dtype), np.empty((T, 4), P.dtype)
    totals, sums = np.empty(m + 8, P.dtype), np.empty(n + 8, P.dtype)
    for b in range(low, high):
        if kept.done[b]:
            continue
        column, row, ends = kept.column[b], kept.row[b], kept.ends[b]
        _recursion(
            P[b], lines, column, row, kept.corner[b], G[b], given.alike, kept.u[b], kept.v[b], ends,
            a, s, r, c, tips, f, g, totals, sums,
        )  # fmt: skip
        _gradient(P[b], column, row, G[b], a, s, r, c, tips, back.scores[b], back.left_out[b], back.empty[b])
