"""How uncertain is each row and each column of a soft permutation, from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import function, number
from ..operators.entropies import row_and_column_entropies
from ..operators.permutation import square
from .schedules import Number

PerItem = Float[Tensor, "... m"]
PerPosition = Float[Tensor, "... n"]
Square = Float[Tensor, "... m n"]
Allowed = Bool[Tensor, "... m n"]


@dataclass(frozen=True)
class ExcessEntropy:
    r"""$u = \mathrm{clip}((H - H_0)/(1 - H_0), 0, 1)$ of the normalised row and column entropies (Algorithm 1).

    Entropies are of $\max(Q, 10^{-8})$ and divided by the log of the number of *allowed* entries, so that a row with two
    candidates left can be fully uncertain. A row with one candidate has entropy 0. `log_n=True` divides by the log of all
    entries, as the paper writes it: what anchors leave open then looks less uncertain than it is.
    """

    threshold: Number = 0.7
    log_n: bool = False

    def __post_init__(self) -> None:
        number("The entropy threshold H0", self.threshold, least=0, below=1)

    def __call__(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]:
        rows, columns = row_and_column_entropies(Q, None if self.log_n else allowed)
        return self.excess(rows), self.excess(columns)

    def excess(self, H: PerItem) -> PerItem:
        """u of these entropies."""
        return ((H - self.threshold) / (1 - self.threshold)).clamp(0, 1)


@dataclass(frozen=True)
class ByBound:
    r"""Divide by the largest value that any row can have.

    $\sum_p q_p q_{p+1}$ over a cycle is at most $(1 - 1/\omega)/2$ for a distribution q, with $\omega$ the largest clique
    (Motzkin and Straus): $u \le 1/2$ from four positions on. Nothing is amplified when all violations are tiny.
    """

    def __call__(self, u: PerItem) -> PerItem:
        n = u.shape[-1]
        bound = {1: 2.0, 2: 1.0, 3: 2 / 3}.get(n, 0.5)
        return u / bound


@dataclass(frozen=True)
class ByMaximum:
    """Divide by the largest violation present: the worst row always gets the whole boost, and all rows at a uniform Q."""

    def __call__(self, u: PerItem) -> PerItem:
        # 1e-6: below that the rows are one-hot, and their ratios are rounding noise
        return u / u.amax(-1, keepdim=True).clamp_min(1e-6)


@dataclass(frozen=True)
class DegreeViolation:
    r"""Self-loop mass of the soft tour (appendix "Task-specific uncertainty signals").

    With the edges $E = H + H^T$, $H = QVQ^T$, the violation $\lvert d_i - 2 \rvert$ is $2 H_{ii} = 2 \sum_p Q_{ip} Q_{i,p+1}$ (positions
    on a cycle), so no n x n x n product is needed. The paper gives neither the norm nor the columns: we take
    $u^{col} = Q^T u^{row}$, and `normalise` maps to [0, 1].
    """

    normalise: Callable[[PerItem], PerItem] = ByBound()
    partial: ClassVar[bool] = False
    """Whether it has a meaning where items are left out: a city that is half in the tour has no degree of two to be compared with."""

    def __post_init__(self) -> None:
        function("normalise", self.normalise, "ByBound()", "u")

    def __call__(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]:
        square(Q, "The soft permutation of a tour")
        violation = 2 * (Q * Q.roll(-1, dims=-1)).sum(-1)
        rows = self.normalise(violation)
        columns = (Q.mT @ rows.unsqueeze(-1)).squeeze(-1)
        return rows, columns
