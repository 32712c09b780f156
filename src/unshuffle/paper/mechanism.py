"""The mechanism figure: one global inverse temperature against the adaptive field, on the block-ambiguous assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..operators.gumbel import gumbel_sinkhorn
from ..temperature.local import LocalTemperature
from ..temperature.signals import ExcessEntropy
from .block_ambiguous import block_ambiguous_scores, easy_threshold, hard_threshold

ITERATIONS = 500  # enough for both margins at beta = 20


@dataclass(frozen=True)
class Mechanism:
    """A case in which no scalar meets both demands and the field does.

    easy rows at least 1 - eps, hard rows at most 1 - eta. The boost is 1.0, larger than in the paper's experiments (0.1 to
    0.35), so that one can see it.
    """

    easy_size: int = 12
    hard_size: int = 4
    easy_margin: float = 1.8
    hard_margin: float = 0.5
    across: float = 60.0
    eps: float = 0.05
    eta: float = 0.45
    local: LocalTemperature = LocalTemperature(ExcessEntropy(0.2), max_boost=1.0)
    betas: tuple[float, ...] = (1.0, 3.0, 20.0)

    def scores(self) -> Float[Tensor, "n n"]:
        return block_ambiguous_scores(self.easy_size, self.hard_size, self.easy_margin, self.hard_margin, self.across)

    def soft(self, betas: Sequence[float], adaptive: bool, noise: float = 0.0) -> Float[Tensor, "betas n n"]:
        """The soft permutation at each base beta; the global and the adaptive one get the same noise."""
        return gumbel_sinkhorn(
            self.scores().expand(len(betas), -1, -1),
            torch.tensor(betas, dtype=torch.float64).reshape(-1, 1, 1),
            local=self.local if adaptive else None,
            iterations=ITERATIONS,
            noise=noise,
            generator=torch.Generator().manual_seed(0),
        )

    def diagonals(self, betas: Sequence[float], adaptive: bool) -> tuple[list[float], list[float]]:
        """The diagonal entries of the easy and of the hard rows at each base beta, without noise."""
        diagonal = self.soft(betas, adaptive).diagonal(dim1=-2, dim2=-1)
        return diagonal[:, 0].tolist(), diagonal[:, -1].tolist()

    def thresholds(self) -> tuple[float, float]:
        """The least beta for the easy block and the largest for the hard one; no scalar works if the first is larger."""
        return (
            easy_threshold(self.easy_size, self.easy_margin, self.eps),
            hard_threshold(self.hard_size, self.hard_margin, self.eta),
        )
