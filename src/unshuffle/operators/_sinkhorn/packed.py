"""Small matrices, eight at a time: lane k of every vector belongs to matrix k.

With n = 10 a row does not fill the vector registers twice and the sums across lanes are most of the time. Packed, entry (i, j) of
eight matrices is one vector, and no instruction ever crosses lanes. The arithmetic is that of `scaling`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...compute.jit import njit
from ...compute.vector_math import LOG2E, exp_below, exp_with_power, times_power
from .lanes import FLAGS, WIDTH, Emit, intrinsic
from .logits import as_given, logits, new_words, spend
from .scaling import PACKED, UNUSABLE, bounds, new_adjoint, reach

# as in `one_by_one`
WEAK = -12.0


def _rows(emit: Emit, X: Any, n: Any, v: Any, sums: Any, weigh: Callable[[Any, Any], Any]) -> None:
    """For each row i: acc = sum_j X_ij v_j, w = weigh(i, acc), sums_j += X_ij w."""
    b, eight = emit.builder, emit.number(WIDTH)
    with cgutils.for_range(b, n, intp=emit.index) as row:
        line = b.mul(row.index, b.mul(n, eight))
        total = emit.zero(emit.vector)
        with cgutils.for_range(b, n, intp=emit.index) as column:
            j = b.mul(column.index, eight)
            x = emit.load(X, b.add(line, j), emit.vector)
            b.store(emit.multiply_add(x, emit.load(v, j, emit.vector), b.load(total)), total)
        w = weigh(b.mul(row.index, eight), b.load(total))
        with cgutils.for_range(b, n, intp=emit.index) as column:
            j = b.mul(column.index, eight)
            x = emit.load(X, b.add(line, j), emit.vector)
            emit.store(emit.multiply_add(x, w, emit.load(sums, j, emit.vector)), sums, j)


@intrinsic
def packed_center(typing, X, n):
    """X_ij -= max_j X_ij."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, x, n_, eight = builder, emit.data(X, arguments[0]), arguments[1], emit.number(WIDTH)
        with cgutils.for_range(b, n_, intp=emit.index) as row:
            line = b.mul(row.index, b.mul(n_, eight))
            top = cgutils.alloca_once(b, emit.vector)
            b.store(emit.load(x, line, emit.vector), top)
            with cgutils.for_range(b, n_, intp=emit.index) as column:
                value, best = emit.load(x, b.add(line, b.mul(column.index, eight)), emit.vector), b.load(top)
                b.store(b.select(b.fcmp_ordered(">", value, best), value, best), top)
            with cgutils.for_range(b, n_, intp=emit.index) as column:
                here = b.add(line, b.mul(column.index, eight))
                emit.store(b.fsub(emit.load(x, here, emit.vector), b.load(top)), x, here)
        return context.get_dummy_value()

    return types.void(X, n), generate


@intrinsic
def packed_sweep(typing, X, n, v, totals, u, sums):
    """totals = X v, u = 1 / totals, sums += X^T u."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        x, start, out_totals, out, to = (emit.data(X, arguments[k]) for k in (0, 2, 3, 4, 5))

        def weigh(i, total):
            emit.store(total, out_totals, i)
            w = builder.fdiv(ir.Constant(emit.vector, [1.0] * WIDTH), total, flags=FLAGS)
            emit.store(w, out, i)
            return w

        _rows(emit, x, arguments[1], start, to, weigh)
        return context.get_dummy_value()

    return types.void(X, n, v, totals, u, sums), generate


@intrinsic
def packed_pull(typing, X, n, s, a, first, r, sums):
    """r = -a (first + a (X s)), sums += X^T r."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        x, start, scale, begin, out, to = (emit.data(X, arguments[k]) for k in (0, 2, 3, 4, 5, 6))

        def weigh(i, total):
            factor = emit.load(scale, i, emit.vector)
            w = emit.multiply_add(factor, total, emit.load(begin, i, emit.vector))
            w = builder.fneg(builder.fmul(factor, w, flags=FLAGS))
            emit.store(w, out, i)
            return w

        _rows(emit, x, arguments[1], start, to, weigh)
        return context.get_dummy_value()

    return types.void(X, n, s, a, first, r, sums), generate


