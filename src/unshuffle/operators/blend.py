r"""$P^T X$ for large P: its gradient is as large as P, and fresh memory for it would cost more than all the products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..compute.memory import LARGE, empty_like
from ..compute.transforms import symbolic


def blend(soft: Tensor, items: Tensor) -> Tensor:
    """``P^T X`` for soft (*batch, m, n) and items (*#batch, m, d)."""
    large = soft.requires_grad and soft.numel() * soft.element_size() >= LARGE and not symbolic(soft, items)
    if large and torch.broadcast_shapes(soft.shape[:-2], items.shape[:-2]) == soft.shape[:-2]:
        return Blend.apply(soft, items)  # pyright: ignore[reportReturnType]
    return _product(soft, items)


def _product(soft: Tensor, items: Tensor) -> Tensor:
    return (items.mT @ soft).mT  # not P^T X: this way round the gradient of P comes out contiguous


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, soft: Tensor, items: Tensor) -> Tensor:
        ctx.save_for_backward(soft, items)
        return _product(soft, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (soft, items), (grad,) = ctx.saved_tensors, grads
        to_soft = to_items = None
        if ctx.needs_input_grad[1]:
            to_items = (soft @ grad).sum_to_size(items.shape)
        if ctx.needs_input_grad[0]:
            by = torch.mul if items.shape[-1] == 1 else torch.matmul  # of one feature a product of numbers
            room = {} if torch.is_grad_enabled() else {"out": empty_like(soft)}
            to_soft = by(items, grad.mT, **room)
        return to_soft, to_items
