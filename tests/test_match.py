"""Two sets matched by their inner structure: points that were moved, branches seen twice, what is known, what is left out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.cli.match import read_prior, square
from unshuffle.readers.tables import Table, read_table
from unshuffle.solve.match.checks import twins
from unshuffle.solve.match.exact import Distances
from unshuffle.solve.match.heat import heat
from unshuffle.solve.match.local import Neighbourhoods, laid_out, shared_neighbours
from unshuffle.solve.match.overlay import coordinates, overlaid
from unshuffle.solve.match.slack import Slack
from unshuffle.solve.match.starts import groups


def points(seed: int, n: int = 40, foreign: int = 8) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """A set, the same set turned, mirrored, jittered and shuffled with strangers in both; and the true pairs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    apart = np.linalg.norm(X[:, None] - X, axis=-1) + 9 * np.eye(n)
    moved = X + 0.1 * apart.min(1).mean() * rng.normal(size=X.shape)
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), np.sin(angle)], [np.sin(angle), -np.cos(angle)]])
    A = np.concatenate([X, rng.uniform(size=(foreign, 2))])
    B = np.concatenate([moved, rng.uniform(size=(foreign, 2))])
    order = rng.permutation(len(B))
    place = np.argsort(order)
    return A, B[order] @ turn + 5, [[k, int(place[k])] for k in range(n)]


def branches(seed: int, n: int = 150) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three branches of different sizes, seen through two nonlinear views of 8 and 13 columns."""
    rng = np.random.default_rng(seed)
    branch = np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3])
    along = rng.uniform(0, 1, n) * np.array([2.0, 1.3, 0.8])[branch]
    Z = 1.5 * np.eye(3)[branch] * along[:, None] + 0.8 * np.eye(3)[branch]
    views = []
    for columns in (8, 13):
        W, V = rng.normal(size=(3, 60)), rng.normal(size=(60, columns))
        X = np.cos(0.6 * Z @ W + rng.uniform(0, 6, 60)) @ V
        views.append(X / X.std() + 0.05 * rng.normal(size=X.shape))
    return views[0], views[1], branch


def f1(found: us.Match, true: list[list[int]]) -> float:
    right = len({tuple(p) for p in found.pairs.tolist()} & {tuple(p) for p in true})
    return 2 * right / (len(found.pairs) + len(true))


def test_moved_points_are_found_and_strangers_left_out():
    scores = []
    for seed in range(3):
        A, B, true = points(seed)
        found = us.match(A, B)
        assert found.structure == "distances"
        scores.append(f1(found, true))
        out = [set(items.tolist()) for items in found.left_out]
        assert out[0] == set(range(len(A))) - set(found.pairs[:, 0].tolist())
        assert out[1] == set(range(len(B))) - set(found.pairs[:, 1].tolist())
        assert found.confidence.shape == (len(found.pairs),)
        assert float(found.soft.sum(1).max()) < 1.01
    assert np.mean(scores) > 0.93, scores


@pytest.mark.parametrize("seed", [204, 216])
def test_points_of_space_are_found_from_more_rotations(seed):
    """Two sets for which those of a plane are too few: 42 of 60 points and 18 strangers, on either side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(60, 3))
    nearest = (np.linalg.norm(X[:, None] - X, axis=-1) + 9 * np.eye(60)).min(1).mean()
    turn, sets, names = np.linalg.qr(rng.normal(size=(3, 3)))[0], [], []
    for noise in (0.0, 0.1 * nearest):
        kept = rng.permutation(60)[18:]
        jitter = noise * rng.normal(size=(42, 3)) if noise else 0.0
        Y, who = np.concatenate([X[kept] + jitter, rng.uniform(size=(18, 3))]), np.concatenate([kept, np.full(18, -1)])
        order = rng.permutation(60)
        sets.append(Y[order])
        names.append(who[order].tolist())
    true = [[i, names[1].index(name)] for i, name in enumerate(names[0]) if name >= 0 and name in names[1]]
    assert f1(us.match(sets[0], sets[1] @ turn.T + 3), true) > 0.9