@intrinsic
def packed_gradient(typing, D, P, G, n, a, s, r, c, iterations):
    """D = P (G + sum_t a_t s_t^T + r_t c_t^T); a, s, r, c are flat (T, n, 8)."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, P.dtype)
        b, n_, steps = builder, arguments[3], arguments[8]
        out, soft, grad, left, x, right, y = (emit.data(P, arguments[k]) for k in (0, 1, 2, 4, 5, 6, 7))
        width = b.mul(n_, emit.number(WIDTH))
        with (
            cgutils.for_range(b, n_, intp=emit.index) as row,
            cgutils.for_range(b, n_, intp=emit.index) as column,
        ):
            i, j = b.mul(row.index, emit.number(WIDTH)), b.mul(column.index, emit.number(WIDTH))
            here = b.add(b.mul(row.index, width), j)
            total = emit.zero(emit.vector)
            b.store(emit.load(grad, here, emit.vector), total)
            with cgutils.for_range(b, steps, intp=emit.index) as step:
                line = b.mul(step.index, width)
                at_i, at_j = b.add(line, i), b.add(line, j)
                z = emit.multiply_add(
                    emit.load(left, at_i, emit.vector), emit.load(x, at_j, emit.vector), b.load(total)
                )
                z = emit.multiply_add(emit.load(right, at_i, emit.vector), emit.load(y, at_j, emit.vector), z)
                b.store(z, total)
            emit.store(b.fmul(b.load(total), emit.load(soft, here, emit.vector), flags=FLAGS), out, here)
        return context.get_dummy_value()

    return types.void(D, P, G, n, a, s, r, c, iterations), generate


def _transposed(emit: Emit, rows: list[Any]) -> list[Any]:
    """The 8 x 8 transpose of eight vectors: three rounds that swap ever larger blocks off the diagonal."""
    for d in (1, 2, 4):
        low = ir.Constant(
            ir.VectorType(ir.IntType(32), WIDTH), [k if not k & d else WIDTH + k - d for k in range(WIDTH)]
        )
        high = ir.Constant(low.type, [k + d if not k & d else WIDTH + k for k in range(WIDTH)])
        old = list(rows)
        for k in range(WIDTH):
            if not k & d:
                rows[k] = emit.builder.shuffle_vector(old[k], old[k + d], low)
                rows[k + d] = emit.builder.shuffle_vector(old[k], old[k + d], high)
    return rows


def _copy_transposed(emit: Emit, separate: Any, packed: Any, count: Any, pack: bool) -> None:
    """Between eight matrices one after the other and one packed, 64 numbers at a time; the last block may overlap."""
    b, eight = emit.builder, emit.number(WIDTH)
    last = b.sub(count, eight)
    with cgutils.for_range_slice(b, emit.number(0), count, eight, emit.index) as (start, _):
        e = b.select(b.icmp_signed("<", start, last), start, last)
        alone = [b.add(b.mul(emit.number(k), count), e) for k in range(WIDTH)]
        together = [b.mul(b.add(e, emit.number(k)), eight) for k in range(WIDTH)]
        source, target = ((separate, alone), (packed, together)) if pack else ((packed, together), (separate, alone))
        rows = _transposed(emit, [emit.load(source[0], place, emit.vector) for place in source[1]])
        for row, place in zip(rows, target[1], strict=True):
            emit.store(row, target[0], place)


@intrinsic
def packed_from(typing, matrices, X, count):
    """X (count, 8) from matrices (8, count); count >= 8."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        _copy_transposed(emit, emit.data(matrices, arguments[0]), emit.data(X, arguments[1]), arguments[2], True)
        return context.get_dummy_value()

    return types.void(matrices, X, count), generate


