"""Paths, cycles and graphs with more or fewer items than positions, against all partial orders and planted answers."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.solve import exact, partial
from unshuffle.solve.partial import Prices, Squared, _thinned, usual_price


def energy(layout, order, cost, item=0.0, position=0.0) -> float:
    """By the definition: neighbours that are both there, items left out, positions left empty."""
    n = layout.n
    if isinstance(layout, us.Graph):
        links = [(a, b, float(layout.weights[a, b])) for a in range(n) for b in range(n)]
    else:
        links = [(a, a + 1, 1.0) for a in range(n - 1)] + ([(n - 1, 0, 1.0)] if isinstance(layout, us.Cycle) else [])
    total = sum(w * float(cost[order[a], order[b]]) for a, b, w in links if order[a] >= 0 and order[b] >= 0)
    out = len(cost) - sum(i >= 0 for i in order)
    return total + item * out + position * sum(i < 0 for i in order)


def all_partial(m: int, n: int, fixed: bool):
    for k in [min(m, n)] if fixed else range(min(m, n) + 1):
        for places in combinations(range(n), k):
            for items in permutations(range(m), k):
                order = [-1] * n
                for place, item in zip(places, items, strict=True):
                    order[place] = item
                yield order


LAYOUTS = {
    "path": us.Path,
    "cycle": us.Cycle,
    "graph": lambda n: us.Graph(
        torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)).fill_diagonal_(0)
    ),
}


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 4), (4, 4), (2, 4)])
@pytest.mark.parametrize("reject", [False, (0.7, 0.1)])
def test_few_items_have_the_best_of_all_partial_orders(kind, m, n, reject):
    layout = LAYOUTS[kind](n)
    cost = torch.rand(m, m, dtype=torch.float64, generator=torch.Generator().manual_seed(m * n))
    item, position = (0.0, 0.0) if reject is False else reject
    best = min(energy(layout, order, cost, item, position) for order in all_partial(m, n, reject is False))
    found = us.solve(layout, cost=cost, reject=reject)
    placed = found.order[found.order >= 0].tolist()
    assert len(set(placed)) == len(placed)
    assert (found.soft.shape, found.confidence.shape) == ((m, n), (m,))
    assert found.energy == pytest.approx(energy(layout, found.order.tolist(), cost, item, position), abs=1e-9)
    assert found.energy == pytest.approx(best, abs=1e-9)
    assert sorted(found.left_out.tolist() + placed) == list(range(m))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_eight_items_at_six_places_are_tried_in_all_ways_and_not_annealed(kind, monkeypatch):
    monkeypatch.setattr(partial, "_starts", None)
    layout, cost = LAYOUTS[kind](6), torch.rand(8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    cost.fill_diagonal_(0)
    problem = Squared(layout, cost, Prices(torch.rand(8, dtype=torch.float64), 0.2))
    orders = exact.partial_orders(8, 6, 0, None)
    assert len(orders) == len(orders.unique(dim=0)) == exact.count_partial(8, 6, 0)
    some = orders[:: len(orders) // 50]
    squares = torch.stack([problem.energy(problem.whole(order.numpy())) for order in some])
    assert torch.allclose(problem.costs(some), squares)
    found = us.solve(layout, cost=cost, reject=(problem.prices.items, 0.2))
    assert found.energy == pytest.approx(float(problem.costs(orders).min()))


@pytest.mark.parametrize("prices", [None, Prices(torch.tensor([0.3, 0.2, 0.5, 0.1, 0.4], dtype=torch.float64), 0.25)])
@pytest.mark.parametrize("n", [3, 4, 6])
def test_a_sequence_is_thinned_as_well_as_can_be(prices, n):
    cost = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    order = np.array([2, 0, 4, 1, 3])
    problem = Squared(us.Path(n), cost, prices)
    rank = {int(item): place for place, item in enumerate(order)}
    best = min(
        float(problem.energy(problem.whole(np.array(partial))))
        for partial in all_partial(5, n, prices is None)
        if [rank[i] for i in partial if i >= 0] == sorted(rank[i] for i in partial if i >= 0)
    )
    assert float(problem.energy(problem.whole(_thinned(order, problem)))) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("closed", [False, True])
def test_foreign_items_are_left_out_at_prices_from_the_costs(closed):
    """30 points along a curve and 4 far from it and from each other."""
    generator = torch.Generator().manual_seed(3)
    angle = torch.arange(30) / 30 * (2 if closed else 1) * torch.pi
    points = torch.stack((angle.cos(), angle.sin()), 1) + 0.01 * torch.randn(30, 2, generator=generator)
    far = torch.tensor([[9.0, 0], [0, 9], [-9, 0], [5, -9]])
    shuffle = torch.randperm(34, generator=generator)
    X = torch.cat((points, far))[shuffle]
    cost = torch.cdist(X.double(), X.double())
    layout = us.Cycle(30) if closed else us.Path(30)
    foreign = {int((shuffle == i).nonzero()) for i in range(30, 34)}
    found = us.solve(layout, cost=cost, reject=False)
    assert set(found.left_out.tolist()) == foreign
    assert not (found.order < 0).any()
    steps = shuffle[found.order].diff().abs()
    assert ((steps == 1) | (steps == 29)).all()
    priced = us.solve(layout, cost=cost, reject=True)
    assert set(priced.left_out.tolist()) == foreign
    assert priced.confidence[list(foreign)].min() > 0.9


def test_scaled_costs_have_scaled_prices_and_the_same_order():
    cost = torch.cdist(
        torch.rand(12, 3, generator=torch.Generator().manual_seed(0)).double(), torch.zeros(1, 3).double()
    )
    cost = (cost - cost.mT).abs() + 0.01
    layout = us.Path(9)
    assert usual_price(1000 * cost, layout) == pytest.approx(1000 * usual_price(cost, layout))
    few, many = (us.solve(layout, cost=scale * cost, reject=True) for scale in (1, 1024))
    assert torch.equal(few.order, many.order)
    assert many.energy == pytest.approx(1024 * few.energy)


def test_masks_forbid_places_and_all_left_out_is_an_answer():
    cost = torch.rand(9, 9, generator=torch.Generator().manual_seed(1))
    allowed = torch.ones(9, 6, dtype=torch.bool)
    allowed[:, 2] = False
    allowed[4, 2] = True
    assert int(us.solve(us.Path(6), cost=cost, allowed=allowed, reject=False).order[2]) == 4
    nothing = us.solve(us.Cycle(6), cost=cost, reject=-1.0)
    assert (nothing.order == -1).all()
    assert len(nothing.left_out) == 9
    assert "9 left out" in repr(nothing)
    assert "9 left out" in nothing._repr_html_()
    assert nothing.energy == pytest.approx(-15.0)


@pytest.mark.parametrize(
    ("reject", "sentence"),
    [
        (float("nan"), "finite"),
        ((1.0, 2.0, 3.0), "one price or a pair"),
        (torch.ones(4), "there are 5 items"),
        ((1.0, float("inf")), "empty position"),
        ("cheap", "must be numbers"),
    ],
)
def test_prices_that_are_none_are_refused(reject, sentence):
    with pytest.raises(us.BadInput, match=sentence):
        us.solve(us.Path(4), cost=torch.rand(5, 5), reject=reject)


def test_prices_stand_on_the_diagonal_which_must_be_free():
    with pytest.raises(us.BadInput, match="diagonal"):
        us.solve(us.Graph(torch.ones(4, 4)), cost=torch.rand(5, 5), reject=1.0)


def test_a_mask_that_leaves_an_item_nowhere_names_it():
    allowed = torch.ones(3, 5, dtype=torch.bool)
    allowed[1] = False
    with pytest.raises(us.BadInput, match=r"row 1 \(an item\)"):
        us.solve(us.Path(5), cost=torch.rand(3, 3), allowed=allowed, reject=False)


def test_losses_have_a_place_for_everybody():
    with pytest.raises(us.BadInput, match="place for every item"):
        us.solve(lambda X: X.diff(dim=0).square().sum(), items=torch.rand(4, 1), reject=1.0)
