"""Counter-based random numbers (Philox4x32-10, Salmon et al. 2011) and the Gumbel noise made from them.

The noise of entry (i, j) of matrix m under a key is a pure function of (key, m, i, j): it does not depend on the number of
threads or the device, and is computed again in the backward pass instead of being stored. One block gives four numbers;
block k of a row serves columns k, k+q, k+2q, k+3q with q = ceil(n/4), so that neighbouring blocks fill neighbouring columns
and the kernel runs in vector registers.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

M0, M1 = 0xD2511F53, 0xCD9E8D57  # multipliers and key steps of Philox4x32
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
MASK = 0xFFFFFFFF


def new_key(generator: torch.Generator | None) -> tuple[int, int]:
    """64 fresh bits from a torch generator (the default one if None)."""
    device = "cpu" if generator is None else generator.device
    high, low = torch.randint(0, 2**32, (2,), generator=generator, device=device).tolist()
    return high, low


def philox(c: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> list[Tensor]:
    """Four 32-bit words per counter, in int64 tensors."""
    c0, c1, c2, c3 = c
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * M0, c2 * M1  # the low 64 bits are right although int64 wraps around
        c0, c1, c2, c3 = ((p1 >> 32) & MASK) ^ c1 ^ k0, p1 & MASK, ((p0 >> 32) & MASK) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + W0) & MASK, (k1 + W1) & MASK
    return [c0, c1, c2, c3]


def gumbel(
    matrices: int, n: int, key: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "matrices n n"]:
    """Standard Gumbel noise for ``matrices`` matrices; the torch twin of ``gumbel_row`` in ``_numba``."""
    q = (n + 3) // 4
    block = torch.arange(q, device=device)
    row = torch.arange(n, device=device).unsqueeze(-1)
    matrix = torch.arange(matrices, device=device).reshape(-1, 1, 1)
    shape = torch.broadcast_shapes(block.shape, row.shape, matrix.shape)
    words = philox(
        tuple(t.expand(shape) for t in (block, row, matrix, torch.zeros_like(block))),  # pyright: ignore[reportArgumentType]
        key,
    )
    x = torch.cat(words, dim=-1)[..., :n]
    w = (x.to(torch.float64) + 0.5) * 2.0**-32  # uniform in (0, 1)
    return (-(-torch.log1p(-w)).log()).to(dtype)
