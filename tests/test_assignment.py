"""assign against trying all permutations, and what it says when there is none."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import unshuffle as us
from reference import best_order


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_finds_the_best_of_all_permutations(n, seed):
    scores = torch.randn(3, n, n, generator=torch.Generator().manual_seed(seed))
    for order, matrix in zip(us.assign(scores), scores, strict=True):
        value, best = best_order(matrix)
        assert order.tolist() == best
        assert float(matrix[order, torch.arange(n)].sum()) == pytest.approx(value, abs=1e-5)


def test_orientation_rows_are_items_columns_are_positions():
    order = torch.tensor([2, 0, 3, 1])
    assert us.assign(us.to_matrix(order)).tolist() == order.tolist()
    items = torch.tensor([10.0, 11.0, 12.0, 13.0])
    assert us.reorder(us.to_matrix(order), items).tolist() == items[order].tolist()


def test_many_at_once_and_any_batch():
    scores = torch.randn(3, 50, 20, 20)
    orders = us.assign(scores)
    assert orders.shape == (3, 50, 20)
    assert (orders.sort(-1).values == torch.arange(20)).all()
    assert torch.equal(orders[1, 7], us.assign(scores[1, 7]))


def test_allowed_is_respected():
    scores = torch.randn(5, 5)
    allowed = us.to_matrix(torch.tensor([4, 3, 2, 1, 0])).bool()
    assert us.assign(scores, allowed).tolist() == [4, 3, 2, 1, 0]
    allowed[0] = True
    order = us.assign(scores, allowed)
    assert allowed[order, torch.arange(5)].all()


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        ([[0, 0, 0], [1, 1, 1], [1, 1, 1]], "row 0"),
        ([[1, 1, 0], [1, 1, 0], [1, 0, 0]], "column 2"),
        ([[1, 0, 0], [1, 0, 0], [1, 1, 1]], "2 items"),
    ],
)
def test_says_why_nothing_fits(allowed, words):
    with pytest.raises(us.BadInput, match=words):
        us.assign(torch.zeros(3, 3), torch.tensor(allowed, dtype=torch.bool))
    both = torch.stack((torch.ones(3, 3), torch.tensor(allowed))).bool()
    with pytest.raises(us.BadInput, match="matrix 1"):
        us.assign(torch.zeros(2, 3, 3), both)


def test_nan_is_named():
    scores = torch.zeros(2, 3, 3)
    scores[1, 2, 0] = float("nan")
    with pytest.raises(us.BadInput, match="row 2, column 0 of matrix 1"):
        us.assign(scores)
