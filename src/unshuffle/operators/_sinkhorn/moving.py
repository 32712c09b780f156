r"""Sinkhorn for matrices whose scalings leave the range of floats: the scalings carry powers of two, $f = \log u + E\log 2$.

As in `scaling`, with $K = e^L 2^{E_i + H_j}$. The powers stay as they are while u and v stay in range; when they leave it, E and H
are chosen anew (`_rebase`) so that the largest entry of every row and column of K is about 1 at the next iteration, and K is
built again. That is exact at any spread: an integer power goes into the exponent of a float without rounding, and what
K drops is far below rounding whatever the scalings in range. Trained scores need it once or twice in ten iterations, because
potentials move by at most log n an iteration after the first: a row of a matrix whose columns sum to 1 sums to at most n.

Backward likewise, from the last iteration to the first: P itself is the kernel as long as all potentials are in reach of the last
ones, then K is built again for those of the iteration at hand. Each such stretch adds its own
$K (\sum_t a_t s_t^T + r_t c_{t-1}^T)$ to the gradient.
"""

from __future__ import annotations

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import LOG2E, exp_with_power, power_of, times_power
from .lanes import inverse_of
from .lines import lay_out
from .logits import logits
from .scaling import (
    EASY,
    LONG,
    MOVED,
    bounds,
    column_scalings,
    fill,
    gradient,
    pull,
    put,
    reach,
    scaled,
    start_at,
    sweep,
    weigh_gradient,
)


@njit(fastmath={"nnan", "nsz", "reassoc", "contract"}, counts=False)
def _usable(L, columns):
    """Whether there is no +inf, and a number in every row and column; NaN is found by its sums."""
    n = L.shape[0]
    fill(columns, -np.inf)
    for i in range(n):
        top = bounds(L[i])[1]
        if top == -np.inf or top == np.inf:
            return False
        for j in range(n):
            columns[j] = max(columns[j], L[i, j])
    return bounds(columns)[0] > -np.inf


@njit(fastmath={"nnan", "nsz", "reassoc", "contract"}, counts=False)
def _row_powers(L, H, v, E, shift, row):
    """E_i = -floor(max_j log2(e^L_ij 2^H_j v_j)), to about one."""
    n, log2e = L.shape[0], L.dtype.type(LOG2E)
    for j in range(n):
        shift[j] = H[j] + power_of(v[j])
    for i in range(n):
        for j in range(n):
            row[j] = L[i, j] * log2e + shift[j]
        E[i] = -np.int32(np.floor(bounds(row)[1]))


@njit(fastmath={"nnan", "nsz", "reassoc", "contract"}, counts=False)
def _column_powers(L, E, H, tops):
    """H_j = -floor(max_i log2(e^L_ij 2^E_i))."""
    n, log2e = L.shape[0], L.dtype.type(LOG2E)
    for j in range(n):
        tops[j] = -np.inf
    for i in range(n):
        row, power = L[i], L.dtype.type(E[i])
        for j in range(n):
            tops[j] = max(tops[j], row[j] * log2e + power)
    for j in range(n):
        H[j] = -np.int32(np.floor(tops[j]))


@njit(fastmath=True, counts=False)
def _kernel(L, E, H, K):
    """K = e^L 2^(E_i + H_j)."""
    n = L.shape[0]
    for i in range(n):
        row, out, power = L[i], K[i], E[i]
        for j in range(n):
            out[j] = exp_with_power(row[j], np.int32(power + H[j]))


@njit
def new_powers(n):
    """Room for a power of each row, of each column, and, where rows are short, of each entry."""
    return np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n * n if n < LONG else 0, np.int32)


@njit(fastmath=True, counts=False)
def strengthened(L, tops, best, start, powers):
    """L -> e^L 2^(E_i + H_j) with the largest entry of each row and column about 1, and the start in terms of H.

    ``tops`` are the largest of the rows of L, ``best`` those of the columns of L - tops. What becomes 0 in ``start`` is nothing.
    """
    n, log2e, (E, H, both) = L.shape[0], L.dtype.type(LOG2E), powers
    for i in range(n):
        E[i] = -np.int32(np.floor(tops[i] * log2e))
        H[i] = -np.int32(np.floor(best[i] * log2e))
        start[i] = times_power(start[i], np.int32(-H[i]))
    if n >= LONG:
        for i in range(n):
            row, power = (
                L[i],
                E[i],
            )  # one name for what is read and written: a loop over two that overlap would stay scalar
            for j in range(n):
                row[j] = exp_with_power(row[j], np.int32(power + H[j]))
        return
    for i in range(n):
        line, power = both[i * n : (i + 1) * n], E[i]
        for j in range(n):
            line[j] = power + H[j]
    flat = L.reshape(n * n)  # all rows at once: at the end of each the powers of e would be taken one by one
    for j in range(flat.size):
        flat[j] = exp_with_power(flat[j], both[j])


@njit(fastmath=True, counts=False)
def _rebase(L, K, E, H, v, H_of_v, start, scratch):
    """New powers for the next iteration, which begins at v 2^H_of_v; the kernel for them; and ``start``, v in terms of H.

    The largest entry of a row of K v is about 1 by the choice of E, and that of a column of K by the choice of H, which is
    not below the power of v: so nothing overflows, all sums are between 1/4n and 4n, and what becomes 0 in ``start`` is nothing.
    """
    _row_powers(L, H_of_v, v, E, scratch, start)
    _column_powers(L, E, H, scratch)
    _kernel(L, E, H, K)
    for j in range(v.size):
        start[j] = times_power(v[j], np.int32(H_of_v[j] - H[j]))