def test_the_same_points_are_matched_exactly_and_by_their_distances_too():
    A, _, _ = points(5, n=30, foreign=0)
    order = np.random.default_rng(0).permutation(30)
    for found in (
        us.match(A, A[order]),
        us.match(np.linalg.norm(A[:, None] - A, axis=-1), torch.cdist(*2 * (torch.tensor(A[order]),)), distances=True),
    ):
        assert (order[found.pairs[:, 1]] == found.pairs[:, 0].numpy()).all()
        assert len(found.pairs) == 30
        assert found.energy < 1e-6
        assert "30 pairs of 30 and 30 items by distances" in repr(found)


def test_branches_seen_twice_are_aligned_and_the_seed_repeats():
    A, B, branch = branches(0)
    order = np.random.default_rng(1).permutation(len(B))
    found = us.match(A, B[order], seed=3)
    assert found.structure == "neighbourhoods"
    assert (branch[found.pairs[:, 0]] == branch[order][found.pairs[:, 1]]).mean() > 0.9
    # the barycentre of an item's row is nearer to its own other view than most others are
    onto = (found.soft / found.soft.sum(1, keepdim=True)).double() @ torch.tensor(B[order])
    apart = torch.cdist(onto, torch.tensor(B))
    assert float((apart < apart.diag()[:, None]).double().mean()) < 0.15
    again = us.match(A, B[order], seed=3)
    assert torch.equal(found.soft, again.soft)
    assert torch.equal(found.pairs, again.pairs)


def test_clusters_that_are_swapped_by_shared_neighbours_alone_are_voted_back():
    """By shared neighbours alone a fifth of the items is in its own cluster."""
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(4), [12, 24, 36, 48])
    Z, views = 1.6 * rng.normal(size=(4, 6))[cluster] + 0.5 * rng.normal(size=(120, 6)), []
    for columns in (10, 20):
        X = np.tanh(0.4 * Z @ rng.normal(size=(6, 60)) + rng.normal(size=60)) @ rng.normal(size=(60, columns))
        views.append(X / X.std() + 0.2 * rng.normal(size=X.shape))
    found = us.match(*views)
    assert (cluster[found.pairs[:, 0]] == cluster[found.pairs[:, 1]]).mean() > 0.9


def test_heat_is_a_walk_among_near_items():
    X = torch.rand(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    D = torch.cdist(X, X)
    near = D.sort(1).values[:, 4]
    rates = [[math.exp(-float(D[i, j] ** 2 / near[i] / near[j])) for j in range(30)] for i in range(30)]
    walk = torch.tensor(rates, dtype=torch.float64)
    degree = walk.sum(1)
    # degrees in the middle: a walk from i to j and back is as likely from either end
    step = torch.diag(degree**-0.5) @ walk @ torch.diag(degree**-0.5)
    few, many = heat(D, 30)
    assert torch.allclose(few, 30 * step @ step @ step @ step, atol=1e-4)
    assert torch.allclose(many, few @ few @ few @ few / 30**3, atol=1e-4)
    assert torch.allclose(heat(7 * D, 30)[1], many)
    assert torch.allclose(heat(0 * D, 30)[0], torch.ones(30, 30, dtype=torch.float64))  # all in one place


def test_more_items_than_places_leave_the_surplus_out():
    A, B, _ = branches(2, n=90)
    for found in (us.match(A, B[:70]), us.match(B[:70], A)):
        assert len(found.pairs) == 70
        assert sorted(len(items) for items in found.left_out) == [0, 20]


def test_anchors_are_kept_and_break_a_symmetry():
    """Two equal halves: structure cannot say which is which, one known pair can."""
    rng = np.random.default_rng(0)
    half = rng.uniform(size=(12, 2))
    X = np.concatenate([half, half @ np.diag([-1.0, 1.0]) - [0.5, 0]])
    for anchor, swapped in (((0, 0), False), ((0, 12), True)):
        found = us.match(X, X, anchors=[anchor, (5, 17 if swapped else 5)])
        true = [(k + 12) % 24 if swapped else k for k in range(24)]
        assert [k for _, k in found.pairs.tolist()] == true


def test_anchors_hold_in_neighbourhoods():
    A, B, _ = branches(3, n=60)
    wrong = [(0, 59), (7, 31)]
    pairs = us.match(A, B, anchors=wrong).pairs.tolist()
    assert all(list(pair) in pairs for pair in wrong)


def test_a_prior_decides_what_structure_cannot():
    square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]) + 0.01 * np.random.default_rng(0).normal(size=(4, 2))
    for turn in range(4):
        to = [(k + turn) % 4 for k in range(4)]
        prior = torch.zeros(4, 4)
        prior[range(4), to] = 1.0
        assert us.match(square, square, prior=prior).pairs[:, 1].tolist() == to


