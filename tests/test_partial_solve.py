"""Paths, cycles, grids and graphs with more or fewer items than positions, against all partial orders and planted answers."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch

import unshuffle as us
from unshuffle.errors import BadInput
from unshuffle.solve import exact, partial
from unshuffle.solve.confidence import place_masses
from unshuffle.solve.graph import unit_of
from unshuffle.solve.grid.pieces import Pieces, Whole
from unshuffle.solve.partial import Squared, _thinned
from unshuffle.solve.prices import Prices, usual_price


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
    """12 points along a curve and 4 far from it and from each other."""
    generator = torch.Generator().manual_seed(3)
    angle = torch.arange(12) / 12 * (2 if closed else 1) * torch.pi
    points = torch.stack((angle.cos(), angle.sin()), 1) + 0.01 * torch.randn(12, 2, generator=generator)
    far = torch.tensor([[9.0, 0], [0, 9], [-9, 0], [5, -9]])
    shuffle = torch.randperm(16, generator=generator)
    X = torch.cat((points, far))[shuffle]
    cost = torch.cdist(X.double(), X.double())
    layout = us.Cycle(12) if closed else us.Path(12)
    foreign = {int((shuffle == i).nonzero()) for i in range(12, 16)}
    found = us.solve(layout, cost=cost, reject=False)
    assert set(found.left_out.tolist()) == foreign
    assert not (found.order < 0).any()
    steps = shuffle[found.order].diff().abs()
    assert ((steps == 1) | (steps == 11)).all()
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


# --- grids


def grid_energy(grid, board, right, below, items, position) -> float:
    """By the definition; ``board`` has the piece of each cell or -1, ``items`` the price of each."""
    cells = [board[r * grid.width : (r + 1) * grid.width] for r in range(grid.height)]
    total = 0.0
    for r, row in enumerate(cells):
        for c, here in enumerate(row):
            if here >= 0 and c + 1 < grid.width and row[c + 1] >= 0:
                total += float(right[here, row[c + 1]])
            if here >= 0 and r + 1 < grid.height and cells[r + 1][c] >= 0:
                total += float(below[here, cells[r + 1][c]])
    left_out = sum(float(price) for k, price in enumerate(items) if k not in board)
    return total + left_out + position * sum(here < 0 for here in board)


GRID_PRICES = [-0.3, 0, 0.05, 0.3, 4.0, (0.4, 0.1), torch.tensor([0.1, 0.9, 0.2, 0.3, 0.0])]


@pytest.mark.parametrize(
    ("shape", "reject", "all_ways"),
    [(shape, reject, True) for reject in GRID_PRICES for shape in ((2, 2), (2, 3))]
    + [((2, 2), 0, False), ((2, 2), 0.3, False), ((2, 3), (0.4, 0.1), False)],
    ids=str,
)
def test_a_grid_with_prices_has_the_least_energy_of_all_partial_orders(shape, reject, all_ways, monkeypatch):
    if not all_ways:
        monkeypatch.setattr(exact, "MOST_PARTIAL", 0)
    grid, (right, below) = us.Grid(*shape), torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(7))
    if isinstance(reject, torch.Tensor):
        items, position = reject.tolist(), 0.0
    else:
        item, position = reject if isinstance(reject, tuple) else (reject, reject)
        items = [item] * 5
    best = min(grid_energy(grid, order, right, below, items, position) for order in all_partial(5, grid.n, False))
    found = us.solve(grid, cost=(right, below), reject=reject)
    own = grid_energy(grid, found.order.tolist(), right, below, items, position)
    assert found.energy == pytest.approx(own, abs=1e-6)
    assert found.energy == pytest.approx(best, abs=1e-6)
    assert (found.soft.shape, found.confidence.shape) == ((5, grid.n), (5,))
    assert max(found.soft.sum(0).max(), found.soft.sum(1).max()) < 1 + 1e-4
    assert sorted(found.left_out.tolist() + found.order[found.order >= 0].tolist()) == list(range(5))


@pytest.mark.parametrize("reject", [False, True])
def test_few_tiles_have_the_best_board_at_the_price_of_a_seam(reject):
    grid, cost = us.Grid(2, 3), torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(5)).double()
    known = Whole((cost[0], cost[1]))
    pieces = Pieces(known, grid, reject=known.usual_price() if reject else None)
    orders = torch.tensor(list(all_partial(4, 6, not reject)))
    energies = torch.from_numpy(pieces.energies(orders.numpy()))
    found = us.solve(grid, cost=(cost[0], cost[1]), reject=reject)
    assert found.energy == pytest.approx(float(energies.min()))
    board = found.order.reshape(2, 3)
    made = [(cost[0], board[:, :-1], board[:, 1:]), (cost[1], board[:-1], board[1:])]
    there = [(a >= 0) & (b >= 0) for _, a, b in made]
    total = sum(float((c[a, b] * t).sum()) for (c, a, b), t in zip(made, there, strict=True))
    assert found.energy == pytest.approx(total + float(pieces.price or 0) * (7 - int(sum(t.sum() for t in there))))


def test_a_grid_of_one_cost_leaves_out_as_its_graph_does():
    grid, cost = us.Grid(2, 3), torch.rand(7, 7, generator=torch.Generator().manual_seed(2)).double()
    cost = cost + cost.mT
    best = min(grid_energy(grid, order, cost, cost, [0.4] * 7, 0.4) for order in all_partial(7, 6, False))
    assert us.solve(grid, cost=cost, reject=0.4).energy == pytest.approx(best)
    assert len(us.solve(grid, cost=cost, reject=False).left_out) == 1
    assert us.solve(grid, cost=cost, reject=True).order.shape == (6,)


def test_a_grid_with_prices_keeps_to_its_mask_and_turns_its_tiles(monkeypatch):
    grid, cost = us.Grid(2, 2), torch.rand(2, 3, 2, 3, 2, generator=torch.Generator().manual_seed(4))
    allowed = torch.ones(3, 4, dtype=torch.bool)
    allowed[:, 0] = False
    allowed[1, :3] = False
    flat = cost[:, :, 0, :, 0]
    for most in (100_000, 0):
        monkeypatch.setattr(exact, "MOST_PARTIAL", most)
        held = us.solve(grid, cost=tuple(flat), reject=3.0, allowed=allowed)
        assert held.order[0] == -1
        assert held.order[3] == 1
        assert held.soft[~allowed].max() == 0
    right, below = cost.reshape(2, 6, 6)
    boards = ([2 * i + s if i >= 0 else -1 for i, s in zip(order, turn, strict=True)]
              for order in all_partial(3, 4, False) for turn in product((0, 1), repeat=4))  # fmt: skip
    best = min(
        grid_energy(grid, board, right, below, [], 0.3) + 0.3 * (3 - sum(p >= 0 for p in board)) for board in boards
    )
    turned = us.solve(grid, cost=tuple(cost), reject=0.3)
    assert turned.energy == pytest.approx(best, abs=1e-6)
    assert turned.state is not None
    assert ((turned.state >= 0) == (turned.order >= 0)).all()


def test_a_grid_with_prices_refuses_a_start_in_one_sentence():
    with pytest.raises(BadInput, match="takes no init="):
        us.solve(us.Grid(2, 2), cost=tuple(torch.rand(2, 5, 5)), reject=0.3, init=torch.zeros(5, 4))
    with pytest.raises(BadInput, match="there are 5 items"):
        us.solve(us.Grid(2, 2), cost=tuple(torch.rand(2, 5, 5)), reject=torch.ones(4))


def test_a_path_that_sees_further_weighs_its_lags_where_items_are_left_out_too():
    cost = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cost = cost + cost.mT
    layout = us.Path(5, reach=3)
    orders = torch.tensor(list(permutations(range(6), 5)))
    whole = torch.cat((orders, orders.new_zeros(len(orders), 0)), 1)
    pairs = zip(layout.relations(), layout.weights, strict=True)
    energies = sum(w * cost[whole[:, p[:, 0]], whole[:, p[:, 1]]].sum(1) for p, w in pairs)
    assert us.solve(layout, cost=cost, reject=False).energy == pytest.approx(float(energies.min()))


@pytest.mark.parametrize("n", [2, 5, 9])
def test_where_nobody_is_left_out_a_path_is_as_sure_as_without_prices(n):
    """It was less sure because it may be read backwards, which is the same path."""
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(n)).double()
    cost = torch.cdist(x, x)
    whole, priced = us.solve(us.Path(n), cost=cost), us.solve(us.Path(n), cost=cost, reject=100.0)
    assert priced.order.tolist() in (whole.order.tolist(), whole.order.flip(0).tolist())
    torch.testing.assert_close(priced.confidence, whole.confidence)


@pytest.mark.parametrize("n", [3, 5, 7])
def test_where_nobody_is_left_out_a_tour_is_as_sure_as_without_prices(n):
    """It was as unsure as a tour that may begin anywhere is of its first place."""
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(n)).double()
    cost = torch.cdist(x, x)
    whole, priced = us.solve(us.Cycle(n), cost=cost), us.solve(us.Cycle(n), cost=cost, reject=100.0)
    torch.testing.assert_close(priced.confidence, whole.confidence)


@pytest.mark.parametrize("empty", [1, 3])
def test_a_tour_with_an_empty_place_is_as_sure_as_the_path_that_is_left_wherever_it_begins(empty):
    x = torch.rand(6, 2, generator=torch.Generator().manual_seed(4)).double()
    cost = torch.cdist(x, x)
    allowed = torch.ones(6, 7, dtype=torch.bool)
    allowed[:, empty] = False
    path, tour = us.solve(us.Path(6), cost=cost), us.solve(us.Cycle(7), cost=cost, reject=False, allowed=allowed)
    assert tour.order[empty] == -1
    assert tour.energy == pytest.approx(path.energy)
    anchored = us.solve(
        us.Path(6), cost=cost, allowed=torch.ones(6, 6, dtype=torch.bool)
    )  # a mask: from either end is not the same
    torch.testing.assert_close(tour.confidence, anchored.confidence)


@pytest.mark.parametrize("n", [12, 30])
def test_a_tour_among_strangers_is_sure_where_it_is_clear(n):
    angle = torch.arange(n, dtype=torch.float64) / n * 2 * torch.pi
    points = torch.cat((torch.stack((angle.cos(), angle.sin()), 1), torch.tensor([[9.0, 9.0], [-9.0, 7.0]]).double()))
    found = us.solve(us.Cycle(n), cost=torch.cdist(points, points), reject=False)
    assert found.left_out.tolist() == [n, n + 1]
    assert found.confidence.min() > 0.8


def test_nobody_pays_for_a_link_to_whoever_stands_in_its_place():
    """The soft permutation of a partial problem against prices and links added one by one."""
    g = torch.Generator().manual_seed(1)
    cost, flow = torch.rand(5, 5, dtype=torch.float64, generator=g), torch.ones(4, 4).double().triu(1).tril(1)
    cost = (cost + cost.T).fill_diagonal_(0)
    found = us.solve(us.Path(4), cost=cost, reject=(0.7, 0.1))
    problem = found.given
    paid = torch.zeros(problem.size, problem.size, dtype=torch.float64)
    for i in range(problem.size):
        for a in range(4):
            beside = [(b, int(k)) for b, k in enumerate(found.order) if b != a and k >= 0] if i < 5 else []
            paid[i, a] = sum(flow[a, b] * cost[i, k] + flow[b, a] * cost[k, i] for b, k in beside) + (
                -0.7 if i < 5 else 0.1
            )
    masses = place_masses(paid, unit_of(problem.graph, problem.priced))
    torch.testing.assert_close(found.soft, masses[:5, :4].float())


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("reject", [None, False, 0.8])
def test_alternatives_keep_to_what_is_allowed(kind, reject):
    g = torch.Generator().manual_seed(3)
    m, n = (6, 6) if reject is None else (7, 6)
    cost = torch.rand(m, m, dtype=torch.float64, generator=g)
    allowed = torch.rand(m, n, generator=g) < 0.7
    allowed[torch.arange(n), torch.arange(n)] = True
    found = us.solve(LAYOUTS[kind](n), cost=cost + cost.T, allowed=allowed, reject=reject)
    others = found.alternatives(5)
    assert others or (kind == "graph" and reject is None)  # of a graph only what the runs ended in
    for other in others:
        placed = other.order >= 0
        assert allowed[other.order[placed], torch.arange(n)[placed]].all()


def test_prices_make_a_path_less_sure_the_nearer_they_are():
    cost = (torch.arange(6.0)[:, None] - torch.arange(6.0)).abs()
    sure = [us.solve(us.Path(6), cost=cost, reject=price).confidence for price in (1.1, 1.5, 10.0)]
    assert (sure[0] < sure[1]).all()
    assert (sure[1] <= sure[2]).all()
    far = torch.tensor([0.0, 1.0, 2.0, 3.0, 30.0])
    left = us.solve(us.Path(4), cost=(far[:, None] - far).abs(), reject=False)
    assert left.left_out.tolist() == [4]
    assert left.confidence.min() > 0.9


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 4), (4, 4)])
@pytest.mark.parametrize("reject", [False, (0.7, 0.1)])
def test_partial_orders_have_alternatives(kind, m, n, reject):
    layout = LAYOUTS[kind](n)
    cost = torch.rand(m, m, dtype=torch.float64, generator=torch.Generator().manual_seed(m * n))
    cost = cost + cost.T
    item, position = (0.0, 0.0) if reject is False else reject
    found = us.solve(layout, cost=cost, reject=reject)
    others = found.alternatives(3)
    assert others, "there are always two that can be exchanged"
    assert [other.energy for other in others] == sorted(other.energy for other in others)
    orders = {tuple(other.order.tolist()) for other in others}
    assert len(orders) == len(others)
    assert not orders & {tuple(found.order.tolist()), *([tuple(found.order.flip(0).tolist())] * (kind == "path"))}
    for other in others:
        assert other.energy >= found.energy - 1e-9
        assert other.energy == pytest.approx(energy(layout, other.order.tolist(), cost, item, position), abs=1e-9)