@njit(counts=False)
def _in_range(totals, sums, n, limits):
    least, most = bounds(totals[:n])
    lowest, highest = bounds(sums[:n])
    return least * lowest > limits[0] and max(most, highest) < limits[1] and sums[0] == sums[0]


@njit(counts=False)
def _row_error(u, E, alike, totals, E_now):
    """The largest |row sum - 1| after the iteration before, whose scalings are u 2^E."""
    worst, last = 0.0, u.size - 1
    for i in range(u.size):
        found = times_power(u[i], np.int32(E[i] - E_now[i])) * totals[i]
        worst = max(worst, abs((found / alike if i == last else found) - 1.0))
    return worst


@njit
def forward_moving(L, K, lines, state, m, alike, totals, sums, tolerance, limits):
    """All iterations of matrix m with the logits L, and the result in K; what kind of matrix it was, 0 if it is unusable."""
    u, v, rows, columns = state.u[m], state.v[m], state.rows[m], state.columns[m]
    T, n = u.shape
    E, H = np.empty(n, np.int32), np.empty(n, np.int32)
    start, scratch = np.empty(n, L.dtype), np.empty(n, L.dtype)
    if not _usable(L, scratch):
        return 0
    start_at(v[T], alike)
    fill(columns[T], 0)
    used, rebased = T, 0
    for t in range(T):
        last = t - 1 if t else T  # where the v before is
        if t:
            sweep(K, lines, v[last], alike, totals, u[t], sums)
        if t == 0 or not _in_range(totals, sums, n, limits):
            _rebase(L, K, E, H, v[last], columns[last], start, scratch)
            rebased += 1
            lay_out(K, lines)
            sweep(K, lines, start, alike, totals, u[t], sums)
            if not _in_range(totals, sums, n, limits):
                return 0
        if t and tolerance > 0 and _row_error(u[t - 1], rows[t - 1], alike, totals, E) <= tolerance:
            used = t
            break
        put(E, rows[t])
        put(H, columns[t])
        column_scalings(sums, alike, v[t])
    if used < T:  # K may have been built again for the iteration that was not needed
        put(rows[used - 1], E)
        put(columns[used - 1], H)
        _kernel(L, E, H, K)
    scaled(K, u[used - 1], v[used - 1])
    state.used[m] = used
    if rebased > 1:
        return MOVED
    for j in range(n):
        start[j] = times_power(v[T, j], np.int32(-H[j]))
    if reach(u[:used], v[:used], start) > limits[2]:
        return MOVED
    put(start, v[T])
    return EASY


@njit(fastmath=True, counts=False)
def _relative(x, power, base, weight, out):
    """out = x 2^(power - base) times weight; the largest of it and of the same without the weight."""
    most = x.dtype.type(0)
    for i in range(x.size):
        plain = times_power(x[i], np.int32(power[i] - base[i]))
        out[i] = plain * weight[i]
        most = max(most, max(plain, out[i]))
    return most


@njit(counts=False)
def _close(kernel, G, D, work, low, high, first, add):
    """The part of the gradient that belongs to iterations low..high-1 and their kernel; the first brings G with it."""
    a, c, r, s = work.a[low:high], work.c[low:high], work.r[low:high], work.s[low:high]
    if first:
        gradient(kernel, G, a, c, r, s, D, add)
    else:
        gradient(kernel, None, a, c, r, s, D, True)


@njit
def backward_moving(P, lines, G, given, state, m, alike, work, words, L, K, D, add, limit):
    """D = dloss/dL of matrix m, or D += that; L, K and ``lines`` are scratch."""
    T, n = state.used[m], P.shape[0]
    u, v, rows, columns = state.u[m], state.v[m], state.rows[m], state.columns[m]
    E, H = rows[T - 1].copy(), columns[T - 1].copy()
    over_u, over_v, own = work.over_u, work.over_v, np.empty(n, P.dtype)
    inverse_of(u[T - 1], over_u, n)
    inverse_of(v[T - 1], over_v, n)
    weigh_gradient(P, G, work.f_bar, work.g_bar)
    kernel, high, built = P, T, False
    lay_out(P, lines)
    for t in range(T - 1, -1, -1):
        last = t - 1 if t else v.shape[0] - 1
        for attempt in range(2):
            a = _relative(u[t], rows[t], E, over_u, work.a[t])
            c = _relative(v[t], columns[t], H, over_v, own)
            before = _relative(v[last], columns[last], H, over_v, work.c[t])
            if attempt or a * max(c, before) <= limit:
                break
            _close(kernel, G, D, work, t + 1, high, not built, add)
            if not built:
                logits(L.reshape(n * n), given, m, words, given.scores[0, :0])
                built = True
                fill(over_u, 1)
                fill(over_v, 1)
            for i in range(n):
                E[i] = rows[t, i] + power_of(u[t, i])
                H[i] = max(columns[t, i] + power_of(v[t, i]), columns[last, i] + power_of(v[last, i]))
            _kernel(L, E, H, K)
            lay_out(K, lines)
            kernel, high = K, t + 1
        for j in range(n):
            work.s[t, j] = -own[j] * work.g_bar[j]
        pull(kernel, lines, work.s[t], work.a[t], work.f_bar, alike, work.r[t], work.totals, work.sums)
        for j in range(n):
            work.g_bar[j] = work.c[t, j] * work.sums[j]
            work.f_bar[j] = 0
    _close(kernel, G, D, work, 0, high, not built, add)
