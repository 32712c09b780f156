"""The operators under the rules of torch and inside torch.func: the same numbers as outside."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.operators import backends
from unshuffle.operators._sinkhorn import engine as module
from unshuffle.operators._sinkhorn.block import WHOLE, Block
from unshuffle.operators._sinkhorn.noise import Noise

if have_numba:
    from unshuffle.operators._sinkhorn import kernel

LOCAL = us.LocalTemperature()

ENGINES = [pytest.param("kernel", marks=pytest.mark.skipif(not have_numba, reason="tests the kernel")), "torch"]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    monkeypatch.setattr(module, "have_numba", request.param == "kernel")


KEY = torch.tensor([3, 4])
MANY = torch.randn(17, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
FIELD = 0.5 + torch.rand(5, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
ASKED = {
    "plain": (MANY, None, KEY, None, 0.0, 0, 0, *WHOLE, 4, None),
    "noise and beta": (MANY, torch.tensor(1.3, dtype=torch.float64), KEY, 3, 1.0, 0, 0, *WHOLE, 4, None),
    "a field, part of a batch": (MANY, FIELD, KEY, 2, 0.5, 3, 40, *WHOLE, 4, None),
    "dummies": (MANY, FIELD, KEY, 2, 0.5, 0, 0, 4, 3, 3, 4, None),
    "tolerance": (MANY, None, KEY, None, 0.0, 0, 0, *WHOLE, 6, 0.1),
    "hard": (3000 * MANY, None, KEY, None, 0.0, 0, 0, *WHOLE, 4, None),
}


@pytest.mark.skipif(not have_numba, reason="the operator is that of the kernel")
@pytest.mark.parametrize("asked", ASKED)
def test_the_operators_keep_the_rules_of_torch(asked):
    """Schema, fake shapes, gradient, tracing with dynamic shapes, as torch checks them; the same numbers as without it."""
    given = tuple(x.clone().requires_grad_() if x is not KEY and isinstance(x, Tensor) else x for x in ASKED[asked])
    opcheck(torch.ops.unshuffle.sinkhorn.default, given)
    scores, beta, _, samples, noise, first, total, *block, iterations, tolerance = given
    call = {"samples": samples, "noise": Noise(noise, (3, 4), first, total)} | {"iterations": iterations}
    call["block"] = Block(*block)
    leaves = [x for x in (scores, beta) if x is not None]
    results = [
        torch.ops.unshuffle.sinkhorn(*given),
        (module.perturbed_sinkhorn(scores, beta, **call, tolerance=tolerance),),
    ]
    weights = torch.randn_like(results[0][0])
    found, expected = ((r[0], *torch.autograd.grad((weights * r[0]).sum(), leaves)) for r in results)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    soft, *state = (x.detach() for x in results[0])
    rest = (noise, first, total, *block, tolerance, beta is not None)
    if asked != "hard":  # its second derivative is that of the plain loop, to the rounding of thousands
        opcheck(torch.ops.unshuffle.sinkhorn_backward.default, (*given[:3], soft, weights, *state, *rest))


@pytest.mark.parametrize("asked", ["plain", "noise and beta", "a field, part of a batch"])
def test_the_operator_for_gpus_keeps_the_rules_too(asked):
    """On a CPU it computes in torch what the Triton kernels do; those are tested in test_triton.py."""
    scores, beta, key, samples, noise, first, total, *_, iterations, _ = ASKED[asked]
    scores, beta = (None if x is None else x.float().requires_grad_() for x in (scores, beta))
    given = (scores, beta, key, samples, noise, first, total, 0, 0, 1, iterations)
    leaves = [x for x in (scores, beta) if x is not None]
    opcheck(torch.ops.unshuffle.sinkhorn_on_gpu.default, given)
    call = {"samples": samples, "noise": Noise(noise, (3, 4), first, total), "iterations": iterations}
    results = [torch.ops.unshuffle.sinkhorn_on_gpu(*given)[0], module.perturbed_sinkhorn(scores, beta, **call)]
    weights = torch.randn_like(results[0])
    found, expected = ((P, *torch.autograd.grad((weights * P).sum(), leaves)) for P in results)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_graph_for_a_gpu_holds_the_operator(monkeypatch):
    """Made without one, on tensors that stand for others; forward only, since torch's autograd crashes there."""
    monkeypatch.setattr(backends, "have_triton", True)
    with FakeTensorMode():
        graph = make_fx(lambda s: us.gumbel_sinkhorn(s, samples=2))(torch.empty(3, 6, 6, device="cuda"))
    assert "unshuffle.sinkhorn_on_gpu.default" in {str(node.target) for node in graph.graph.nodes}


