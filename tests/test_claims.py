"""The paper's statements, by their numbers, each as exactly as it is true.

Proposition 1 holds as it is stated (there are margins for which no scalar works), under one condition on the blocks; its gloss
"for delta << Delta these requirements are incompatible" is the wrong way round: there one scalar inverse temperature does both. The exact
statement is tested here, the one that the figure and the docs use.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from unshuffle.operators.gumbel import gumbel_sinkhorn
from unshuffle.operators.permutation import entropy
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.paper.block_ambiguous import (
    block_ambiguous_scores,
    easy_threshold,
    hard_threshold,
    scalar_exists,
)
from unshuffle.temperature.local import LocalTemperature, MeanBeta, MeanTau, Product
from unshuffle.temperature.signals import ExcessEntropy

MANY = 500  # iterations: these statements are about converged Sinkhorn
sizes, shares = st.integers(2, 12), st.floats(0.01, 0.49)
margins = st.floats(0.05, 5.0)


def settled(logits: torch.Tensor) -> torch.Tensor:
    return sinkhorn(logits, MANY)


def block_diagonal(n: int, margin: float, beta: float) -> float:
    return 1 / (1 + (n - 1) * math.exp(-beta * margin))


# --- Proposition 1: the block-ambiguous assignment


@settings(max_examples=25, deadline=None)
@given(sizes, sizes, margins, margins, st.floats(0.05, 8.0))
def test_proposition_1_closed_form_of_both_blocks(n1, n2, easy, hard, beta):
    scores = block_ambiguous_scores(n1, n2, easy, hard, across=1000.0)
    diagonal = settled(beta * scores).diagonal()
    assert diagonal[:n1].tolist() == pytest.approx([block_diagonal(n1, easy, beta)] * n1, abs=1e-6)
    assert diagonal[n1:].tolist() == pytest.approx([block_diagonal(n2, hard, beta)] * n2, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(sizes, shares, margins)
def test_proposition_1_thresholds_are_exact(n, share, margin):
    """Easy rows reach 1 - eps from the threshold on, hard rows keep below 1 - eta up to theirs; necessary and sufficient."""
    for threshold in (easy_threshold(n, margin, share), hard_threshold(n, margin, share)):
        assert block_diagonal(n, margin, threshold) == pytest.approx(1 - share)
        assert block_diagonal(n, margin, threshold * 0.99) < 1 - share
        assert block_diagonal(n, margin, threshold * 1.01) > 1 - share


def test_lemma_1_states_necessity_but_proves_sufficiency():
    """A beta below the lemma's bound at which the easy block has nevertheless discretised."""
    n, eps, margin = 5, 0.3, 1.0
    lemma = math.log((n - 1) / eps) / margin
    exact = easy_threshold(n, margin, eps)
    assert exact < lemma
    P = settled(torch.tensor((exact + lemma) / 2 * 1.0) * block_ambiguous_scores(n, 2, margin, margin, across=1000.0))
    assert P.diagonal()[:n].min() >= 1 - eps


@settings(max_examples=100, deadline=None)
@given(sizes, sizes, margins, margins, shares, shares)
def test_proposition_1_when_no_scalar_works(n1, n2, easy, hard, eps, eta):
    """Exactly if Delta/delta < log((n1-1)(1-eps)/eps) / log((n2-1)(1-eta)/eta), by trying every beta of a fine grid."""
    ratio = easy_threshold(n1, 1.0, eps) / hard_threshold(n2, 1.0, eta)
    assume(abs(easy / hard / ratio - 1) > 0.02)  # a grid cannot tell at the border
    betas = easy_threshold(n1, easy, eps) * np.geomspace(0.02, 50, 4000)
    works = [
        beta
        for beta in betas
        if block_diagonal(n1, easy, beta) >= 1 - eps and block_diagonal(n2, hard, beta) <= 1 - eta
    ]
    assert bool(works) == scalar_exists(n1, n2, easy, hard, eps, eta) == (easy / hard >= ratio)


@settings(max_examples=100, deadline=None)
@given(sizes, sizes, shares, shares)
def test_proposition_1_as_it_is_stated(n1, n2, eps, eta):
    """ "There exist Delta > delta > 0 such that no beta ...": true iff (n1-1)(1-eps)/eps > (n2-1)(1-eta)/eta, and then margins
    that are nearly alike are such a choice; otherwise every choice has a beta."""
    easy, hard = (n1 - 1) * (1 - eps) / eps, (n2 - 1) * (1 - eta) / eta
    assume(abs(math.log(easy / hard)) > 1e-3)
    choices = [(delta * (1 + more), delta) for delta in (0.01, 1.0, 30.0) for more in (1e-6, 0.1, 1.0, 100.0)]
    clash = [not scalar_exists(n1, n2, Delta, delta, eps, eta) for Delta, delta in choices]
    assert any(clash) == (easy > hard)
    assert clash[0] == any(clash)


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, shares, shares)
def test_proposition_1_is_glossed_the_wrong_way_round(n1, n2, eps, eta):
    """delta << Delta: "these requirements are incompatible", says the paper; one scalar meets both."""
    Delta, delta = 10.0, 0.01
    assert scalar_exists(n1, n2, Delta, delta, eps, eta)
    beta = easy_threshold(n1, Delta, eps) * 1.0001
    diagonal = settled(beta * block_ambiguous_scores(n1, n2, Delta, delta, across=100 / beta)).diagonal()
    assert diagonal[:n1].min() >= 1 - eps
    assert diagonal[n1:].max() <= 1 - eta


