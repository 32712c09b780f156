r"""Inverse temperature per entry (`LocalTemperature`), Section 3 of the paper.

Everything is an inverse temperature $\beta = 1/\tau$. The adaptive field of Algorithm 1 and the degree controller of the
tours are one formula with two signals $u \in [0, 1]$,

$$ s_i = 1 + b_{\max} u_i, \qquad \beta_{ij} = \beta_0 \, \phi(s_i^{row}, s_j^{col}), $$

where $\phi$ is one of `MeanBeta`, `MeanTau`, `Product`. A learned controller is in `learned.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from ..compute.memory import added
from ..errors import BadInput, function, number, shown
from ..operators._sinkhorn.engine import field_to_come
from ..operators._sinkhorn.field import FieldOfSums, Lead
from ..operators.gumbel import controller
from ..operators.permutation import rectangle
from ..shapes import Scores
from .schedules import Number
from .signals import Allowed, ExcessEntropy, PerItem, PerPosition, Square

Field = Float[Tensor, "... m n"]
Beta = Number | Float[Tensor, "..."]
COMBINE = "s_row, s_col, max_boost"

# --- combinations of a row's and a column's scaling into beta_ij / beta_0 ---------------------------------------------


@runtime_checkable
class Combine(Protocol):
    """`(s_row, s_col, max_boost) -> beta / beta_0`, broadcasting; within [1/(1+max_boost), 1]."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor: ...


@dataclass(frozen=True)
class MeanBeta:
    r"""$\beta_{ij} = \tfrac12(\beta_0/s_i + \beta_0/s_j)$: Algorithm 1."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor:
        return added(0.5 / s_row, 0.5 / s_col)  # one pass over the matrix: the divisions are on vectors


@dataclass(frozen=True)
class MeanTau:
    r"""$\beta_{ij} = \beta_0 \cdot 2/(s_i + s_j)$, the mean of the temperatures: the authors' code and appendix (`avg`)."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor:
        return 2 / (s_row + s_col)


@dataclass(frozen=True)
class Product:
    r"""$\beta_{ij} = \beta_0/(s_i s_j)$, clamped to $[\beta_0/(1+b_{\max}), \beta_0]$ (`prod`); the clamp acts only here."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor:
        return 1 / (s_row * s_col).clamp_max(1 + max_boost)


# --- per entry -------------------------------------------------------------------------------------------------------


@runtime_checkable
class Controller(Protocol):
    """What `gumbel_sinkhorn(local=...)` takes: a soft assignment and a base beta in, the field of betas out."""

    @property
    def combine(self) -> Combine: ...

    @property
    def max_boost(self) -> Number: ...

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]: ...

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field: ...


@dataclass(frozen=True)
class LocalTemperature:
    r"""$s = 1 + b_{\max} u$ per row and column, combined into one inverse temperature per entry (Algorithm 1).

    `signal` is `ExcessEntropy`, `DegreeViolation` or any function `Q -> (rows, columns)`; what it returns is clipped to
    [0, 1], so the field never leaves $[\beta_0/(1+b_{\max}), \beta_0]$. A signal with a second argument called `allowed`
    also gets the mask. No gradient reaches the scores: the caller detaches them (stop-gradient of the paper).

    Where items may be left out, Q has one more column, being left out is one more outcome of a row's entropy, and its price has a
    temperature of its own; one more row stands for positions that stay empty.
    """

    signal: Callable[..., tuple[Tensor, Tensor]] = ExcessEntropy()
    max_boost: Number = 0.1
    combine: Combine = MeanBeta()
    _takes_mask: ClassVar[bool]  # of the signal; looked up once, since a graph cannot

    def __post_init__(self) -> None:
        number("max_boost", self.max_boost, least=0)
        function("The signal", self.signal, "us.ExcessEntropy(0.7)")
        object.__setattr__(self, "_takes_mask", "allowed" in inspect.signature(self.signal).parameters)
        function("The signal", self.signal, "us.ExcessEntropy(0.7)", "Q, allowed" if self._takes_mask else "Q")
        function("combine", self.combine, "us.MeanBeta()", COMBINE)

    @property
    def partial(self) -> bool:
        """Whether the signal has a meaning where items are left out."""
        return getattr(self.signal, "partial", True)

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]:
        """The scalings $s$ of rows and columns, each within [1, 1 + max_boost]."""
        rectangle(Q, "A soft permutation")
        rows, columns = self.signal(Q, allowed) if self._takes_mask else self.signal(Q)
        return 1 + self.max_boost * rows.clamp(0, 1), 1 + self.max_boost * columns.clamp(0, 1)

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field:
        if not isinstance(beta0, Tensor):
            number("beta", beta0, above=0)
        field = relative_field(self, Q, allowed)
        wants_gradient = field.requires_grad or (isinstance(beta0, Tensor) and beta0.requires_grad)
        return (
            beta0 * field if wants_gradient else field.mul_(beta0)
        )  # in place: to allocate costs more than to multiply

    def of_scores(self, scores: Scores, beta0: Tensor) -> FieldOfSums | None:
        r"""The field for $Q = \mathrm{Sinkhorn}(\beta_0 S)$, if neither Q nor the field has to be written down for it: kernels find it themselves."""
        signal, known = self.signal, (LocalTemperature, ExcessEntropy, MeanBeta)
        # exactly these: what is derived from them may compute something else
        if not isinstance(signal, ExcessEntropy) or (type(self), type(signal), type(self.combine)) != known:
            return None
        return field_to_come(scores, beta0, Lead(float(signal.threshold), float(self.max_boost)))


def relative_field(local: Controller, Q: Square, allowed: Allowed | None = None) -> Field:
    r"""$\beta_{ij}/\beta_0$ of a controller."""
    s_row, s_col = local.factors(Q, allowed)
    return local.combine(s_row.unsqueeze(-1), s_col.unsqueeze(-2), local.max_boost)


@dataclass(frozen=True)
class MatchedScalar:
    """The control experiment: one scalar per matrix, lowered by the mean factor that the field of `local` has there.

    A gain of the field over this one comes from *where* beta was lowered; a gain that it shares is only a lower beta.
    """

    local: Controller

    def __post_init__(self) -> None:
        controller(self.local)
        if not isinstance(self.local, Controller):
            raise BadInput(f"local must have factors, as us.LocalTemperature() has, but {shown(self.local)} has none.")

    @property
    def combine(self) -> Combine:
        return MeanBeta()  # rows and columns have the same s: any mean gives 1/s back, a product would not

    @property
    def max_boost(self) -> Number:
        return self.local.max_boost

    @property
    def partial(self) -> bool:
        return getattr(self.local, "partial", True)

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]:
        factor = _mean(relative_field(self.local, Q, allowed), allowed)
        s = (1 / factor).unsqueeze(-1)
        return s.expand(Q.shape[:-1]), s.expand(*Q.shape[:-2], Q.shape[-1])

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field:
        return beta0 * relative_field(self, Q, allowed)


def _mean(field: Field, allowed: Allowed | None) -> Float[Tensor, "..."]:
    if allowed is None:
        return field.mean((-2, -1))
    weight = allowed.to(field.dtype).expand_as(field)
    return (field * weight).sum((-2, -1)) / weight.sum((-2, -1))