class Mean(torch.nn.ModuleList):
    """Several layers in one graph: a graph for each takes longer and shows no more."""

    def forward(self, scores: Tensor) -> Tensor:
        return torch.stack([relax(scores) for relax in self]).mean(0)


TARGETS = us.EntropyTarget(0.9, 0.5, 9, each=us.EachRow()), us.LearnedTarget()
EXPORTED = [
    us.GumbelSinkhorn(us.Anneal(1.0, 2.0, 9), LOCAL),
    us.GumbelSinkhorn(),
    Mean(map(us.GumbelSinkhorn, TARGETS)),
]


@pytest.mark.parametrize(("relax", "training"), [*itertools.product(EXPORTED[:2], (True, False)), (EXPORTED[2], True)])
def test_an_exported_model_comes_back(relax, training, tmp_path):
    class Sorter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores, self.relax = torch.nn.Linear(2, 6), copy.deepcopy(relax)

        def forward(self, items: Tensor) -> Tensor:
            return us.reorder(self.relax(self.scores(items)), items)

    model = Sorter().train(training)
    us.set_epoch(model, 4)
    lists = torch.export.Dim("lists")
    exported = torch.export.export(model, (torch.randn(4, 6, 2),), dynamic_shapes=({0: lists},))
    torch.export.save(exported, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    for count in (2, 60):
        items = torch.randn(count, 6, 2)
        torch.manual_seed(5)
        found = again(items)
        torch.manual_seed(5)
        torch.testing.assert_close(found, model(items))


@pytest.mark.skipif(not have_numba, reason="counts calls of the kernel")
def test_torch_func_goes_through_the_kernel(monkeypatch):
    """Gradients per sample: one call forwards, one backwards, whatever the size of the batch."""
    calls = []
    for name in ("forward", "backward"):
        real = getattr(kernel, name)
        monkeypatch.setattr(kernel, name, lambda *a, name=name, real=real: calls.append(name) or real(*a))
    torch.vmap(torch.func.grad(lambda s: us.sinkhorn(s).square().sum()))(MANY)
    assert calls == ["forward", "backward"]
    calls.clear()
    jacobian = torch.vmap(torch.func.jacrev(us.sinkhorn))(MANY)
    assert set(calls) == {"forward", "backward"}
    torch.testing.assert_close(jacobian[3], torch.autograd.functional.jacobian(us.sinkhorn, MANY[3]))


def test_shapes_without_memory():
    assert us.sinkhorn(torch.empty(2, 4, 4, device="meta")).shape == (2, 4, 4)
    with FakeTensorMode():
        assert us.gumbel_sinkhorn(torch.empty(2, 4, 4), samples=3, local=LOCAL).shape == (3, 2, 4, 4)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", ["GumbelSinkhorn", "Sinkhorn", "sinkhorn", "gumbel_sinkhorn", "assign"])
def test_a_tracer_that_would_take_results_for_constants_is_told_so(name):
    call = getattr(us, name)(us.Constant(1.0)) if name[0].isupper() else getattr(us, name)
    with pytest.raises(us.BadInput, match=r"torch\.export or torch\.compile"):
        torch.jit.trace(lambda scores: call(scores), torch.randn(2, 4, 4))


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


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:DeprecationWarning"
)  # torch's own, when it goes forwards first
def test_second_derivatives_through_torch_func(engine):
    scores, weights = torch.randn(2, 4, 4, dtype=torch.float64)

    def loss(s: Tensor) -> Tensor:
        return (weights * us.sinkhorn(s, 3)).sum()

    expected = torch.autograd.functional.hessian(loss, scores)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(loss))(scores), expected)
    torch.testing.assert_close(torch.func.hessian(loss)(scores), expected)


