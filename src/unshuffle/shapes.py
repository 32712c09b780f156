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
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(_native(_array(value)))
    except (TypeError, ValueError, RuntimeError):
        hint = "; call .toarray() first" if hasattr(value, "toarray") else _not_numbers(value)
        raise BadInput(f"{name} must be numbers in a tensor or an array, not {type(value).__name__}{hint}.") from None
    dense(name, tensor)
    if tensor.is_complex():
        raise BadInput(f"{name} must be real numbers, not {tensor.dtype}.")
    return tensor


def _array(value: Any) -> np.ndarray:
    """Frames with columns that may lack numbers (pandas' Float64, Int64) are arrays of objects to numpy: here NaN is what they lack."""
    array = np.asarray(value)
    return value.to_numpy(dtype=float, na_value=np.nan) if array.dtype == object and hasattr(value, "iloc") else array


def _not_numbers(frame: Any) -> str:
    """Of a frame, which columns are to be left out."""
    if getattr(frame, "ndim", 0) != 2 or not hasattr(frame, "select_dtypes"):
        return ""
    numeric = set(frame.select_dtypes("number").columns)
    others = [str(name) for name in frame.columns if name not in numeric]
    return f" whose columns {', '.join(others[:5])}{', ...' * (len(others) > 5)} are not" if others else ""


def _native(array: np.ndarray) -> np.ndarray:
    """The array as torch can share it: in this machine's byte order, writable, with no stride below 0; else a copy."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    fits = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return array if fits else array.copy()
