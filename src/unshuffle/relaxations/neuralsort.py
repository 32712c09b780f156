r"""NeuralSort (Grover et al., 2019): a relaxed sort of one key per item."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..compute.transforms import operator
from ..errors import BadInput
from ..operators.assignment import assign
from ..operators.precision import widened
from .gumbel_sinkhorn import softmax_over_items
from .layer import Draw, Scheduled
from .protocol import MaskOrNone, Orders, SoftPermutations, with_samples

Keys = Float[Tensor, "... n"]


@dataclass(eq=False)
class NeuralSort(Scheduled):
    r"""$P_{jk} = \mathrm{softmax}_j\bigl(\beta((2k - n - 1) s_j - \sum_l |s_j - s_l|)\bigr)$, ascending, k = 1..n.

    Keys are (..., n): (3, 5, 8) are 15 lists of 8 keys, not scores of 5 items at 8 positions; everybody has a place.
    Column k is a distribution over *items*; the paper writes the transpose (positions x items) and the descending order.
    `as_published=True` reproduces the paper's code instead: softmax over *positions*, where the pairwise term
    is the same for all entries of a row and cancels, so the keys are compared with nothing, and what all have in common
    counts: with keys of 10 to 11 the softmax is ten times colder and underflows. That is why its NeuralSort row
    collapses on [10, 11]; the operator itself sorts there perfectly.
    """

    as_published: bool = False

    def relaxed(self, scores: Keys, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        beta, scores = draw.beta, checked_keys(scores)
        if self.as_published:  # transposed twice: the softmax runs over positions
            mask = None if allowed is None else allowed.mT
            return with_samples(softmax_over_items(beta * sort_logits(scores).mT, mask).mT, draw.samples)
        # centring changes no softmax over items, and keeps the digits of keys like 10.3
        centred = scores - scores.detach().mean(-1, keepdim=True)
        return with_samples(softmax_over_items(beta * sort_logits(centred), allowed), draw.samples)

    def decode(self, scores: Keys, *, allowed: MaskOrNone = None) -> Orders:
        return decode_keys(scores, allowed)


def checked_keys(keys: Keys) -> Keys:
    """The same keys if they are floating point (..., n) with n >= 1; otherwise one sentence."""
    if not isinstance(keys, Tensor) or keys.ndim < 1 or keys.shape[-1] == 0 or not keys.is_floating_point():
        kind = f"{keys.dtype} of shape {tuple(keys.shape)}" if isinstance(keys, Tensor) else type(keys).__name__
        raise BadInput(f"A sort takes one key per item, a floating-point tensor (..., n), not {kind}.")
    return keys


def sort_logits(keys: Keys) -> Float[Tensor, "... n n"]:
    r"""$(2k - n - 1) s_j - \sum_l |s_j - s_l|$, rows j, columns k: largest in column k for the k-th smallest key."""
    n = keys.shape[-1]
    place = 2 * torch.arange(1, n + 1, device=keys.device, dtype=keys.dtype) - n - 1
    spread = (keys.unsqueeze(-1) - keys.unsqueeze(-2)).abs().sum(-1)
    return keys.unsqueeze(-1) * place - spread.unsqueeze(-1)


def decode_keys(keys: Keys, allowed: MaskOrNone = None) -> Orders:
    """The items by ascending key; with a mask, the best allowed assignment of that sort."""
    order = _sorted(widened(checked_keys(keys).detach()))
    return order if allowed is None else assign(sort_logits(widened(keys.detach())), allowed)


@operator("(Tensor keys) -> Tensor", lambda keys: torch.empty_like(keys, dtype=torch.int64))
def _sorted(keys: Keys) -> Orders:
    if not bool(torch.isfinite(keys).all()):
        raise BadInput("A sort takes finite keys, but some are NaN or infinite.")
    return torch.argsort(keys, dim=-1, stable=True)
