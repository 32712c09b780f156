r"""Inverse temperature over time (`Anneal`) and per entry (`LocalTemperature`), Sections 2-3 of the paper.

Everything is an inverse temperature $\beta = 1/\tau$. The adaptive field of Algorithm 1 and the degree controller of the
tours are one formula with two signals $u \in [0, 1]$,

$$ s_i = 1 + b_{\max} u_i, \qquad \beta_{ij} = \beta_0 \, \phi(s_i^{row}, s_j^{col}), $$

where $\phi$ is one of `MeanBeta`, `MeanTau`, `Product`. A learned controller is in `learned_temperature.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .errors import function, number, whole
from .operators.entropies import row_and_column_entropies
from .operators.permutation import entropy, square

Field = Float[Tensor, "... n n"]
PerItem = Float[Tensor, "... n"]
Square = Float[Tensor, "... n n"]
Allowed = Bool[Tensor, "... n n"]
Number = int | float
Beta = Number | Float[Tensor, "..."]
Schedule = Callable[[Number], Number]  # epoch -> inverse temperature

# --- over time -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearInBeta:
    r"""$\beta(t) = \beta_0 + t(\beta_1 - \beta_0)$: what the paper writes."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return start + t * (end - start)


@dataclass(frozen=True)
class LinearInTau:
    r"""$1/\beta(t) = 1/\beta_0 + t(1/\beta_1 - 1/\beta_0)$: what the authors' code does; slower at first than `LinearInBeta`."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return 1.0 / (1.0 / start + t * (1.0 / end - 1.0 / start))


@dataclass(frozen=True)
class Exponential:
    r"""$\beta(t) = \beta_0 (\beta_1/\beta_0)^t$: the same curve in beta and in tau."""

    def __call__(self, start: Number, end: Number, t: Number) -> Number:
        return start * (end / start) ** t


@dataclass(frozen=True)
class Constant:
    """The same inverse temperature at every epoch."""

    beta: Number

    def __post_init__(self) -> None:
        number("A constant inverse temperature (beta = 1/tau)", self.beta, above=0)

    def __call__(self, epoch: Number = 0) -> Number:
        return self.beta


@dataclass(frozen=True)
class Anneal:
    """From `start` to `end` (inverse temperatures) in `epochs` epochs, counted from 0; constant afterwards.

    The first epoch has `start` and the last of the `epochs` has `end`: t = epoch / (epochs - 1), as the authors step it.
    """

    start: Number
    end: Number
    epochs: int
    shape: Callable[[Number, Number, Number], Number] = LinearInBeta()

    def __post_init__(self) -> None:
        number("The first inverse temperature (beta = 1/tau)", self.start, above=0)
        number("The last inverse temperature (beta = 1/tau)", self.end, above=0)
        whole("The number of epochs to anneal in", self.epochs, 1)
        function("The shape", self.shape, "us.LinearInBeta()")

    def __call__(self, epoch: Number = 0) -> Number:
        number("epoch", epoch)
        t = min(max(epoch / max(self.epochs - 1, 1), 0.0), 1.0)
        return self.shape(self.start, self.end, t)


UNIT = Constant(1.0)


# --- signals: how uncertain is each row and each column, from 0 to 1 ---------------------------------------------------


@dataclass(frozen=True)
class ExcessEntropy:
    r"""$u = \mathrm{clip}((H - H_0)/(1 - H_0), 0, 1)$ of the normalised row and column entropies (Algorithm 1).

    Entropies are of $\max(Q, 10^{-8})$ and divided by the log of the number of *allowed* entries, so that a row with two
    candidates left can be fully uncertain. A row with one candidate has entropy 0.
    """

    threshold: Number = 0.7

    def __post_init__(self) -> None:
        number("The entropy threshold H0", self.threshold, least=0, below=1)

    def __call__(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerItem]:
        rows, columns = row_and_column_entropies(Q, allowed)
        return self._excess(rows), self._excess(columns)

    def _excess(self, H: PerItem) -> PerItem:
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

    def __post_init__(self) -> None:
        function("normalise", self.normalise, "ByBound()")

    def __call__(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerItem]:
        violation = 2 * (Q * Q.roll(-1, dims=-1)).sum(-1)
        rows = self.normalise(violation)
        columns = (Q.mT @ rows.unsqueeze(-1)).squeeze(-1)
        return rows, columns


# --- combinations of a row's and a column's scaling into beta_ij / beta_0 ---------------------------------------------


@runtime_checkable
class Combine(Protocol):
    """`(s_row, s_col, max_boost) -> beta / beta_0`, broadcasting; within [1/(1+max_boost), 1]."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor: ...


