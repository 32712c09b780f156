"""The mechanism figure: one global inverse temperature against the adaptive field, on the block-ambiguous assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
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


def draw_mechanism(case: Mechanism | None = None) -> Figure:
    """Left: the diagonal of either block against beta_0; right: the soft permutations, without noise and one sample."""
    case = case or Mechanism()
    figure = Figure(figsize=(11.5, 8.2), layout="constrained", dpi=130)
    cells = figure.add_gridspec(4, 1 + len(case.betas), width_ratios=(2.4, *[1] * len(case.betas)))
    _draw_curves([figure.add_subplot(cells[:2, 0]), figure.add_subplot(cells[2:, 0])], case)
    rows = (
        ("global", False, 0.0),
        ("adaptive", True, 0.0),
        ("global,\none sample", False, 1.0),
        ("adaptive,\nsame noise", True, 1.0),
    )
    for line, (name, adaptive, noise) in enumerate(rows):
        for column, (beta, P) in enumerate(zip(case.betas, case.soft(case.betas, adaptive, noise), strict=True)):
            ax = figure.add_subplot(cells[line, 1 + column])
            ax.imshow(P.numpy(), cmap="magma", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[], ylabel=name if column == 0 else "")
            ax.set_title(rf"$\beta_0 = {beta:g}$" if line == 0 else "")
    return figure


def _draw_curves(axes: list[Axes], case: Mechanism) -> None:
    betas = torch.linspace(0.2, 8, 157).tolist()
    for ax, adaptive, name in zip(axes, (False, True), ("global", "adaptive"), strict=True):
        easy, hard = case.diagonals(betas, adaptive)
        ax.plot(betas, easy, color="tab:blue", label=f"easy rows ({case.easy_size} items)")
        ax.plot(betas, hard, color="tab:red", label=f"hard rows ({case.hard_size} items)")
        ax.axhline(1 - case.eps, color="tab:blue", linestyle=":", label=f"easy: at least {1 - case.eps:g}")
        ax.axhline(1 - case.eta, color="tab:red", linestyle=":", label=f"hard: at most {1 - case.eta:g}")
        met = [e >= 1 - case.eps and h <= 1 - case.eta for e, h in zip(easy, hard, strict=True)]
        ax.fill_between(betas, 0, 1, where=met, color="tab:green", alpha=0.25, linewidth=0, label="both demands met")
        ax.set(ylim=(0, 1.02), ylabel="diagonal of P", title=f"{name} inverse temperature")
    axes[0].legend(loc="lower right", fontsize=8)
    axes[1].set_xlabel(r"$\beta_0$")
