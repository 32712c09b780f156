"""Kernels inside torch.compile, torch.export and torch.func, where tensors stand for others and have no memory to hand over.

There a kernel is called as an operator of torch's library (``torch.ops.unshuffle``), which knows the shapes of what it gives. Elsewhere
it is called as it is: the dispatcher would cost some 30 microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..errors import BadInput

Function = TypeVar("Function", bound=Callable[..., Any])
PLAIN = (Tensor, torch.nn.Parameter)


def in_transform(*tensors: Tensor | None) -> bool:
    """Whether any of them stands for something else, inside ``torch.func``."""
    return any(_wrapped(t) for t in tensors if isinstance(t, Tensor))


_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # pyright: ignore[reportAttributeAccessIssue]
_transforms = torch._C._functorch.get_dynamic_layer_stack_depth  # pyright: ignore[reportAttributeAccessIssue]


def transformed_in_graph() -> bool:
    """Whether a function of ``torch.func`` is being compiled: there, torch has no gradient of an operator."""
    return torch.compiler.is_compiling() and _transforms() > 0


def forwards() -> bool:
    """Whether derivatives are taken forwards (``torch.func.jvp``, ``jacfwd``, ``hessian``): kernels have them backwards alone."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def symbolic(*tensors: object) -> bool:
    """Whether we are in a graph that is being made, or any of them is wrapped, fake, or without memory.

    ``torch.jit.trace`` writes down what torch does and nothing of a kernel, whose result would be a constant of the traced model.
    """
    if torch.compiler.is_compiling():
        return True
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        raise BadInput("torch.jit.trace cannot follow the kernels of unshuffle: use torch.export or torch.compile.")
    return any(isinstance(t, Tensor) and (type(t) not in PLAIN or t.is_meta or _wrapped(t)) for t in tensors)


def operator(schema: str, fake: Callable[..., Any]) -> Callable[[Function], Function]:
    """A function without gradient, batched over leading dimensions, as ``torch.ops.unshuffle.name`` wherever tensors are symbolic.

    ``fake`` gives empty tensors of the right shapes for the same arguments.
    """

    def register(function: Function) -> Function:
        name = function.__name__.lstrip("_")
        made = torch.library.custom_op(f"unshuffle::{name}", function, mutates_args=(), schema=schema)
        made.register_fake(fake)
        made.register_vmap(functools.partial(_in_front, made))
        listed = getattr(torch.ops.unshuffle, name)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return (listed if symbolic(arguments[0]) else function)(*arguments)

        return call  # pyright: ignore[reportReturnType]

    return register


def _in_front(made: Callable[..., Any], info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    """The dimension of vmap as one more of the batch."""
    moved = [
        (given.expand(info.batch_size, *given.shape) if dim is None else given.movedim(dim, 0))
        if isinstance(given, Tensor)
        else given
        for given, dim in zip(arguments, in_dims, strict=True)
    ]
    found = made(*moved)
    return found, (0,) * len(found) if isinstance(found, tuple) else 0
