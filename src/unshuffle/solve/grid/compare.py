"""Lines of pixels compared, all with all: the sums that a seam costs. Kernels, and the same in torch."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...compute.jit import have_numba, njit
from ...compute.threads import in_chunks

AT_ONCE = 40_000_000 if have_numba else 4_000_000
"""Numbers per block of pairs, between two looks at the clock: 20 ms of the kernels; of torch, 16 MB, about a last-level cache."""

SECONDS = (
    7e-10 if have_numba else 4e-9
)  # that a number of a seam takes in all six passes over a pair, on a small machine

Flat = Float[Tensor, "n samples"]
Pairs = Float[Tensor, "rows n"]


def sum_of_roots(a: Float[Tensor, "rows samples"], r: Flat, l: Float[Tensor, "rows samples"], b: Flat) -> Pairs:
    r"""$\sum_p |a_{ip} - r_{kp}|^{1/2} + |b_{kp} - l_{ip}|^{1/2}$ of all i and k."""
    if not have_numba:
        found = (a[:, None] - r).abs_().sqrt_().sum(-1)
        return found.add_((b - l[:, None]).abs_().sqrt_().sum(-1))
    found = np.empty((len(a), len(r)), np.float32)
    lines = a.numpy(), r.numpy(), l.numpy(), b.numpy()
    in_chunks(lambda low, high: _roots(*lines, found, low, high), len(a), float(a.numel()) * len(r))
    return torch.from_numpy(found)


def sum_of_lengths(
    whiten: Float[Tensor, "rows channels channels"], base: Float[Tensor, "rows channels along"], lines: Float[Tensor, "n channels along"]
) -> Pairs:  # fmt: skip
    r"""$\sum_p \lVert W_i r_{kp} - b_{ip} \rVert$ of all i and k; every W is lower triangular."""
    if not have_numba:
        return (torch.einsum("icd,kdp->ikcp", whiten, lines) - base[:, None]).square_().sum(2).sqrt_().sum(-1)
    found = np.empty((len(whiten), len(lines)), np.float32)
    given = whiten.numpy(), base.contiguous().numpy(), lines.contiguous().numpy()
    in_chunks(lambda low, high: _lengths(*given, found, low, high), len(whiten), 3.0 * base.numel() * len(lines))
    return torch.from_numpy(found)


@njit(fastmath=True)
def _roots(a, r, l, b, found, low, high):
    n, samples = r.shape
    for i in range(low, high):
        for k in range(n):
            total = np.float32(0.0)
            for p in range(samples):
                total += np.sqrt(abs(a[i, p] - r[k, p])) + np.sqrt(abs(b[k, p] - l[i, p]))
            found[i, k] = total


@njit(fastmath=True)
def _lengths(whiten, base, lines, found, low, high):
    n, channels, along = lines.shape
    squares, entry = np.empty(along, np.float32), np.empty(along, np.float32)
    for i in range(low, high):
        for k in range(n):
            squares[:] = np.float32(0.0)
            for c in range(channels):
                for p in range(along):
                    entry[p] = -base[i, c, p]
                for d in range(c + 1):
                    w = whiten[i, c, d]
                    for p in range(along):
                        entry[p] += w * lines[k, d, p]
                for p in range(along):
                    squares[p] += entry[p] * entry[p]
            total = np.float32(0.0)
            for p in range(along):
                total += np.sqrt(squares[p])
            found[i, k] = total
