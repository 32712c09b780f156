"""Row and column entropies of one soft permutation in one pass."""

from __future__ import annotations

import numpy as np

from ...compute.jit import have_numba, njit
from ..permutation import EPS

if have_numba:
    from ...compute.vector_math import log_of
else:

    def log_of(x):
        return np.log(x)


@njit
def new_terms(n, dtype):
    """Room for several rows at once: at the end of each the logarithms would be taken one by one."""
    return np.empty(max(1, 2048 // n) * n, dtype)


@njit(fastmath=True, counts=False)
def entropies_of(soft, terms, rows, columns):
    """The rows of soft (m, n) and its columns, in nats; what is in ``columns`` is added to."""
    m, n = soft.shape
    eps = soft.dtype.type(EPS)
    flat, some = soft.reshape(m * n), terms.size // n
    for first in range(0, m, some):
        count = min(some, m - first)
        block = flat[first * n : (first + count) * n]
        for e in range(block.size):
            q = max(block[e], eps)
            terms[e] = -q * log_of(q)
        for i in range(count):
            total = soft.dtype.type(0)
            for j in range(n):
                term = terms[i * n + j]
                total += term
                columns[j] += term
            rows[first + i] = total
