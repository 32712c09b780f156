"""Structural losses on reordered items: against double loops, and minimal at the true order."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_method as reference
from unshuffle.errors import BadInput
from unshuffle.operators.permutation import reorder
from unshuffle.structure.layouts import Grid
from unshuffle.structure.losses import (
    Smoothness,
    dyadic_lags,
    monotone,
    monotone_at_all_scales,
    smooth1,
    smooth2k,
    tour_length,
)


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 1000))
def test_monotone_is_the_double_loop(n, d, seed):
    items, lags = values(n, d, seed=seed), (1, 3)
    expected = sum(
        max(float(items[i, k] - items[i + lag, k]), 0.0) ** 2 for lag in lags for i in range(n - lag) for k in range(d)
    )
    assert monotone(items, lags).item() == pytest.approx(expected)


def test_monotone_with_lag_1_is_the_papers_sum_per_list():
    items = torch.tensor([[[3.0], [1.0], [2.0], [2.0]], [[1.0], [2.0], [3.0], [4.0]]])
    assert monotone(items).tolist() == [4.0, 0.0]


@pytest.mark.parametrize(("n", "lags"), [(1, ()), (2, (1,)), (5, (1, 2, 4)), (8, (1, 2, 4)), (9, (1, 2, 4, 8))])
def test_dyadic_lags_stay_below_n(n, lags):
    assert dyadic_lags(n) == lags


@pytest.mark.parametrize("loss", [monotone, monotone_at_all_scales])
def test_only_the_ascending_order_is_monotone(loss):
    items = values(5, 1)
    truth = tuple(items[:, 0].argsort().tolist())
    by_order = {order: loss(items[list(order)]).item() for order in itertools.permutations(range(5))}
    assert [order for order, value in by_order.items() if value == 0] == [truth]


def test_tour_length_is_closed_and_minimal_at_the_circle():
    angle = torch.arange(7, dtype=torch.float64) * 2 * torch.pi / 7
    points = torch.stack((angle.cos(), angle.sin()), -1)
    assert tour_length(points).item() == pytest.approx(7 * 2 * math.sin(math.pi / 7))
    best = tour_length(points).item()
    lengths = {order: tour_length(points[[0, *order]]).item() for order in itertools.permutations(range(1, 7))}
    shortest = sorted(order for order, length in lengths.items() if length < best + 1e-9)
    assert shortest == [(1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1)]


def test_tour_length_of_equal_points_has_a_finite_gradient():
    points = torch.zeros(4, 2, requires_grad=True)
    tour_length(points).backward()
    assert torch.isfinite(points.grad).all()


@pytest.mark.parametrize("band", [1, 2, 3])
@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize(("height", "width"), [(2, 3), (1, 4), (1, 1)])
def test_smoothness_is_the_double_loop(band, power, height, width):
    tiles = values(height * width, 3, 4, 3)
    ours = smooth2k(tiles, Grid(height, width), band, power).item()
    assert ours == pytest.approx(reference.smoothness(tiles, height, width, band, power))


def test_band_1_is_the_seam_alone_and_flattened_tiles_give_the_same():
    tiles, grid = values(2, 6, 3, 4, 5), Grid(2, 3)
    torch.testing.assert_close(smooth1(tiles, grid), smooth2k(tiles, grid, band=1))
    torch.testing.assert_close(Smoothness(grid, (3, 4, 5), band=2)(tiles.flatten(2)), smooth2k(tiles, grid, band=2))
    assert smooth1(tiles, grid).shape == (2,)


@pytest.mark.parametrize(("band", "power"), [(1, 2.0), (2, 1.0), (3, 2.0)])
def test_only_what_lies_beside_seams_need_be_blended(band, power):
    tiles, loss = values(2, 6, 3, 4, 5).flatten(2), Smoothness(Grid(2, 3), (3, 4, 5), band, power)
    P = torch.softmax(values(4, 2, 6, 6), -1).requires_grad_()
    whole = loss(reorder(P, tiles.expand(4, 2, 6, -1)))
    ours = loss.blended(P, tiles)
    torch.testing.assert_close(ours, whole)
    gradients = (torch.autograd.grad(value.square().sum(), P)[0] for value in (ours, whole))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("band", [1, 2])
def test_a_smooth_picture_is_smoothest_in_its_true_order(band):
    y, x = torch.meshgrid(torch.linspace(0, 1, 8), torch.linspace(0, 2, 12), indexing="ij")
    picture = (x * x + 3 * y + x * y).unsqueeze(0)
    tiles = picture.unflatten(1, (2, 4)).unflatten(3, (3, 4)).permute(1, 3, 0, 2, 4).reshape(6, 1, 4, 4)
    losses = {o: smooth2k(tiles[list(o)], Grid(2, 3), band).item() for o in itertools.permutations(range(6))}
    assert min(losses, key=losses.__getitem__) == tuple(range(6))


def test_wrong_tiles_are_refused_in_one_sentence():
    with pytest.raises(BadInput, match="positions"):
        smooth1(values(5, 1, 2, 2), Grid(2, 3))
    with pytest.raises(BadInput, match="band"):
        smooth2k(values(6, 1, 2, 2), Grid(2, 3), band=3)
