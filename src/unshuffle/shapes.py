"""The vocabulary, and the one convention that everything else uses.

Rows are items, columns are positions. ``P[i, j]`` is how much of item ``i`` stands at position ``j``, so the
reordered items are ``P^T X``. ``order[j]`` is the item at position ``j``, so ``X[order]`` is in order;
``inverse(order)[i]`` is the position (rank) of item ``i``. Where not every item has a place, there are m items and n
positions, and -1 stands for nobody (an empty position) and nowhere (an item left out). Temperature is always the inverse one, ``beta = 1/tau``:
larger is sharper.
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

Items: TypeAlias = Float[Tensor, "*batch n d"]
Scores: TypeAlias = Float[Tensor, "*batch m n"]
SoftPermutation: TypeAlias = Float[Tensor, "*batch m n"]
Order: TypeAlias = Int[Tensor, "*batch n"]
Mask: TypeAlias = Bool[Tensor, "*#batch m n"]
