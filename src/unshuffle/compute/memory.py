"""Memory for large results, which is not to be had for nothing.

Fresh memory is mapped page by page when it is first written, and of what was freed the system's allocator keeps little that is large: a result of
40 MB then costs ten thousand faults, more than it takes to compute. numpy asks for huge pages, torch does not; and what nobody uses any
more is kept here for the next result of its size.
"""

from __future__ import annotations

import math
import weakref

import numpy as np
import torch
from torch import Tensor

from .transforms import symbolic

LARGE = 2**20  # bytes; below, torch's allocator is quicker
MOST = 2**29  # kept in all; a training step of 64 lists of 300 with five samples needs 300 MB

_spare: dict[int, memoryview] = {}  # by their ids, the oldest first; two views are compared by content


def empty_array(shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    """An array for numbers of this type, float32 or float64, with anything in it."""
    count, kind = math.prod(shape), np.float32 if dtype == torch.float32 else np.float64
    if count * dtype.itemsize < LARGE:
        return torch.empty(shape, dtype=dtype).numpy()
    room = _taken(count * dtype.itemsize)
    array = np.frombuffer(room, kind)  # what is derived from it holds on to it, and not to the memory itself
    weakref.finalize(array, _given_back, room).atexit = False
    return array.reshape(shape)


def empty_like(values: Tensor) -> Tensor:
    """Contiguous memory for numbers of the shape, type and device of these."""
    if values.device.type != "cpu" or values.dtype not in (torch.float32, torch.float64):
        return torch.empty(values.shape, dtype=values.dtype, device=values.device)
    return torch.from_numpy(empty_array(values.shape, values.dtype))


def added(a: Tensor, b: Tensor) -> Tensor:
    """a + b, broadcast."""
    if symbolic(a, b) or (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)):
        return a + b
    shape = torch.broadcast_shapes(a.shape, b.shape)
    return torch.add(a, b, out=empty_like(a.expand(shape)))


def _taken(size: int) -> memoryview:
    fitting = [key for key, room in tuple(_spare.items()) if room.nbytes == size]
    found = (_spare.pop(key, None) for key in fitting)  # None if another thread was quicker
    return next((room for room in found if room is not None), None) or np.empty(size, np.uint8).data


def _given_back(room: memoryview) -> None:
    if room.nbytes > MOST:
        return
    _spare[id(room)] = room
    while sum(spare.nbytes for spare in tuple(_spare.values())) > MOST:
        _spare.pop(next(iter(_spare)), None)
