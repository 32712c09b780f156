r"""The Sinkhorn kernels: one matrix at a time while it sits in cache, one thread per matrix.

Forward, the iteration in its scaling form: $K = e^{L - \max_j L}$, $u_t = 1/(K v_{t-1})$, $v_t = 1/(K^T u_t)$, $v_0 = 1$,
$P = u_T K v_T$. The product of rows with v and their contribution to $K^T u$ are taken in one sweep, four rows at a time, so
an iteration reads K once.

Where the last row and column stand for several dummies, ``alike`` of them, they sum to as many: $u_t = \alpha/(K v_{t-1})$ with $\alpha$ that
number for the last entry and 1 for the others, $v_t$ likewise, $v_0 = \alpha$; and backward $s_t$ and $r_t$ are divided by $\alpha$.

Backward, from P and the 2T vectors, with $a_t = u_t/u_T$, $c_t = v_t/v_T$: for t = T..1, $s_t = -c_t\bar g$,
$\bar f \mathrel{+}= a_t (P s_t)$, $r_t = -a_t \bar f$, $\bar g = c_{t-1} (P^T r_t)$; then
$\partial L = P (G + \sum_t a_t s_t^T + r_t c_{t-1}^T)$.

A matrix whose scalings leave a safe range is done by `moving`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import exp_below
from .lanes import (
    extremes,
    fetch,
    gradient_rows,
    highest_of_rows,
    inverse_of,
    lower_row,
    one_before,
    pull_four,
    pulled,
    scale_row,
    sweep_four,
    times,
)
from .lines import lay_out, pull_held, sweep_held, weighted_rows

LONG = 256  # rows from here on are long enough that their ends do not count
UNUSABLE, EASY, PACKED, MOVED = 0, 1, 2, 3  # kinds of matrices: how they were done, and how their gradient is


class State(NamedTuple):
    """What the backward pass needs beside the scores and P: 2T vectors for each of M = samples * batch matrices.

    Of an easy matrix, v[-1] is the start $v_0$. Of a moved one, row t stands for u 2^rows and v 2^columns. Of packed ones only ``first`` is
    kept, in (n, 8) for eight of them: with it and P their vectors are found again, which is quicker than to store and to load them.
    """

    u: np.ndarray  # (M, T, n)
    v: np.ndarray  # (M, T + 1, n)
    rows: np.ndarray  # (M, T, n) int32, of moved matrices only
    columns: np.ndarray  # (M, T + 1, n) int32, of moved matrices only
    used: np.ndarray  # (M,) int64, iterations
    kind: np.ndarray  # (M,) int8
    first: np.ndarray  # (M, n), v_0 / v_T of packed matrices only
    forbidden: np.ndarray  # (1,) bool: whether any entry was


@njit
def new_state(count, T, n, like, forbidden):
    return State(
        np.empty((count, T, n), like.dtype), np.empty((count, T + 1, n), like.dtype),
        np.empty((count, T, n), np.int32), np.empty((count, T + 1, n), np.int32),
        np.zeros(count, np.int64), np.zeros(count, np.int8), np.empty((count, n), like.dtype), forbidden,
    )  # fmt: skip


class Upon(NamedTuple):
    """The gradient by P: ``whole`` (M, n, n), or, if that is none, the products of ``left`` and ``right`` (M, k, n)."""

    whole: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Adjoint(NamedTuple):
    """Room for the backward pass of one matrix: a, c, r, s of all iterations, and what is pulled back through them."""

    a: np.ndarray
    c: np.ndarray
    r: np.ndarray
    s: np.ndarray
    f_bar: np.ndarray
    g_bar: np.ndarray
    over_u: np.ndarray  # 1 / u_T
    over_v: np.ndarray
    totals: np.ndarray
    sums: np.ndarray


@njit
def new_adjoint(T, n, like):
    """One allocation each: two views of one are taken to overlap, and the loops over them stay scalar."""
    return Adjoint(
        np.empty((T, n), like.dtype), np.empty((T, n), like.dtype), np.empty((T, n), like.dtype), np.empty((T, n), like.dtype),
        np.empty(n, like.dtype), np.empty(n, like.dtype), np.empty(n, like.dtype), np.empty(n, like.dtype),
        np.empty(n + 16, like.dtype), np.empty(n + 16, like.dtype),
    )  # fmt: skip


@njit(counts=False)
def row_maxima(K, tops):
    """The maximum of each row, and the minimum of all, which tells whether anything is forbidden."""
    return highest_of_rows(K, tops, K.shape[0], K.shape[1])


@njit(fastmath=True, counts=False)
def exp_rows(K, tops):
    """K = exp(K - its row's maximum)."""
    n = K.shape[0]
    if n >= LONG:
        for i in range(n):
            top = tops[i]
            for j in range(n):
                K[i, j] = exp_below(K[i, j] - top)
        return
    for i in range(n):
        lower_row(K, i, tops[i], n)
    flat = K.reshape(n * n)  # the end of every row would be done one by one: all rows at once
    for j in range(flat.size):
        flat[j] = exp_below(flat[j])


@njit(counts=False)
def fill(x, value):
    """x[:] = value, which numba would do several times slower, and ``put`` likewise."""
    for j in range(x.size):
        x[j] = value


@njit(counts=False)
def put(source, target):
    for j in range(source.size):
        target[j] = source[j]


@njit(fastmath=True, counts=False)
def dot(a, b):
    total = a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(fastmath=True, counts=False)
def sweep(K, lines, v, alike, totals, u, sums):
    """totals = K v, u = 1 / totals, sums = K^T u, in one pass over K, four rows at a time, or with its transpose."""
    n, (across, down) = K.shape[0], lines
    if down.shape[0]:
        weighted_rows(down, v, totals, n)
        column_scalings(totals, alike, u)
        weighted_rows(across, u, sums, n)
        return
    rows = n if alike == 1 else n - 1
    if across.shape[0]:
        sweep_held(across, v, totals, u, sums, rows)
    else:
        _sweep_by_fours(K, v, totals, u, sums, rows)
    if rows < n:
        totals[rows] = dot(K[rows], v)
        u[rows] = alike / totals[rows]
        for j in range(n):
            sums[j] += K[rows, j] * u[rows]


@njit(fastmath=True, counts=False)
def _sweep_by_fours(K, v, totals, u, sums, rows):
    n, one = K.shape[0], K.dtype.type(1)
    fill(sums, 0)
    for i in range(0, rows - 3, 4):
        sweep_four(K, i, v, None, totals, u, sums, n, i)
    if rows >= 4 and rows % 4:
        sweep_four(K, rows - 4, v, None, totals, u, sums, n, rows - rows % 4)
    elif rows < 4:
        for i in range(rows):
            totals[i] = dot(K[i], v)
            u[i] = one / totals[i]
            for j in range(n):
                sums[j] += K[i, j] * u[i]
    gather(sums, n)


@njit(fastmath=True, counts=False)
def column_scalings(sums, alike, v):
    """v = 1 / sums."""
    inverse_of(sums, v, v.size)
    if alike != 1:  # not in vain: the number would be awaited and stored once more
        v[v.size - 1] *= alike


@njit(counts=False)
def start_at(v, alike):
    """v = 1, but for the last entry, which stands for several."""
    fill(v, 1)
    v[v.size - 1] = alike


@njit(counts=False)
def gather(sums, n):
    """The last n % 8 sums come from behind the others, where `lanes` leaves them; ``sums`` has room for 8 more than n."""
    if n >= 8:
        for j in range(n - n % 8, n):
            sums[j] = sums[j + 8]


@njit(fastmath={"nnan", "nsz", "reassoc"}, counts=False)
def bounds(x):
    """Smallest and largest entry; NaN is not seen."""
    return extremes(x, 0, x.size)


@njit(counts=False)
def reach(u, v, start):
    """The largest $a_t c_s$ of any entry and any two iterations; ``start`` is $v_0$."""
    return _rise(u, u[0]) * _rise(v, start)


@njit(counts=False)
def _rise(x, start):
    """The largest ratio of any entry of any row, or of the start, to that of the last."""
    most = x.dtype.type(1)
    for j in range(x.shape[1]):
        top = start[j]
        for t in range(x.shape[0]):
            top = max(top, x[t, j])
        most = max(most, top / x[-1, j])
    return most


@njit(fastmath=True, counts=False)
def iterate(K, lines, u, v, alike, totals, sums, tolerance, limits):
    """All iterations and the result in K; how many were used, or 0 if the matrix is hard."""
    T, n = u.shape
    one = K.dtype.type(1)
    lay_out(K, lines)
    used, least_row, least_column, most_row, most_column = T, one, one, one, one
    for t in range(T):
        before = v[t - 1] if t else v[T]  # v[T] holds the start
        sweep(K, lines, before, alike, totals, u[t], sums)
        if t and tolerance > 0:
            worst = K.dtype.type(0)
            for i in range(n - 1):
                worst = max(worst, abs(u[t - 1, i] * totals[i] - one))
            worst = max(worst, abs(u[t - 1, n - 1] / alike * totals[n - 1] - one))
            if worst <= tolerance:
                used = t
                break
        low, most_row = bounds(totals[:n])
        least_row = min(least_row, low)
        low, most_column = bounds(sums[:n])
        least_column = min(least_column, low)
        # a NaN anywhere in K is in one of the totals and so in each of the sums
        if not (least_row * least_column > limits[0] and max(most_row, most_column) < limits[1]) or sums[0] != sums[0]:
            return 0
        column_scalings(sums, alike, v[t])
    # both bound a_t c_t, and with it what P may drop; the first costs nothing
    if most_row / least_row * most_column / least_column > limits[2] and reach(u[:used], v[:used], v[T]) > limits[2]:
        return 0
    scaled(K, u[used - 1], v[used - 1])
    return used


@njit(counts=False)
def scaled(K, u, v):
    """K_ij *= u_i v_j."""
    n = K.shape[0]
    for i in range(n):
        scale_row(K, i, u[i], v, n)


@njit(fastmath=True, counts=False)
def pull(P, lines, s, a, first, alike, r, totals, sums):
    """r = -a (first + a (P s)), sums = P^T r, in one pass over P; the last of s and of r are shared by those that they stand for."""
    n, (across, down) = P.shape[0], lines
    rows = n if alike == 1 else n - 1
    if rows < n:
        s[rows] /= alike
    if down.shape[0]:
        weighted_rows(down, s, totals, n)
        pulled(totals, a, first, r, n)
        if rows < n:
            r[rows] /= alike
        weighted_rows(across, r, sums, n)
        return
    if across.shape[0]:
        pull_held(across, s, a, first, r, sums, rows)
    else:
        pull_by_fours(P, s, a, first, r, sums, rows)
    if rows < n:
        r[rows] = -a[rows] * (first[rows] + a[rows] * dot(P[rows], s)) / alike
        for j in range(n):
            sums[j] += P[rows, j] * r[rows]


@njit(fastmath=True, counts=False)
def pull_by_fours(P, s, a, first, r, sums, rows):
    n = P.shape[1]
    fill(sums, 0)
    for i in range(0, rows - 3, 4):
        pull_four(P, i, s, a, first, r, sums, n, i)
    if rows >= 4 and rows % 4:
        pull_four(P, rows - 4, s, a, first, r, sums, n, rows - rows % 4)
    elif rows < 4:
        for i in range(rows):
            r[i] = -a[i] * (first[i] + a[i] * dot(P[i], s))
            for j in range(n):
                sums[j] += P[i, j] * r[i]
    if rows >= 4:
        gather(sums, n)


@njit(fastmath=True, counts=False)
def weigh_gradient(P, G, f_bar, g_bar):
    """The sums of the rows and columns of G P."""
    m, n = P.shape
    zero = P.dtype.type(0)
    for j in range(n):
        g_bar[j] = zero
    for i in range(m):
        total = zero
        for j in range(n):
            w = G[i, j] * P[i, j]
            total += w
            g_bar[j] += w
        f_bar[i] = total


@njit(fastmath=True, counts=False)
def weigh_products(P, lines, left, right, T, work):
    """The same for G = left^T right, both (k, n), with P laid out; these are put behind the factors that T iterations will have."""
    n, (across, down) = P.shape[0], lines
    totals, sums = work.totals, work.sums
    fill(work.f_bar, 0)
    fill(work.g_bar, 0)
    for k in range(left.shape[0]):
        if down.shape[0]:
            weighted_rows(down, right[k], totals, n)
            weighted_rows(across, left[k], sums, n)
        else:
            _sums_both_ways(P, left[k], right[k], totals, sums)
        for j in range(n):
            work.f_bar[j] += left[k, j] * totals[j]
            work.g_bar[j] += right[k, j] * sums[j]
        put(left[k], work.a[T + k])
        put(right[k], work.s[T + k])
        fill(work.r[T + k], 0)
        fill(work.c[T + k], 0)


@njit(fastmath=True, counts=False)
def write_products(left, right, G):
    """G = left^T right."""
    fill(G.reshape(G.size), 0)
    for k in range(left.shape[0]):
        for i in range(G.shape[0]):
            row, weight, other = G[i], left[k, i], right[k]
            for j in range(row.size):
                row[j] += weight * other[j]


@njit(fastmath=True, counts=False)
def _sums_both_ways(P, left, right, totals, sums):
    """totals = P right, sums = P^T left."""
    n = P.shape[0]
    fill(sums, 0)
    for i in range(n):
        row, weight, total = P[i], left[i], P.dtype.type(0)
        for j in range(n):
            total += row[j] * right[j]
            sums[j] += row[j] * weight
        totals[i] = total


@njit(counts=False)
def _fetch_part(ahead, t, T):
    """Part t of T of each of these vectors: all at once they would wait for each other."""
    for k in range(len(ahead)):
        fetch(ahead[k], ahead[k].size * t // T, ahead[k].size * (t + 1) // T)


@njit(fastmath=True, counts=False)
def recursion(P, lines, u, v, start, alike, work, ahead):
    """Fills a, c, r, s (T x n each); c[t] is $c_{t-1}$ of the formula, so c[0] belongs to the start, $v_0$. G is weighed, P laid out.

    ``ahead`` is what the next matrix needs: it is brought nearer on the way.
    """
    T, n = u.shape
    a, c, r, s, f_bar, g_bar, over_u, over_v, totals, sums = work
    inverse_of(u[T - 1], over_u, n)
    inverse_of(v[T - 1], over_v, n)
    for j in range(n):
        s[T - 1, j] = -g_bar[j]
    for t in range(T - 1, -1, -1):
        _fetch_part(ahead, t, T)
        times(u[t], over_u, a[t], n)
        pull(P, lines, s[t], a[t], f_bar, alike, r[t], totals, sums)
        if t == 0:
            times(start, over_v, c[0], n)
            break
        one_before(sums, v[t - 1], over_v, c[t], s[t - 1], n)
        if t == T - 1:
            fill(f_bar, 0)


@njit(fastmath=True, counts=False)
def gradient(P, G, a, c, r, s, D, add):
    """D = P (G + sum_t a_t s_t^T + r_t c_{t-1}^T), or D += that; the factors may have room for more than P has rows and columns."""
    (m, n), (T, stride) = P.shape, a.shape
    for i in range(0, m - 3, 4):
        gradient_rows(D, add, P, G, i, a, s, r, c, T, n, stride, i)
    if m >= 4 and m % 4:
        gradient_rows(D, add, P, G, m - 4, a, s, r, c, T, n, stride, m - m % 4)
    elif m < 4:
        for i in range(m):
            for j in range(n):
                total = P.dtype.type(0)
                if G is not None:
                    total = G[i, j]
                for t in range(T):
                    total += a[t, i] * s[t, j] + r[t, i] * c[t, j]
                D[i, j] = total * P[i, j] + (D[i, j] if add else P.dtype.type(0))
