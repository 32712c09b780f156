"""Everything with weights can be saved, opened without running code, and goes on where it was."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import unshuffle as us
from unshuffle.learn.objective import Learner

TILE = (1, 4, 4)
MODULES = {
    "ItemScorer": (lambda: us.networks.ItemScorer(4), torch.rand(2, 4, 1)),
    "KeyScorer": (lambda: us.networks.KeyScorer(), torch.rand(2, 4, 1)),
    "TileScorer": (lambda: us.networks.TileScorer(4, TILE), torch.rand(2, 4, 16)),
    "SeamScorer": (lambda: us.networks.SeamScorer(4, TILE), torch.rand(2, 4, 16)),
    "TourScorer": (lambda: us.networks.TourScorer(4), torch.rand(2, 4, 2)),
    "ContextScorer": (lambda: us.networks.ContextScorer(), torch.rand(2, 4, 1)),
    "UnrolledAnnealer": (lambda: us.networks.UnrolledAnnealer(), torch.rand(2, 12, 2)),
    "LearnedTemperature": (lambda: us.LearnedTemperature(), torch.randn(2, 4, 4).softmax(-1)),
}


def shaken(module: nn.Module) -> nn.Module:
    """With weights unlike those of a fresh one."""
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return module


def sent(module: nn.Module) -> dict[str, torch.Tensor]:
    """The weights, through a file that is opened with `weights_only`."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", MODULES)
def test_weights_survive_a_file(name):
    make, given = MODULES[name]
    first, second = shaken(make()).eval(), make().eval()
    extra = (2.0,) if name == "LearnedTemperature" else ()
    assert not torch.equal(first(given, *extra), second(given, *extra))
    second.load_state_dict(sent(first))
    assert torch.equal(first(given, *extra), second(given, *extra))


@pytest.mark.parametrize(
    "wrap", [lambda local: us.GumbelSinkhorn(local=local), lambda local: us.StraightThrough(us.Sinkhorn(local=local))]
)
def test_a_learned_temperature_inside_a_relaxation_is_saved_with_the_network(wrap):
    learners = [Learner(us.networks.ItemScorer(4), wrap(us.LearnedTemperature()), us.losses.monotone) for _ in range(2)]
    shaken(learners[0])
    assert sum(weight.shape == (3,) for weight in learners[0].parameters()) == 1
    learners[1].load_state_dict(sent(learners[0]))
    items, seeds = torch.rand(2, 4, 1), [torch.Generator().manual_seed(0) for _ in range(2)]
    a, b = (learner(items, None, 0, 2, generator=g) for learner, g in zip(learners, seeds, strict=True))
    assert torch.equal(a, b)


def test_an_optimiser_goes_on_with_a_learned_temperature():
    """Its gradient arrives: one step changes all three settings."""
    local = us.LearnedTemperature(threshold=0.3)
    before = local.raw.detach().clone()
    optimiser = torch.optim.SGD(local.parameters(), lr=1.0)
    P = us.GumbelSinkhorn(us.Constant(1.0), local=local)(
        torch.randn(8, 5, 5), generator=torch.Generator().manual_seed(0)
    )
    (P * torch.randn(5, 5)).sum().backward()
    optimiser.step()
    assert bool((local.raw != before).all())
