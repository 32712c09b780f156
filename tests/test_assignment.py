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


@pytest.mark.parametrize("more", [{}, {"reject": 0.5}, {"keep": 2}])
def test_infinite_scores_are_named(more):
    scores = torch.randn(2, 3, 3)
    scores[1, 2, 0] = float("inf")
    with pytest.raises(us.BadInput, match=r"must not be \+inf, but row 2, column 0 of matrix 1 is"):
        us.assign(scores, **more)


def test_nan_is_named():
    scores = torch.zeros(2, 3, 3)
    scores[1, 2, 0] = float("nan")
    with pytest.raises(us.BadInput, match="row 2, column 0 of matrix 1"):
        us.assign(scores)


# --- not every item has a place ----------------------------------------------------------------------------------------


def every_partial_order(m, n):
    """All ways to put some of m items on some of n positions: the item at each position, -1 for none."""
    ways = []
    for count in range(min(m, n) + 1):
        where = np.array(list(itertools.combinations(range(n), count)), int)
        who = np.array(list(itertools.permutations(range(m), count)), int)
        orders = np.full((len(where), len(who), n), -1)
        orders[np.arange(len(where))[:, None, None], np.arange(len(who))[None, :, None], where[:, None]] = who[None]
        ways.append(orders.reshape(-1, n))
    return np.concatenate(ways)


def values(orders, scores, items, positions):
    """Scores of what is placed, plus the prices of what is not, for each of the orders."""
    gain = np.vstack([scores - items[:, None], positions])  # of the item at a position; the last row is nobody
    return gain[orders, np.arange(scores.shape[1])].sum(-1) + items.sum()


SIZES = list(itertools.product(range(1, 7), repeat=2))


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_partial_orders_are_the_best_of_all(m, n):
    """Every size up to 6 x 6, against all partial orders: with masks, prices of all kinds, and every number of placements."""
    g = np.random.default_rng(10 * m + n)
    everything, nothing = every_partial_order(m, n), np.zeros
    for open_share in (1.0, 0.8, 0.4):
        scores, allowed = g.normal(size=(m, n)), g.random((m, n)) < open_share
        items, positions = g.normal(size=m) - 0.3, g.normal(size=n) - 0.3
        closed = np.where(allowed, scores, -np.inf)
        given = torch.tensor(scores), torch.tensor(allowed)

        def agrees(found, among, left_out, empty, closed=closed):
            best = values(among, closed, left_out, empty).max()
            assert values(found.numpy()[None], closed, left_out, empty)[0] == pytest.approx(best)

        pair = (torch.tensor(items), torch.tensor(positions))
        agrees(us.assign(*given, reject=pair), everything, items, positions)
        agrees(us.assign(*given, reject=0.2), everything, nothing(m) + 0.2, nothing(n) + 0.2)
        agrees(
            us.assign(*given, reject=pair[0]), everything, items, nothing(n)
        )  # one per item: positions score nothing
        for keep in range(min(m, n) + 1):
            exactly = everything[(everything >= 0).sum(-1) == keep]
            if values(exactly, closed, nothing(m), nothing(n)).max() > -np.inf:
                agrees(us.assign(*given, keep=keep), exactly, nothing(m), nothing(n))
                agrees(us.assign(*given, keep=keep, reject=pair), exactly, items, positions)
                if keep == min(m, n):
                    agrees(us.assign(*given), exactly, nothing(m), nothing(n))
                continue
            with pytest.raises(us.BadInput, match="impossible"):
                us.assign(*given, keep=keep)
            if keep == min(m, n):
                with pytest.raises(us.BadInput, match="No order is possible"):
                    us.assign(*given)


@pytest.mark.parametrize("seed", range(20))
def test_large_partial_orders_equal_the_padded_problem(seed):
    """Two hundred of them, up to 300 x 200, with many ties or none, and masks in every third."""
    for case in range(10):
        g = np.random.default_rng(10 * seed + case)
        m, n = g.integers(1, 301), g.integers(1, 201)
        scores = g.normal(size=(m, n)).round(2 if case % 2 else 9)
        if case % 3 == 0:
            scores[g.random((m, n)) < 0.5] = -np.inf
        items, positions = g.normal(size=m) * 2, g.normal(size=n) * 2
        padded = np.zeros((m + n, m + n))
        padded[:m, :n] = scores
        padded[:m, n:] = items[:, None]
        padded[m:, :n] = positions
        best = padded[linear_sum_assignment(padded, maximize=True)].sum()
        order = us.assign(torch.tensor(scores), reject=(torch.tensor(items), torch.tensor(positions))).numpy()
        assert values(order[None], scores, items, positions)[0] == pytest.approx(best)


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