CASE = {"n1": 20, "n2": 3, "easy": 8.0, "hard": 1.0, "eps": 0.01, "eta": 0.45}


@pytest.mark.parametrize(("masked", "threshold"), [(False, 0.1), (True, 0.7)])
@pytest.mark.parametrize("combine", [MeanBeta(), MeanTau(), Product()])
def test_the_adaptive_field_meets_both_demands_where_no_scalar_can(masked, threshold, combine):
    """With the paper's largest boost, 0.35. With the blocks masked apart its own threshold of 0.7 will do."""
    n1, n2, easy, hard, eps, eta = CASE.values()
    assert not scalar_exists(**CASE)
    scores = block_ambiguous_scores(n1, n2, easy, hard, across=100.0)
    allowed = torch.block_diag(torch.ones(n1, n1), torch.ones(n2, n2)).bool() if masked else None
    beta0 = easy_threshold(n1, easy, eps) * 1.001
    scalar = sinkhorn(beta0 * scores, MANY, allowed).diagonal()
    assert scalar[:n1].min() >= 1 - eps
    assert scalar[n1:].max() > 1 - eta  # the demand that no scalar can add
    local = LocalTemperature(ExcessEntropy(threshold), 0.35, combine)
    P = gumbel_sinkhorn(scores, beta0, local=local, noise=0.0, iterations=MANY, allowed=allowed).diagonal()
    assert P[:n1].min() >= 1 - eps
    assert P[n1:].max() <= 1 - eta


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, margins, margins, shares, shares, st.floats(0, 2))
def test_a_field_widens_the_possible_margins_by_its_largest_boost_and_no_more(n1, n2, easy, hard, eps, eta, boost):
    """The hard block can have beta0/(1+b_max) at the least, so margins with Delta/delta (1+b_max) < ratio stay impossible."""
    best = scalar_exists(n1, n2, easy, hard / (1 + boost), eps, eta)
    ratio = easy_threshold(n1, 1.0, eps) / hard_threshold(n2, 1.0, eta)
    assume(abs(easy / hard * (1 + boost) / ratio - 1) > 1e-9)
    assert best == (easy / hard * (1 + boost) >= ratio)


# --- Proposition 2: Sinkhorn of a field is entropic assignment with locally scaled costs


