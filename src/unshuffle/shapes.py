"""The vocabulary, and the one convention that everything else uses.

Rows are items, columns are positions. ``P[i, j]`` is how much of item ``i`` stands at position ``j``, so the
reordered items are ``P^T X``. ``order[j]`` is the item at position ``j``, so ``X[order]`` is in order;
``inverse(order)[i]`` is the position (rank) of item ``i``. Temperature is always the inverse one, ``beta = 1/tau``:
larger is sharper.
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

Items: TypeAlias = Float[Tensor, "*batch n d"]
Scores: TypeAlias = Float[Tensor, "*batch n n"]
SoftPermutation: TypeAlias = Float[Tensor, "*batch n n"]
Order: TypeAlias = Int[Tensor, "*batch n"]
Mask: TypeAlias = Bool[Tensor, "*#batch n n"]
