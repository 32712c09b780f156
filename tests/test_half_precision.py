"""float16 and bfloat16: the same type out, float32 inside, and the gradient of float32 at the rounded values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import unshuffle as us
from unshuffle.operators.entropies import row_and_column_entropies

N = 7
HALF = pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(2)


ITEMS = torch.arange(3.0 * N).reshape(N, 3)
CONTROLLED = us.LocalTemperature(us.DegreeViolation(), 0.5)  # multiplies matrices
ON_SCORES = {
    "sinkhorn": us.sinkhorn,
    "gumbel_sinkhorn": lambda s: us.gumbel_sinkhorn(s, 1.7, 3, generator=generator()),
    "gumbel_sinkhorn, local": lambda s: us.gumbel_sinkhorn(s, 1.7, 3, CONTROLLED, generator=generator()),
    "GumbelSinkhorn": lambda s: us.GumbelSinkhorn(us.Constant(1.7), us.LocalTemperature())(s, generator=generator()),
    "ColumnSoftmax": us.ColumnSoftmax(),
    "NeuralSort": lambda s: us.NeuralSort()(s[..., 0]),
    "SoftSort": lambda s: us.SoftSort()(s[..., 0]),
    "OT4P": us.OT4P(us.Constant(2.0)),
    "StraightThrough": us.StraightThrough(us.Sinkhorn(us.Constant(1.7))),
    "entropies": lambda s: torch.stack(row_and_column_entropies(s.abs())),
    "entropy": lambda s: us.entropy(s.abs()),
    "reorder": lambda s: us.reorder(s.abs(), ITEMS.to(s.dtype)),
}


@HALF
@pytest.mark.parametrize("name", ON_SCORES)
def test_values_and_gradients_are_those_of_float32(name, half):
    call = ON_SCORES[name]
    rounded = torch.randn(4, N, N, generator=generator()).to(half)
    narrow, wide = rounded.clone().requires_grad_(), rounded.float().requires_grad_()
    found, expected = call(narrow), call(wide)
    assert found.dtype == half
    assert torch.equal(found, expected.to(half))
    weights = torch.randn(found.shape, generator=generator()).to(half)
    found.backward(weights)
    expected.backward(weights.float())
    assert narrow.grad is not None
    assert wide.grad is not None
    assert torch.equal(narrow.grad, wide.grad.to(half))


@pytest.mark.parametrize("name", ON_SCORES)
def test_autocast_changes_nothing(name):
    scores = torch.randn(4, N, N, generator=generator(), requires_grad=True)
    outside = ON_SCORES[name](scores)
    with torch.autocast("cpu", torch.bfloat16):
        inside = ON_SCORES[name](scores)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, outside)
    torch.testing.assert_close(
        *(torch.autograd.grad(soft.square().sum(), scores)[0] for soft in (inside, outside)), rtol=0, atol=0
    )


@HALF
def test_orders_of_half_scores(half):
    scores = torch.randn(4, N, N, generator=generator()).to(half)
    assert torch.equal(us.assign(scores), us.assign(scores.float()))
    allowed = torch.ones(N, N, dtype=torch.bool)
    allowed[0, 1] = False
    for relax, given in ((us.NeuralSort(), scores[..., 0]), (us.GumbelSinkhorn(), scores), (us.OT4P(), scores)):
        mask = {} if isinstance(relax, us.OT4P) else {"allowed": allowed}
        assert torch.equal(relax.decode(given, **mask), relax.decode(given.float(), **mask))
    report = us.GumbelSinkhorn(us.Constant(1.7)).report(scores)
    assert report.log() == us.GumbelSinkhorn(us.Constant(1.7)).report(scores.float()).log()


def test_a_network_trains_under_autocast():
    """The scores come as bfloat16, the items stay float32: reorder takes both."""
    network, items = torch.nn.Linear(2, N), torch.rand(4, N, 2, generator=generator())
    with torch.autocast("cpu", torch.bfloat16):
        scores: Tensor = network(items)
        assert scores.dtype == torch.bfloat16
        P = us.GumbelSinkhorn(us.Constant(2.0), us.LocalTemperature())(scores, samples=2, generator=generator())
        loss = us.reorder(P, items.expand(2, -1, -1, -1)).square().mean()
    loss.backward()
    assert network.weight.grad is not None
    assert bool(network.weight.grad.isfinite().all())


@HALF
def test_energies_are_summed_in_float32_under_autocast_too(half):
    P, cost = torch.rand(3, N, N, generator=generator()).to(half), torch.rand(N, N, generator=generator())
    calls = [
        lambda P, layout=layout: us.energies.expected_energy(layout, P, cost) for layout in (us.Path(N), us.Graph(cost))
    ]
    calls += [us.energies.heat_map, us.energies.self_loop_penalty, us.energies.row_sum_penalty]
    calls += [lambda P: us.energies.utsp_loss(P, cost)]
    for call in calls:
        expected = call(P.float())
        assert torch.equal(call(P), expected)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(call(P), expected)
            assert torch.equal(call(P.float()), expected)
