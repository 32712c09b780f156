r"""Who follows an entropy target: by default the batch as a whole, else every matrix, or every row and column by itself.

The sharpness a of a layer is led, slowly, until the *mean* entropy is where the target wants it. Parts get factors on top of a,
$P = \mathrm{Sinkhorn}(f \odot a S + \sigma g)$, found anew at every call (rows are other items in every batch, there is nothing to
remember) such that each comes to what the mean has come to: where the target is, they know from the lead, and the factors only
say who is sharper than others. Sinkhorn ties rows and columns to each other, so a few damped steps of
$\log f \mathrel{+}= \kappa (H - \bar H)$ go round both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from ..errors import number, whole
from ..operators.entropies import row_and_column_entropies
from ..operators.sinkhorn import sinkhorn
from ..shapes import Scores
from .signals import Allowed

RATE = 1.5  # of log f, per unit of entropy and step


@runtime_checkable
class Parts(Protocol):
    """`(logits, iterations, allowed) -> f`, which broadcasts to the logits; no gradient goes through it."""

    def __call__(self, logits: Scores, iterations: int, allowed: Allowed | None = None) -> Tensor: ...


@dataclass(frozen=True)
class EachRow:
    """A factor per row times one per column, each in [1/most, most], found in so many steps.

    `matched`: the mean of that field instead, matrix by matrix. What rows gain over this control comes from *where* they are
    sharper, what both gain is only sharpness.
    """

    steps: int = 4
    most: float = 5.0
    matched: bool = False

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)
        number("most", self.most, least=1)

    def __call__(self, logits: Scores, iterations: int, allowed: Allowed | None = None) -> Float[Tensor, "*batch _ _"]:
        logits = logits.detach()
        rows, columns = logits.new_zeros(logits.shape[:-1]), logits.new_zeros(*logits.shape[:-2], logits.shape[-1])
        mean, limit = None, math.log(self.most)
        for _ in range(self.steps):
            soft = sinkhorn(_field(rows, columns) * logits, iterations, allowed)
            of_rows, of_columns = self._seen(*row_and_column_entropies(soft, allowed))
            mean = of_rows.mean() if mean is None else mean
            # half each: an entry gets both
            rows = (rows + RATE / 2 * (of_rows - mean)).clamp(-limit, limit)
            columns = (columns + RATE / 2 * (of_columns - mean)).clamp(-limit, limit)
        field = _field(rows, columns)
        return field.mean((-2, -1), keepdim=True) if self.matched else field

    def _seen(self, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        return rows, columns


@dataclass(frozen=True)
class EachMatrix(EachRow):
    """One factor per matrix, in [1/most^2, most^2]."""

    def _seen(self, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        mean = rows.mean(-1, keepdim=True)
        return mean.expand_as(rows), mean.expand_as(columns)


def _field(log_rows: Tensor, log_columns: Tensor) -> Tensor:
    return (log_rows.unsqueeze(-1) + log_columns.unsqueeze(-2)).exp()