@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_a_true_prior_of_two_pairs_takes_nothing_from_the_others(weight):
    A, _, _ = points(6, n=20, foreign=0)
    order = np.random.default_rng(0).permutation(20)
    prior = np.zeros((20, 20))
    prior[order[:2], [0, 1]] = weight
    without, found = us.match(A, A[order]), us.match(A, A[order], prior=prior)
    assert found.structure == "distances"
    assert (order[found.pairs[:, 1]] == found.pairs[:, 0].numpy()).all()
    assert len(found.pairs) == 20
    assert float((found.confidence - without.confidence).min()) > -1e-3


@pytest.mark.parametrize("columns", [2, 6])
def test_who_cannot_be_told_apart_shares_the_confidence(columns):
    """Six items in one place; in A only, the others are as sure of each of the six."""
    one, rng = np.ones((6, 1)) * np.random.default_rng(0).normal(size=columns), np.random.default_rng(1)
    for other in (one, one + 0.02 * rng.normal(size=one.shape)):
        assert torch.allclose(us.match(one, other).confidence, torch.tensor(1 / 6), atol=1e-3)
    known = us.match(one, one, anchors=[(0, 3)])
    assert float(known.soft[0, 3]) > 0.99
    assert torch.allclose(known.soft[1:, [0, 1, 2, 4, 5]], torch.tensor(1 / 5), atol=1e-3)


def test_nobody_is_more_than_one_item():
    generator = torch.Generator().manual_seed(0)
    for columns in (6, 8, 12):
        found = us.match(torch.randn(40, 10, generator=generator), torch.randn(40, columns, generator=generator))
        assert found.soft.min() >= 0
        assert max(found.soft.sum(0).max(), found.soft.sum(1).max()) < 1 + 1e-5


def test_twins_are_those_that_can_change_places():
    hops = torch.tensor([[0.0, 1, 1, 2], [1, 0, 2, 3], [1, 2, 0, 3], [2, 3, 3, 0]])  # 1 and 2 are alike, though apart
    means = torch.eye(4)
    means[1:3, 1:3] = 0.5
    assert torch.equal(twins(hops, []), means)
    assert torch.equal(twins(hops, [torch.eye(4)]), torch.eye(4))  # what is known of them differs


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 4])
def test_tiny_sets_have_an_answer(m, n):
    found = us.match(np.random.default_rng(0).uniform(size=(m, 5)), np.random.default_rng(1).uniform(size=(n, 7)))
    assert len(found.pairs) == min(m, n)
    assert found.soft.isfinite().all()
    assert us.match([[0.0], [0.0]], [[1.0], [1.0]]).soft.isfinite().all()  # all in one place


def test_all_left_out_is_an_answer():
    A, B, _ = branches(1, n=60)
    B = B[:, np.random.default_rng(0).permutation(13)] * 0 + np.random.default_rng(4).normal(size=B.shape)
    found = us.match(A, B, reject=0.99)
    assert len(found.pairs) == 0
    assert [len(items) for items in found.left_out] == [60, 60]
    assert math.isnan(found.energy)
    assert "all left out" in repr(found)


def test_a_limit_and_a_callback_stop_with_an_answer():
    A, B, _ = branches(0)
    stopped = us.match(A, B, callback=lambda step: False)
    assert (stopped.status, len(stopped.pairs)) == ("interrupted", 150)
    assert us.match(A, B, time_limit=0.0).status == "time limit"


