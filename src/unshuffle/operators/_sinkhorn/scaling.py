r"""The Sinkhorn kernels: one matrix at a time while it sits in cache, one thread per matrix.

Forward, the iteration in its scaling form: $K = e^{L - \max_j L}$, $u_t = 1/(K v_{t-1})$, $v_t = 1/(K^T u_t)$, $v_0 = 1$,
$P = u_T K v_T$. The product of rows with v and their contribution to $K^T u$ are taken in one sweep, four rows at a time, so
an iteration reads K once.

Backward, from P and the 2T vectors, with $a_t = u_t/u_T$, $c_t = v_t/v_T$: for t = T..1, $s_t = -c_t\bar g$,
$\bar f \mathrel{+}= a_t (P s_t)$, $r_t = -a_t \bar f$, $\bar g = c_{t-1} (P^T r_t)$; then
$\partial L = P (G + \sum_t a_t s_t^T + r_t c_{t-1}^T)$.

Where a column is weak in every row (positions that a network has not learned to use yet, inputs far from 0) its scaling would leave
the range of floats, though nothing about it is hard: $K = e^{L - c_j - \max_j}$ and $v_0 = e^{c}$ are the same iteration
(`column_shifts`).

A matrix whose scalings still leave a safe range is *hard*; ``_numba_hard`` does it again with log potentials in double precision.
"""

from __future__ import annotations

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import exp_below, gumbel_of
from .lanes import extremes, four_gradient_rows, lower_row, pull_four, scale_row, sweep_four
from .noise import M0, M1, ROUNDS, W0, W1, rows_at_once

_M0, _M1 = np.uint64(M0), np.uint64(M1)
_W0, _W1 = np.uint32(W0), np.uint32(W1)
_32 = np.uint64(32)

# log of a column's largest share of any row below which it is shifted: well within what the scalings can take
WEAK = -12.0
# matrices and rows that are looked at first: what is weak there is shifted at once, the rest when it turns out to be hard
PROBES = 4
EASY, HARD, PACKED, FORBIDDEN = 0, 1, 2, 3  # places in ``seen``: whether there was any such matrix or entry
rows_at_once = njit(rows_at_once)


