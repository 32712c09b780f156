"""The small operators, each against scipy or counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import unshuffle as us
from reference import tau_b


@given(st.permutations(range(7)))
def test_inverse_and_matrix(order):
    order = torch.tensor(order)
    assert us.inverse(us.inverse(order)).tolist() == order.tolist()
    assert order[us.inverse(order)].tolist() == list(range(7))
    P = us.to_matrix(order)
    assert torch.equal(P @ P.T, torch.eye(7))
    for position, item in enumerate(order.tolist()):
        assert P[item, position] == 1


def test_reorder_takes_lists_and_vectors():
    orders = torch.stack([torch.randperm(5) for _ in range(3)])
    P = us.to_matrix(orders)
    values, vectors = torch.randn(3, 5), torch.randn(3, 5, 2)
    assert torch.equal(us.reorder(P, values), values.gather(1, orders))
    assert torch.equal(us.reorder(P, vectors), vectors.gather(1, orders.unsqueeze(-1).expand(3, 5, 2)))
    assert us.reorder(P, torch.randn(5, 2)).shape == (3, 5, 2)
    assert us.reorder(torch.full((4, 5, 5), 0.2), torch.ones(5)).shape == (4, 5)


@pytest.mark.parametrize("features", [1, 3])
def test_reorder_of_large_permutations_has_the_gradient_of_the_product(features):
    """From 4 MB on its memory is taken elsewhere; items are shared by the samples."""
    soft = torch.rand(4, 64, 64, 64, requires_grad=True)
    items = torch.randn(64, 64, features, requires_grad=True)
    found, expected = us.reorder(soft, items), soft.mT @ items
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad(x, (soft, items), weights, create_graph=True) for x in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.autograd.grad(found, soft, weights)[0], gradients[1][0])
    again = [torch.autograd.grad(g[0].square().sum(), items)[0] for g in gradients]
    torch.testing.assert_close(*again, rtol=1e-4, atol=1e-3)


@given(
    st.integers(2, 40).flatmap(
        lambda n: st.tuples(*(st.lists(st.integers(0, 12), min_size=n, max_size=n) for _ in range(2)))
    )
)
def test_kendall_tau_is_tau_b(lists):
    a, b = lists
    got = float(us.kendall_tau(torch.tensor(a), torch.tensor(b)))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(got)
    else:
        assert got == pytest.approx(tau_b(a, b), abs=1e-12)
        assert got == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)


def test_kendall_tau_batched_and_large():
    a, b = torch.rand(4, 3, 300), torch.rand(3, 300)
    tau = us.kendall_tau(a, b)
    assert tau.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            assert float(tau[i, j]) == pytest.approx(stats.kendalltau(a[i, j], b[j]).statistic, abs=1e-12)
    n = 200_000
    assert float(us.kendall_tau(torch.arange(n), torch.arange(n).flip(0))) == -1
    with pytest.raises(us.BadInput, match="NaN"):
        us.kendall_tau(torch.tensor([0.0, float("nan")]), torch.tensor([0.0, 1.0]))


def test_entropy_limits_masks_and_reference():
    n = 6
    assert us.entropy(torch.full((n, n), 1 / n)).tolist() == pytest.approx([1] * n, abs=1e-6)
    assert us.entropy(us.to_matrix(torch.randperm(n))).tolist() == pytest.approx([0] * n, abs=1e-6)
    P = us.sinkhorn(torch.randn(3, n, n, dtype=torch.float64))
    for dim in (-1, -2):
        expected = stats.entropy(P.numpy(), axis=dim) * P.sum(dim).numpy()  # scipy normalises the rows first
        expected = expected - np.asarray(P.sum(dim)) * np.log(np.asarray(P.sum(dim)))
        np.testing.assert_allclose(us.entropy(P, dim), expected / math.log(n), atol=1e-6)
    allowed = torch.eye(n, dtype=torch.bool)
    allowed[0, 1] = allowed[1, 0] = True
    half = allowed.double() / allowed.sum(-1, keepdim=True)
    assert us.entropy(half, allowed=allowed).tolist() == pytest.approx([1, 1, 0, 0, 0, 0], abs=1e-6)
    assert us.entropy(torch.ones(1, 1)).tolist() == [0]


def test_marginal_error():
    assert us.marginal_error(torch.eye(3)) == 0
    off = torch.eye(3)
    off[0, 1] = 0.25
    assert us.marginal_error(off) == pytest.approx(0.25)
    assert us.marginal_error(torch.stack((off, torch.eye(3)))).tolist() == pytest.approx([0.25, 0])


def test_kendall_tau_of_no_lists_is_a_list_of_none():
    assert us.kendall_tau(torch.zeros(0, 5), torch.zeros(0, 5)).shape == (0,)
