"""Matrices one at a time, while each sits in cache: easy ones by `scaling`, the others by `moving`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from .entropy import entropies_of, new_terms
from .lanes import highest_of_columns
from .lines import lay_out, new_square_lines
from .logits import lay_out_field, logits, new_words, spend, tempered
from .moving import backward_moving, forward_moving, new_powers, strengthened
from .scaling import (
    EASY,
    MOVED,
    PACKED,
    UNUSABLE,
    Adjoint,
    bounds,
    exp_rows,
    fill,
    gradient,
    iterate,
    new_adjoint,
    new_state,
    put,
    recursion,
    row_maxima,
    start_at,
    weigh_gradient,
    weigh_products,
    write_products,
)

# log of a column's largest share of any row below which powers of two are chosen for it: well within what the scalings can take
WEAK = -12.0
# rows that are looked at first
PROBES = 4
# rows of matrices that find room in the near cache beside the one at hand
NEAR = 64


@njit(counts=False)
def _weak(L, tops, best):
    """Whether a column is weak in every row: positions that a network has not learned to use yet, inputs far from 0."""
    n = L.shape[0]
    for step in (max(1, n // PROBES), 1):
        highest_of_columns(L, tops, best, n, n, step)
        if not bounds(best)[0] < WEAK:
            return False
    return bounds(best)[0] > -np.inf  # a column that is forbidden altogether cannot be helped


class Room(NamedTuple):
    """For one matrix after the other. One allocation each: two views of one are taken to overlap, and the loops over them stay scalar."""

    totals: np.ndarray
    sums: np.ndarray
    lines: tuple[np.ndarray, np.ndarray]
    words: np.ndarray
    powers: tuple[np.ndarray, ...]
    terms: np.ndarray
    field: np.ndarray  # of one batch entry, if it is led
    L: np.ndarray  # logits, where they are needed again


@njit
def forward(given, quiet, lead, tolerance, samples, soft, state, limits, low, high):
    """Jobs low..high-1, each one of samples * batch matrices, except those that are done already.

    By ``lead``, if it is given, the field of a batch entry is found first, in the same problem without noise and field, which is ``quiet``.
    Threads that share its samples each find it, and who has the first of them writes it down for the gradient.
    """
    n, real, led = soft.shape[1], soft.dtype, lead.size > 0
    totals, sums, L = np.empty(n + 16, real), np.empty(n + 16, real), np.empty((n, n), real)
    terms = new_terms(n, real) if led else totals
    field, Q = np.empty(n * n if led else 0, real), np.empty((n if led else 0, n), real)
    settled = new_state(1 if led else 0, state.u.shape[1], n, soft, state.forbidden)
    room = Room(totals, sums, new_square_lines(n, soft), new_words(n), new_powers(n), terms, field, L)
    _each_forward((quiet, given), lead, tolerance, samples, soft, state, Q, settled, limits, room, low, high)


@njit(counts=False)
def _each_forward(problems, lead, tolerance, samples, soft, state, Q, settled, limits, room, low, high):
    batch, n, noisily = problems[1].scores.shape[0], soft.shape[1], problems[1]
    for job in range(low, high):
        # the samples one after the other, while scores and field are in cache
        sample, b = job % samples, job // samples
        m = sample * batch + b
        if state.kind[m]:
            continue
        for noisy in range(0 if lead.size and (sample == 0 or job == low) else 1, 2):  # one call: it is large
            given, field = problems[noisy], room.field if noisy else room.field[:0]
            kept, at = state if noisy else settled, m if noisy else 0
            _forward_one(given, m, tolerance, soft[m] if noisy else Q, kept, at, limits, field, room)
            if not noisy:
                state.forbidden[0] = state.forbidden[0] or settled.kind[0] == UNUSABLE
                rows, columns = room.totals[:n], room.sums[:n]
                _led(Q, lead, room.terms, rows, columns)
                lay_out_field(room.field, rows, columns, noisily.beta[b])
                if sample == 0:
                    put(rows, noisily.rows[b])
                    put(columns, noisily.columns[b])


@njit(counts=False)
def _led(Q, lead, terms, rows, columns):
    """Half of 1 / (1 + max_boost u) for each row and column of Q, see `field.Lead`."""
    per_nat, threshold, range_, max_boost = lead[0], lead[1], lead[2], lead[3]
    half, one, zero = Q.dtype.type(0.5), Q.dtype.type(1), Q.dtype.type(0)
    fill(columns, zero)
    entropies_of(Q, terms, rows, columns)
    for found in (rows, columns):
        for j in range(found.size):
            u = min(max((found[j] * per_nat - threshold) / range_, zero), one)
            found[j] = half / (one + max_boost * u)


@njit(counts=False)
def _forward_one(given, m, tolerance, K, state, at, limits, field, room):
    """P of matrix m in K, and how it was done in entry ``at`` of the state."""
    n, T, alike = K.shape[0], state.u.shape[1], K.dtype.type(given.block[2])
    totals, sums, lines = room.totals, room.sums, room.lines
    logits(K.reshape(n * n), given, m, room.words, field)
    if row_maxima(K, totals) == -np.inf:
        state.forbidden[0] = True
    start_at(state.v[at, T], alike)
    if _weak(K, totals, sums[:n]):
        strengthened(K, totals, sums[:n], state.v[at, T], room.powers)
    else:
        exp_rows(K, totals)
    state.used[at] = iterate(K, lines, state.u[at], state.v[at], alike, totals, sums, tolerance, limits)
    state.kind[at] = EASY
    if state.used[at] == 0:
        logits(room.L.reshape(n * n), given, m, room.words, field)
        state.kind[at] = forward_moving(room.L, K, lines, state, at, alike, totals, sums, tolerance, limits)


class BackRoom(NamedTuple):
    """The same for gradients."""

    work: Adjoint
    lines: tuple[np.ndarray, np.ndarray]
    words: np.ndarray
    D: np.ndarray  # a gradient by logits
    x: np.ndarray  # noisy scores
    L: np.ndarray  # logits and what is made of them, where they are needed again
    K: np.ndarray
    G: np.ndarray  # products, where they are needed in full


@njit
def backward(given, soft, upon, state, outs, samples, limits, low, high):
    """Jobs low..high-1; job = (share of the samples, batch entry), each with gradients of its own."""
    n, real = soft.shape[1], soft.dtype
    D, L, K, G = np.empty((n, n), real), np.empty((n, n), real), np.empty((n, n), real), np.empty((n, n), real)
    work, x = new_adjoint(state.u.shape[1] + upon.left.shape[1], n, soft), np.empty(n * n, real)
    room = BackRoom(work, new_square_lines(n, soft), new_words(n), D, x, L, K, G)
    _each_backward(given, soft, upon, state, outs, samples, limits, room, low, high)


@njit(counts=False)
def _each_backward(given, soft, upon, state, outs, samples, limits, room, low, high):
    batch, n, shares = given.scores.shape[0], soft.shape[1], outs.scores.shape[0]
    wanted, flat = outs.beta.shape[0] + outs.field.shape[0] > 0, room.D.reshape(n * n)
    for job in range(low, high):
        share, b = job // batch, job % batch
        at_once = not wanted and not outs.filled[share, b]
        target, begun = outs.scores[share, b].reshape(n, n) if at_once else room.D, False
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            if state.kind[m] == PACKED:
                continue
            add = begun and not wanted  # all samples have one beta: that is for their sum
            after = m + batch if sample + 1 < samples else b + 1  # or nearly: nothing depends on it
            _backward_one(given, soft, upon, state, m, room, target, add, limits, after % soft.shape[0])
            begun = True
            if wanted:
                spend(flat, given, m, share, outs, room.words, room.x)
        if begun and at_once:
            tempered(outs.scores[share, b], given, b)
            outs.filled[share, b] = True
        elif begun and not wanted:
            spend(flat, given, b, share, outs, room.words, room.x)


@njit(counts=False)
def _backward_one(given, soft, upon, state, m, room, D, add, limits, after):
    """D = dloss/dL of matrix m, or D += that; ``after`` is the matrix to come."""
    P, alike, (work, lines, words, _, _, L, K, _) = soft[m], soft.dtype.type(given.block[2]), room
    n, products, (whole, left, right) = P.shape[0], upon.left.shape[0] > 0, upon
    if state.kind[m] == MOVED:
        if products:
            write_products(left[m], right[m], room.G)
        G = room.G if products else whole[m]
        backward_moving(P, lines, G, given, state, m, alike, work, words, L, K, D, add, limits[2])
        return
    T, u, v = state.used[m], state.u[after], state.v[after]
    if products:
        lay_out(P, lines)
        weigh_products(P, lines, left[m], right[m], T, work)
    else:
        weigh_gradient(P, whole[m], work.f_bar, work.g_bar)  # first: it reads both in order, as memory likes to be read
        lay_out(P, lines)
    size = n * n if n <= NEAR else 0  # large matrices memory hands over quickly enough once they are begun
    first, read = (0, 0) if products else (after * n * n, size)
    ahead = (
        soft[after].reshape(n * n)[:size], whole.reshape(whole.size)[first : first + read], u.reshape(u.size), v.reshape(v.size)
    )  # fmt: skip
    recursion(P, lines, state.u[m, :T], state.v[m, :T], state.v[m, -1], alike, work, ahead)
    if products:
        T += left.shape[1]
        gradient(P, None, work.a[:T], work.c[:T], work.r[:T], work.s[:T], D, add)
    else:
        gradient(P, whole[m], work.a[:T], work.c[:T], work.r[:T], work.s[:T], D, add)
