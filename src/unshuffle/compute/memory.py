"""Memory for large results.

Fresh memory is mapped page by page when it is first written, and from some 32 MB on the system's allocator never keeps what was freed:
a result of 40 MB then costs ten thousand faults, several times what it takes to compute. numpy asks for huge pages, torch does not.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

LARGE = 2**22  # bytes; below, torch's allocator is quicker


def empty_array(shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    if math.prod(shape) * dtype.itemsize < LARGE:
        return torch.empty(shape, dtype=dtype).numpy()
    return np.empty(shape, np.float32 if dtype == torch.float32 else np.float64)


def empty_like(values: Tensor) -> Tensor:
    """Contiguous memory for numbers of the shape, type and device of these."""
    if values.device.type != "cpu" or values.dtype not in (torch.float32, torch.float64):
        return torch.empty(values.shape, dtype=values.dtype, device=values.device)
    return torch.from_numpy(empty_array(values.shape, values.dtype))
