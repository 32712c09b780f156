"""Relaxations as torch modules: in containers, in training and evaluation, copied, and told the epoch."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
import torch
from torch import nn

import unshuffle as us

N = 5
RAMP = us.Anneal(0.5, 2.0, epochs=4)
KEYS = (us.NeuralSort, us.SoftSort)
ALL = [
    us.Sinkhorn(RAMP),
    us.GumbelSinkhorn(RAMP, us.LocalTemperature(max_boost=0.5), adapt_from=2),
    us.ColumnSoftmax(RAMP),
    us.NeuralSort(RAMP),
    us.SoftSort(RAMP),
    us.OT4P(us.Anneal(1.0, 2.0, epochs=4)),
    us.StraightThrough(us.GumbelSinkhorn(RAMP)),
]
every = pytest.mark.parametrize("relax", ALL, ids=lambda relax: type(relax).__name__)


def scores_for(relax: nn.Module) -> torch.Tensor:
    shape = (2, N) if isinstance(relax, KEYS) else (2, N, N)
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def drawn(relax, scores: torch.Tensor, **keywords) -> torch.Tensor:
    return relax(scores, generator=torch.Generator().manual_seed(0), **keywords)


@every
def test_in_a_container(relax):
    """Sequential and ModuleList take it; it has no weights, and its settings show."""
    scores = scores_for(relax)
    torch.manual_seed(1)
    through = nn.Sequential(nn.Identity(), relax)(scores)
    torch.manual_seed(1)
    assert torch.equal(through, relax(scores))
    layers = nn.ModuleList([relax, copy.deepcopy(relax)]).to("cpu", torch.float64)
    assert len(layers.state_dict()) == 0
    assert "epochs=4" in repr(layers)


@every
@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_are_told_the_epoch_apart(relax, again):
    relax = copy.deepcopy(relax)
    us.set_epoch(relax, 3)
    twin, scores = again(relax), scores_for(relax)
    assert torch.equal(drawn(twin, scores), drawn(relax, scores, epoch=3))
    if again is not copy.copy:
        us.set_epoch(twin, 0)
        assert torch.equal(drawn(relax, scores), drawn(relax, scores, epoch=3))
    assert type(relax) is us.OT4P or (twin == relax and repr(twin) == repr(relax))


@every
def test_settings_are_frozen_and_compare(relax):
    name = dataclasses.fields(relax)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(relax, name, us.Constant(9.0))
    changed = dataclasses.replace(relax, **{name: us.Constant(9.0) if name == "schedule" else us.Sinkhorn()})
    assert changed != relax
    assert repr(changed) != repr(relax)


@every
def test_the_epoch_is_told_inside_a_model(relax):
    """By set_epoch, however deep; an epoch in the call still counts for that call alone."""
    inner, scores = copy.deepcopy(relax), scores_for(relax)
    model = nn.Sequential(nn.Identity(), nn.Sequential(inner))
    assert torch.equal(drawn(inner, scores), drawn(inner, scores, epoch=0))
    for epoch in (1, 3):
        us.set_epoch(model, epoch)
        assert torch.equal(drawn(inner, scores), drawn(inner, scores, epoch=epoch))
    assert torch.equal(drawn(inner, scores, epoch=1), drawn(relax, scores, epoch=1))
    assert inner.epoch == 3


def test_two_equal_relaxations_in_a_model_are_two():
    """torch walks modules through sets: if equal ones were one there, eval() would forget the second."""
    model = nn.ModuleList([us.GumbelSinkhorn(RAMP), us.GumbelSinkhorn(RAMP)])
    assert model[0] == model[1]
    model.eval()
    us.set_epoch(model, 2)
    assert not model[1].training
    assert model[1].epoch == 2


@pytest.mark.parametrize("wrap", [lambda r: r, us.StraightThrough])
def test_noise_in_training_only(wrap):
    relax, scores = wrap(us.GumbelSinkhorn(RAMP)), torch.randn(2, N, N)
    assert drawn(relax, scores, samples=3).shape[0] == 3
    assert not torch.equal(relax(scores), relax(scores)) or wrap is us.StraightThrough
    relax.eval()
    assert torch.equal(relax(scores, samples=3), wrap(us.Sinkhorn(RAMP))(scores, samples=3))
    relax.train()
    assert drawn(relax, scores, samples=3).shape[0] == 3


def test_a_learned_temperature_is_a_part_of_it():
    local = us.LearnedTemperature()
    relax = us.StraightThrough(us.GumbelSinkhorn(RAMP, local))
    assert list(relax.state_dict()) == ["soft.local.raw"]
    assert next(relax.parameters()) is local.raw
    assert next(copy.deepcopy(relax).parameters()) is not local.raw
    relax.to(torch.float64)
    assert local.raw.dtype == torch.float64


def test_the_temperature_is_told_to_full_precision_whatever_the_weights_are_in():
    relax, scores = us.Sinkhorn(us.Constant(0.7)), torch.randn(N, N, dtype=torch.float64)
    us.set_epoch(relax.to(torch.bfloat16), 0)
    assert torch.equal(relax(scores), us.sinkhorn(0.7 * scores))


def test_fit_tells_the_network_and_leaves_the_relaxation_in_its_mode():
    inner, outer = us.Sinkhorn(RAMP), us.GumbelSinkhorn(RAMP).eval()
    network = nn.Sequential(nn.Linear(1, N), inner)
    us.fit(network, torch.rand(4, N, 1), us.losses.monotone, outer, epochs=3, samples=1)
    assert inner.epoch == 2
    assert not outer.training
    assert outer.epoch == 0


PRICES = {
    "one": lambda price: price,
    "of items": lambda price: (price, 0.1),
    "of positions": lambda price: (0.1, price),
}


@pytest.mark.parametrize("kind", PRICES)
def test_a_price_that_is_learned_is_a_parameter_that_torch_may_exchange(kind):
    """Trained, saved, loaded by assignment, and called with another in its place, as functional_call does."""
    relax = us.Sinkhorn(us.Constant(1.5), reject=PRICES[kind](nn.Parameter(torch.tensor(0.2))))
    ((name, price),) = relax.named_parameters()
    scores = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))

    def at(value: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(relax, {name: value}, (scores,)).sum()

    (expected,) = torch.autograd.grad(relax(scores).sum(), price)
    assert expected != 0
    torch.testing.assert_close(torch.func.grad(at)(torch.tensor(0.2)), expected)
    dear = us.Sinkhorn(us.Constant(1.5), reject=PRICES[kind](torch.tensor(3.0)))
    assert torch.equal(at(torch.tensor(3.0)), dear(scores).sum())
    relax.load_state_dict({name: torch.tensor(3.0)}, assign=True)
    assert torch.equal(relax(scores), dear(scores))
    assert torch.equal(relax.decode(scores), dear.decode(scores))
    assert copy.deepcopy(relax) == relax


def test_prices_of_every_item_compare():
    one, same, other = (us.Sinkhorn(reject=torch.tensor(prices)) for prices in ([0.1, 0.2], [0.1, 0.2], [0.1, 0.3]))
    assert one == same
    assert one != other
    assert one != us.Sinkhorn()
    assert one != us.Sinkhorn(reject=0.1)
