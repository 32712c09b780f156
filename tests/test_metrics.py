"""Metrics: against listing everything."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_method as reference
from unshuffle.errors import BadInput
from unshuffle.metrics import (
    canonical_tour,
    conformal_threshold,
    direct_accuracy,
    expected_calibration_error,
    mask_only_tau,
    mask_only_tau_sampled,
    neighbour_accuracy,
    optimality_gap,
    order_tau,
    perfect_accuracy,
    place_sets,
    placements,
    reliability,
    risk_coverage,
    tour_kendall_tau,
)
from unshuffle.operators.permutation import inverse, kendall_tau
from unshuffle.structure.layouts import Grid


def permutation(n: int, seed: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 1000), st.integers(0, 1000))
def test_order_tau_compares_places(n, a, b):
    order, truth, names = permutation(n, a), permutation(n, b), permutation(n, a + b)
    expected = reference.kendall_tau(inverse(order).tolist(), inverse(truth).tolist())
    assert order_tau(order, truth).item() == pytest.approx(expected)
    assert order_tau(names[order], names[truth]).item() == pytest.approx(expected)  # items renamed: the same


def test_order_tau_where_tau_of_labels_would_be_wrong():
    # two neighbours swapped: one of three pairs is wrong, though the lists of labels disagree in all three
    assert order_tau(torch.tensor([0, 2, 1]), torch.tensor([2, 0, 1])).item() == pytest.approx(1 / 3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(0, 1000), st.integers(0, 20), st.booleans())
def test_a_tour_is_the_same_rotated_and_reversed(n, seed, shift, reverse):
    tour = permutation(n, seed)
    other = tour.roll(shift).flip(-1) if reverse else tour.roll(shift)
    assert torch.equal(canonical_tour(tour), canonical_tour(other))
    if n > 1:
        assert tour_kendall_tau(other, tour).item() == pytest.approx(1.0)


def test_canonical_tours_are_as_many_as_there_are():
    tours = torch.tensor(list(itertools.permutations(range(6))))
    assert len(canonical_tour(tours).unique(dim=0)) == 60  # 5! / 2


def test_tour_tau_takes_the_better_direction():
    truth, order = torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([0, 2, 5, 4, 3, 1])
    both = [order_tau(o, truth).item() for o in (order, order[[0, 5, 4, 3, 2, 1]])]
    assert tour_kendall_tau(order, truth).item() == pytest.approx(max(both))
    assert min(both) < max(both)


def test_accuracies_of_a_grid_shifted_by_one_column():
    truth = torch.arange(6)  # 0 1 2 / 3 4 5
    shifted = torch.tensor([2, 0, 1, 5, 3, 4])
    assert direct_accuracy(shifted, truth).item() == 0
    assert perfect_accuracy(torch.stack((shifted, truth)), truth.expand(2, 6)).tolist() == [0, 1]
    # kept: 0-1, 3-4 of the four right seams, and all three lower ones
    assert neighbour_accuracy(shifted, truth, Grid(2, 3)).item() == pytest.approx(5 / 7)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 500), st.integers(0, 500))
def test_neighbour_accuracy_by_listing_the_seams(height, width, a, b):
    n = height * width
    order, truth = permutation(n, a), permutation(n, b)
    right, below = reference.grid_neighbours(height, width)
    seams = [
        {(int(o[p]), int(o[q]), way) for way, s in (("r", right), ("b", below)) for p, q in s} for o in (order, truth)
    ]
    expected = len(seams[0] & seams[1]) / len(seams[1]) if seams[1] else 1.0
    assert neighbour_accuracy(order, truth, Grid(height, width)).item() == pytest.approx(expected)


def test_neighbour_accuracy_with_empty_positions():
    truth = torch.tensor([0, 1, 2, 3, -1, 5])  # 0 1 2 / 3 . 5: seams 0-1, 1-2, 0/3, 2/5
    found = torch.tensor([[0, 1, -1, 3, 7, 5], [-1, -1, -1, -1, -1, -1], [0, 1, 2, 3, 4, 5]])
    assert neighbour_accuracy(found, truth.expand(3, 6), Grid(2, 3)).tolist() == [0.5, 0.0, 1.0]
    assert neighbour_accuracy(truth, truth, Grid(2, 3)) == 1
    nobody = torch.full((6,), -1)
    assert neighbour_accuracy(truth, nobody, Grid(2, 3)) == 1  # there is nothing to find


def test_neighbour_accuracy_refuses_another_grid():
    with pytest.raises(BadInput):
        neighbour_accuracy(torch.arange(5), torch.arange(5), Grid(2, 3))


def test_gap():
    assert optimality_gap(torch.tensor([5.0]), torch.tensor([4.0])).item() == pytest.approx(0.25)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_mask_only_closed_form_is_exact(n):
    for anchors in range(n + 1):
        assert mask_only_tau(n, anchors) == pytest.approx(reference.mask_only_tau(n, anchors))


@pytest.mark.parametrize(("side", "anchors", "paper"), [(5, 1, 0.029), (6, 6, 0.126), (7, 12, 0.189)])
def test_mask_only_as_in_the_paper(side, anchors, paper):
    closed = mask_only_tau(side * side, anchors)
    assert closed == pytest.approx(paper, abs=0.001)
    draws = mask_only_tau_sampled(side * side, anchors, 20_000, torch.Generator().manual_seed(0))
    error = draws.std().item() / len(draws) ** 0.5
    assert draws.mean().item() == pytest.approx(closed, abs=4 * error)


def test_mask_only_refuses_more_anchors_than_items():
    with pytest.raises(BadInput):
        mask_only_tau(4, 5)


def test_placements_count_items_at_positions():
    truth = torch.tensor([0, 1, -1, 3])
    found = placements(torch.tensor([[0, 1, -1, 3], [0, -1, 2, -1], [-1, -1, -1, -1]]), truth.expand(3, 4))
    assert found.precision.tolist() == [1.0, 0.5, 0.0]
    assert found.recall.tolist() == pytest.approx([1.0, 1 / 3, 0.0])
    assert found.f1.tolist() == pytest.approx([1.0, 0.4, 0.0])
    nobody = torch.tensor([-1, -1])
    assert placements(nobody, nobody).f1 == 1


def test_tau_of_orders_with_gaps_is_that_of_the_items_in_both():
    truth, found = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([4, 1, -1, 3, 0])
    kept = torch.tensor([0, 1, 3, 4])
    there = torch.tensor([4, 1, 3, 0])  # where 0, 1, 3, 4 stand
    assert order_tau(found, truth) == pytest.approx(float(kendall_tau(kept, there)))
    assert float(kendall_tau(torch.tensor([0, -1, 2, 1]), torch.tensor([0, 5, 1, 2]))) == pytest.approx(1 / 3)


def test_reliability_is_counted_in_bins() -> None:
    sure = torch.tensor([0.05, 0.15, 0.12, 0.95, 1.0])
    right = torch.tensor([False, True, False, True, True])
    table = reliability(sure, right)
    assert table.cases.tolist() == [1, 2, 2]
    assert table.right.tolist() == [0.0, 0.5, 1.0]
    assert table.confidence.tolist() == pytest.approx([0.05, 0.135, 0.975])
    expected = (0.05 + 2 * (0.5 - 0.135) + 2 * 0.025) / 5
    assert expected_calibration_error(sure, right) == pytest.approx(expected)


def test_a_confidence_that_is_drawn_from_itself_is_calibrated() -> None:
    rng = torch.Generator().manual_seed(0)
    sure = torch.rand(40_000, generator=rng)
    right = torch.rand(40_000, generator=rng) < sure
    assert expected_calibration_error(sure, right) < 0.02
    assert expected_calibration_error(sure.sqrt(), right) > 0.1  # too sure
    curve = risk_coverage(sure, right)
    assert curve.risk[-1] == pytest.approx(0.5, abs=0.01)
    assert curve.area < risk_coverage(torch.full_like(sure, 0.5), right).area - 0.2
    assert risk_coverage(sure, torch.ones_like(right)).area == 0.0


def test_equally_sure_cases_are_answered_together() -> None:
    curve = risk_coverage(torch.tensor([0.5, 0.9, 0.5]), torch.tensor([True, True, False]))
    assert curve.risk.tolist() == pytest.approx([0.0, 1 / 3, 1 / 3])


def test_sets_hold_the_truth_as_often_as_they_say_whatever_the_soft_permutation() -> None:
    rng = torch.Generator().manual_seed(1)

    def cases(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        truth = torch.rand(count, 6, generator=rng).argsort(-1)
        scores = torch.randn(count, 6, 6, generator=rng)
        scores.scatter_add_(-1, inverse(truth).unsqueeze(-1), torch.full((count, 6, 1), 2.0))
        return scores.softmax(-1) ** 2, truth  # not even normalised

    soft, truth = cases(2000)
    threshold = conformal_threshold(soft, truth, 0.9)
    fresh, known = cases(2000)
    sets = place_sets(fresh, threshold)
    held = sets.gather(-1, inverse(known).unsqueeze(-1)).float().mean()
    assert 0.88 < held < 0.92
    assert sets.float().mean() < 0.7
    assert conformal_threshold(soft[:1], truth[:1], 0.9) == 1.0  # six examples are too few for 90 %
    assert place_sets(soft, 1.0).all()


def test_what_the_judges_refuse() -> None:
    with pytest.raises(BadInput, match="shape"):
        reliability(torch.rand(3), torch.ones(4, dtype=torch.bool))
    with pytest.raises(BadInput, match="between 0 and 1"):
        reliability(torch.tensor([1.5]), torch.tensor([True]))
    with pytest.raises(BadInput, match="level"):
        conformal_threshold(torch.eye(3), torch.arange(3), 1.0)
