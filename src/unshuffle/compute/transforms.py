"""How torch.compile and the transforms of torch.func (vmap, grad, jacrev, ...) get along with kernels.

torch.compile leaves its graph, calls the function as it is, and goes on behind it. Inside torch.func the tensors are wrapped and
have no memory to hand to a kernel: there the plain torch operations do the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

Given = ParamSpec("Given")
Found = TypeVar("Found")


def outside_graphs(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The function, which torch.compile never traces: numpy, numba and checks of values are not for graphs.

    ``torch.compiler.disable`` alone would load the compiler (seconds) for everybody who imports us.
    """

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # pyright: ignore[reportCallIssue]
        return function(*args, **kwargs)

    return call


def in_transform(*tensors: Tensor | None) -> bool:
    """Whether any of them stands for something else, inside ``torch.func``."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # pyright: ignore[reportAttributeAccessIssue]
    return any(wrapped(t) for t in tensors if t is not None)
