r"""$P^T X$ for large P: its gradient is as large as P, and fresh memory for it would cost more than all the products.

Of few features it is not even written down, where P comes from a Sinkhorn that can do without (`product`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..compute.jit import have_numba, njit
from ..compute.memory import LARGE
from ..compute.threads import in_chunks
from ..compute.transforms import symbolic
from .product import Product, multiplied

THIN = 4  # features, up to which the gradient of P is quicker to use than to write down


def blend(soft: Tensor, items: Tensor) -> Tensor:
    """``P^T X`` for soft (*batch, m, n) and items (*#batch, m, d)."""
    # first of all not in a graph, which must not depend on how large the batch is
    large = not symbolic(soft, items) and soft.requires_grad and soft.numel() * soft.element_size() >= LARGE
    if large and torch.broadcast_shapes(soft.shape[:-2], items.shape[:-2]) == soft.shape[:-2]:
        return Blend.apply(soft, items)  # pyright: ignore[reportReturnType]
    return _product(soft, items)


def _product(soft: Tensor, items: Tensor) -> Tensor:
    return (items.mT @ soft).mT  # not P^T X: this way round the gradient of P comes out contiguous


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, soft: Tensor, items: Tensor) -> Tensor:
        ctx.save_for_backward(soft, items)
        ctx.thin = items.shape[-1] <= THIN and getattr(soft.grad_fn, "takes_products", False)
        of_one_feature = items.shape[-1] == 1 and have_numba and soft.device.type == "cpu" and soft.is_contiguous()
        return _weighted_sums(soft, items) if of_one_feature else _product(soft, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (soft, items), (grad,) = ctx.saved_tensors, grads
        to_soft = to_items = None
        if ctx.needs_input_grad[1]:
            to_items = (soft @ grad).sum_to_size(items.shape)
        if ctx.needs_input_grad[0]:
            thin = ctx.thin and not torch.is_grad_enabled()
            to_soft = Product(items, grad) if thin else multiplied(items, grad)
        return to_soft, to_items


def _weighted_sums(soft: Tensor, items: Tensor) -> Tensor:
    """The product for one feature, which takes as long as it takes to read P once; torch's takes twice that."""
    m, n = soft.shape[-2:]
    P = soft.detach().numpy().reshape(-1, m, n)
    x = items.detach().expand(*soft.shape[:-1], 1).reshape(-1, m).numpy()
    out = np.zeros((len(P), n), P.dtype)
    in_chunks(lambda low, high: _sum_rows(P, x, out, low, high), len(P), float(P.size))
    return torch.from_numpy(out).reshape(*soft.shape[:-2], n, 1)


@njit(fastmath=True)
def _sum_rows(P, x, out, low, high):
    for k in range(low, high):
        total = out[k]
        for i in range(P.shape[1]):
            weight, row = x[k, i], P[k, i]
            for j in range(row.size):
                total[j] += weight * row[j]