FORWARDS = {
    "sinkhorn": lambda s: us.sinkhorn(s, 4),
    "reject": lambda s: us.sinkhorn(s, 4, reject=0.2),
    "tolerance": lambda s: us.sinkhorn(s, 50, tolerance=1e-3),
    "local": lambda s: us.gumbel_sinkhorn(s, 1.5, noise=0.0, local=LOCAL),
    "layer": us.Sinkhorn(us.Constant(2.0)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("name", FORWARDS)
def test_derivatives_forwards_are_those_backwards(name, engine):
    scores, direction = torch.randn(2, 4, 4, dtype=torch.float64)
    call = FORWARDS[name]
    expected = torch.func.jacrev(call)(scores)
    torch.testing.assert_close(torch.func.jacfwd(call)(scores), expected)
    with torch.autograd.forward_ad.dual_level():
        dual = call(torch.autograd.forward_ad.make_dual(scores, direction))
        tangent = torch.autograd.forward_ad.unpack_dual(dual).tangent
    torch.testing.assert_close(tangent, torch.einsum("ijkl,kl->ij", expected, direction))


ORDER = torch.tensor([[2, 0, 1], [0, 2, 1]])
SMALL = {
    "orders": (MANY, True, None),
    "tau": (MANY, MANY.flip(-1)),
    "both_entropies": (MANY.softmax(-1),),
    "new_key": (KEY,),
    "inverse": (ORDER, None),
    "slots": (ORDER, 3),
    "sorted": (MANY,),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_small_operators_keep_the_rules_too(name):
    opcheck(getattr(torch.ops.unshuffle, name).default, SMALL[name])


def test_noise_inside_vmap(engine):
    scores = torch.randn(3, 4, 4)
    torch.manual_seed(1)
    P = torch.vmap(us.gumbel_sinkhorn, randomness="same")(scores)
    torch.manual_seed(1)
    torch.testing.assert_close(P[0], us.gumbel_sinkhorn(scores[0]))
    with pytest.raises(us.BadInput, match="randomness='same'"):
        torch.vmap(us.gumbel_sinkhorn, randomness="different")(scores)
    torch.manual_seed(1)
    weights = torch.randn(4, 4)
    gradient = torch.func.grad(lambda s: (weights * us.gumbel_sinkhorn(s, samples=2)).sum())
    torch.manual_seed(2)
    found = torch.vmap(gradient, randomness="same")(scores)
    torch.manual_seed(2)
    leaf = scores[1].clone().requires_grad_()
    (weights * us.gumbel_sinkhorn(leaf, samples=2)).sum().backward()
    torch.testing.assert_close(found[1], leaf.grad)


def test_a_tolerance_inside_vmap(engine):
    scores = torch.randn(3, 4, 4)
    found = torch.vmap(lambda s: us.sinkhorn(s, 100, tolerance=1e-3))(scores)
    torch.testing.assert_close(found, us.sinkhorn(scores, 100, tolerance=1e-3))
    leaf = scores[1].clone().requires_grad_()
    us.sinkhorn(leaf, 100, tolerance=1e-3).square().sum().backward()
    gradient = torch.func.grad(lambda s: us.sinkhorn(s, 100, tolerance=1e-3).square().sum())(scores[1])
    torch.testing.assert_close(gradient, leaf.grad)


def test_orders_inside_vmap():
    scores = torch.randn(3, 2, 4, 4)
    assert torch.equal(torch.vmap(us.assign)(scores), us.assign(scores))
    places = torch.stack([torch.randperm(6) for _ in range(3)])
    tau = torch.vmap(us.kendall_tau, in_dims=(0, None))(places, torch.arange(6))
    assert torch.equal(tau, us.kendall_tau(places, torch.arange(6)))


@pytest.mark.parametrize("relax", [us.NeuralSort(), us.SoftSort(), us.ColumnSoftmax()], ids=lambda r: type(r).__name__)
def test_the_other_relaxations_inside_vmap_and_grad(relax):
    """Their look for NaN must not stop the transforms."""
    scores = torch.rand(3, 5, 5) if isinstance(relax, us.ColumnSoftmax) else torch.rand(3, 5)
    torch.testing.assert_close(torch.vmap(lambda s: relax(s))(scores), relax(scores))
    leaf = scores.clone().requires_grad_()
    relax(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda s: relax(s).square().sum())(scores), leaf.grad)
