"""What the Sinkhorn kernels read: beta * (scores + noise * g), one matrix at a time; and where its gradient goes.

The noise is a function of the place of an entry (`noise`): it is made where it is needed, twice if it is needed twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.jit import njit
from ...compute.vector_math import gumbel_of
from .lanes import times_sums
from .noise import M0, M1, ROUNDS, W0, W1, rows_at_once

_M0, _M1 = np.uint64(M0), np.uint64(M1)
_W0, _W1 = np.uint32(W0), np.uint32(W1)
_32 = np.uint64(32)
rows_at_once = njit(rows_at_once)


class Problem(NamedTuple):
    """What is asked for, flat per matrix. Matrix m of samples * batch is draw m // batch of batch entry m % batch."""

    scores: np.ndarray  # (batch, n * n)
    beta: np.ndarray  # (batch,)
    field: np.ndarray  # (0, 1 or batch, n * n): a beta for every entry
    rows: np.ndarray  # (0 or batch, n), and columns: beta (rows_i + columns_j) for every entry, see `field.FieldOfSums`
    columns: np.ndarray
    noise: np.generic
    stream: tuple[np.generic, ...]  # two words of the key, the first number and the total, see `noise.Noise`
    block: tuple[int, ...]  # items, positions, alike, see `block.Block`


class Gradients(NamedTuple):
    """Of the loss by scores, beta and field, one for each share of the samples; ``filled`` notes which of them hold something."""

    scores: np.ndarray  # (shares, batch, n * n)
    beta: np.ndarray  # (0 or shares, batch)
    field: np.ndarray  # (0 or shares, batch, n * n)
    filled: np.ndarray  # (shares, batch)