def test_a_stopped_match_of_distances_is_made_of_few_products(monkeypatch):
    A, B, _ = points(0)
    bumps, before = [], Distances.__init__

    def counted(self, *args):
        before(self, *args)
        bumps.append(len(self.B1))

    monkeypatch.setattr(Distances, "__init__", counted)
    us.match(A, B)
    assert max(bumps) > 15
    bumps.clear()
    found = us.match(A, B, callback=lambda step: False)
    assert found.status == "interrupted"
    assert len(bumps) == 2  # groups, then all of them once
    assert bumps[1] <= 15
    assert len(found.pairs) > 20


def test_slack_equals_the_padded_problem():
    """Identical dummies: n of them as items, m as positions, a dummy with a dummy scores 0."""
    L = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0))
    price = torch.tensor([0.3])
    padded = torch.zeros(10, 10, dtype=torch.float64)
    padded[:4, :6], padded[:4, 6:], padded[4:, :6] = L[0].double(), 0.3, 0.3
    project = Slack(4, 6, reject=True)
    for _ in range(10):
        P = project(L, price, iterations=50)
    assert torch.allclose(P[0].double(), us.sinkhorn(padded, iterations=500)[:4, :6], atol=1e-5)
    surplus = Slack(4, 6, reject=False)(L, iterations=200)[0]
    padded = torch.zeros(6, 6, dtype=torch.float64)
    padded[:4] = L[0].double()
    assert torch.allclose(surplus.double(), us.sinkhorn(padded, iterations=500)[:4], atol=1e-5)


