"""Matrices one at a time, while each sits in cache: easy ones by `scaling`, the others by `moving`."""

from __future__ import annotations

import numpy as np

from ...compute.jit import njit
from .entropy import entropies_of, new_terms
from .lines import new_square_lines
from .logits import logits, new_words, spend, tempered
from .moving import backward_moving, forward_moving, new_powers, strengthened
from .scaling import (
    EASY,
    MOVED,
    PACKED,
    UNUSABLE,
    exp_rows,
    fill,
    gradient,
    iterate,
    new_adjoint,
    recursion,
    row_maxima,
    start_at,
)

# log of a column's largest share of any row below which powers of two are chosen for it: well within what the scalings can take
WEAK = -12.0
# rows that are looked at first
PROBES = 4
# rows of matrices that find room in the near cache beside the one at hand
NEAR = 64


@njit
def _weak(L, tops, best):
    """Whether a column is weak in every row: positions that a network has not learned to use yet, inputs far from 0."""
    n = L.shape[0]
    for step in (max(1, n // PROBES), 1):
        fill(best, -np.inf)
        for i in range(0, n, step):
            _strengthen(best, L[i], tops[i])
        if not best.min() < WEAK:
            return False
    return best.min() > -np.inf  # a column that is forbidden altogether cannot be helped


@njit(fastmath={"nnan", "nsz"})
def _strengthen(best, row, top):
    for j in range(row.size):
        best[j] = max(best[j], row[j] - top)


@njit
def forward(given, tolerance, samples, soft, state, limits, entropies, low, high):
    """Jobs low..high-1, each one of samples * batch matrices, except those that are done already.

    ``soft`` and ``state`` have room for all of them. Or for one, which is forgotten over the next, if ``entropies`` (2, batch, n) are wanted.
    """
    batch, n, T = given.scores.shape[0], soft.shape[1], state.u.shape[1]
    kept, alike = entropies.shape[1] == 0, soft.dtype.type(given.block[2])
    # one allocation each: two views of one are taken to overlap, and the loops over them stay scalar
    totals, sums = np.empty(n + 16, soft.dtype), np.empty(n + 16, soft.dtype)
    lines = new_square_lines(n, soft)
    L = np.empty((0, n), soft.dtype)  # made when it is needed
    terms = new_terms(n, soft.dtype) if not kept else totals
    words, powers = new_words(n), new_powers(n)
    for job in range(low, high):
        # the samples one after the other, while scores and field are in cache
        sample, b = job % samples, job // samples
        m = sample * batch + b
        at = m if kept else 0
        if kept and state.kind[m]:
            continue
        K = soft[at]
        logits(K.reshape(n * n), given, m, words)
        if row_maxima(K, totals) == -np.inf:
            state.forbidden[0] = True
        start_at(state.v[at, T], alike)
        if _weak(K, totals, sums[:n]):
            strengthened(K, totals, sums[:n], state.v[at, T], powers)
        else:
            exp_rows(K, totals)
        state.used[at] = iterate(K, lines, state.u[at], state.v[at], alike, totals, sums, tolerance, limits)
        state.kind[at] = EASY
        if state.used[at] == 0:
            if L.shape[0] == 0:
                L = np.empty((n, n), soft.dtype)
            logits(L.reshape(n * n), given, m, words)
            state.kind[at] = forward_moving(L, K, lines, state, at, alike, totals, sums, tolerance, limits)
        if not kept:
            state.forbidden[0] = state.forbidden[0] or state.kind[at] == UNUSABLE
            entropies_of(K, terms, entropies[0, b], entropies[1, b])


@njit
def backward(given, soft, grad, state, outs, samples, limits, low, high):
    """Jobs low..high-1; job = (share of the samples, batch entry), each with gradients of its own."""
    batch, n, shares = given.scores.shape[0], soft.shape[1], outs.scores.shape[0]
    work, alike = new_adjoint(state.u.shape[1], n, soft), soft.dtype.type(given.block[2])
    D = L = K = np.empty((0, n), soft.dtype)  # made when they are needed
    lines = new_square_lines(n, soft)
    wanted = outs.beta.shape[0] + outs.field.shape[0] > 0
    x = np.empty(n * n if wanted else 0, soft.dtype)
    words = new_words(n)
    for job in range(low, high):
        share, b = job // batch, job % batch
        at_once = not wanted and not outs.filled[share, b]
        if not at_once and D.shape[0] == 0:
            D = np.empty((n, n), soft.dtype)
        target, begun = outs.scores[share, b].reshape(n, n) if at_once else D, False
        for sample in range(samples * share // shares, samples * (share + 1) // shares):
            m = sample * batch + b
            if state.kind[m] == PACKED:
                continue
            add = begun and not wanted  # all samples have one beta: that is for their sum
            if state.kind[m] == MOVED and L.shape[0] == 0:
                L, K = np.empty((n, n), soft.dtype), np.empty((n, n), soft.dtype)
            if state.kind[m] == MOVED:
                backward_moving(
                    soft[m], lines, grad[m], given, state, m, alike, work, words, L, K, target, add, limits[2]
                )
            else:
                after = m + batch if sample + 1 < samples else b + 1  # or nearly: nothing depends on it
                ahead = _needed(soft, grad, state, after % soft.shape[0])
                _backward_easy(soft[m], lines, grad[m], state, m, alike, work, target, add, ahead)
            begun = True
            if wanted:
                spend(D.reshape(n * n), given, m, share, outs, words, x)
        if begun and at_once:
            tempered(outs.scores[share, b], given, b)
            outs.filled[share, b] = True
        elif begun and not wanted:
            spend(D.reshape(n * n), given, b, share, outs, words, x)


@njit
def _needed(soft, grad, state, m):
    """What the gradient of matrix m reads, flat, except for large matrices, which memory hands over quickly enough once they are begun."""
    n = soft.shape[1]
    size = n * n if n <= NEAR else 0
    u, v = state.u[m], state.v[m]
    return soft[m].reshape(n * n)[:size], grad[m].reshape(n * n)[:size], u.reshape(u.size), v.reshape(v.size)


@njit
def _backward_easy(P, lines, G, state, m, alike, work, D, add, ahead):
    T = state.used[m]
    recursion(P, lines, G, state.u[m, :T], state.v[m, :T], state.v[m, -1], alike, work, ahead)
    gradient(P, G, work.a[:T], work.c[:T], work.r[:T], work.s[:T], D, add)
