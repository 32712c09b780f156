"""How a grid is annealed: one setting for both ways of storing what is annealed, whole matrices and lists."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cooling:
    """Betas in units of ln n: a free cell with one sure neighbour is won against n rivals at beta = ln n."""

    start: float = 0.7
    """Two agreeing neighbours attach from 0.5 ln n on; 0.3 to 0.7 were equal in quality, 0.7 is four times faster than 0.3."""
    rate: float = 1.005
    last: float = 25.0
    """In absolute beta: what is not decided there are exact duplicates, which never will be."""
    self_amplification: float = 0.5
    pin: float = 4.0
    """The pull of a tile with four sure neighbours: pinned, but no more than a tile that has found its place."""
    sweeps: int = 5
    decided: float = 0.01
    """Mean row entropy, as a share of ln n, at which to stop."""
    steps: int = 2000