@intrinsic
def packed_into(typing, X, matrices, count):
    """matrices (8, count) from X (count, 8); count >= 8."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        _copy_transposed(emit, emit.data(matrices, arguments[1]), emit.data(X, arguments[0]), arguments[2], False)
        return context.get_dummy_value()

    return types.void(X, matrices, count), generate


@intrinsic
def packed_scale(typing, X, n, u, v):
    """X_ij *= u_i v_j."""

    def generate(context, builder, signature, arguments):
        emit = Emit(context, builder, X.dtype)
        b, eight = builder, emit.number(WIDTH)
        x, left, right = (emit.data(X, arguments[k]) for k in (0, 2, 3))
        with cgutils.for_range(b, arguments[1], intp=emit.index) as row:
            factor = emit.load(left, b.mul(row.index, eight), emit.vector)
            line = b.mul(row.index, b.mul(arguments[1], eight))
            with cgutils.for_range(b, arguments[1], intp=emit.index) as column:
                j = b.mul(column.index, eight)
                here = b.add(line, j)
                scale = b.fmul(factor, emit.load(right, j, emit.vector), flags=FLAGS)
                emit.store(b.fmul(emit.load(x, here, emit.vector), scale, flags=FLAGS), x, here)
        return context.get_dummy_value()

    return types.void(X, n, u, v), generate


@njit(fastmath={"nnan", "nsz", "reassoc"})
def _any_forbidden(x):
    """Whether there is a -inf; NaN does not count."""
    bottom = x[0]
    for e in range(x.size):
        bottom = min(bottom, x[e])
    return bottom == -np.inf


@njit(fastmath=True)
def _exp_all(x):
    for e in range(x.size):
        x[e] = exp_below(x[e])


@njit(fastmath=True)
def _iterate(X, n, u, v, totals, sums, limits):
    """As `scaling._iterate`, for eight matrices; False if any of them is hard."""
    T, width = u.shape[0], sums.size
    one = X.dtype.type(1)
    least_row, least_column, most_row, most_column = one, one, one, one
    for t in range(T):
        for j in range(width):
            sums[j] = 0
        packed_sweep(X, n, v[t], totals, u[t], sums)
        low, most_row = bounds(totals)
        least_row = min(least_row, low)
        low, most_column = bounds(sums)
        least_column = min(least_column, low)
        if not (least_row * least_column > limits[0] and max(most_row, most_column) < limits[1]):
            return False
        for j in range(width):
            v[t + 1, j] = one / sums[j]
    fine = True
    for j in range(width):
        fine = fine and sums[j] == sums[j]
    near = most_row / least_row * most_column / least_column < limits[2]
    return fine and (near or reach(u, v[1:], v[0]) < limits[2])


@njit(fastmath={"nnan", "nsz"})
def _weakest(X, best):
    """The least of all columns' largest entries, X centered."""
    width = best.size
    best[:] = X[:width]
    for e in range(width, X.size, width):
        for j in range(width):
            best[j] = max(best[j], X[e + j])
    return best.min()


@njit(fastmath=True)
def _with_powers(X, n, start):
    """X = e^X 2^(E_i + H_j) with the largest entry of each row and column about 1, and the start 1 in terms of H: as in `moving`."""
    E, H = np.empty(n * WIDTH, np.int32), np.empty(n * WIDTH, np.int32)
    width, log2e = n * WIDTH, X.dtype.type(LOG2E)
    for i in range(n):
        for k in range(WIDTH):
            top = X[i * width + k]
            for j in range(n):
                top = max(top, X[i * width + j * WIDTH + k])
            E[i * WIDTH + k] = -np.int32(np.floor(top * log2e))
    for e in range(width):
        top = X.dtype.type(-np.inf)
        for i in range(n):
            top = max(top, X[i * width + e] * log2e + E[i * WIDTH + e % WIDTH])
        H[e] = -np.int32(np.floor(top))
        start[e] = times_power(X.dtype.type(1), np.int32(-H[e]))
    for i in range(n):
        for e in range(width):
            X[i * width + e] = exp_with_power(X[i * width + e], np.int32(E[i * WIDTH + e % WIDTH] + H[e]))


@njit
def _read(given, m, tmp, X, words):
    """The logits of matrices m..m+7, packed."""
    count, b = tmp.shape[1], m % given.scores.shape[0]
    plain = given.noise == 0
    for k in range(WIDTH):
        plain = plain and as_given(given, b + k)
    if plain:
        packed_from(given.scores[b : b + WIDTH], X, count)
        return
    for k in range(WIDTH):
        logits(tmp[k], given, m + k, words)
    packed_from(tmp, X, count)


