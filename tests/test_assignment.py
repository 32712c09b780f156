"""assign against trying all permutations, and what it says when there is none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

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


# --- not every item has a place ----------------------------------------------------------------------------------------


def every_partial_order(m, n):
    """All ways to put some of m items on some of n positions: lists of the item at each position, -1 for none."""
    for count in range(min(m, n) + 1):
        for positions in itertools.combinations(range(n), count):
            for items in itertools.permutations(range(m), count):
                order = [-1] * n
                for item, position in zip(items, positions, strict=True):
                    order[position] = item
                yield order


def value(order, scores, items=None, positions=None):
    """Scores of what is placed, plus the prices of what is not."""
    total = sum(float(scores[i, j]) for j, i in enumerate(order) if i >= 0)
    if items is not None:
        total += sum(float(items[i]) for i in range(len(scores)) if i not in order)
        total += sum(float(positions[j]) for j, i in enumerate(order) if i < 0)
    return total


def problem(m, n, seed):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(m, n, generator=g, dtype=torch.float64)
    allowed = torch.rand(m, n, generator=g) < 0.8
    return scores, allowed, torch.randn(m, generator=g).double() - 0.3, torch.randn(n, generator=g).double() - 0.3


@given(m=st.integers(1, 4), n=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_partial_orders_are_the_best_of_all(m, n, seed):
    scores, allowed, items, positions = problem(m, n, seed)
    legal = [o for o in every_partial_order(m, n) if all(i < 0 or bool(allowed[i, j]) for j, i in enumerate(o))]
    found = us.assign(scores, allowed, reject=(items, positions)).tolist()
    assert found in legal
    best = max(value(o, scores, items, positions) for o in legal)
    assert value(found, scores, items, positions) == pytest.approx(best)
    same = us.assign(scores, allowed, reject=0.2).tolist()
    price = [0.2] * 4
    assert value(same, scores, price, price) == pytest.approx(max(value(o, scores, price, price) for o in legal))
    own = us.assign(scores, allowed, reject=items).tolist()  # one per item: positions score nothing
    assert value(own, scores, items, [0.0] * n) == pytest.approx(max(value(o, scores, items, [0.0] * n) for o in legal))
    for keep in range(min(m, n) + 1):
        exactly = [o for o in legal if sum(i >= 0 for i in o) == keep]
        if not exactly:
            with pytest.raises(us.BadInput, match="impossible"):
                us.assign(scores, allowed, keep=keep)
            continue
        chosen = us.assign(scores, allowed, keep=keep).tolist()
        assert chosen in exactly
        assert value(chosen, scores) == pytest.approx(max(value(o, scores) for o in exactly))


@given(m=st.integers(1, 5), n=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_a_rectangle_fills_its_shorter_side(m, n, seed):
    scores = problem(m, n, seed)[0]
    order = us.assign(scores).tolist()
    full = [o for o in every_partial_order(m, n) if sum(i >= 0 for i in o) == min(m, n)]
    assert order in full
    assert value(order, scores) == pytest.approx(max(value(o, scores) for o in full))


@pytest.mark.parametrize("seed", range(40))
def test_large_partial_orders_equal_the_padded_problem(seed):
    g = np.random.default_rng(seed)
    m, n = g.integers(1, 300), g.integers(1, 200)
    scores = g.normal(size=(m, n)).round(2 if seed % 2 else 9)  # many ties, or none
    items, positions = g.normal(size=m) * 2, g.normal(size=n) * 2
    padded = np.zeros((m + n, m + n))
    padded[:m, :n] = scores
    padded[:m, n:] = items[:, None]
    padded[m:, :n] = positions
    best = padded[linear_sum_assignment(padded, maximize=True)].sum()
    order = us.assign(torch.tensor(scores), reject=(torch.tensor(items), torch.tensor(positions))).tolist()
    assert value(order, scores, items, positions) == pytest.approx(best)


def test_partial_orders_in_batches_and_in_words():
    scores = torch.randn(2, 3, 4, 6)
    assert us.assign(scores).shape == (2, 3, 6)
    assert (us.assign(scores) >= 0).sum(-1).eq(4).all()
    assert torch.equal(us.assign(scores, reject=0.1)[1, 2], us.assign(scores[1, 2], reject=0.1))
    assert us.assign(scores, reject=1e9).eq(-1).all()  # all left out is a valid answer
    for words, options in {
        "price of item 1": {"reject": torch.tensor([0.0, float("nan"), 0.0, 0.0])},
        "4 items": {"reject": torch.zeros(5)},
        "keep=5": {"keep": 5},
    }.items():
        with pytest.raises(us.BadInput, match=words):
            us.assign(scores, **options)
    allowed = torch.ones(4, 6, dtype=torch.bool)
    allowed[2] = False
    with pytest.raises(us.BadInput, match="row 2"):
        us.assign(scores, allowed)
    assert 2 not in us.assign(scores[0, 0], allowed, reject=0.0).tolist()
    with pytest.raises(us.BadInput, match="at most 3"):
        us.assign(scores[0, 0], allowed, keep=4)
    with pytest.raises(us.BadInput, match=r"column 2 \(a position\)"):
        us.assign(scores[0, 0].T, allowed.T)


def test_orders_with_gaps_and_back():
    order = torch.tensor([[2, -1, 0], [-1, -1, 3]])
    place = us.inverse(order, items=4)
    assert place.tolist() == [[2, -1, 0, -1], [-1, -1, -1, 2]]
    assert us.inverse(place, items=3).tolist() == order.tolist()
    matrix = us.to_matrix(order, items=4)
    assert matrix.shape == (2, 4, 3)
    assert torch.equal(us.reorder(matrix, torch.eye(4).expand(2, 4, 4)), matrix.mT)
    assert us.inverse(torch.tensor([1, -1, 0])).tolist() == [2, 0, -1]
    with pytest.raises(us.BadInput, match="twice"):
        us.inverse(torch.tensor([1, 1, -1]))
    with pytest.raises(us.BadInput, match="0 to 2"):
        us.to_matrix(torch.tensor([0, 3]), items=3)
