"""What is wrong with bad scores, in one sentence; looked for when the kernel or the result says that something is."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import BadInput
from ..assignment import why_infeasible
from .block import WHOLE, Block


def check_finite(values: Tensor, name: str) -> None:
    """NaN and +inf in one sentence; -inf in scores forbids an entry and is fine."""
    bad = values.isnan() | (values == torch.inf)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        word = "NaN" if bool(values[tuple(where)].isnan()) else "+inf"
        place = f"row {where[-2]}, column {where[-1]}" if len(where) > 1 else "it"
        batch = f" of matrix {', '.join(map(str, where[:-2]))}" if len(where) > 2 else ""
        raise BadInput(f"{name} must be finite (-inf forbids an entry), but {place}{batch} is {word}.")


def check_feasible(scores: Tensor, soft: Tensor, block: Block = WHOLE) -> None:
    """A mask without a perfect matching leaves some row of a column-normalised matrix off by at least 1/n."""
    n, items, positions = scores.shape[-1], block.items or scores.shape[-1], block.positions or scores.shape[-1]
    forbidden = scores.detach() == -torch.inf
    if not bool(forbidden.any()):
        return
    size = n - 1 + block.alike
    wanted = items + positions - size  # placements at least, and exactly if dummies may not meet
    if wanted <= 0:
        return  # all may be left out
    sums = soft.detach().sum(-1)
    sums[..., -1] /= block.alike
    off = ~((sums - 1).abs().amax(-1) < 1 / size)  # NaN counts as off
    off = off.reshape(-1, *scores.shape[:-2]).any(0).reshape(-1)
    flat = forbidden[..., :items, :positions].reshape(-1, items, positions)
    for k in off.nonzero().flatten().tolist():
        reason = why_infeasible(~flat[k].cpu().numpy(), k if len(flat) > 1 else None, wanted)
        if reason:
            raise BadInput(reason)