@njit
def new_words(n):
    """Scratch for the random words of one group of rows, of n columns or fewer."""
    return np.empty(4 * ((max(1024, n) + 3) // 4), np.uint32)


@njit(counts=False)
def _number_of(given, m):
    """The number of matrix m in the whole batch, see `noise.Noise`."""
    batch = given.scores.shape[0]
    return m // batch * np.int64(given.stream[3]) + np.int64(given.stream[2]) + m % batch


@njit(fastmath=True, counts=False)
def _gumbel(words, out, group, matrix, k0, k1):
    """Gumbel(0, 1) noise of one group of rows, flat; see `noise` for which word serves which entry."""
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


@njit(fastmath=True, counts=False)
def _scale(x, scores, beta, field, noise):
    """x = beta * (scores + noise * x); ``field`` is empty for the scalar beta."""
    if field.size:
        for j in range(x.size):
            x[j] = field[j] * (scores[j] + noise * x[j])
    else:
        for j in range(x.size):
            x[j] = beta * (scores[j] + noise * x[j])


@njit(fastmath=True, counts=False)
def _scale_without_noise(x, scores, beta, field):
    if field.size:
        for j in range(x.size):
            x[j] = field[j] * scores[j]
    else:
        for j in range(x.size):
            x[j] = beta * scores[j]


@njit(counts=False)
def _by_sums(x, low, high, scores, noise, given, b):
    """x = (scores + noise x) times the field of batch entry b, given by sums, for the rows that are x[low:high]; without scores x times it."""
    rows, columns, beta, n = given.rows[b], given.columns[b], given.beta[b], given.rows.shape[1]
    for first in range(low, high, n):
        times_sums(x, first, scores, noise, rows[first // n], columns, beta, n)


@njit(counts=False)
def _noisy(x, given, m, beta, field, words):
    """x = beta * (scores + noise * g) for matrix m, flat, group of rows by group of rows."""
    b, sums = m % given.scores.shape[0], given.rows.shape[0] > 0 and field.size == 0
    scores = given.scores[b]
    if given.noise == 0 and sums:
        _scale_without_noise(x, scores, x.dtype.type(1), field)
        _by_sums(x, 0, x.size, None, given.noise, given, b)
        return
    if given.noise == 0:
        _scale_without_noise(x, scores, beta, field)
        return
    n = int(np.sqrt(x.size))
    items, positions, _ = given.block
    if items < n or positions < n:
        _noise_of_block(x, n, items, positions, given, m, words)
        _scale(x, scores, beta, field, given.noise)
        return
    width = rows_at_once(n) * n
    number = _number_of(given, m)
    for group in range((x.size + width - 1) // width):
        low, high = group * width, min(x.size, (group + 1) * width)
        _gumbel(words, x[low:high], group, number, given.stream[0], given.stream[1])
        if sums:
            _by_sums(x, low, high, scores, given.noise, given, b)
        else:
            _scale(x[low:high], scores[low:high], beta, field[low:high], given.noise)


@njit(counts=False)
def _noise_of_block(x, n, items, positions, given, m, words):
    """x = g for the real entries, 0 for the dummies: made as if there were only the real ones, and then spread, from the last row on."""
    count, width = items * positions, rows_at_once(positions) * positions
    number = _number_of(given, m)
    for group in range((count + width - 1) // width):
        _gumbel(
            words, x[group * width : min(count, (group + 1) * width)], group, number, given.stream[0], given.stream[1]
        )
    x[items * n :] = 0
    for i in range(items - 1, -1, -1):
        for j in range(positions - 1, -1, -1):
            x[i * n + j] = x[i * positions + j]
        x[i * n + positions : (i + 1) * n] = 0


@njit(counts=False)
def lay_out_field(out, rows, columns, beta):
    """beta (rows_i + columns_j), flat: what several samples need is written down once."""
    n = columns.size
    for i in range(rows.size):
        row, own = rows[i], out[i * n : (i + 1) * n]
        for j in range(n):
            own[j] = (row + columns[j]) * beta


@njit(counts=False)
def logits(x, given, m, words, field):
    """x = L of matrix m, flat; ``field`` is that of its batch entry, if it was laid out, and else empty."""
    b, fields = m % given.scores.shape[0], given.field
    if fields.shape[0] and field.size == 0:
        field = fields[b % fields.shape[0]]
    _noisy(x, given, m, given.beta[b], field, words)


@njit(counts=False)
def as_given(given, b):
    """Whether L is the scores of batch entry b themselves, but for the noise."""
    return given.field.shape[0] + given.rows.shape[0] == 0 and given.beta[b] == 1


@njit(fastmath=True, counts=False)
def tempered(D, given, b):
    """D *= beta of batch entry b, flat: from the gradient by L to that by the scores."""
    if as_given(given, b):
        return
    fields, beta = given.field, given.beta[b]
    if given.rows.shape[0]:
        _by_sums(D, 0, D.size, None, beta, given, b)
    elif fields.shape[0]:
        field = fields[b % fields.shape[0]]
        for j in range(D.size):
            D[j] *= field[j]
    else:
        for j in range(D.size):
            D[j] *= beta


@njit(fastmath=True, counts=False)
def spend(D, given, m, share, outs, words, x):
    """dL of matrix m (flat) on to its scores, times beta; and to beta, times the noisy scores, which are made again in x."""
    b = m % given.scores.shape[0]
    fields, field, beta, to_scores = given.field, D[:0], given.beta[b], outs.scores[share, b]
    if fields.shape[0]:
        field = fields[b % fields.shape[0]]
    fresh = not outs.filled[share, b]
    outs.filled[share, b] = True
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
    if outs.beta.shape[0] + outs.field.shape[0] == 0:
        return
    zero = D.dtype.type(0)
    _noisy(x, given, m, D.dtype.type(1), field[:0], words)
    for j in range(D.size):
        x[j] = D[j] * x[j] if x[j] > -np.inf else zero  # a forbidden entry has no gradient
    if outs.field.shape[0]:
        to_field = outs.field[share, b]
        if fresh:
            for j in range(D.size):
                to_field[j] = x[j]
        else:
            for j in range(D.size):
                to_field[j] += x[j]
    else:
        total = zero
        for j in range(D.size):
            total += x[j]
        outs.beta[share, b] = total if fresh else outs.beta[share, b] + total
