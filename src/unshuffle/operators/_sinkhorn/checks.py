"""What is wrong with bad scores, in one sentence; looked for when the kernel or the result says that something is."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from ...errors import BadInput
from ..assignment import why_infeasible
from .block import WHOLE, Block


class Unusable(Exception):
    """NaN, +inf or a row or column that is forbidden altogether; the caller finds the words."""


def check_finite(values: Tensor, name: str) -> None:
    """NaN and +inf in one sentence; -inf in scores forbids an entry and is fine."""
    bad = values.isnan() | (values == torch.inf)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        word = "NaN" if bool(values[tuple(where)].isnan()) else "+inf"
        place = f"row {where[-2]}, column {where[-1]}" if len(where) > 1 else "it"
        batch = f" of matrix {', '.join(map(str, where[:-2]))}" if len(where) > 2 else ""
        forbids = " (-inf forbids an entry)" if name == "Scores" else ""
        raise BadInput(f"{name} must be finite{forbids}, but {place}{batch} is {word}.")


def check_feasible(scores: Tensor, soft: Tensor, block: Block = WHOLE) -> None:
    """Items that have not places enough leave rows of a column-normalised matrix short of one, by one at least in all (Hall)."""
    n, items, positions = scores.shape[-1], block.items or scores.shape[-1], block.positions or scores.shape[-1]
    wanted = items + positions - (n - 1 + block.alike)  # placements at least, and exactly if dummies may not meet
    if wanted <= 0:
        return  # all may be left out
    short = 1 - soft.detach().sum(-1)
    short[..., -1] += block.alike - 1
    off = ~(short.clamp_min(0).sum(-1) < 0.99)  # NaN counts as off
    off = off.reshape(-1, *scores.shape[:-2]).any(0).reshape(-1).nonzero().flatten().tolist()
    if not off:
        return
    allowed = scores.detach()[..., :items, :positions].reshape(-1, items, positions)[off] > -torch.inf
    for k, mask in zip(off, allowed.cpu().numpy(), strict=True):
        if not mask.all() and not _feasible(np.packbits(mask).tobytes(), items, positions, wanted):
            raise BadInput(why_infeasible(mask, k if scores.shape[:-2].numel() > 1 else None, wanted))


@functools.lru_cache(256)  # a mask is met again, with every matrix of a batch and at every step
def _feasible(bits: bytes, items: int, positions: int, wanted: int) -> bool:
    mask = np.unpackbits(np.frombuffer(bits, np.uint8), count=items * positions).reshape(items, positions)
    return not why_infeasible(mask.astype(bool), keep=wanted)
