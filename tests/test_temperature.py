"""Inverse temperature over time and per entry."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_method as reference
from unshuffle.errors import BadInput
from unshuffle.operators.gumbel import gumbel_sinkhorn
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.temperature.learned import LearnedTemperature
from unshuffle.temperature.local import LocalTemperature, MatchedScalar, MeanBeta, MeanTau, Product
from unshuffle.temperature.report import diagnose
from unshuffle.temperature.schedules import Anneal, Constant, Exponential, LinearInBeta, LinearInTau
from unshuffle.temperature.signals import ByMaximum, DegreeViolation, ExcessEntropy

SHAPES = [LinearInBeta(), LinearInTau(), Exponential()]
COMBINATIONS = [MeanBeta(), MeanTau(), Product()]


def soft(n: int, spread: float = 3.0, seed: int = 0, batch: tuple[int, ...] = ()) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return sinkhorn(spread * torch.randn(*batch, n, n, generator=generator, dtype=torch.float64), 50)


# --- over time


@pytest.mark.parametrize("shape", SHAPES)
def test_anneal_starts_and_ends_where_it_says(shape):
    anneal = Anneal(0.66, 2.0, epochs=150, shape=shape)
    assert anneal(0) == pytest.approx(0.66)
    assert anneal(149) == pytest.approx(2.0)
    assert anneal(400) == pytest.approx(2.0)  # 200 of 300 epochs: constant afterwards
    values = [anneal(epoch) for epoch in range(150)]
    assert values == sorted(values)


def test_the_three_shapes_by_their_formulas():
    t = 30 / 99
    assert Anneal(0.5, 2, 100)(30) == pytest.approx(0.5 + t * 1.5)
    assert Anneal(0.5, 2, 100, LinearInTau())(30) == pytest.approx(1 / (2 + t * (0.5 - 2)))
    assert Anneal(0.5, 2, 100, Exponential())(30) == pytest.approx(0.5 * 4**t)


def test_linear_in_tau_is_below_exponential_is_below_linear_in_beta():
    tau, exponential, beta = (
        Anneal(0.5, 2, 100, shape)(50) for shape in (LinearInTau(), Exponential(), LinearInBeta())
    )
    assert tau < exponential < beta


def test_constant_one_epoch_and_downwards():
    assert Constant(2.0)(17) == 2.0
    assert Anneal(0.5, 2.0, epochs=1)(0) == 0.5
    assert Anneal(2.0, 0.5, epochs=3)(1) == pytest.approx(1.25)


@pytest.mark.parametrize("bad", [(0.0, 1.0, 5), (1.0, -1.0, 5), (1.0, math.inf, 5), (1.0, 2.0, 0)])
def test_bad_schedules_are_refused_in_one_sentence(bad):
    with pytest.raises(BadInput):
        Anneal(*bad)


# --- signals


def test_excess_entropy_is_algorithm_1():
    Q = soft(7)
    field = LocalTemperature(ExcessEntropy(0.3), 0.35)(Q, 1.7)
    torch.testing.assert_close(field, reference.algorithm_1(Q, 1.7, 0.3, 0.35))
    assert field.min() < field.max()


def test_excess_entropy_batched_is_one_by_one():
    Q = soft(5, batch=(2, 3))
    local = LocalTemperature(ExcessEntropy(0.3), 0.35)
    torch.testing.assert_close(local(Q, 1.0)[1, 2], local(Q[1, 2], 1.0))


def test_entropy_counts_only_allowed_entries():
    allowed = torch.eye(5, dtype=torch.bool)
    allowed[:2, :2] = True  # items 0 and 1 share two places, the others are anchored
    Q = sinkhorn(torch.zeros(5, 5), 10, allowed)
    rows, columns = ExcessEntropy(0.7)(Q, allowed)
    assert rows.tolist() == pytest.approx([1, 1, 0, 0, 0], abs=1e-5)
    assert columns.tolist() == pytest.approx([1, 1, 0, 0, 0], abs=1e-5)


@pytest.mark.parametrize("local", [LocalTemperature(), LocalTemperature(DegreeViolation()), LearnedTemperature()])
def test_a_single_item_works(local):
    P = gumbel_sinkhorn(torch.zeros(1, 1), 2.0, local=local)
    assert P.tolist() == [[1.0]]


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_degree_violation_is_the_self_loop_mass(n):
    Q = soft(n, spread=1.0)
    rows, columns = DegreeViolation(normalise=lambda u: u)(Q)
    torch.testing.assert_close(rows, reference.degree_violation(Q))
    torch.testing.assert_close(columns, Q.T @ rows)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10_000), st.floats(0, 30))
def test_degree_violation_stays_within_its_bound(n, seed, spread):
    Q = soft(n, spread, seed)
    rows, _ = DegreeViolation()(
        Q / Q.sum(-1, keepdim=True)
    )  # the bound is for distributions; truncated rows are not quite
    assert rows.min() >= 0
    assert rows.max() <= 1 + 1e-9


def test_the_bound_of_degree_violation_is_reached():
    Q = torch.eye(6, dtype=torch.float64)
    Q[:2, :2] = 0.5  # two items share two neighbouring places
    rows, _ = DegreeViolation()(Q)
    torch.testing.assert_close(rows, torch.tensor([1.0, 1, 0, 0, 0, 0], dtype=torch.float64))


def test_normalising_by_the_maximum_saturates_at_a_uniform_assignment():
    uniform = torch.full((8, 8), 1 / 8)
    assert DegreeViolation(ByMaximum())(uniform)[0].min() == pytest.approx(1.0)
    assert DegreeViolation()(uniform)[0].max() == pytest.approx(2 * 2 / 8)
    assert DegreeViolation(ByMaximum())(torch.eye(8))[0].max() == 0


def test_any_function_is_a_signal_with_or_without_the_mask():
    Q, allowed = soft(4), torch.ones(4, 4, dtype=torch.bool)
    everywhere = LocalTemperature(lambda Q: (torch.full_like(Q[0], 7.0), torch.full_like(Q[0], 7.0)), max_boost=0.5)
    torch.testing.assert_close(everywhere(Q, 3.0, allowed), torch.full_like(Q, 2.0))  # clipped to 1: 3 / 1.5
    seen = []
    LocalTemperature(lambda Q, allowed: (seen.append(allowed), (Q[0], Q[0]))[1])(Q, 1.0, allowed)
    assert seen[0] is allowed


# --- combinations and bounds


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(0, 10_000),
    st.floats(0, 40),
    st.floats(0, 3),
    st.floats(0, 0.99),
    st.sampled_from(COMBINATIONS),
)
def test_the_field_never_leaves_its_bounds(n, seed, spread, max_boost, threshold, combine):
    field = LocalTemperature(ExcessEntropy(threshold), max_boost, combine)(soft(n, spread, seed), 2.0)
    assert field.max() <= 2.0 * (1 + 1e-12)
    assert field.min() >= 2.0 / (1 + max_boost) * (1 - 1e-12)


def test_combinations_by_their_formulas():
    s_row, s_col = torch.tensor([[1.0], [1.35]]), torch.tensor([[1.2, 1.35]])
    assert MeanBeta()(s_row, s_col, 0.35)[1, 0] == pytest.approx((1 / 1.35 + 1 / 1.2) / 2)
    assert MeanTau()(s_row, s_col, 0.35)[1, 0] == pytest.approx(2 / (1.35 + 1.2))
    assert Product()(s_row, s_col, 0.35)[0, 0] == pytest.approx(1 / 1.2)
    assert Product()(s_row, s_col, 0.35)[1, 1] == pytest.approx(1 / 1.35)  # the clamp, not 1 / 1.35^2


def test_mean_of_tau_is_never_above_mean_of_beta():
    Q = soft(8)
    signal = ExcessEntropy(0.3)
    mean_beta, mean_tau, product = (LocalTemperature(signal, 1.0, c)(Q, 1.0) for c in COMBINATIONS)
    assert (mean_tau <= mean_beta + 1e-12).all()
    assert (product <= mean_tau + 1e-12).all()


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_without_boost_the_field_is_the_scalar_bit_for_bit(combine):
    assert (LocalTemperature(max_boost=0.0, combine=combine)(soft(6), 1.7) == 1.7).all()


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_bad_boosts_and_thresholds_are_refused(bad):
    with pytest.raises(BadInput):
        LocalTemperature(max_boost=bad)
    with pytest.raises(BadInput):
        ExcessEntropy(bad)


# --- the scalar control and the report


def test_matched_scalar_has_the_mean_of_the_field():
    Q = soft(6, batch=(3,))
    local = LocalTemperature(ExcessEntropy(0.2), 0.5, MeanTau())
    field, scalar = local(Q, 2.0), MatchedScalar(local)(Q, 2.0)
    torch.testing.assert_close(scalar.mean((-2, -1)), field.mean((-2, -1)))
    assert (scalar == scalar[:, :1, :1]).all()
    assert (field != field[:, :1, :1]).any()


def test_matched_scalar_cannot_be_unmatched():
    """Another way to combine rows and columns would square the factor: 1.333 against 1.413 was seen."""
    with pytest.raises(TypeError):
        MatchedScalar(LocalTemperature(), combine=Product())


def test_matched_scalar_counts_only_allowed_entries():
    allowed = torch.ones(6, 6, dtype=torch.bool)
    allowed[0, 1:] = allowed[1:, 0] = False
    Q = sinkhorn(torch.zeros(6, 6), 10, allowed)
    local = LocalTemperature(max_boost=0.5)
    assert MatchedScalar(local)(Q, 1.0, allowed)[0, 0] == pytest.approx(local(Q, 1.0, allowed)[allowed].mean().item())


def test_report_of_a_known_field():
    Q = torch.eye(4)
    Q[:2, :2] = 0.5
    report = diagnose(LocalTemperature(ExcessEntropy(0.25), 0.3), Q, 2.0)
    assert report.rows_boosted == report.columns_boosted == 0.5
    assert report.beta_max == pytest.approx(2.0)
    assert report.beta_min == pytest.approx(2.0 / (1 + 0.3 * (0.5 - 0.25) / 0.75))
    assert report.row_entropy.tolist() == pytest.approx([0.5, 0.5, 0, 0], abs=1e-5)
    assert report.factor_mean == pytest.approx(report.beta_mean / 2)
    assert all(isinstance(number, float) for number in report.log().values())


def test_report_without_a_controller_is_flat():
    report = diagnose(None, soft(5), 1.5)
    assert (report.beta_min, report.beta_max, report.rows_boosted) == (1.5, 1.5, 0.0)


# --- the learned controller


def test_learned_starts_near_algorithm_1():
    rows = torch.eye(8)
    rows[:4, :4] = 0.25
    fixed, learned = LocalTemperature(ExcessEntropy(0.5), 0.3), LearnedTemperature(0.5, 0.3, slope=20.0)
    s_fixed, s_learned = fixed.factors(rows)[0], learned.factors(rows)[0]
    assert (s_fixed - s_learned).abs().max() < 0.2
    assert s_learned[0] > s_learned[-1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), st.integers(0, 1000))
def test_learned_never_leaves_its_bounds(raw, seed):
    learned = LearnedTemperature(max_boost=0.8)
    with torch.no_grad():
        learned.raw.copy_(torch.tensor(raw))
    field = learned(soft(5, seed=seed), 2.0)
    assert torch.isfinite(field).all()
    assert field.max() <= 2.0 + 1e-6
    assert field.min() >= 2.0 / 1.8 - 1e-6


def test_learned_trains_towards_the_temperature_that_the_loss_wants():
    """Scores that are right for items 0-3 and random for 4-7; a soft target that is sharp above and uniform below."""
    generator = torch.Generator().manual_seed(0)
    scores = 8 * torch.eye(8)
    scores[4:, 4:] = 2 * torch.rand(4, 4, generator=generator)
    target = torch.eye(8)
    target[4:, 4:] = 0.25
    learned = LearnedTemperature(threshold=0.3, boost=0.1, max_boost=4.0)
    optimiser = torch.optim.Adam(learned.parameters(), lr=0.05)
    losses = []
    for _ in range(150):
        P = gumbel_sinkhorn(scores, 1.0, local=learned, noise=0.0, iterations=20)
        loss = (P - target).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert learned.settings()[1] > 1.0  # it learned to boost more than the 0.1 it began with


def test_no_gradient_reaches_the_scores_through_the_controller():
    scores = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    local = LocalTemperature(ExcessEntropy(0.1), 0.5)
    with torch.no_grad():
        field = local(sinkhorn(1.5 * scores), 1.5)
    adaptive = gumbel_sinkhorn(scores, 1.5, local=local, noise=0.0).square().sum()
    frozen = sinkhorn(field * scores).square().sum()
    (a,), (b,) = torch.autograd.grad(adaptive, scores), torch.autograd.grad(frozen, scores)
    torch.testing.assert_close(a, b)


def test_entropies_by_log_n_or_by_the_log_of_what_is_allowed():
    """A row with two candidates, both equally likely, is fully uncertain among the allowed, and half uncertain among four."""
    allowed = torch.tensor([[True, True, False, False]] * 2 + [[False, False, True, True]] * 2)
    Q = allowed.double() / 2
    assert ExcessEntropy(0.0)(Q, allowed)[0].tolist() == pytest.approx([1.0] * 4, abs=1e-5)
    assert ExcessEntropy(0.0, log_n=True)(Q, allowed)[0].tolist() == pytest.approx([0.5] * 4, abs=1e-5)
