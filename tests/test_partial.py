"""Not every item has a place: rectangles, rejection and a given number of placements, against the padded problem written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import unshuffle as us
from reference import log_sinkhorn
from unshuffle.compute.jit import have_numba
from unshuffle.operators._sinkhorn import engine

needs_numba = pytest.mark.skipif(not have_numba, reason="tests the kernel")


def padded(scores: Tensor, items: Tensor, positions: Tensor, keep: int | None = None) -> Tensor:
    """The definition: n - k dummy items and m - k dummy positions, all written out; k = 0 and dummies that meet for reject alone."""
    m, n = scores.shape[-2:]
    k = keep or 0
    batch = scores.shape[:-2]
    right = items.expand(*batch, m).unsqueeze(-1).expand(*batch, m, m - k)
    below = positions.expand(*batch, n).unsqueeze(-2).expand(*batch, n - k, n)
    corner = scores.new_full((*batch, n - k, m - k), 0.0 if keep is None else -torch.inf)
    return torch.cat([torch.cat([scores, right], -1), torch.cat([below, corner], -1)], -2)


def defined(scores: Tensor, items: Tensor, positions: Tensor, iterations: int, keep: int | None = None) -> Tensor:
    m, n = scores.shape[-2:]
    return log_sinkhorn(padded(scores, items, positions, keep), iterations)[..., :m, :n]


SHAPES = [(1, 1), (2, 5), (16, 10, 8), (2, 9, 5, 12), (3, 33, 33), (71, 64), (100, 3)]
KINDS = ["fits", "reject", "keep", "reject and keep"]


def options(kind: str, items: Tensor, positions: Tensor, m: int, n: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"reject": (items, positions)} if "reject" in kind else {}
    return asked | ({"keep": min(m, n) // 2} if "keep" in kind else {})


def both(scores: Tensor, kind: str, iterations: int, spread: float = 1.0) -> dict[str, tuple[Tensor, Tensor]]:
    """Values and all gradients: ours, and those of float64 autograd through the padded problem."""
    m, n = scores.shape[-2:]
    weights = torch.randn(scores.shape, dtype=torch.float64)
    prices = spread * torch.randn(m, dtype=scores.dtype), spread * torch.randn(n, dtype=scores.dtype)
    ours = [x.clone().requires_grad_() for x in (scores, *prices)]
    exact = [x.double().requires_grad_() for x in (scores, *prices)]
    asked = options(kind, ours[1], ours[2], m, n)
    P = us.sinkhorn(ours[0], iterations, **asked)
    zero = torch.zeros((), dtype=torch.float64)
    keep = asked.get("keep", min(m, n) if kind == "fits" else None)
    Q = defined(exact[0], *(exact[1:] if "reject" in kind else (zero, zero)), iterations, keep)
    (P * weights.to(P)).sum().backward()
    (Q * weights).sum().backward()
    found = {"P": (P.detach(), Q.detach()), "scores": (ours[0].grad, exact[0].grad)}
    if "reject" in kind:
        found |= {"items": (ours[1].grad, exact[1].grad), "positions": (ours[2].grad, exact[2].grad)}
    return found  # pyright: ignore[reportReturnType]


def worst(found: dict[str, tuple[Tensor, Tensor]]) -> float:
    return max(float((a.double() - b).abs().max() / b.abs().max().clamp_min(1)) for a, b in found.values())


@pytest.fixture(params=["kernel", "torch"])
def engine_of(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(engine, "choose", lambda *_: ("torch", ""))
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_all_gradients_are_those_of_the_padded_problem(shape, kind, dtype, engine_of):
    found = both(3 * torch.randn(shape, dtype=torch.float32).to(dtype), kind, 10)
    assert found["P"][0].shape == shape
    assert worst(found) < (1e-5 if dtype == torch.float32 else 1e-9)