def problem(n: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Costs and a field of inverse temperatures."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, n, generator=generator, dtype=torch.float64)
    field = LocalTemperature(ExcessEntropy(0.2), 1.0)(settled(2 * scores), 2.0)
    return -scores, field


def objective(P: torch.Tensor, cost: torch.Tensor, field: torch.Tensor) -> torch.Tensor:
    return (field * cost * P).sum() + torch.special.xlogy(P, P).sum()


@pytest.mark.parametrize("seed", range(5))
def test_proposition_2_by_its_optimality_conditions(seed):
    """log P + beta C must be a row term plus a column term, and both margins must be one; the objective is strictly convex."""
    cost, field = problem(seed=seed)
    P = settled(-field * cost)
    stationary = P.log() + field * cost
    centred = stationary - stationary.mean(0) - stationary.mean(1, keepdim=True) + stationary.mean()
    assert centred.abs().max() < 1e-9
    for dim in (0, 1):
        torch.testing.assert_close(P.sum(dim), torch.ones(6, dtype=torch.float64))
    other = settled(-2.0 * cost)  # the global one is not stationary for the field
    moved = other.log() + field * cost
    assert (moved - moved.mean(0) - moved.mean(1, keepdim=True) + moved.mean()).abs().max() > 1e-2


def test_proposition_2_against_a_convex_solver():
    n = 4
    cost, field = problem(n, seed=3)
    weight = (field * cost).numpy().ravel()
    margins = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    found = minimize(
        lambda p: weight @ p + p @ np.log(p),
        np.full(n * n, 1 / n),
        jac=lambda p: weight + np.log(p) + 1,
        bounds=[(1e-12, 1)] * n * n,
        constraints=LinearConstraint(margins[:-1], 1, 1),  # the last follows from the others
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    P = settled(-field * cost)
    np.testing.assert_allclose(found.x.reshape(n, n), P.numpy(), atol=1e-5)
    assert objective(P, cost, field).item() <= found.fun + 1e-10


# --- Section 3.3: what a local field can do that a global or separable temperature cannot


def separable_misfit(scores: np.ndarray, field: np.ndarray, starts: int = 5) -> float:
    """How near any r_i c_j temperature comes to a field, in logits up to row and column terms (which Sinkhorn forgets).

    Alternating least squares on the doubly centred difference; relative to the field's own distance from its mean.
    """
    n = len(scores)
    centre = np.eye(n) - 1 / n
    target = centre @ (field * scores) @ centre
    rng = np.random.default_rng(0)
    best = np.inf
    for _ in range(starts):
        c = 1 + 0.1 * rng.standard_normal(n)
        for _ in range(100):
            rows = np.stack([(centre[:, [i]] @ ((c * scores[i])[None] @ centre)).ravel() for i in range(n)], 1)
            r = np.linalg.lstsq(rows, target.ravel(), rcond=None)[0]
            columns = np.stack([((centre @ (r * scores[:, j])[:, None]) @ centre[[j]]).ravel() for j in range(n)], 1)
            c = np.linalg.lstsq(columns, target.ravel(), rcond=None)[0]
        best = min(best, np.linalg.norm(columns @ c - target.ravel()))
    scalar = centre @ (field.mean() * scores) @ centre
    return float(best / np.linalg.norm(target - scalar))


def test_no_separable_rescaling_reproduces_a_local_field():
    cost, _ = problem(7, seed=1)
    Q = settled(2 * -cost)
    mean = LocalTemperature(ExcessEntropy(0.2), 3.0, MeanBeta())(Q, 2.0)
    assert separable_misfit(-cost.numpy(), mean.numpy()) > 1e-3
    # the same search does find a separable one when there is one: the product combination, as long as it is not clamped
    rows, columns = ExcessEntropy(0.2)(Q)
    product = 2.0 / ((1 + 3 * rows).unsqueeze(-1) * (1 + 3 * columns))
    assert separable_misfit(-cost.numpy(), product.numpy()) < 1e-6


def test_no_scalar_reproduces_a_local_field():
    cost, field = problem()
    P = settled(-field * cost)
    betas = torch.linspace(0.5, 2.5, 81, dtype=torch.float64).reshape(-1, 1, 1)
    assert (settled(-betas * cost) - P).abs().amax((-2, -1)).min() > 1e-3


def test_without_boost_it_is_plain_gumbel_sinkhorn_bit_for_bit():
    scores = torch.randn(3, 9, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    results = []
    for local in (None, LocalTemperature(max_boost=0.0), LocalTemperature(max_boost=0.0, combine=Product())):
        P = gumbel_sinkhorn(scores, 1.7, samples=4, local=local, generator=torch.Generator().manual_seed(1))
        (gradient,) = torch.autograd.grad(P.square().sum(), scores)
        results.append((P, gradient))
    for P, gradient in results[1:]:
        assert torch.equal(P, results[0][0])
        assert torch.equal(gradient, results[0][1])


def test_boosted_rows_have_higher_entropy():
    """On the block matrix every boosted row; on random scores the boosted rows on average, the constraints being coupled."""
    n1, n2, easy, hard, eps, _ = CASE.values()
    scores = block_ambiguous_scores(n1, n2, easy, hard, across=100.0)
    beta0, local = easy_threshold(n1, easy, eps), LocalTemperature(ExcessEntropy(0.1), 0.35)
    plain = settled(beta0 * scores)
    boosted = local.factors(plain)[0] > 1
    assert boosted.tolist() == [False] * n1 + [True] * n2
    gain = entropy(settled(local(plain, beta0) * scores)) - entropy(plain)
    assert (gain[boosted] > 1e-3).all()
    assert gain[~boosted].abs().max() < 1e-6

    random = torch.randn(50, 12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = settled(2 * random)
    local = LocalTemperature(ExcessEntropy(0.6), 0.35)
    boosted = local.factors(plain)[0] > 1
    assert 0.1 < boosted.double().mean() < 0.9
    gain = entropy(settled(local(plain, 2.0) * random)) - entropy(plain)
    assert gain[boosted].mean() > 0
    assert (gain[boosted] > 0).double().mean() > 0.95
    assert gain[boosted].mean() > 2 * gain[~boosted].mean()


def test_section_3_1_the_field_goes_back_to_plain_gumbel_sinkhorn_as_beta_grows():
    scores = torch.randn(8, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    local = LocalTemperature(ExcessEntropy(0.7), 0.35)
    factor = [(local(sinkhorn(beta * scores, 200), beta) / beta).min().item() for beta in (0.1, 1.0, 100.0)]
    assert factor[0] < factor[1] <= factor[2] == 1.0
