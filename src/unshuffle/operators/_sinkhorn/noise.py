"""Counter-based random numbers (Philox4x32-10, Salmon et al. 2011) and the Gumbel noise made from them.

The noise of an entry is a pure function of (key, matrix, entry): it does not depend on the number of threads or the device,
and is computed again in the backward pass instead of being stored. A matrix is done in groups of ``rows_at_once(n)`` rows. One
block gives four words; block k of a group of m entries serves entries k, k+q, k+2q, k+3q with q = ceil(m/4), so that
neighbouring blocks fill neighbouring entries and the kernel runs in vector registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import BadInput, shown

M0, M1 = 0xD2511F53, 0xCD9E8D57  # multipliers and key steps of Philox4x32
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
MASK = 0xFFFFFFFF


class Noise(NamedTuple):
    """Which noise: its scale, its key, and where these matrices stand in the batch that it is drawn for.

    Matrix b of sample s has the number ``s * total + first + b``; ``total`` 0 is the batch at hand. So processes that share a
    batch draw what one process with all of it would.
    """

    scale: float = 0.0
    key: Any = (0, 0)  # two words, in a graph as a tensor
    first: int = 0
    total: int = 0

    def numbers(self, matrices: int, batch: int, device: torch.device) -> Int[Tensor, " matrices"]:
        """The numbers of all matrices of a draw (samples times batch)."""
        m = torch.arange(matrices, device=device)
        return m // batch * (self.total or batch) + self.first + m % batch


SILENT = Noise()


torch.library.define("unshuffle::new_key", "(Tensor fresh) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl("unshuffle::new_key", "cpu")
def _(fresh: Tensor) -> Tensor:
    return torch.randint(0, 2**32, (2,))


@torch.library.register_fake("unshuffle::new_key")
def _(fresh: Tensor) -> Tensor:
    return torch.empty_like(fresh)


def new_key(generator: torch.Generator | None) -> tuple[int, int] | Tensor:
    """64 fresh bits from a torch generator (the default one if None); in a graph, a tensor that holds them at each run."""
    if torch.compiler.is_compiling():
        if generator is not None:
            raise BadInput("torch.compile knows no torch.Generator: leave it out, and seed with torch.manual_seed.")
        # the argument keeps two calls apart, which the compiler would take for one
        return torch.ops.unshuffle.new_key(torch.empty(2, dtype=torch.int64))
    if not isinstance(generator, torch.Generator | None):
        raise BadInput(f"generator must be a torch.Generator, not {shown(generator)}.")
    device = "cpu" if generator is None else generator.device
    words = torch.randint(0, 2**32, (2,), generator=generator, device=device)
    if torch._C._functorch.is_batchedtensor(words):  # pyright: ignore[reportAttributeAccessIssue]
        raise BadInput("Inside torch.vmap the noise must be drawn with randomness='same'; ask for samples instead.")
    if type(words) is not Tensor:
        return words  # fake, without memory
    high, low = (int(word) for word in words)
    return high, low


def philox(c: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int] | Tensor) -> list[Tensor]:
    """Four 32-bit words per counter, in int64 tensors."""
    c0, c1, c2, c3 = c
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * M0, c2 * M1  # the low 64 bits are right although int64 wraps around
        c0, c1, c2, c3 = ((p1 >> 32) & MASK) ^ c1 ^ k0, p1 & MASK, ((p0 >> 32) & MASK) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + W0) & MASK, (k1 + W1) & MASK
    return [c0, c1, c2, c3]


def rows_at_once(n):
    """Rows in a group: enough for the vector registers when n is small, few enough for the cache when it is large."""
    return min(n, max(1, 1024 // n))


def gumbel(
    numbers: Int[Tensor, " matrices"], m: int, n: int, key: tuple[int, int] | Tensor, dtype: torch.dtype
) -> Float[Tensor, "matrices m n"]:
    """Standard Gumbel noise for the matrices with these numbers; the torch twin of `logits._gumbel`."""
    width = rows_at_once(n) * n
    groups = [
        _gumbel_group(numbers, group, min(width, m * n - group * width), key) for group in range(-(-m * n // width))
    ]
    return torch.cat(groups, dim=-1).reshape(-1, m, n).to(dtype)


def _gumbel_group(numbers: Tensor, group: int, count: int, key: tuple[int, int] | Tensor) -> Tensor:
    block = torch.arange((count + 3) // 4, device=numbers.device).expand(len(numbers), -1)
    matrix = numbers.unsqueeze(-1).expand_as(block)
    zero = torch.zeros_like(block)
    x = torch.cat(philox((block, zero + group, matrix, zero), key), dim=-1)[:, :count]
    w = ((x >> 1).to(torch.float64) + 0.5) * 2.0**-31  # uniform in (0, 1)
    return -(-torch.log1p(-w)).log()