@njit
def forward_packed(given, soft, state, limits, low, high):
    """Groups low..high-1 of eight neighbours in the batch; group g of a sample is batch entries 8g..8g+7. Where any is hard, none is done."""
    batch, n, T = given.scores.shape[0], soft.shape[1], state.u.shape[1]
    groups = batch // WIDTH
    tmp = np.empty((WIDTH, n * n), soft.dtype)
    X = np.empty(n * n * WIDTH, soft.dtype)
    totals, sums = np.empty(n * WIDTH, soft.dtype), np.empty(n * WIDTH, soft.dtype)
    words = new_words(n)
    for job in range(low, high):
        m = (job // groups) * batch + (job % groups) * WIDTH
        u = state.u[m : m + WIDTH].reshape(T, n * WIDTH)
        v = state.v[m : m + WIDTH].reshape(T + 1, n * WIDTH)
        _read(given, m, tmp, X, words)
        if _any_forbidden(X):
            state.forbidden[0] = True
        packed_center(X, n)
        weakest = _weakest(X, sums)
        if WEAK > weakest > -np.inf:
            _read(given, m, tmp, X, words)
            _with_powers(X, n, v[0])
        else:
            v[0] = 1
            _exp_all(X)
        if _iterate(X, n, u, v, totals, sums, limits):
            packed_scale(X, n, u[T - 1], v[T])
            packed_into(X, soft[m : m + WIDTH], n * n)
            state.used[m : m + WIDTH] = T
            state.kind[m : m + WIDTH] = PACKED
        else:
            state.kind[m : m + WIDTH] = UNUSABLE


@njit(fastmath=True)
def _recursion(P, G, n, u, v, work, W):
    """As `scaling.recursion`; v[0] is the start, so c[t] = v[t] / v[T]."""
    T, width = u.shape
    a, c, r, s, f_bar, g_bar, sums = work
    one, zero = P.dtype.type(1), P.dtype.type(0)
    for t in range(T):
        for i in range(width):
            a[t, i] = u[t, i] / u[T - 1, i]
            c[t, i] = v[t, i] / v[T, i]
    for e in range(W.size):
        W[e] = G[e] * P[e]
    for i in range(width):
        s[0, i], a[0, i], f_bar[i], g_bar[i] = -one, one, zero, zero
    packed_pull(W, n, s[0], a[0], f_bar, r[0], g_bar)  # r[0] = the row sums of W
    for i in range(width):
        f_bar[i] = r[0, i]
        g_bar[i] = zero
        a[0, i] = u[0, i] / u[T - 1, i]
    for i in range(n):
        for j in range(width):
            g_bar[j] += W[i * width + j]
    for t in range(T - 1, -1, -1):
        for j in range(width):
            s[t, j] = -g_bar[j] if t == T - 1 else -c[t + 1, j] * g_bar[j]
            sums[j] = zero
        packed_pull(P, n, s[t], a[t], f_bar, r[t], sums)
        for j in range(width):
            g_bar[j] = c[t, j] * sums[j]
            f_bar[j] = zero


@njit
def backward_packed(given, soft, grad, state, outs, samples, low, high):
    """Packed groups of jobs low..high-1 = (share of the samples, group)."""
    batch, n, T = given.scores.shape[0], soft.shape[1], state.u.shape[1]
    groups, shares = batch // WIDTH, outs.scores.shape[0]
    work = new_adjoint(T, n * WIDTH, soft)
    P, G = np.empty(n * n * WIDTH, soft.dtype), np.empty(n * n * WIDTH, soft.dtype)
    D = np.empty(n * n * WIDTH, soft.dtype)
    x, tmp = np.empty(n * n, soft.dtype), np.empty((WIDTH, n * n), soft.dtype)
    wanted = outs.beta.shape[0] + outs.field.shape[0] > 0
    words = new_words(n)
    for job in range(low, high):
        share, b = job // groups, (job % groups) * WIDTH
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            if state.kind[m] != PACKED:
                continue
            packed_from(soft[m : m + WIDTH], P, n * n)
            packed_from(grad[m : m + WIDTH], G, n * n)
            u = state.u[m : m + WIDTH].reshape(T, n * WIDTH)
            v = state.v[m : m + WIDTH].reshape(T + 1, n * WIDTH)
            _recursion(P, G, n, u, v, work, D)
            packed_gradient(
                D, P, G, n, work.a.reshape(-1), work.s.reshape(-1), work.r.reshape(-1), work.c.reshape(-1), T
            )
            at_once = not wanted and not outs.filled[share, b]
            for k in range(WIDTH):
                at_once = at_once and as_given(given, b + k)
            if at_once:
                packed_into(D, outs.scores[share, b : b + WIDTH], n * n)
                outs.filled[share, b : b + WIDTH] = True
                continue
            packed_into(D, tmp, n * n)
            for k in range(WIDTH):
                spend(tmp[k], given, m + k, share, outs, words, x)
