"""Memory for large results, which is not to be had for nothing.

Fresh memory is mapped page by page when it is first written, and of what was freed the system's allocator keeps little that is large: a result of
40 MB then costs ten thousand faults, more than it takes to compute. numpy asks for huge pages, torch does not; and what nobody uses any
more is kept here for the next result of its size.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from .transforms import symbolic

LARGE = 2**20  # bytes; below, torch's allocator is quicker
MOST = 2**29  # kept in all; a training step of 64 lists of 300 with five samples needs 300 MB

TRIM, MAP = -1, -3  # of `mallopt`: how much free memory goes back, and from which size on memory is mapped by itself
KEPT, USUAL = (
    {MAP: 2**30, TRIM: 2**31 - 1},
    {MAP: 2**25, TRIM: 2**26},
)  # usual: where glibc itself ends up after a while
SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")

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


@contextmanager
def pages_kept() -> Iterator[None]:
    """Work in many like steps, such as a training: what a step frees, torch's own tensors too, stays with the process for the next one.

    The step then meets no fresh pages, which would have to be cleared first. For glibc; elsewhere, and where the environment
    has settings of its own, nothing changes.
    """
    library = _glibc()
    if library is None or any(name in os.environ for name in SETTINGS):
        yield
        return
    _set(library, KEPT)
    try:
        yield
    finally:
        _set(library, USUAL)
        library.malloc_trim(0)


def _set(library: ctypes.CDLL, settings: dict[int, int]) -> None:
    for which, size in settings.items():
        library.mallopt(which, size)


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


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
