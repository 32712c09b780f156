"""What every relaxation is: scores (or keys) in, soft permutation out, one call for all of them.

`relax(scores, epoch=e, samples=5, generator=g, allowed=mask)` gives (5, *batch, n, n) for a random relaxation; one
that draws nothing gives (1, *batch, n, n), since more copies would tell a trainer nothing; without `samples` there is no
leading dimension. `share=(first, total)` is for processes that split a batch: these scores are entries first, first + 1, ...
of total, and the noise is drawn for those. Rows are items, columns are positions.

Where not every item has a place (`GumbelSinkhorn(reject=...)`), the permutations are m x n and positions may be -1 in the order.

Ours are torch modules as well (`layer.py`): in `nn.Sequential`, with noise in training only, told the epoch by `set_epoch`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import whole
from ..operators.assignment import assign

SoftPermutations = Float[Tensor, "... m n"]
Orders = Int[Tensor, "... n"]
Number = int | float
Share = tuple[int, int] | None  # (first, total): these scores are entries first, first + 1, ... of a batch of total
MaskOrNone = Bool[Tensor, "... m n"] | None


@runtime_checkable
class Relaxation(Protocol):
    """A dataclass of frozen settings with these two methods; its repr is its log line."""

    def __call__(
        self,
        scores: Tensor,
        *,
        epoch: Number = 0,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        allowed: MaskOrNone = None,
        share: Share = None,
    ) -> SoftPermutations:
        """The soft permutation(s) at this epoch's temperature."""
        ...

    def decode(self, scores: Tensor, *, allowed: MaskOrNone = None) -> Orders:
        """The hard order that the scores stand for: no noise, no temperature."""
        ...


def with_samples(P: SoftPermutations, samples: int | None) -> SoftPermutations:
    """The leading dimension of a relaxation that draws nothing."""
    if samples is None:
        return P
    whole("samples", samples, 1)
    return P.unsqueeze(0)


def hardened(P: SoftPermutations, allowed: MaskOrNone = None) -> SoftPermutations:
    """The hard permutation that a soft one leans to, by assignment on log P (never on P: the best order differs)."""
    tiny = torch.finfo(P.dtype).tiny
    return one_hot(assign(P.detach().clamp_min(tiny).log(), allowed), P)


def one_hot(order: Orders, like: SoftPermutations) -> SoftPermutations:
    """`to_matrix` of an order that is known to be one, in the type of `like`: without a look at it, which no graph allows."""
    return torch.zeros_like(like).scatter(-2, order.unsqueeze(-2), 1.0)


def partial_one_hot(order: Orders, like: SoftPermutations) -> SoftPermutations:
    """The same for an order with empty positions."""
    m = like.shape[-2]
    room = like.new_zeros((*like.shape[:-2], m + 1, like.shape[-1]))  # the last row is nobody's
    return room.scatter(-2, torch.where(order < 0, m, order).unsqueeze(-2), 1.0)[..., :m, :]
