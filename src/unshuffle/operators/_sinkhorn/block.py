"""Which part of a square is real: what is left of a problem where not every item has a place, see `operators.partial`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Block(NamedTuple):
    """The first ``items`` rows and ``positions`` columns are real and have noise; 0 stands for all of them.

    The others are dummies. The last row and the last column stand for ``alike`` of these each, and sum to as much.
    """

    items: int = 0
    positions: int = 0
    alike: int = 1


WHOLE = Block()


class Border(NamedTuple):
    """Beside the real scores: a column for items left out and a row for positions left empty, which stand for dummies that are alike.

    As a square, `around` the real scores, there are as many lines of dummies as it takes, the last of which stand for several.
    """

    items: int
    positions: int
    size: int  # of the square
    alike: tuple[int, int]  # dummy items and dummy positions
    corner: float  # what a dummy with a dummy scores

    @property
    def block(self) -> Block:
        return Block(self.items, self.positions, self.items + self.alike[0] + 1 - self.size)

    @property
    def placed(self) -> int:
        """So many placements at least."""
        return self.items - self.alike[1]

    def around(self, scores: Tensor, left_out: Tensor | float, empty: Tensor | float) -> Tensor:
        """The square (..., size, size) of scores and prices (..., items) and (..., positions), or one number for all."""
        left_out, empty = (p if isinstance(p, Tensor) else scores.new_full((1,), p) for p in (left_out, empty))
        rows, columns, batch = self.size - self.items, self.size - self.positions, scores.shape[:-2]
        if columns:
            scores = torch.cat([scores, left_out.unsqueeze(-1).expand(*batch, self.items, columns)], -1)
        if not rows:
            return scores
        bottom = empty.unsqueeze(-2).expand(*batch, rows, self.positions)
        if columns:
            corner = scores.new_full((), self.corner).expand(*batch, rows, columns)
            bottom = torch.cat([bottom, corner], -1)
        return torch.cat([scores, bottom], -2)
