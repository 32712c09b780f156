"""The vocabulary, and the one convention that everything else uses.

Rows are items, columns are positions. ``P[i, j]`` is how much of item ``i`` stands at position ``j``, so the
reordered items are ``P^T X``. ``order[j]`` is the item at position ``j``, so ``X[order]`` is in order;
``inverse(order)[i]`` is the position (rank) of item ``i``. Where not every item has a place, there are m items and n
positions, and -1 stands for nobody (an empty position) and nowhere (an item left out). Temperature is always the inverse one, ``beta = 1/tau``:
larger is sharper.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .errors import BadInput, dense

Items: TypeAlias = Float[Tensor, "*batch n d"]
Scores: TypeAlias = Float[Tensor, "*batch m n"]
SoftPermutation: TypeAlias = Float[Tensor, "*batch m n"]
Order: TypeAlias = Int[Tensor, "*batch n"]
Mask: TypeAlias = Bool[Tensor, "*#batch m n"]


def numbers(name: str, value: Any) -> Tensor:
    """A tensor of a tensor, an array, a frame or nested lists; of anything else one sentence."""
    try:
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(_native(np.asarray(value)))
    except (TypeError, ValueError, RuntimeError):
        hint = "; call .toarray() first" if hasattr(value, "toarray") else ""
        raise BadInput(f"{name} must be numbers in a tensor or an array, not {type(value).__name__}{hint}.") from None
    dense(name, tensor)
    if tensor.is_complex():
        raise BadInput(f"{name} must be real numbers, not {tensor.dtype}.")
    return tensor


def _native(array: np.ndarray) -> np.ndarray:
    """The array as torch can share it: in this machine's byte order, writable, with no stride below 0; else a copy."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    fits = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return array if fits else array.copy()
