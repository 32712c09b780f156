"""Half precision at the door: float16 and bfloat16 in, the same out, float32 inside, under autocast too."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
Function = TypeVar("Function", bound=Callable[..., Any])


def widened(values: Tensor) -> Tensor:
    """float32 instead of a half type; anything else as it is."""
    return values.float() if isinstance(values, Tensor) and values.dtype in HALF else values


def _autocast(device: str) -> bool:
    return device != "meta" and torch.is_autocast_enabled(device)


def without_autocast(values: Tensor) -> Any:
    """A context in which matrices are multiplied in the precision they have."""
    device = values.device.type
    return torch.autocast(device, enabled=False) if _autocast(device) else contextlib.nullcontext()


def in_full_precision(function: Function) -> Function:
    """``function(values, ...)`` in float32 if the values are of a half type, and its tensors given back in theirs.

    The gradient is that of float32 at the rounded values, rounded. Autocast is switched off inside: it would
    multiply matrices in half precision.
    """

    @functools.wraps(function)
    def call(values: Tensor, *rest: Any, **keywords: Any) -> Any:
        if not isinstance(values, Tensor) or not (values.dtype in HALF or _autocast(values.device.type)):
            return function(values, *rest, **keywords)
        with torch.autocast(values.device.type, enabled=False):
            found = function(widened(values), *rest, **keywords)
        if values.dtype not in HALF:
            return found
        return tuple(part.to(values.dtype) for part in found) if isinstance(found, tuple) else found.to(values.dtype)

    return call  # pyright: ignore[reportReturnType]
