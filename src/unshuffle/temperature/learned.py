r"""A temperature controller that is trained with the network (the paper names it as future work).

Same interface as `LocalTemperature`. The threshold, the boost and the slope are three parameters behind sigmoids, so
the field can never leave $[\beta_0/(1+b_{\lim}), \beta_0]$, whatever the optimiser does. Their gradient is the one that
`gumbel_sinkhorn` gives for beta; none reaches the scores through the controller.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..errors import function, number
from ..operators.entropies import row_and_column_entropies
from .local import COMBINE, Beta, Combine, Field, MeanBeta, relative_field
from .signals import Allowed, PerItem, PerPosition, Square


class LearnedTemperature(nn.Module):
    r"""$s = 1 + b\,\sigma(k(H - H_0))$ with $b \in (0, b_{\lim})$, $H_0 \in (0, 1)$, $k \in (0, 50)$ learned.

    The sigmoid is the smooth version of Algorithm 1's clip, which has no gradient outside its slope. It starts at the
    paper's values. `max_boost` is the limit $b_{\lim}$.
    """

    SLOPE_LIMIT = 50.0  # at 50 the step is 0.1 wide in entropy: steeper is a switch without gradient

    def __init__(
        self,
        threshold: float = 0.7,
        boost: float = 0.1,
        slope: float = 10.0,
        max_boost: float = 1.0,
        combine: Combine = MeanBeta(),
    ) -> None:
        super().__init__()
        number("max_boost", max_boost, above=0)
        function("combine", combine, "us.MeanBeta()", COMBINE)
        self.max_boost, self.combine = max_boost, combine
        self.raw = nn.Parameter(
            torch.tensor(
                [
                    _logit("threshold", threshold, 1.0),
                    _logit("boost", boost, max_boost),
                    _logit("slope", slope, self.SLOPE_LIMIT),
                ]
            )
        )

    def settings(self) -> tuple[Tensor, Tensor, Tensor]:
        """Threshold, boost and slope as they are now."""
        threshold, boost, slope = torch.sigmoid(self.raw).unbind()
        return threshold, self.max_boost * boost, self.SLOPE_LIMIT * slope

    def factors(self, Q: Square, allowed: Allowed | None = None) -> tuple[PerItem, PerPosition]:
        threshold, boost, slope = (setting.to(Q) for setting in self.settings())
        rows, columns = (
            1 + boost * torch.sigmoid(slope * (H - threshold)) for H in row_and_column_entropies(Q, allowed)
        )
        return rows, columns

    def forward(self, Q: Square, beta0: Beta, allowed: Allowed | None = None) -> Field:
        return beta0 * relative_field(self, Q, allowed)

    def extra_repr(self) -> str:
        threshold, boost, slope = (round(setting.item(), 4) for setting in self.settings())
        return f"threshold={threshold}, boost={boost}, slope={slope}, max_boost={self.max_boost}"


def _logit(name: str, value: float, limit: float) -> float:
    number(f"The {name} to start with", value, above=0, below=limit)
    return math.log(value / (limit - value))
