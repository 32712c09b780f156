"""Paths over many lags: the energy is its definition, moves change it by what they say, folds come apart, pieces stay whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unshuffle as us
from unshuffle.errors import BadInput
from unshuffle.solve.path.chains import joint_costs
from unshuffle.solve.path.lags import improve_lags, lag_energy
from unshuffle.solve.path.pieces import arrange_pieces
from unshuffle.structure.energies import expected_energy
from unshuffle.watch import Watch


def symmetric(n: int, seed: int) -> np.ndarray:
    cost = np.random.default_rng(seed).random((n, n))
    return cost + cost.T


def weights(reach: int) -> np.ndarray:
    return np.array(us.Path(reach + 1, reach=reach).weights)


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 1000))
def test_a_path_with_reach_is_a_graph_of_banded_weights(n: int, reach: int, seed: int) -> None:
    cost = torch.from_numpy(symmetric(n, seed))
    lag = (torch.arange(n)[:, None] - torch.arange(n)).abs().double()
    graph = us.Graph(torch.where((lag > 0) & (lag <= reach), (reach + 1 - lag) / reach, 0.0) / 2)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    path = us.Path(n, reach=reach)
    energy = float(path.energy(order, cost))
    assert energy == pytest.approx(float(graph.energy(order, cost)))
    assert energy == pytest.approx(lag_energy(order.numpy(), cost.numpy(), np.array(path.weights)))
    assert energy == pytest.approx(float(expected_energy(path, us.to_matrix(order, torch.float64), cost)))


@settings(max_examples=15)
@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 1000))
def test_a_handful_with_reach_is_solved_exactly(n: int, reach: int, seed: int) -> None:
    cost = torch.from_numpy(symmetric(n, seed))
    orders = torch.tensor(list(itertools.permutations(range(n))))
    best = float(us.Path(n, reach=reach).energy(orders, cost).min())
    assert us.solve(us.Path(n, reach=reach), cost=cost).energy == pytest.approx(best)


@settings(max_examples=40)
@given(st.integers(3, 14), st.integers(1, 6), st.integers(0, 10_000), st.booleans())
def test_no_turn_and_no_short_move_is_left_and_pieces_stay_whole(n: int, reach: int, seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    cost, start = symmetric(n, seed), rng.permutation(n)
    cuts = np.r_[True, rng.random(n - 1) < 0.5, True] if whole else None
    found = improve_lags(start, cost, weights(reach), cuts=cuts)
    energy = lag_energy(found, cost, weights(reach))
    assert sorted(found.tolist()) == list(range(n))
    assert energy <= lag_energy(start, cost, weights(reach)) + 1e-9
    if cuts is not None:
        links = {frozenset(link) for link in itertools.pairwise(found.tolist())}
        inside = np.flatnonzero(~cuts[1:-1])
        assert all(frozenset((int(start[a]), int(start[a + 1]))) in links for a in inside)
        return
    for low, high in itertools.combinations(range(n + 1), 2):
        if low == 0 or high == n or high - low <= 3:
            turned = np.r_[found[:low], found[low:high][::-1], found[high:]]
            assert lag_energy(turned, cost, weights(reach)) >= energy - 1e-9
    if n <= 11:  # all others are near then
        for item, place in itertools.product(range(n), range(n)):
            rest = np.delete(found, item)
            moved = np.insert(rest, place, found[item])
            assert lag_energy(moved, cost, weights(reach)) >= energy - 1e-9


def test_lags_see_a_fold_that_neighbours_alone_prefer() -> None:
    n = 30
    x = torch.arange(n, dtype=torch.float64)
    D = (x[:, None] - x).abs().clamp(max=6) + 1
    D[0, n - 1] = D[n - 1, 0] = 0.1  # the ends have met once, by chance
    D[9, 10] = D[10, 9] = 4.0  # and one link was hardly seen
    mixed = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    D = D[mixed][:, mixed]
    near, far = us.solve(us.Path(n), cost=D), us.solve(us.Path(n, reach=5), cost=D)
    truth = torch.argsort(mixed)
    assert near.energy < float(
        us.Path(n).energy(truth, D)
    )  # by neighbours alone a wrong order is better than the truth
    assert abs(float(us.kendall_tau(mixed[far.order], torch.arange(n)))) == 1.0
    assert far.energy == pytest.approx(float(us.Path(n, reach=5).energy(far.order, D)))


def test_anchors_hold_and_polish_is_never_worse_with_reach() -> None:
    n = 14
    x = torch.rand(n, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    allowed = torch.ones(n, n, dtype=torch.bool)
    allowed[3], allowed[:, 6] = False, False
    allowed[3, 6] = True
    found = us.solve(us.Path(n, reach=3), cost=(x[:, None] - x).abs(), allowed=allowed, polish=True)
    assert found.order[6] == 3
    assert found.best_order[6] == 3
    assert found.best_energy <= found.energy + 1e-12


def test_what_reach_refuses() -> None:
    with pytest.raises(BadInput, match="reach"):
        us.Path(5, reach=0)
    with pytest.raises(BadInput, match="symmetric"):
        us.solve(us.Path(9, reach=2), cost=torch.rand(9, 9, generator=torch.Generator().manual_seed(0)))


def test_joint_costs_are_means_over_the_pairs_across_a_joint() -> None:
    cost = symmetric(6, 0)
    states = [np.array([0, 1, 2]), np.array([3]), np.array([5, 4])]
    assert np.array_equal(joint_costs(cost, states), cost[np.ix_([2, 3, 4], [0, 3, 5])])
    w = weights(2)  # 1, 1/2
    expected = (w[0] * cost[2, 5] + w[1] * (cost[1, 5] + cost[2, 4])) / (w[0] + 2 * w[1])
    assert joint_costs(cost, states, w)[0, 2] == pytest.approx(expected)


def test_pieces_find_their_order_and_direction() -> None:
    rng = np.random.default_rng(5)
    n = 90
    x = np.arange(n)
    D = np.abs(x[:, None] - x).clip(max=8) + rng.normal(0, 0.3, (n, n))
    D = (D + D.T) / 2
    pieces = np.split(x, np.sort(rng.choice(np.arange(2, n - 1), 9, replace=False)))
    given = [piece[::-1] if rng.random() < 0.5 else piece for piece in pieces]
    shuffle = rng.permutation(len(pieces))
    found = arrange_pieces(
        D, [given[k] for k in shuffle], weights(4), generator=torch.Generator().manual_seed(0), watch=Watch()
    )
    assert found.order.tolist() in (list(range(n)), list(range(n))[::-1])
    assert shuffle[found.pieces].tolist() in (list(range(len(pieces))), list(range(len(pieces)))[::-1])
    walked = [
        piece[::-1] if turn else piece for piece, turn in zip([given[k] for k in shuffle], found.turned, strict=True)
    ]
    assert np.concatenate([walked[k] for k in found.pieces]).tolist() == found.order.tolist()


def test_alternatives_of_tours_and_tables_differ_and_are_in_order(tmp_path) -> None:
    import json

    from typer.testing import CliRunner

    from unshuffle.cli.common import build
    from unshuffle.metrics import canonical_tour

    points = torch.rand(9, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (tmp_path / "p.csv").write_text("\n".join(f"{x},{y}" for x, y in points.tolist()))
    cost = torch.cdist(points, points)
    for command, key, layout in (("tour", "length", us.Cycle(9)), ("seriate", "value", us.Path(9))):
        call = [command, str(tmp_path / "p.csv"), "--alternatives", "3", "--json", "--out", str(tmp_path / "o")]
        told = json.loads(CliRunner().invoke(build(command), call).stdout)
        others = told["alternatives"]
        assert 1 <= len(others) <= 3
        values = [told[key], *(other[key] for other in others)]
        assert values == sorted(values)
        orders = torch.tensor([told["order"], *(other["order"] for other in others)])
        if command == "tour":
            assert layout.energy(orders, cost).tolist() == pytest.approx(values)
            orders = canonical_tour(orders)
        else:
            orders = torch.where((orders[:, :1] < orders[:, -1:]), orders, orders.flip(1))
        assert len({tuple(order.tolist()) for order in orders}) == len(orders)