@njit
def new_words(n):
    """Scratch for the random words of one group of rows."""
    return np.empty(4 * ((rows_at_once(n) * n + 3) // 4), np.uint32)


@njit
def number_of(m, batch, stream):
    """The number of matrix m in the whole batch, see ``_philox.Noise``; stream = (two words of the key, first, total)."""
    return m // batch * np.int64(stream[3]) + np.int64(stream[2]) + m % batch


@njit(fastmath=True)
def _gumbel(words, out, group, matrix, k0, k1):
    """Gumbel(0, 1) noise of one group of rows, flat; see ``_philox`` for which word serves which entry."""
    count = out.size
    q = (count + 3) // 4
    for k in range(q):
        c0, c1, c2, c3 = np.uint32(k), np.uint32(group), np.uint32(matrix), np.uint32(0)
        key0, key1 = k0, k1
        for _ in range(ROUNDS):
            p0 = np.uint64(c0) * _M0
            p1 = np.uint64(c2) * _M1
            c0 = np.uint32(p1 >> _32) ^ c1 ^ key0
            c2 = np.uint32(p0 >> _32) ^ c3 ^ key1
            c1 = np.uint32(p1)
            c3 = np.uint32(p0)
            key0 = np.uint32(key0 + _W0)
            key1 = np.uint32(key1 + _W1)
        words[k] = c0
        words[k + q] = c1
        words[k + 2 * q] = c2
        words[k + 3 * q] = c3
    one = out.dtype.type(1)
    for j in range(count):
        out[j] = gumbel_of(np.int32(words[j] >> np.uint32(1)), one)


@njit(fastmath=True)
def _scale(x, scores, beta, field, noise):
    """x = beta * (scores + noise * x); ``field`` is empty for the scalar beta."""
    if field.size:
        for j in range(x.size):
            x[j] = field[j] * (scores[j] + noise * x[j])
    else:
        for j in range(x.size):
            x[j] = beta * (scores[j] + noise * x[j])


@njit(fastmath=True)
def _scale_without_noise(x, scores, beta, field):
    if field.size:
        for j in range(x.size):
            x[j] = field[j] * scores[j]
    else:
        for j in range(x.size):
            x[j] = beta * scores[j]


@njit
def logits(x, scores, beta, field, noise, words, matrix, stream):
    """x = beta * (scores + noise * g) for one matrix, all flat, group of rows by group of rows."""
    if noise == 0:
        _scale_without_noise(x, scores, beta, field)
        return
    n = int(np.sqrt(x.size))
    width = rows_at_once(n) * n
    for group in range((x.size + width - 1) // width):
        low, high = group * width, min(x.size, (group + 1) * width)
        _gumbel(words, x[low:high], group, matrix, stream[0], stream[1])
        _scale(x[low:high], scores[low:high], beta, field[low:high], noise)


@njit
def looks_weak(scores, beta, field):
    """Whether one of a few matrices may have a weak column, by its scores (without noise) in a few rows."""
    batch, size = scores.shape
    n = int(np.sqrt(size))
    step = max(1, n // PROBES)
    best = np.empty(n, scores.dtype)
    for b in range(0, batch, max(1, batch // PROBES)):
        best[:] = -np.inf
        own = field[b % field.shape[0]] if field.shape[0] else scores[0, :0]
        for i in range(0, n, step):
            _strengthen(best, scores[b, i * n : (i + 1) * n], beta[b], own[i * n : (i + 1) * n])
        if best.min() < WEAK:
            return True
    return False


@njit(fastmath={"nnan", "nsz", "reassoc"})
def _strengthen(best, row, beta, field):
    """best_j = max(best_j, L_j - max_k L_k) for one row L = beta * scores; what a NaN gives is found out later."""
    if field.size:
        top = field[0] * row[0]
        for j in range(1, row.size):
            top = max(top, field[j] * row[j])
        if top > -np.inf:
            for j in range(row.size):
                best[j] = max(best[j], field[j] * row[j] - top)
        return
    top = beta * row[0]
    for j in range(1, row.size):
        top = max(top, beta * row[j])
    if top > -np.inf:
        for j in range(row.size):
            best[j] = max(best[j], beta * row[j] - top)


@njit
def column_shifts(scores, beta, field, shifts, low, high):
    """Of matrices low..high-1: $c_j$ = max over i of $L_{ij}$ less the maximum of its row, without noise, if any is weak; else 0."""
    n = shifts.shape[1]
    for b in range(low, high):
        best = shifts[b]
        best[:] = -np.inf
        own = field[b % field.shape[0]] if field.shape[0] else scores[0, :0]
        for i in range(n):
            _strengthen(best, scores[b, i * n : (i + 1) * n], beta[b], own[i * n : (i + 1) * n])
        if not WEAK > best.min() > -np.inf:  # a column that is forbidden altogether cannot be helped
            best[:] = 0


@njit(fastmath={"nsz", "contract"})
def shift_columns(K, shift, start, stride):
    """K_ij -= c_j and its row's maximum; the start of the iteration is e^c, with ``stride`` numbers from one to the next.

    In double precision: both are large where their difference is small.
    """
    n = shift.size
    for i in range(n):
        row = K[i * n : (i + 1) * n]
        top = -np.inf
        for j in range(n):
            top = max(top, np.float64(row[j]) - np.float64(shift[j]))
        if top > -np.inf:
            for j in range(n):
                row[j] = np.float64(row[j]) - np.float64(shift[j]) - top
    for j in range(n):
        start[j * stride] = np.exp(shift[j])


@njit(fastmath={"nnan", "nsz", "reassoc"})
def _row_maxima(K, tops):
    """The maximum of each row, and the minimum of all, which tells whether anything is forbidden."""
    n = K.shape[0]
    bottom, flat = K[0, 0], K.reshape(n * n)
    for i in range(n):
        least, tops[i] = extremes(flat, i * n, n)
        bottom = min(bottom, least)
    return bottom


@njit(fastmath=True)
def _exp_rows(K, tops):
    """K = exp(K - its row's maximum)."""
    n = K.shape[0]
    if n >= 256:
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


@njit(fastmath=True)
def _dot(a, b):
    total = a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(fastmath=True)
def _sweep(K, v, totals, u, sums):
    """totals = K v, u = 1 / totals, sums = K^T u, in one pass over K, four rows at a time."""
    n = K.shape[0]
    one = K.dtype.type(1)
    sums[:] = 0
    for i in range(0, n - 3, 4):
        sweep_four(K, i, v, totals, u, sums, n, i)
    if n >= 4 and n % 4:
        sweep_four(K, n - 4, v, totals, u, sums, n, n - n % 4)
    elif n < 4:
        for i in range(n):
            totals[i] = _dot(K[i], v)
            u[i] = one / totals[i]
            for j in range(n):
                sums[j] += K[i, j] * u[i]
    _gather(sums, n)


@njit
def _gather(sums, n):
    """The last n % 8 sums come from behind the others, where ``_simd`` leaves them; the length of ``sums`` is n + 8."""
    if n >= 8:
        for j in range(n - n % 8, n):
            sums[j] = sums[j + 8]


@njit(fastmath={"nnan", "nsz", "reassoc"})
def bounds(x):
    """Smallest and largest entry; NaN is not seen."""
    return extremes(x, 0, x.size)


@njit
def reach(u, v, start):
    """The largest $a_t c_s$ of any entry and any two iterations; ``start`` is $v_0$."""
    T, n = u.shape
    row = column = u.dtype.type(1)
    for j in range(n):
        most_u, most_v = u[0, j], max(start[j], v[0, j])
        for t in range(1, T):
            most_u, most_v = max(most_u, u[t, j]), max(most_v, v[t, j])
        row, column = max(row, most_u / u[T - 1, j]), max(column, most_v / v[T - 1, j])
    return row * column


@njit(fastmath=True)
def _iterate(K, u, v, totals, sums, tolerance, limits):
    """All iterations and the result in K; how many were used, or 0 if the matrix is hard."""
    T, n = u.shape
    one = K.dtype.type(1)
    used, least_row, least_column, most_row, most_column = T, one, one, one, one
    for t in range(T):
        before = v[t - 1] if t else v[T]  # v[T] holds the start, all ones
        _sweep(K, before, totals, u[t], sums)
        if t and tolerance > 0:
            worst = K.dtype.type(0)
            for i in range(n):
                worst = max(worst, abs(u[t - 1, i] * totals[i] - one))
            if worst <= tolerance:
                used = t
                break
        low, most_row = bounds(totals)
        least_row = min(least_row, low)
        low, most_column = bounds(sums[:n])
        least_column = min(least_column, low)
        # a NaN anywhere in K is in one of the totals and so in each of the sums
        if (
            not (min(least_row, least_column) > limits[0] and max(most_row, most_column) < limits[1])
            or sums[0] != sums[0]
        ):
            return 0
        for j in range(n):
            v[t, j] = one / sums[j]
    # both bound a_t c_t, and with it what P may drop; the first costs nothing
    if most_row / least_row * most_column / least_column > limits[2] and reach(u[:used], v[:used], v[T]) > limits[2]:
        return 0
    last_u, last_v = u[used - 1], v[used - 1]
    for i in range(n):
        scale_row(K, i, last_u[i], last_v, n)
    return used


@njit
def forward(scores, beta, field, noise, stream, shifts, tolerance, soft, u, v, used, seen, limits, low, high):
    """Matrices low..high-1 of ``soft`` (samples * batch, n, n); scores and field are flat per matrix."""
    batch, n = scores.shape[0], soft.shape[1]
    # one allocation each: two views of one are taken to overlap, and the loops over them stay scalar
    totals, sums = np.empty(n, soft.dtype), np.empty(n + 8, soft.dtype)
    words = new_words(n)
    nothing = scores[0, :0]
    for m in range(low, high):
        if used[m] != 0:  # done in a packed group, or without shifts
            continue
        b = m % batch
        own = field[b % field.shape[0]] if field.shape[0] else nothing
        K = soft[m]
        logits(K.reshape(n * n), scores[b], beta[b], own, noise, words, number_of(m, batch, stream), stream)
        v[m, -1] = 1
        if shifts.shape[0] and shifts[b].min() < 0:
            shift_columns(K.reshape(n * n), shifts[b], v[m, -1], 1)
        if _row_maxima(K, totals) == -np.inf:
            seen[FORBIDDEN] = 1
        _exp_rows(K, totals)
        used[m] = _iterate(K, u[m], v[m], totals, sums, tolerance, limits)
        seen[EASY if used[m] else HARD] = 1


@njit(fastmath=True)
def _pull(P, s, a, first, r, sums):
    """r = -a (first + a (P s)), sums = P^T r, in one pass over P."""
    n = P.shape[0]
    sums[:] = 0
    for i in range(0, n - 3, 4):
        pull_four(P, i, s, a, first, r, sums, n, i)
    if n >= 4 and n % 4:
        pull_four(P, n - 4, s, a, first, r, sums, n, n - n % 4)
    elif n < 4:
        for i in range(n):
            r[i] = -a[i] * (first[i] + a[i] * _dot(P[i], s))
            for j in range(n):
                sums[j] += P[i, j] * r[i]
    _gather(sums, n)


@njit(fastmath=True)
def _recursion(P, G, u, v, start, a, c, r, s, f_bar, g_bar, sums):
    """Fills a, c, r, s (T x n each); c[t] is $c_{t-1}$ of the formula, so c[0] belongs to the start, $v_0$."""
    T, n = u.shape
    one, zero = P.dtype.type(1), P.dtype.type(0)
    for i in range(n):
        sums[i] = one / u[T - 1, i]
        c[0, i] = one / v[T - 1, i]
        g_bar[i] = zero
    for t in range(T):
        for i in range(n):
            a[t, i] = u[t, i] * sums[i]
    for t in range(1, T):
        for i in range(n):
            c[t, i] = v[t - 1, i] * c[0, i]
    for i in range(n):
        c[0, i] *= start[i]
    for i in range(n):
        total = zero
        for j in range(n):
            w = G[i, j] * P[i, j]
            total += w
            g_bar[j] += w
        f_bar[i] = total
    for t in range(T - 1, -1, -1):
        for j in range(n):
            s[t, j] = -(c[t + 1, j] if t + 1 < T else one) * g_bar[j]
        _pull(P, s[t], a[t], f_bar, r[t], sums)
        for j in range(n):
            g_bar[j] = c[t, j] * sums[j]
        if t == T - 1:
            for i in range(n):
                f_bar[i] = zero


@njit(fastmath=True)
def _gradient(P, G, a, c, r, s, D):
    """D = P (G + sum_t a_t s_t^T + r_t c_{t-1}^T)."""
    T, n = a.shape
    for i in range(0, n - 3, 4):
        four_gradient_rows(D, P, G, i, a, s, r, c, T, n)
    if n >= 4 and n % 4:
        four_gradient_rows(D, P, G, n - 4, a, s, r, c, T, n)
    elif n < 4:
        for i in range(n):
            for j in range(n):
                D[i, j] = G[i, j]
                for t in range(T):
                    D[i, j] += a[t, i] * s[t, j] + r[t, i] * c[t, j]
                D[i, j] *= P[i, j]


@njit(fastmath=True)
def spend(D, scores, beta, field, noise, words, x, matrix, stream, to_scores, to_beta, to_field, fresh):
    """dL (flat) on to the scores, times beta; and to beta, times the noisy scores, which are made again in x.

    ``fresh`` says that nothing is in the outputs yet: they are written instead of added to.
    """
    if field.size and fresh:
        for j in range(D.size):
            to_scores[j] = D[j] * field[j]
    elif field.size:
        for j in range(D.size):
            to_scores[j] += D[j] * field[j]
    elif fresh:
        for j in range(D.size):
            to_scores[j] = D[j] * beta
    else:
        for j in range(D.size):
            to_scores[j] += D[j] * beta
    if to_beta.size + to_field.size == 0:
        return
    zero = D.dtype.type(0)
    logits(x, scores, D.dtype.type(1), field[:0], noise, words, matrix, stream)
    for j in range(D.size):
        x[j] = D[j] * x[j] if x[j] > -np.inf else zero  # a forbidden entry has no gradient
    if to_field.size and fresh:
        for j in range(D.size):
            to_field[j] = x[j]
    elif to_field.size:
        for j in range(D.size):
            to_field[j] += x[j]
    else:
        total = zero
        for j in range(D.size):
            total += x[j]
        to_beta[0] = total if fresh else to_beta[0] + total


@njit
def backward(
    scores, beta, field, noise, stream, soft, grad, u, v, used, samples, to_scores, to_beta, to_field, filled, low, high
):
    """Easy matrices of jobs low..high-1; job = (share of the samples, batch entry), each with gradients of its own."""
    batch, n = scores.shape[0], soft.shape[1]
    shares, cap = to_scores.shape[0], u.shape[1]
    all_a, all_c = np.empty((cap, n), soft.dtype), np.empty((cap, n), soft.dtype)
    all_r, all_s = np.empty((cap, n), soft.dtype), np.empty((cap, n), soft.dtype)
    f_bar, g_bar, sums = np.empty(n, soft.dtype), np.empty(n, soft.dtype), np.empty(n + 8, soft.dtype)
    D = np.empty((n, n), soft.dtype)
    x = np.empty(n * n if to_beta.size + to_field.size else 0, soft.dtype)
    words = new_words(n)
    nothing = x[:0]
    for job in range(low, high):
        share, b = job // batch, job % batch
        own = field[b % field.shape[0]] if field.shape[0] else nothing
        out_beta = to_beta[share, b : b + 1] if to_beta.shape[0] else nothing
        out_field = to_field[share, b] if to_field.shape[0] else nothing
        plain = own.size + out_beta.size + out_field.size == 0 and beta[b] == 1
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            T = used[m]
            if T <= 0:  # hard, or packed
                continue
            a, c, r, s = all_a[:T], all_c[:T], all_r[:T], all_s[:T]
            _recursion(soft[m], grad[m], u[m, :T], v[m, :T], v[m, -1], a, c, r, s, f_bar, g_bar, sums)
            if plain and not filled[share, b]:
                _gradient(soft[m], grad[m], a, c, r, s, to_scores[share, b].reshape(n, n))
                filled[share, b] = True
                continue
            _gradient(soft[m], grad[m], a, c, r, s, D)
            spend(
                D.reshape(n * n), scores[b], beta[b], own, noise, words, x, number_of(m, batch, stream), stream,
                to_scores[share, b], out_beta, out_field, not filled[share, b],
            )  # fmt: skip
            filled[share, b] = True
        if not filled[share, b]:  # every one of them is hard
            to_scores[share, b] = 0
            out_beta[:] = 0
            out_field[:] = 0
