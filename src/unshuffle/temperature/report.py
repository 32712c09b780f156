"""What a field of temperatures did: the numbers for a log line."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators.permutation import entropy
from .local import Controller, LocalTemperature
from .schedules import Number
from .signals import Allowed, PerItem, Square


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
def diagnose(
    local: Controller | None, Q: Square, beta0: Number | Tensor, allowed: Allowed | None = None
) -> FieldReport:
    """What `local` makes of the soft assignment `Q` at `beta0`, a number or a field; without a controller that is all."""
    controller = LocalTemperature(max_boost=0.0) if local is None else local
    s_row, s_col = controller.factors(Q, allowed)
    factor = controller.combine(s_row.unsqueeze(-1), s_col.unsqueeze(-2), controller.max_boost).expand_as(Q)
    unit, field = (1.0, beta0 * factor) if isinstance(beta0, Tensor) else (beta0, factor)
    counted, beta = (x if allowed is None else x[allowed.expand_as(x)] for x in (factor, field))
    return FieldReport(
        beta_mean=unit * beta.mean().item(),
        beta_min=unit * beta.min().item(),
        beta_max=unit * beta.max().item(),
        factor_mean=counted.mean().item(),
        rows_boosted=(s_row > 1).float().mean().item(),
        columns_boosted=(s_col > 1).float().mean().item(),
        row_entropy=entropy(Q, dim=-1, allowed=allowed),
    )
