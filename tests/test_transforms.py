"""The operators inside torch.compile and torch.func: the same numbers as outside."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.operators._sinkhorn import engine as module

ENGINES = [pytest.param("kernel", marks=pytest.mark.skipif(not have_numba, reason="tests the kernel")), "torch"]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    monkeypatch.setattr(module, "have_numba", request.param == "kernel")


COMPILE = """
import torch, unshuffle as us
from unshuffle.operators._sinkhorn import engine as module

class Sorter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Linear(2, 6, dtype=torch.float64)
        self.relax = us.GumbelSinkhorn(us.Constant(2.0), us.LocalTemperature())

    def forward(self, items):
        scores = self.scores(items).tanh()
        soft = self.relax(2 * scores, samples=3) + us.sinkhorn(scores.sin())
        return us.reorder(soft, items).square().sum()

model, items = Sorter(), torch.randn(4, 6, 2, dtype=torch.float64)
for module.have_numba in {module.have_numba, False}:
    found = []
    torch.compiler.reset()
    for run in (model, torch.compile(model, backend="aot_eager")):
        torch.manual_seed(1)
        model.zero_grad()
        loss = run(items)
        loss.backward()
        found.append((loss.detach(), model.scores.weight.grad))
    torch.testing.assert_close(*found)
"""


def test_a_compiled_model_gives_the_same_loss_and_gradient():
    """In a process of its own: torch cannot trace the shape checks of the test run."""
    command = [sys.executable, "-W", "ignore", "-c", COMPILE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_vmap_is_one_more_dimension_of_the_batch(engine):
    scores = torch.randn(3, 2, 5, 5, dtype=torch.float64)
    beta = 0.5 + torch.rand(3, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(us.sinkhorn)(scores), us.sinkhorn(scores))
    moved = torch.vmap(us.sinkhorn, in_dims=1, out_dims=1)(scores)
    torch.testing.assert_close(moved, us.sinkhorn(scores))
    together = us.gumbel_sinkhorn(scores, beta.unsqueeze(1), noise=0.0, local=us.LocalTemperature())
    each = torch.vmap(lambda s, b: us.gumbel_sinkhorn(s, b, noise=0.0, local=us.LocalTemperature()))(scores, beta)
    torch.testing.assert_close(each, together)


def test_gradients_per_sample(engine):
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[0, 1] = False
    weights = torch.randn(5, 5, dtype=torch.float64)

    def loss(s: Tensor, beta: Tensor) -> Tensor:
        return (weights * us.gumbel_sinkhorn(s, beta, noise=0.0, allowed=allowed)).sum()

    beta = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    inputs = scores.clone().requires_grad_()
    to_scores, to_beta = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))(scores, beta.detach())
    expected = torch.autograd.grad(torch.stack([loss(s, beta) for s in inputs]).sum(), (inputs, beta))
    torch.testing.assert_close(to_scores, expected[0])
    torch.testing.assert_close(to_beta.sum(), expected[1])


def test_second_derivatives_through_torch_func(engine):
    scores, weights = torch.randn(2, 4, 4, dtype=torch.float64)

    def loss(s: Tensor) -> Tensor:
        return (weights * us.sinkhorn(s, 3)).sum()

    expected = torch.autograd.functional.hessian(loss, scores)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(loss))(scores), expected)


def test_noise_inside_vmap(engine):
    scores = torch.randn(3, 4, 4)
    torch.manual_seed(1)
    P = torch.vmap(us.gumbel_sinkhorn, randomness="same")(scores)
    torch.manual_seed(1)
    torch.testing.assert_close(P[0], us.gumbel_sinkhorn(scores[0]))
    with pytest.raises(us.BadInput, match="randomness='same'"):
        torch.vmap(us.gumbel_sinkhorn, randomness="different")(scores)
    with pytest.raises(us.BadInput, match="without a tolerance"):
        torch.vmap(lambda s: us.sinkhorn(s, tolerance=1e-3))(scores)


@pytest.mark.parametrize("relax", [us.NeuralSort(), us.SoftSort(), us.ColumnSoftmax()], ids=lambda r: type(r).__name__)
def test_the_other_relaxations_inside_vmap_and_grad(relax):
    """Their look for NaN must not stop the transforms."""
    scores = torch.rand(3, 5, 5) if isinstance(relax, us.ColumnSoftmax) else torch.rand(3, 5)
    torch.testing.assert_close(torch.vmap(lambda s: relax(s))(scores), relax(scores))
    leaf = scores.clone().requires_grad_()
    relax(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda s: relax(s).square().sum())(scores), leaf.grad)
