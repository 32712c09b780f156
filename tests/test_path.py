"""Paths: known orders come back, nothing folds, nothing is worse than its start, nothing is NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unshuffle as us
from unshuffle.solve.path.band import band_around, band_dense, band_entropy, band_places, band_step
from unshuffle.solve.path.chains import common_chains
from unshuffle.solve.path.starts import geodesic_orders, spanning_tree
from unshuffle.solve.units import in_units
from unshuffle.structure.energies import expected_energy


def curve(kind: str, n: int, noise: float, seed: int) -> torch.Tensor:
    """Distances between noisy points on a curve, in true order."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, n)
    angle = np.pi * (1 + 4 * t)
    points = {
        "spiral": np.stack([angle * np.cos(angle), angle * np.sin(angle)], 1) / angle.max(),
        "sine": np.stack([2 * t, np.sin(4 * np.pi * t) / 2], 1),
        "helix": np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t), 2 * t], 1),
    }[kind]
    X = torch.from_numpy(points + noise * rng.standard_normal(points.shape))
    return torch.cdist(X, X)


def shuffled(D: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    mixed = torch.randperm(len(D), generator=torch.Generator().manual_seed(seed))
    return D[mixed][:, mixed], mixed


def tau(order: torch.Tensor) -> float:
    return abs(float(us.kendall_tau(order, torch.arange(len(order)))))


@pytest.mark.parametrize("kind", ["spiral", "sine", "helix"])
def test_curves_do_not_fold(kind: str) -> None:
    D, mixed = shuffled(curve(kind, 70, 0.01, 1))
    found = us.solve(us.Path(70), cost=D)
    assert tau(mixed[found.order]) > 0.97
    assert found.energy <= float(us.Path(70).energy(torch.argsort(mixed), D)) + 1e-9


def test_asymmetric_chain_runs_the_right_way() -> None:
    rng = torch.Generator().manual_seed(3)
    cost = torch.rand(24, 24, generator=rng) * 2 + 1
    cost[torch.arange(23), torch.arange(1, 24)] = 0.5 * torch.rand(23, generator=rng)
    D, mixed = shuffled(cost)
    assert mixed[us.solve(us.Path(24), cost=D).order].tolist() == list(range(24))


@settings(max_examples=10)
@given(st.integers(2, 5), st.integers(0, 10_000), st.booleans())
def test_a_handful_of_items_is_solved_exactly(n: int, seed: int, symmetric: bool) -> None:
    cost = torch.rand(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5
    cost = cost + cost.T if symmetric else cost
    orders = torch.tensor(list(itertools.permutations(range(n))))
    assert us.solve(us.Path(n), cost=cost).energy == pytest.approx(float(us.Path(n).energy(orders, cost).min()))


@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_ties_give_some_order_and_finite_numbers(n: int, value: float) -> None:
    found = us.solve(us.Path(n), cost=torch.full((n, n), value))
    assert sorted(found.order.tolist()) == list(range(n))
    assert torch.isfinite(found.soft).all()
    assert torch.isfinite(found.confidence).all()
    assert found.energy == pytest.approx(value * (n - 1))


@pytest.mark.parametrize("change", [lambda D: D * 1e-6, lambda D: D * 1e6, lambda D: D + 50.0])
def test_scale_and_offset_do_not_matter(change) -> None:
    D, _ = shuffled(curve("sine", 24, 0.03, 2))
    assert us.solve(us.Path(24), cost=change(D)).order.tolist() == us.solve(us.Path(24), cost=D).order.tolist()


def test_same_seed_same_order_and_the_order_given_is_not_a_hint() -> None:
    D = curve("sine", 30, 0.05, 4)
    assert us.solve(us.Path(30), cost=D, seed=3).order.tolist() == us.solve(us.Path(30), cost=D, seed=3).order.tolist()
    noise = torch.rand(30, 30, generator=torch.Generator().manual_seed(0))  # asymmetric, no structure
    assert us.solve(us.Path(30), cost=noise, runs=1).order.tolist() != list(range(30))


def test_anchors_and_forbidden_pairs_hold() -> None:
    D, _ = shuffled(curve("sine", 30, 0.02, 5))
    allowed = torch.ones(30, 30, dtype=torch.bool)
    allowed[7], allowed[:, 0] = False, False
    allowed[7, 0] = True
    allowed[3, 10:20] = False
    order = us.solve(us.Path(30), cost=D, allowed=allowed).order
    assert allowed[order, torch.arange(30)].all()


def test_never_worse_than_init_nor_than_a_start() -> None:
    D, _ = shuffled(curve("spiral", 40, 0.05, 6))
    best = us.solve(us.Path(40), cost=D, polish=True)
    order = best.best_order
    assert order is not None
    assert best.best_energy <= best.energy + 1e-9
    init = torch.zeros(40, 40)
    init[order, torch.arange(40)] = 1.0
    assert us.solve(us.Path(40), cost=D, init=init, runs=1).energy <= best.best_energy + 1e-9
    for neighbours in (0, 3):
        start = torch.from_numpy(geodesic_orders(D.numpy(), [neighbours])[0])
        assert best.energy <= float(us.Path(40).energy(start, D)) + 1e-9


def test_time_limit_and_callback_stop_with_an_order() -> None:
    D, _ = shuffled(curve("sine", 200, 0.05, 7))
    found = us.solve(us.Path(200), cost=D, time_limit=0.05)
    assert found.status == "time limit"
    assert sorted(found.order.tolist()) == list(range(200))
    asymmetric = torch.rand(50, 50, generator=torch.Generator().manual_seed(0))
    found = us.solve(us.Path(50), cost=asymmetric, callback=lambda step: False)
    assert found.status == "interrupted"
    assert sorted(found.order.tolist()) == list(range(50))


def test_confidence_is_low_where_items_are_interchangeable() -> None:
    x = torch.arange(20, dtype=torch.float64)
    x[11] = x[10] + 1e-6  # twins
    D, mixed = shuffled((x[:, None] - x).abs())
    confidence = us.solve(us.Path(20), cost=D).confidence[torch.argsort(mixed)]
    assert confidence[[10, 11]].max() < confidence[[3, 4, 5, 15, 16]].min()
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_band_step_descends_the_expected_energy_and_keeps_the_marginals() -> None:
    D, _ = shuffled(curve("sine", 25, 0.05, 8))
    band = band_around(in_units(D.numpy()), 24, 10.0)
    path, cost = us.Path(25), torch.from_numpy(in_units(D.numpy())).double()
    before = float(expected_energy(path, torch.from_numpy(band_dense(band)).double(), cost))
    for _ in range(60):
        band_step(band, 1.0, 0.0, self_weight=0.0, sweeps=30)
    dense = band_dense(band)
    assert np.abs(dense.sum(0) - 1).max() < 1e-2
    assert np.abs(dense.sum(1) - 1).max() < 1e-4
    assert float(expected_energy(path, torch.from_numpy(dense).double(), cost)) < before


def test_the_entropy_of_the_history_is_one() -> None:
    D = curve("sine", 20, 0.0, 0)
    unit = in_units(D.numpy())
    assert band_entropy(band_around(unit, 19, 1e6)) == pytest.approx(1.0, abs=1e-5)
    assert band_entropy(band_around(unit, 5, 1e-3)) == pytest.approx(0.0, abs=1e-6)
    band = band_around(unit, 6, 2.0)
    P = torch.from_numpy(band_dense(band))
    assert band_entropy(band) == pytest.approx(float(us.entropy(P).mean()), rel=1e-4)


def test_a_narrow_band_agrees_with_a_wide_one_where_nothing_moves_far() -> None:
    D = curve("sine", 40, 0.0, 0).numpy()
    unit = in_units(D)
    places = []
    for reach in (8, 39):
        band = band_around(unit, reach, 1.0)
        for _ in range(20):
            band_step(band, 3.0, 0.75)
        places.append(band_places(band))
    assert np.abs(places[0] - places[1]).max() < 0.05


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 1000), st.booleans())
def test_common_chains_are_what_all_orders_share(n: int, count: int, seed: int, symmetric: bool) -> None:
    rng = np.random.default_rng(seed)
    orders = [np.arange(n)] + [
        np.roll(np.arange(n), int(rng.integers(n)))[:: int(rng.choice([1, -1]))] for _ in range(count)
    ]
    chains = common_chains(orders, symmetric)
    assert np.concatenate(chains).tolist() == orders[0].tolist()
    inside = {(a, b) for chain in chains for a, b in itertools.pairwise(chain.tolist())}
    for order in orders:
        links = set(itertools.pairwise(order.tolist()))
        assert all((a, b) in links or (symmetric and (b, a) in links) for a, b in inside)


def test_the_spanning_tree_is_the_one_scipy_finds() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    D, _ = shuffled(curve("spiral", 60, 0.2, 8))
    distance = D.numpy().copy()
    expected = minimum_spanning_tree(distance).sum()
    np.fill_diagonal(distance, np.inf)
    edges = spanning_tree(distance)
    assert distance[edges[0], edges[1]].sum() == pytest.approx(expected)
    assert len(np.unique(edges)) == 60
