"""Learning tours: the recipes build, train and apply; the unrolled annealer is what it says it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from unshuffle.errors import BadInput
from unshuffle.networks.unrolled import UnrolledAnnealer, in_own_units, scaled
from unshuffle.recipes.draws import DrawnAnew, DrawnOnce
from unshuffle.recipes.scorers import ByAnnealing
from unshuffle.recipes.settings import plain
from unshuffle.recipes.tour import SoftLength, Tour, nearest_neighbour, ordered
from unshuffle.recipes.trained import recipe_from
from unshuffle.recipes.training import about, train
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn
from unshuffle.structure.bins import blurred, overlap, widths
from unshuffle.structure.losses import tour_length


def cities(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, 2, generator=torch.Generator().manual_seed(seed))


def small(recipe: Tour) -> Tour:
    r: Any = recipe.relax
    quick = GumbelSinkhorn(r.schedule, r.local, 10, r.noise, r.adapt_from)
    return replace(recipe, relax=quick, epochs=2, batch=4, held_out_instances=4, test_instances=4, samples=1)


@pytest.mark.parametrize("temperature", ["fixed", "global", "adaptive", "matched", "entropy", "degree"])
@pytest.mark.parametrize("kind", ["paper", "strong"])
def test_every_temperature_trains(kind, temperature):
    recipe = small(getattr(Tour, kind)(12, temperature=temperature, epochs=2))
    if kind == "paper":
        recipe = replace(recipe, training=DrawnOnce(8))
    else:
        recipe = replace(recipe, training=DrawnAnew(2), scorer=ByAnnealing((2, 2, 2)))
    fitted = train(recipe)
    assert len(fitted.history) == 2
    result = recipe.test(fitted.network)
    assert result["length"] > 0
    assert plain(recipe_from(about(recipe)["recipe"])) == plain(recipe)
    lowered = fitted.history[-1].get("factor_mean", 1.0)
    assert (lowered < 1) == (temperature in ("adaptive", "matched", "degree"))


@pytest.mark.parametrize("method", [{"utsp": True}, {"temperature": "degree"}])
def test_the_papers_loss_falls(method):
    recipe = Tour.paper(10, epochs=12, batch=16, **method)
    descent = replace(recipe.descent, rate=0.02)
    recipe = replace(recipe, training=DrawnOnce(128), samples=1, held_out_instances=32, descent=descent)
    history = train(recipe).history
    assert history[-1]["loss"] < 0.95 * history[0]["loss"]
    assert history[-1]["held_out"] < history[0]["held_out"]


def test_training_makes_the_unrolled_annealer_better_than_its_first_guess():
    recipe = replace(Tour.strong(20, epochs=3), batch=16, held_out_instances=64)
    network = UnrolledAnnealer((3, 3, 6))
    with torch.no_grad():
        network.schedule[2, 0] -= 1.5  # far too warm: nothing gets decided
    before = tour_length(ordered(recipe.held_out(), recipe.order(network, recipe.held_out()))).mean()
    loss, relax = recipe.loss, recipe.relax
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    for step in range(12):
        x = cities(16, 20, seed=step)
        optimiser.zero_grad()
        loss(relax(network(x)), x).mean().backward()
        optimiser.step()
    after = tour_length(ordered(recipe.held_out(), recipe.order(network, recipe.held_out()))).mean()
    assert after < before - 0.05


def test_untrained_it_already_beats_nearest_neighbour_at_any_n():
    for n in (20, 60):
        x = cities(16, n)
        with torch.no_grad():
            order = torch.stack([network_order(scores) for scores in UnrolledAnnealer()(x)])
        assert order.sort(-1).values.equal(torch.arange(n).expand(16, n))
        ours, nearest = tour_length(ordered(x, order)), tour_length(ordered(x, nearest_neighbour(x)))
        assert ours.mean() < 0.92 * nearest.mean()


def network_order(scores: torch.Tensor) -> torch.Tensor:
    return Tour.strong().relax.decode(scores)


def test_the_annealer_does_not_see_where_the_plane_is_or_how_large():
    network, x = UnrolledAnnealer((4, 4, 4)).double(), cities(3, 30).double()
    torch.testing.assert_close(network(100 + 7 * x), network(x), atol=1e-5, rtol=1e-5)


def test_equal_cities_give_finite_scores():
    assert torch.isfinite(UnrolledAnnealer((2, 2, 2))(torch.zeros(1, 6, 2))).all()


def test_levels_and_bins_keep_every_city():
    assert widths(100, least=2) == [7, 13, 25, 50, 100]
    assert widths(5, least=2) == [3, 5]
    torch.testing.assert_close(blurred(overlap(7, 13), 0).sum(0), torch.ones(7).double())
    P, _ = scaled(torch.randn(2, 4, 12), 3.0, 200)
    torch.testing.assert_close(P.sum(1), torch.ones(2, 12))
    torch.testing.assert_close(P.sum(2), torch.full((2, 4), 3.0), atol=1e-3, rtol=1e-3)


def test_units_are_distances_to_the_nearest_neighbour():
    D = in_own_units(5 * cities(2, 9))
    nearest = (D + 1e6 * torch.eye(9)).amin(-1).mean(-1)
    torch.testing.assert_close(nearest, torch.ones(2))


def test_a_soft_tour_that_leaves_cities_out_or_shares_them_pays():
    x = cities(1, 6)
    hard = torch.eye(6).unsqueeze(0)
    torch.testing.assert_close(SoftLength(2.0, 20.0, 0.7)(hard, x), 2 * tour_length(x))
    missing = hard.clone()
    missing[0, 5, 5], missing[0, 4, 5] = 0.0, 1.0  # city 4 stands twice, city 5 nowhere
    assert SoftLength(1.0, 20.0, 0.0)(missing, x) > SoftLength(1.0, 0.0, 0.0)(missing, x) + 39
    assert SoftLength(1.0, 0.0, 0.7)(missing, x) > SoftLength(1.0, 0.0, 0.0)(missing, x) + 0.6


def test_nearest_neighbour_by_its_definition():
    x = cities(2, 8)
    for points, order in zip(x, nearest_neighbour(x).tolist(), strict=True):
        assert order[0] == 0
        for step, city in enumerate(order[1:], 1):
            left = [c for c in range(8) if c not in order[:step]]
            assert city == min(left, key=lambda c: float((points[c] - points[order[step - 1]]).norm()))


def test_training_validation_and_test_are_different_instances():
    recipe = Tour.strong(10)
    recipe = replace(recipe, training=DrawnOnce(4), batch=4, held_out_instances=4, test_instances=4)
    draws = [recipe.batches().items, recipe.held_out(), recipe.test_set()]
    assert not any(torch.equal(a, b) for a in draws for b in draws if a is not b)
    assert torch.equal(replace(Tour.paper(10), test_instances=4).test_set(), draws[2])


def test_cities_from_a_file_fit_the_network(tmp_path):
    file = tmp_path / "five.csv"
    file.write_text("0,0\n10,0\n10,20\n0,20\n5,25\n")
    assert Tour.strong().read(file).amax() == 1.0
    with pytest.raises(BadInput, match="orders 100 cities"):
        Tour.paper(100).read(file)
    with pytest.raises(BadInput, match="at least five"):
        Tour.strong(4)
