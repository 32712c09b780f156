"""A field of inverse temperatures that need not be written down."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ...compute.memory import added


class FieldOfSums(NamedTuple):
    r"""$\beta_{ij} = \beta_0 (r_i + c_j)$: the kernels lay out one matrix of it at a time. No gradient goes through it."""

    base: Tensor  # a number, or one per matrix (*batch, 1, 1)
    rows: Tensor  # (*batch, n)
    columns: Tensor

    def whole(self) -> Tensor:
        """As a matrix, with the same bits."""
        return added(self.rows.unsqueeze(-1), self.columns.unsqueeze(-2)).mul_(self.base)
