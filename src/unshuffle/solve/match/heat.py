r"""Structure as heat: how much of what begins at one item has come to another after some steps of a walk among near items.

The steps go by $\exp(-D_{ij}^2 / s_i s_j)$, with s the distance to the neighbour that a twentieth of the set lies nearer than, so
that dense and thin parts count alike, and the degrees divided out. After few steps it is shared neighbours again; after more it
is which parts are connected with which, and how large they are.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

NEAR = 0.05
STEPS = (4, 16)


def heat(D: Float[Tensor, "n n"], size: int) -> list[Float[Tensor, "n n"]]:
    """After each of ``STEPS``; ``size`` is how many items the set stands for: 1 would be everywhere in equilibrium."""
    near = min(max(4, round(NEAR * size)), len(D) - 1)
    reach = D.sort(1).values[:, near].clamp_min(1e-9 * float(D.max()) + 1e-30)
    walk = torch.exp(-(D**2) / (reach[:, None] * reach))
    degree = walk.sum(1)
    walk = walk / torch.sqrt(degree[:, None] * degree)
    return [size * torch.linalg.matrix_power(walk, steps) for steps in STEPS]