@dataclass(frozen=True)
class MeanBeta:
    r"""$\beta_{ij} = \tfrac12(\beta_0/s_i + \beta_0/s_j)$: Algorithm 1."""

    def __call__(self, s_row: Tensor, s_col: Tensor, max_boost: Number) -> Tensor:
        return 0.5 / s_row + 0.5 / s_col  # one pass over the matrix: the divisions are on vectors


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

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerItem]: ...

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field: ...


@dataclass(frozen=True)
class LocalTemperature:
    r"""$s = 1 + b_{\max} u$ per row and column, combined into one inverse temperature per entry (Algorithm 1).

    `signal` is `ExcessEntropy`, `DegreeViolation` or any function `Q -> (rows, columns)`; what it returns is clipped to
    [0, 1], so the field never leaves $[\beta_0/(1+b_{\max}), \beta_0]$. A signal with a second argument called `allowed`
    also gets the mask. No gradient reaches the scores: the caller detaches them (stop-gradient of the paper).
    """

    signal: Callable[..., tuple[Tensor, Tensor]] = ExcessEntropy()
    max_boost: Number = 0.1
    combine: Combine = MeanBeta()

    def __post_init__(self) -> None:
        number("max_boost", self.max_boost, least=0)
        function("The signal", self.signal, "us.ExcessEntropy(0.7)")
        function("combine", self.combine, "us.MeanBeta()")

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerItem]:
        """The scalings $s$ of rows and columns, each within [1, 1 + max_boost]."""
        square(Q, "A soft permutation")
        rows, columns = self.signal(Q, allowed) if _takes_mask(self.signal) else self.signal(Q)
        return 1 + self.max_boost * rows.clamp(0, 1), 1 + self.max_boost * columns.clamp(0, 1)

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field:
        if not isinstance(beta0, Tensor):
            number("beta", beta0, above=0)
        field = relative_field(self, Q, allowed)
        wants_gradient = field.requires_grad or (isinstance(beta0, Tensor) and beta0.requires_grad)
        return (
            beta0 * field if wants_gradient else field.mul_(beta0)
        )  # in place: to allocate costs more than to multiply


def _takes_mask(signal: Callable[..., tuple[Tensor, Tensor]]) -> bool:
    return "allowed" in inspect.signature(signal).parameters


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
    combine: Combine = MeanBeta()

    def __post_init__(self) -> None:
        function("local", self.local, "us.LocalTemperature()")
        function("combine", self.combine, "us.MeanBeta()")

    @property
    def max_boost(self) -> Number:
        return self.local.max_boost

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerItem]:
        factor = _mean(relative_field(self.local, Q, allowed), allowed)
        s = (1 / factor).unsqueeze(-1).expand(Q.shape[:-1])
        return s, s

    def __call__(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field:
        return beta0 * relative_field(self, Q, allowed)


def _mean(field: Field, allowed: Allowed | None) -> Float[Tensor, "..."]:
    if allowed is None:
        return field.mean((-2, -1))
    weight = allowed.to(field.dtype).expand_as(field)
    return (field * weight).sum((-2, -1)) / weight.sum((-2, -1))


# --- what the field did ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldReport:
    """The realised field of one batch: cheap enough to log once an epoch. Entries that are not allowed do not count."""

    beta_mean: float
    beta_min: float
    beta_max: float
    factor_mean: float  # mean of beta / beta_0: what a matched scalar control multiplies its schedule by
    rows_boosted: float  # share of rows with s > 1
    columns_boosted: float
    row_entropy: PerItem  # normalised, per row

    def log(self) -> dict[str, float]:
        """The numbers, ready for a log line."""
        numbers = {key: value for key, value in vars(self).items() if key != "row_entropy"}
        return numbers | {"row_entropy_mean": self.row_entropy.mean().item()}


@torch.no_grad()
def diagnose(local: Controller | None, Q: Square, beta0: Number, allowed: Allowed | None = None) -> FieldReport:
    """What `local` makes of the soft assignment `Q` at `beta0`; without a controller the field is `beta0` everywhere."""
    controller = LocalTemperature(max_boost=0.0) if local is None else local
    s_row, s_col = controller.factors(Q, allowed)
    factor = controller.combine(s_row.unsqueeze(-1), s_col.unsqueeze(-2), controller.max_boost).expand_as(Q)
    counted = factor if allowed is None else factor[allowed.expand_as(factor)]
    return FieldReport(
        beta_mean=beta0 * counted.mean().item(),
        beta_min=beta0 * counted.min().item(),
        beta_max=beta0 * counted.max().item(),
        factor_mean=counted.mean().item(),
        rows_boosted=(s_row > 1).float().mean().item(),
        columns_boosted=(s_col > 1).float().mean().item(),
        row_entropy=entropy(Q, dim=-1, allowed=allowed),
    )
