"""A gradient that is a product of two thin matrices, and need not be written down for who takes it as that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ..compute.memory import empty_like


class Product(Tensor):
    r"""$X Y^T$ for X (*#batch, m, k) and Y (*batch, n, k).

    Of a soft permutation of 50 items it is 25 times as large as both. Whatever is asked of it, also to change in place, is asked of the
    whole, which is made at the first time and is what counts from then on.
    """

    left: Tensor
    right: Tensor
    whole: Tensor | None

    @staticmethod
    def __new__(cls, left: Tensor, right: Tensor) -> Product:
        shape = (*right.shape[:-2], left.shape[-2], right.shape[-2])
        return Tensor._make_wrapper_subclass(cls, shape, dtype=right.dtype, device=right.device)  # pyright: ignore

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self.left, self.right, self.whole = left, right, None

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*tree_map_only(Product, written, args), **tree_map_only(Product, written, kwargs or {}))

    __torch_dispatch__ = __torch_function__  # what C++ asks


def written(product: Product) -> Tensor:
    """The product as an ordinary tensor."""
    if product.whole is None:
        product.whole = multiplied(product.left, product.right)
    return product.whole


def multiplied(left: Tensor, right: Tensor) -> Tensor:
    """$X Y^T$ of X (*#batch, m, k) and Y (*batch, n, k)."""
    by = torch.mul if left.shape[-1] == 1 else torch.matmul  # of one feature a product of numbers
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        return by(left, right.mT)
    shape = (*right.shape[:-2], left.shape[-2], right.shape[-2])
    return by(left, right.mT, out=empty_like(right.new_empty(()).expand(shape)))
