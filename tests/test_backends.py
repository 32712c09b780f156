"""Which code computes Sinkhorn is chosen in one place, which can be asked."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.operators import backends

GPU = torch.device("cuda:0")


@pytest.fixture
def without_triton(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    backends.choose.cache_clear()
    yield
    backends.choose.cache_clear()


def test_backends_are_told_with_reasons(without_triton):
    found = us.backends()
    assert found[0].device == "cpu"
    assert found[0].name == ("numba" if have_numba else "torch")
    lines = repr(found).splitlines()
    assert lines[0].split() == ["device", "tensors", "backend", "why"]
    assert len(lines) == len(found) + 1
    if not torch.cuda.is_available():
        assert "pip install unshuffle[triton]" in lines[-1]


def test_a_gpu_without_triton_and_other_devices_use_torch(without_triton):
    assert backends.choose(GPU, torch.float32, 10) == (
        "torch",
        "triton is not installed: pip install unshuffle[triton]",
    )
    assert backends.choose(torch.device("mps"), torch.float32, 10)[0] == "torch"


def test_double_precision_on_a_gpu_uses_torch():
    assert backends.choose(GPU, torch.float64, 10) == ("torch", "the Triton kernels compute in float32")


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU, which we never had: the kernels were not run on one"
)
@pytest.mark.parametrize("n", [4, 30, 100, 200])
def test_on_a_gpu(n):
    scores = torch.randn(5, n, n, requires_grad=True)
    there = scores.detach().cuda().requires_grad_()
    us.sinkhorn(scores).square().sum().backward()
    us.sinkhorn(there).square().sum().backward()
    assert torch.allclose(there.grad.cpu(), scores.grad, atol=1e-5)  # pyright: ignore[reportOptionalMemberAccess]
