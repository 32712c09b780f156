r"""The block-ambiguous assignment (Section 3.2): an easy block with margin $\Delta$, a hard one with margin $\delta$.

On either block the converged Sinkhorn has the diagonal $1/(1 + (n-1)e^{-\beta \cdot \text{margin}})$. So the easy rows reach
$1-\varepsilon$ iff $\beta \ge \log((n_1-1)(1-\varepsilon)/\varepsilon)/\Delta$, the hard rows stay below $1-\eta$ iff
$\beta \le \log((n_2-1)(1-\eta)/\eta)/\delta$, and no scalar does both iff

$$ \Delta/\delta < \frac{\log((n_1-1)(1-\varepsilon)/\varepsilon)}{\log((n_2-1)(1-\eta)/\eta)}. $$

The paper's Proposition 1, that there *are* $\Delta > \delta$ for which none works, is true iff
$(n_1-1)(1-\varepsilon)/\varepsilon > (n_2-1)(1-\eta)/\eta$. Its gloss ("for $\delta \ll \Delta$ incompatible") is the wrong way round: there the
interval is wide. Its Lemma 1 states a bound as necessary and proves it sufficient.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor


def block_ambiguous_scores(
    easy_size: int, hard_size: int, easy_margin: float, hard_margin: float, across: float
) -> Float[Tensor, "n n"]:
    r"""$-C$ of equation (block-ambiguous): 0 on the diagonal, minus the margin within a block, `-across` between blocks."""
    blocks = (
        torch.ones(size, size, dtype=torch.float64).fill_diagonal_(0) * -margin
        for size, margin in ((easy_size, easy_margin), (hard_size, hard_margin))
    )
    within = torch.block_diag(*[torch.ones(size, size, dtype=torch.float64) for size in (easy_size, hard_size)])
    return torch.block_diag(*blocks) - across * (1 - within)


def easy_threshold(size: int, margin: float, eps: float) -> float:
    """The least beta at which every row of the easy block has at least 1 - eps on the diagonal."""
    return math.log((size - 1) * (1 - eps) / eps) / margin


def hard_threshold(size: int, margin: float, eta: float) -> float:
    """The largest beta at which every row of the hard block has at most 1 - eta on the diagonal: the same formula."""
    return easy_threshold(size, margin, eta)


def scalar_exists(n1: int, n2: int, easy: float, hard: float, eps: float, eta: float) -> bool:
    """Whether one inverse temperature sharpens the easy block and keeps the hard one diffuse."""
    return easy_threshold(n1, easy, eps) <= hard_threshold(n2, hard, eta)
