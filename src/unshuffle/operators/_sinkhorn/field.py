"""A field of inverse temperatures that need not be written down."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ...compute.memory import added


class Lead(NamedTuple):
    r"""Rows and columns of $\mathrm{Sinkhorn}(\beta_0 S)$ have $1/(1 + b_{\max} u)$, $u = \mathrm{clip}((H - H_0)/(1 - H_0), 0, 1)$, of their entropies H."""

    threshold: float
    max_boost: float


class FieldOfSums(NamedTuple):
    r"""$\beta_{ij} = \beta_0 (r_i + c_j)$: the kernels lay out one matrix of it at a time. No gradient goes through it.

    Rows and columns are room at first: the forward pass finds them by ``lead``, matrix by matrix, just before the samples that need them, while
    the scores are in cache.
    """

    base: Tensor  # a number, or one per matrix (*batch, 1, 1)
    rows: Tensor  # (*batch, n)
    columns: Tensor
    lead: Lead

    def whole(self) -> Tensor:
        """As a matrix, with the same bits."""
        return added(self.rows.unsqueeze(-1), self.columns.unsqueeze(-2)).mul_(self.base)