def test_places_have_the_distances_they_are_made_of():
    X = torch.rand(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    places = coordinates(torch.cdist(X, X))
    assert places is not None
    assert torch.allclose(torch.cdist(places, places), torch.cdist(X, X))
    assert coordinates(1 - torch.eye(9, dtype=torch.float64)) is None  # of a simplex of eight dimensions


def test_points_laid_over_each_other_know_the_noise_and_the_strangers():
    """From the true pairs and a few wrong ones: the expected number of pairs is the true one, and far offsets are left out."""
    A, B, true = points(3, n=60, foreign=20)
    P = torch.zeros(80, 80)
    P[tuple(torch.tensor(true).T)] = 1
    P[:6] = P[:6].roll(7, 1)
    X, Y = (coordinates(torch.cdist(*2 * (torch.tensor(Z),))) for Z in (A, B))
    assert X is not None
    assert Y is not None
    found = overlaid(X, Y, P)
    assert found is not None
    assert abs(float(found.soft.sum()) - 60) < 3
    # offsets in standard deviations: a true pair's squared ones are two on average, one for each direction
    assert float(-2 * found.scores[tuple(torch.tensor(true).T)].mean()) == pytest.approx(2, rel=0.25)
    order = us.assign(found.scores, reject=found.price)
    right = sum(int(order[k]) == i for i, k in true)
    assert 2 * right / (int((order >= 0).sum()) + 60) > 0.93
    # a pair that nobody else competes for: its odds are its likelihood over the price
    alone = found.soft.sum(0).add(found.soft.sum(1)[:, None]).sub(2 * found.soft).abs() < 1e-4
    odds = (found.soft / (1 - found.soft)).log()[alone]
    wanted = (found.scores - 2 * found.price)[alone]
    near = (wanted.abs() < 5) & (wanted > 0)
    assert int(near.sum()) > 5
    assert float((odds - wanted)[near].abs().max()) < 0.7
    assert overlaid(X, Y, 0 * P) is None


def test_bumps_are_the_kernel_of_agreement():
    rng = torch.Generator().manual_seed(0)
    X, Y, P = torch.rand(5, 2, generator=rng), torch.rand(6, 2, generator=rng), torch.rand(1, 5, 6, generator=rng)
    D1, D2 = torch.cdist(X, X), torch.cdist(Y, Y)
    problem = Distances(D1, D2, 0.1, 500)
    agree = torch.exp(-((D1[:, None, :, None] - D2[None, :, None, :]) ** 2) / 0.02)
    agree *= (1 - torch.eye(5))[:, None, :, None] * (1 - torch.eye(6))[None, :, None, :]
    others = P.sum() - P.sum(2, keepdim=True) - P.sum(1, keepdim=True) + P
    wanted = (torch.einsum("ikjl,jl->ik", agree, P[0]) - problem.chance * others[0]) / (1 - problem.chance)
    assert torch.allclose(problem.support(P)[0], wanted, atol=5e-2)


@pytest.mark.parametrize("cut", [0.0, 0.5, 1.0])
def test_support_is_the_gradient_of_mismatch_and_cut(cut):
    rng = torch.Generator().manual_seed(0)
    D1, D2 = (torch.cdist(X, X) for X in (torch.rand(12, 2, generator=rng), torch.rand(9, 2, generator=rng)))
    prior = torch.rand(12, 9, generator=rng)
    problem = replace(Neighbourhoods.of(D1.double(), D2.double(), prior), cut=cut)
    P = (torch.rand(1, 12, 9, generator=rng) / 12).requires_grad_()
    apart = (problem.S1[:, None, :, None] - problem.S2[None, :, None, :]) ** 2
    energy = torch.einsum("ikjl,ik,jl->", apart, P[0], P[0])
    for S, taking_part in ((problem.S1, P[0].sum(1)), (problem.S2, P[0].sum(0))):
        energy = energy + 2 * cut * torch.einsum("ij,i,j->", S**2, taking_part, 1 - taking_part)
    energy = energy / problem.size - 4 * (prior * P).sum()
    (gradient,) = torch.autograd.grad(energy, P)
    support = problem.support(P.detach())
    assert torch.allclose(support, -gradient / 2, atol=1e-3)
    assert torch.allclose(problem.energy(P.detach(), support) * problem.size, energy.detach() / 2, atol=1e-3)


def test_a_part_that_is_missing_is_left_out_as_a_whole():
    """On either side: what the surplus is, is found from what it is connected with."""
    A, B, branch = branches(4)
    for missing, side in ((0, 0), (1, 1), (2, 0)):
        here = branch != missing
        found = us.match(A[here], B) if side else us.match(A, B[here])
        out = np.isin(np.arange(len(branch)), found.left_out[side].numpy())
        assert out[~here].mean() > 0.9
        assert out[here].mean() < 0.1


def test_a_sample_is_matched_with_all_of_its_parts():
    A, B, branch = branches(6)
    some = np.random.default_rng(0).permutation(150)[:90]
    found = us.match(A, B[some])
    assert (branch[found.pairs[:, 0]] == branch[some][found.pairs[:, 1]]).mean() > 0.85
    assert torch.allclose(found.soft.sum(1), torch.full((150,), 0.6), atol=0.05)


def test_hops_are_laid_out_in_space():
    X = torch.rand(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    D = torch.cdist(X, X)
    hops = torch.where(D < 0.35, 1.0, torch.where(D < 0.7, 2.0, 3.0)).double().fill_diagonal_(0)
    finer, near = laid_out(hops), hops == 1
    ranks = torch.corrcoef(torch.stack([finer[near], D[near]]))[0, 1]
    assert float(ranks) > 0.5  # of the hops alone it has no correlation: they are all the same
    assert torch.equal(laid_out(torch.zeros(3, 3, dtype=torch.float64)), torch.zeros(3, 3, dtype=torch.float64))


def test_strangers_have_no_distances_in_common_and_parts_of_one_set_have():
    """A third of two unrelated sets can be chosen so that half of its distances agree."""
    generator = torch.Generator().manual_seed(1)
    X, other = (torch.randn(80, 6, generator=generator) for _ in range(2))
    part = torch.cat([X[:50] + 0.05 * torch.randn(50, 6, generator=generator), other[50:]])
    D1, D2, D3 = (torch.cdist(Y, Y) for Y in (X, other, part))
    assert us.match(D1, D2, distances=True).structure == "neighbourhoods"
    found = us.match(D1, D3, distances=True)
    assert found.structure == "distances"
    assert f1(found, [[k, k] for k in range(50)]) > 0.95


def test_ties_count_in_part_and_groups_are_of_equal_size():
    hops = torch.ones(6, 6, dtype=torch.float64).fill_diagonal_(0)  # everyone is everyone's neighbour
    shared = shared_neighbours(hops, [3])
    off = ~torch.eye(6, dtype=torch.bool)
    assert torch.allclose(shared[off], shared[0, 1].expand(30))
    means = groups(-torch.cdist(*2 * (torch.rand(50, 2),)), 8)
    assert means.shape == (8, 50)
    assert torch.allclose(means.sum(1), torch.ones(8))
    assert {int(k) for k in (means > 0).sum(1)} <= {6, 7}


GOOD = np.random.default_rng(0).uniform(size=(6, 2))
NAN = GOOD.copy()
NAN[2, 1] = np.nan
ONE_WAY = np.linalg.norm(GOOD[:, None] - GOOD, axis=-1)
ONE_WAY[1, 4] += 0.1
SQUARED = ((GOOD[:, None] - GOOD) ** 2).sum(-1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: us.match(NAN, GOOD), "row 2, column 1 is nan"),
        (lambda: us.match(GOOD, np.zeros((0, 2))), "B is empty"),
        (lambda: us.match(GOOD, GOOD, distances=True), "square matrix of distances"),
        (lambda: us.match(-np.ones((3, 3)), np.ones((3, 3)), distances=True), "must be distances"),
        (
            lambda: us.match(ONE_WAY.T, ONE_WAY, distances=True),
            r"A must be the same from both ends, but row 1, column 4",
        ),
        (lambda: us.match(np.exp(-SQUARED), GOOD, distances=True), r"farthest from themselves.* A.max\(\) - A"),
        (lambda: us.match(GOOD, GOOD, metric=lambda X: torch.as_tensor(ONE_WAY)), r"metric\(A\) must be the same from"),
        (lambda: us.match(GOOD, GOOD, anchors=[(0, 6)]), "item 6 of B, which has 6 items"),
        (lambda: us.match(GOOD, GOOD, anchors=[(1, 0), (1, 2)]), "item 1 of A more than once"),
        (lambda: us.match(GOOD, GOOD, anchors=[0, 1]), "k x 2"),
        (lambda: us.match(GOOD, GOOD, anchors=[(0.5, 1)]), "whole numbers"),
        (lambda: us.match(GOOD, GOOD, prior=np.zeros((6, 5))), "6 items of A x 6 items of B"),
        (lambda: us.match(GOOD, GOOD, prior=np.full((6, 6), np.inf)), "finite"),
        (lambda: us.match(GOOD, GOOD, reject=float("nan")), "reject"),
        (lambda: us.match(GOOD, GOOD, reject=1.5), "reject"),
        (lambda: us.match(GOOD, GOOD, distances=True, metric=lambda X: X), "nothing to make"),
        (lambda: us.match("a", GOOD), "numbers"),
        (lambda: us.match(GOOD, GOOD, seed=-1), "seed"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(us.BadInput, match=words) as error:
        call()
    assert str(error.value).count("\n") == 0


def test_distances_in_single_precision_are_the_same_from_both_ends():
    rounded = (ONE_WAY - 0.1 * (np.arange(36) == 10).reshape(6, 6)).astype(np.float32)
    rounded[2, 3] = np.nextafter(rounded[2, 3], np.float32(9))
    assert len(us.match(rounded, rounded, distances=True).pairs) == 6


def run(*arguments: object):
    return CliRunner().invoke(build("match"), ["match", *map(str, arguments)])


@pytest.fixture
def tables(tmp_path):
    A, B, true = points(1, n=25, foreign=3)
    for name, X in (("a", A), ("b", B)):
        rows = "\n".join(f"{name}{k},{x},{y}" for k, (x, y) in enumerate(X.tolist()))
        (tmp_path / f"{name}.csv").write_text(f"name,x,y\n{rows}\n")
    return tmp_path / "a.csv", tmp_path / "b.csv", true


def test_the_command_writes_pairs_left_out_a_picture_and_json(tables, tmp_path):
    a, b, true = tables
    (tmp_path / "known.csv").write_text(f"A,B\na{true[0][0]},b{true[0][1]}\n")
    done = run(a, b, "--anchors", tmp_path / "known.csv", "--json", "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    right = [pair for pair in result["pairs"] if pair in true]
    assert len(right) > 20
    assert true[0] in result["pairs"]
    lines = (tmp_path / "o" / "pairs.csv").read_text().splitlines()
    assert lines[0] == "A,B,confidence"
    assert len(lines) == 1 + len(result["pairs"])
    assert (tmp_path / "o" / "pairs.png").read_bytes()[:4] == b"\x89PNG"
    partners = dict(true)
    alone = result["sets"]["partners"]
    assert len(alone) == 28
    assert np.mean([partners.get(k) in some for k, some in enumerate(alone)]) > 0.85  # None: no partner at all
    out = (tmp_path / "o" / "left-out.csv").read_text().splitlines()
    assert len(out) == 1 + 2 * 28 - 2 * len(result["pairs"]) == 1 + sum(map(len, result["left_out"].values()))
    told = run(a, b, "--out", tmp_path / "o").stdout
    assert "A: 28 rows, 2 columns of numbers" in told
    assert "pairs by distances" in told


def test_scores_and_distances_are_read_by_name(tables, tmp_path):
    """A table of scores in another order of rows and columns, and distances whose columns are, say the same."""
    a, b, true = tables
    scores = np.zeros((28, 28))
    scores[tuple(np.array(true).T)] = 1.0
    for name, seed in (("plain", None), ("shuffled", 0)):
        rng = np.random.default_rng(seed)
        i, k = (np.arange(28) if seed is None else rng.permutation(28) for _ in "AB")
        lines = [",".join(["name", *(f"b{c}" for c in k)]), *(f"a{r}," + ",".join(map(str, scores[r, k])) for r in i)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    first, second = read_table(a), read_table(b)
    for name in ("plain", "shuffled"):
        assert np.array_equal(read_prior(tmp_path / f"{name}.csv", first, second), scores)
    X, order = first.values, np.random.default_rng(1).permutation(28)
    D = np.linalg.norm(X[:, None] - X, axis=-1)
    mixed = Table(first.rows, [first.rows[c] for c in order], D[:, order], "name")
    assert np.array_equal(square(a, mixed, "A").values, D)
    other = Table(first.rows, [str(c) for c in range(28)], D, "name")  # no names: as they come
    assert np.array_equal(square(a, other, "A").values, D)
    (tmp_path / "typo.csv").write_text((tmp_path / "plain.csv").read_text().replace("a27,", "a99,"))
    with pytest.raises(us.BadInput, match="'a99', which is no row of A"):
        read_prior(tmp_path / "typo.csv", first, second)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--anchors", "{}/strange.csv"], "'zz', which is no row of B"),
        (["--anchors", "{}/numbers.csv"], "'0', which is no row of A (a0 to a27)"),
        (["--anchors", "{}/a.csv"], "must have two columns"),
        (["--prior", "{}/a.csv"], "prior must be scores of 28 items of A x 28 items of B"),
        (["--distances"], "square matrix of distances"),
        (["--drop", "height"], "no column 'height'"),
        (["--reject", "2"], "reject"),
    ],
)
def test_bad_tables_are_one_sentence_and_nothing_is_written(tables, tmp_path, more, words):
    (tmp_path / "strange.csv").write_text("a1,b1\na2,zz\n")
    (tmp_path / "numbers.csv").write_text("0,0\n1,1\n")
    done = run(*tables[:2], *(word.format(tmp_path) for word in more), "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert not (tmp_path / "o").exists()


def test_the_picture_shows_confidence_from_none_to_full(tables, tmp_path, monkeypatch):
    """One pair, or pairs that are all alike, would be drawn from -0.1 to 0.1."""
    drawn = []
    monkeypatch.setattr("unshuffle.cli.match.png_of", lambda figure: drawn.append(figure) or b"")
    done = run(*tables[:2], "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert [links.get_clim() for links in drawn[0].axes[0].collections if links.get_array() is not None] == [(0, 1)]
