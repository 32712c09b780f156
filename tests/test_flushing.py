"""While kernels run, numbers too small for full precision are 0; before and after they are what the user wants them to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.compute import flushing
from unshuffle.compute.jit import have_numba, njit
from unshuffle.compute.threads import in_chunks

pytestmark = pytest.mark.skipif(
    not (flushing.SWITCH and have_numba), reason="no switch on this processor, or no kernels"
)
SMALL, TINY = np.float32(1e-20), np.finfo(np.float32).tiny


@njit
def _squares(x, out, low, high):
    for k in range(low, high):
        out[k] = x[k] * x[k]


def squares(count: int, work: float = 1e9) -> np.ndarray:
    x, out = np.full(count, SMALL), np.ones(count, np.float32)
    in_chunks(lambda low, high: _squares(x, out, low, high), count, work)
    return out


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_products_are_zero_in_every_thread_and_only_there(two_threads):
    assert (squares(1) == 0).all()
    assert (squares(1000) == 0).all()
    assert SMALL * SMALL > 0
    assert (torch.full((100_000,), 1e-20).square() > 0).all()  # torch's threads are left as they were


def test_as_before_also_after_an_error():
    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        flushing.flushed(fails)
    assert SMALL * SMALL > 0


def test_who_has_it_switched_on_keeps_it():
    torch.set_flush_denormal(True)
    try:
        squares(1)
        assert SMALL * SMALL == 0
    finally:
        torch.set_flush_denormal(False)
    assert SMALL * SMALL > 0


@pytest.mark.parametrize("n", [10, 50, 100])
def test_soft_permutations_and_gradients_hold_no_slow_numbers(n):
    """Scores of a network in training, which spread over hundreds: what is below the smallest normal number is exactly 0."""
    generator = torch.Generator().manual_seed(n)
    scores = (40 * torch.randn(16, n, n, generator=generator)).requires_grad_()
    soft = us.sinkhorn(scores)
    (soft * torch.randn(soft.shape, generator=generator)).sum().backward()
    assert scores.grad is not None
    for found in (soft.detach(), scores.grad):
        assert bool(((found == 0) | (found.abs() >= float(TINY))).all())
        assert bool((found == 0).any())
        assert bool((found != 0).any())
