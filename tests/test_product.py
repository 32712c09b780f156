r"""A gradient of P by $P^T X$ that nobody wrote down is the one that somebody would have."""

from __future__ import annotations

import pytest
import torch

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.operators.product import Product, written

pytestmark = pytest.mark.skipif(not have_numba, reason="only the kernels take it")

SAMPLES, BATCH = 2, 64  # large enough for gradients that are worth not being written


def soft_and_loss(n=50, features=1, spread=1.0, dtype=torch.float32, samples=SAMPLES):
    generator = torch.Generator().manual_seed(n)
    scores = (spread * torch.randn(BATCH, n, n, generator=generator)).to(dtype).requires_grad_()
    items, weights = torch.randn(BATCH, n, features, generator=generator), torch.randn(n, 1, generator=generator)
    P = us.gumbel_sinkhorn(scores, samples=samples, generator=torch.Generator().manual_seed(1))
    return scores, P, (us.reorder(P, items.to(dtype)).square() * weights.to(dtype)).sum()


@pytest.mark.parametrize(("n", "spread"), [(50, 1.0), (50, 40.0), (100, 1.0), (130, 1.0), (130, 100.0)])
@pytest.mark.parametrize("features", [1, 3])
def test_the_gradient_by_scores_is_that_of_the_whole(n, spread, features):
    scores, P, loss = soft_and_loss(n, features, spread)
    seen = []
    P.register_hook(lambda grad: seen.append(grad))
    loss.backward()
    assert type(seen[0]) is Product
    assert seen[0].whole is None  # nobody had to write it down
    again, P, loss = soft_and_loss(n, features, spread)
    P.register_hook(written)
    loss.backward()
    torch.testing.assert_close(scores.grad, again.grad, rtol=0, atol=1e-5 * float(again.grad.abs().max()))


@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_it_is_exact(spread):
    scores, _, loss = soft_and_loss(spread=spread)
    exact, P, exact_loss = soft_and_loss(spread=spread, dtype=torch.float64)
    P.register_hook(written)
    loss.backward()
    exact_loss.backward()
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=0, atol=1e-5 * float(exact.grad.abs().max()))


def test_who_asks_for_the_gradient_of_p_has_numbers():
    _scores, P, loss = soft_and_loss()
    (found,) = torch.autograd.grad(loss, P, retain_graph=True)
    P.retain_grad()
    loss.backward()
    assert found.shape == P.shape
    assert found.dtype == P.dtype
    torch.testing.assert_close(found + 0, P.grad)
    assert (found.numpy() == P.grad.numpy()).all()
    assert float(found.abs().max()) > 0


def test_what_a_hook_changes_in_place_is_changed():
    scores, P, loss = soft_and_loss()
    (once,) = torch.autograd.grad(loss, scores, retain_graph=True)

    def twice(grad):
        grad.mul_(2)

    P.register_hook(twice)
    loss.backward()
    torch.testing.assert_close(scores.grad, 2 * once, rtol=1e-4, atol=1e-5)


def test_two_uses_of_p_add_up():
    scores, P, loss = soft_and_loss()
    (loss + P.square().sum()).backward()
    other, Q, apart = soft_and_loss()
    (first,) = torch.autograd.grad(apart, other, retain_graph=True)
    (second,) = torch.autograd.grad(Q.square().sum(), other)
    torch.testing.assert_close(scores.grad, first + second, rtol=1e-4, atol=1e-5)


def test_the_gradient_has_a_gradient():
    scores, _, loss = soft_and_loss(n=22, dtype=torch.float64, samples=5)
    (first,) = torch.autograd.grad(loss, scores, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), scores)
    assert second.isfinite().all()
    assert float(second.abs().max()) > 0


def test_many_features_are_written_down():
    _, P, loss = soft_and_loss(features=5)
    kinds = []
    P.register_hook(lambda grad: kinds.append(type(grad)))
    loss.backward()
    assert kinds == [torch.Tensor]
