"""The fused entropies against the plain ones."""

from __future__ import annotations

import pytest
import torch

from unshuffle.operators.entropies import row_and_column_entropies
from unshuffle.operators.permutation import entropy
from unshuffle.operators.sinkhorn import sinkhorn


def soft(*shape: int, spread: float, dtype: torch.dtype) -> torch.Tensor:
    return sinkhorn(spread * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype), 20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 7, 7), (2, 3, 20, 20), (0, 4, 4)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_the_same_as_one_by_one(dtype, shape, spread):
    Q = soft(*shape, spread=spread, dtype=dtype)
    rows, columns = row_and_column_entropies(Q)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(rows, entropy(Q, -1), atol=tolerance, rtol=0)
    torch.testing.assert_close(columns, entropy(Q, -2), atol=tolerance, rtol=0)


def test_transposed_memory_masks_and_gradients():
    Q = soft(5, 5, spread=2.0, dtype=torch.float64).mT
    torch.testing.assert_close(row_and_column_entropies(Q)[0], entropy(Q, -1))
    allowed = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.7
    allowed[0, 0, 1:] = False
    for some in (Q, Q.expand(3, 5, 5)):
        mask = allowed[0] if some is Q else allowed
        found, expected = row_and_column_entropies(some, mask), (entropy(some, dim, mask) for dim in (-1, -2))
        torch.testing.assert_close(found, tuple(expected))
    loose = Q.clone().requires_grad_()
    row_and_column_entropies(loose)[0].sum().backward()
    assert loose.grad.abs().max() > 0
