"""One conformance test that every relaxation passes, and what is particular to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import reference_method as reference
from unshuffle.errors import BadInput
from unshuffle.metrics import order_tau
from unshuffle.operators.gumbel import gumbel_sinkhorn
from unshuffle.operators.permutation import inverse, reorder, to_matrix
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.relaxations.gumbel_sinkhorn import ColumnSoftmax, GumbelSinkhorn, Sinkhorn
from unshuffle.relaxations.neuralsort import NeuralSort
from unshuffle.relaxations.ot4p import OT4P, fractional_power, rotated_base, towards_permutation
from unshuffle.relaxations.protocol import hardened
from unshuffle.relaxations.softsort import SoftSort
from unshuffle.relaxations.straight_through import StraightThrough
from unshuffle.temperature.learned import LearnedTemperature
from unshuffle.temperature.local import LocalTemperature, MeanTau, Product
from unshuffle.temperature.schedules import Anneal, Constant
from unshuffle.temperature.signals import DegreeViolation, ExcessEntropy

ORDER = torch.tensor([2, 0, 3, 1, 4])  # item 2 is first; not its own inverse, so a transpose shows
LOCAL = LocalTemperature(ExcessEntropy(0.3), 0.3)


def scores_for(order: torch.Tensor) -> torch.Tensor:
    """High where an item belongs; not symmetric, no ties."""
    return 4 * to_matrix(order, torch.float64) + 0.1 * torch.rand(
        len(order), len(order), generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )


def keys_for(order: torch.Tensor) -> torch.Tensor:
    """The place that every item wants."""
    return inverse(order).double()


@dataclass(frozen=True)
class Case:
    """A relaxation by its schedule, what it takes, and which limits it has."""

    name: str
    make: Callable
    inputs: Callable = scores_for
    draws: bool = False  # random: `samples` differ
    masks: bool = True
    hot: bool = True  # beta -> 0 is the uniform matrix
    rows: bool = True  # rows sum to one (else only columns)
    columns: bool = True
    many: int = 200  # Sinkhorn iterations enough for both margins


CASES = [
    Case("Sinkhorn", lambda b: Sinkhorn(b, iterations=200)),
    Case("Sinkhorn, adaptive", lambda b: Sinkhorn(b, LOCAL, iterations=200)),
    Case("GumbelSinkhorn", lambda b: GumbelSinkhorn(b, iterations=200, noise=0.1), draws=True),
    Case("GumbelSinkhorn, adaptive", lambda b: GumbelSinkhorn(b, LOCAL, iterations=200, noise=0.1), draws=True),
    Case(
        "GumbelSinkhorn, degrees",
        lambda b: GumbelSinkhorn(b, LocalTemperature(DegreeViolation(), 0.3, MeanTau()), 200, noise=0.1),
        draws=True,
    ),
    Case("ColumnSoftmax", ColumnSoftmax, rows=False),
    Case("NeuralSort", NeuralSort, inputs=keys_for, rows=False),
    Case("SoftSort", SoftSort, inputs=keys_for, rows=False),
    Case("SoftSort, squared", lambda b: SoftSort(b, power=2.0), inputs=keys_for, rows=False),
    Case("OT4P", OT4P, masks=False, hot=False, rows=False, columns=False),
    Case("StraightThrough(Sinkhorn)", lambda b: StraightThrough(Sinkhorn(b, iterations=200)), hot=False),
    Case("StraightThrough(NeuralSort)", lambda b: StraightThrough(NeuralSort(b)), inputs=keys_for, hot=False),
]
every = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_shape_dtype_and_sums(case, dtype, batch):
    inputs = case.inputs(ORDER).to(dtype)
    inputs = inputs.expand(*batch, *inputs.shape)
    relax = case.make(Constant(1.5))
    P = relax(inputs, generator=generator())
    assert P.shape == (*batch, 5, 5)
    assert P.dtype == dtype
    sampled = relax(inputs, samples=4, generator=generator())
    assert sampled.shape == (4 if case.draws else 1, *batch, 5, 5)
    if case.columns:
        torch.testing.assert_close(P.sum(-2), torch.ones_like(P[..., 0]))
    if case.rows:
        torch.testing.assert_close(P.sum(-1), torch.ones_like(P[..., 0]), atol=1e-3, rtol=0)


@every
def test_orientation_on_a_known_order(case):
    inputs = case.inputs(ORDER)
    relax = case.make(Constant(8.0))
    if isinstance(relax, OT4P):  # its scores are angles of a rotation, not preferences: see its own tests
        assert relax.decode(inputs).sort().values.tolist() == list(range(5))
        return
    assert relax.decode(inputs).tolist() == ORDER.tolist()
    P = relax(inputs, generator=generator())
    assert P.argmax(-2).tolist() == ORDER.tolist()  # in each position (column) the item (row)
    items = torch.arange(5.0, dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(reorder(P, items).squeeze(-1), ORDER.double(), atol=0.1, rtol=0)


@every
def test_cold_is_the_decoded_permutation(case):
    inputs = case.inputs(ORDER)
    relax = case.make(Constant(1e7))
    P = relax(inputs, generator=generator())
    torch.testing.assert_close(P, to_matrix(relax.decode(inputs), torch.float64), atol=1e-4, rtol=0)


@every
def test_hot_is_uniform(case):
    if not case.hot:
        pytest.skip("no such limit")
    P = case.make(Constant(1e-7))(case.inputs(ORDER), generator=generator())
    torch.testing.assert_close(P, torch.full_like(P, 0.2), atol=1e-4, rtol=0)


@every
@pytest.mark.parametrize("beta", [1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e3])
def test_gradients_are_finite_at_extreme_temperatures(case, beta, spread):
    inputs = (spread * case.inputs(ORDER)).float().requires_grad_()
    weights = torch.randn(5, 5, generator=generator(5))
    P = case.make(Constant(beta))(inputs, generator=generator())
    (P * weights).sum().backward()
    assert torch.isfinite(P).all()
    assert torch.isfinite(inputs.grad).all()


@every
def test_gradients_are_not_all_zero_where_it_is_soft(case):
    inputs = case.inputs(ORDER).requires_grad_()
    weights = torch.randn(5, 5, generator=generator(5), dtype=torch.float64)
    (case.make(Constant(1.0))(inputs, generator=generator()) * weights).sum().backward()
    assert inputs.grad.abs().max() > 1e-4


@every
def test_masks(case):
    inputs, relax = case.inputs(ORDER), case.make(Constant(1.0))
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[4], allowed[:, 0] = False, False
    allowed[4, 0] = True  # item 4 is anchored in place 0, against its will
    if not case.masks:
        with pytest.raises(BadInput):
            relax(inputs, allowed=allowed)
        return
    P = relax(inputs, generator=generator(), allowed=allowed)
    assert (P[~allowed] == 0).all()
    assert P[4, 0].item() == pytest.approx(1.0, abs=1e-6)
    order = relax.decode(inputs, allowed=allowed)
    assert order[0] == 4
    # keys: the others move up by one; scores: 0, 3 and 1 keep their places and 2 gets the one that is left
    assert order.tolist()[1:] == ([2, 0, 3, 1] if case.inputs is keys_for else [0, 3, 1, 2])
    loose = inputs.clone().requires_grad_()
    (relax(loose, generator=generator(), allowed=allowed) * torch.rand(5, 5, generator=generator(1))).sum().backward()
    assert torch.isfinite(loose.grad).all()


@every
def test_the_schedule_is_followed(case):
    inputs = case.inputs(ORDER)
    relax = case.make(Anneal(1.0, 4.0, epochs=10))
    for epoch, beta in ((0, 1.0), (9, 4.0)):
        same = case.make(Constant(beta))(inputs, generator=generator())
        torch.testing.assert_close(relax(inputs, epoch=epoch, generator=generator()), same)


@every
def test_settings_show_in_the_repr(case):
    assert "beta=1.5" in repr(case.make(Constant(1.5)))


# --- Gumbel-Sinkhorn


def test_samples_differ_and_the_seed_decides():
    relax, scores = GumbelSinkhorn(Constant(1.0)), scores_for(ORDER)
    P = relax(scores, samples=3, generator=generator(1))
    assert (P[0] != P[1]).any()
    assert torch.equal(P, relax(scores, samples=3, generator=generator(1)))
    assert (relax(scores, samples=3, generator=generator(2)) != P).any()


def test_warm_up_switches_adaptation_on():
    scores = torch.rand(6, 6, generator=generator())
    adaptive = GumbelSinkhorn(Constant(2.0), LocalTemperature(max_boost=0.5), adapt_from=30)
    plain = GumbelSinkhorn(Constant(2.0))
    before, after = (adaptive(scores, epoch=epoch, generator=generator()) for epoch in (29, 30))
    assert torch.equal(before, plain(scores, generator=generator()))
    assert (after != before).any()
    assert adaptive.report(scores, epoch=29).rows_boosted == 0
    assert adaptive.report(scores, epoch=30).rows_boosted == 1


def test_a_learned_controller_gets_its_gradient_through_the_relaxation():
    learned = LearnedTemperature(max_boost=2.0)
    relax = GumbelSinkhorn(Constant(2.0), learned)
    relax(torch.rand(2, 6, 6, generator=generator()), samples=3, generator=generator()).square().sum().backward()
    assert learned.raw.grad.abs().min() > 0


def test_bad_settings_are_refused():
    with pytest.raises(BadInput):
        GumbelSinkhorn(iterations=0)
    with pytest.raises(BadInput):
        Sinkhorn(adapt_from=-1)
    with pytest.raises(BadInput):
        SoftSort(power=0.5)


def test_the_product_field_reaches_the_kernel_as_it_is():
    scores = torch.rand(6, 6, generator=generator(), dtype=torch.float64)
    local = LocalTemperature(ExcessEntropy(0.1), 0.5, Product())
    field = local(sinkhorn(2 * scores), 2.0)
    torch.testing.assert_close(gumbel_sinkhorn(scores, 2.0, local=local, noise=0.0), sinkhorn(field * scores))


# --- NeuralSort and SoftSort


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=7), st.floats(0.1, 5))
def test_sorting_operators_are_the_published_formulas_transposed_and_ascending(keys, beta):
    tensor = torch.tensor(keys, dtype=torch.float64)
    for ours, theirs in (
        (NeuralSort(Constant(beta)), reference.neuralsort(keys, beta)),
        (SoftSort(Constant(beta), 2.0), reference.softsort(keys, beta, 2.0)),
    ):
        P = ours(tensor).flip(-1).mT  # descending; positions x items
        np.testing.assert_allclose(P.numpy(), theirs, atol=1e-8)


@pytest.mark.parametrize("n", [5, 50, 300])
def test_neuralsort_sorts_narrow_values_and_the_published_variant_does_not(n):
    """30 lists from [10, 11]: train-free, decoded from the soft matrix as in the paper."""
    values = 10 + torch.rand(30, n, generator=generator())
    truth = values.argsort(-1)
    correct, published = (NeuralSort(Constant(100.0), flag) for flag in (False, True))
    by_correct = hardened(correct(values)).argmax(-2)
    by_published = hardened(published(values)).argmax(-2)
    assert order_tau(by_correct, truth).min() > 0.999
    assert order_tau(by_published, truth).mean() < (0.7 if n == 5 else 0.2)


def test_in_the_published_variant_the_pairwise_term_cancels():
    keys = torch.tensor([0.3, 0.1, 0.8], dtype=torch.float64)
    P = NeuralSort(Constant(2.0), as_published=True)(keys)
    place = torch.tensor([-2.0, 0.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(P, torch.softmax(2.0 * keys.unsqueeze(-1) * place, dim=-1))


# --- straight-through


def test_straight_through_is_hard_forwards_and_soft_backwards():
    scores = torch.rand(4, 6, 6, generator=generator(), dtype=torch.float64).requires_grad_()
    soft = Sinkhorn(Constant(2.0))
    weights = torch.rand(6, 6, generator=generator(1), dtype=torch.float64)
    hard = StraightThrough(soft)(scores)
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    assert (hard.sum(-1) == 1).all()
    assert (hard.sum(-2) == 1).all()
    (a,) = torch.autograd.grad((hard * weights).sum(), scores)
    (b,) = torch.autograd.grad((soft(scores) * weights).sum(), scores)
    torch.testing.assert_close(a, b)


def test_straight_through_reports_what_its_soft_one_does():
    scores = torch.rand(2, 6, 6, generator=generator())
    soft = GumbelSinkhorn(Constant(2.0), LocalTemperature(max_boost=0.5))
    report = StraightThrough(soft).report(scores, epoch=1)
    assert report is not None
    assert report.log() == soft.report(scores, epoch=1).log()
    assert StraightThrough(NeuralSort()).report(scores[..., 0]) is None


# --- OT4P


def skew_scores(n: int, seed: int, size: float = 1.0) -> torch.Tensor:
    return size * torch.randn(n, n, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_ot4p_base_is_a_rotation_between_permutations(n):
    base = rotated_base(n, seed=1)
    torch.testing.assert_close(base @ base.T, torch.eye(n, dtype=torch.float64))
    assert torch.linalg.det(base).item() == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 1000), st.floats(0.05, 0.95))
def test_fractional_powers_of_rotations(n, seed, tau):
    A = skew_scores(n, seed, 0.5).numpy()
    skew = np.triu(A, 1) - np.triu(A, 1).T
    skew *= min(1.0, 3.0 / max(np.abs(np.linalg.eigvals(skew)).max(), 1e-9))  # angles below pi: one logarithm
    ours = fractional_power(torch.from_numpy(expm(skew)), tau).numpy()
    np.testing.assert_allclose(ours, expm(tau * skew), atol=1e-9)


def test_a_half_turn_stays_real_and_orthogonal():
    """Eigenvalue -1 twice: complex powers leave an imaginary part here, and its real part is not orthogonal."""
    X = torch.diag(torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=torch.float64))
    quarter = fractional_power(X, 0.5)
    torch.testing.assert_close(quarter @ quarter.T, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(quarter @ quarter, X)


@pytest.mark.parametrize("seed", range(6))
def test_ot4p_ends_at_the_rotation_and_at_its_nearest_permutation(seed):
    scores = skew_scores(6, seed, 2.0)
    rotation = OT4P().rotation(scores)
    nearest = to_matrix(OT4P().decode(scores), torch.float64)
    torch.testing.assert_close(towards_permutation(rotation, 0.0), nearest)
    warm = OT4P(Constant(1.0))(scores)
    odd = torch.linalg.det(nearest) < 0
    torch.testing.assert_close(warm[:, :-1], rotation[:, :-1])
    torch.testing.assert_close(warm[:, -1], -rotation[:, -1] if odd else rotation[:, -1])
    half = OT4P(Constant(2.0))(scores)
    torch.testing.assert_close(half @ half.T, torch.eye(6, dtype=torch.float64))
    assert (half - nearest).norm() < (warm - nearest).norm()


def test_ot4p_gradient_holds_the_transformation_constant():
    scores = skew_scores(5, 1).requires_grad_()
    weights = skew_scores(5, 2)
    relax = OT4P(Constant(3.0))
    (a,) = torch.autograd.grad((relax(scores) * weights).sum(), scores)
    with torch.no_grad():
        rotation = relax.rotation(scores)
        T = towards_permutation(rotation, 1 / 3) @ rotation.mT
    (b,) = torch.autograd.grad((T @ relax.rotation(scores) * weights).sum(), scores)
    torch.testing.assert_close(a, b)


def test_ot4p_with_a_moving_base_finds_an_even_permutation():
    """As its authors use it: one matrix, the base moved after every step."""
    truth = to_matrix(torch.tensor([1, 2, 3, 4, 0]), torch.float64)
    relax, scores = OT4P(Constant(2.0)), torch.zeros(5, 5, dtype=torch.float64)
    moved, zero = relax.moved(skew_scores(5, 7))
    torch.testing.assert_close(moved.rotation(zero), relax.rotation(skew_scores(5, 7)))
    for _ in range(200):
        scores.requires_grad_()
        loss = (relax(scores) - truth).square().sum()
        (gradient,) = torch.autograd.grad(loss, scores)
        relax, scores = relax.moved(scores.detach() - 0.05 * gradient)
    assert torch.equal(to_matrix(relax.decode(scores), torch.float64), truth)


def test_an_odd_permutation_is_on_the_border_of_its_region():
    """The rotation that stands for it is as near to n - 1 even permutations: descent passes it, and does not settle."""
    odd = torch.tensor([1, 0, 2, 3, 4])
    rotation = to_matrix(odd, torch.float64)
    rotation[:, -1] *= -1  # determinant +1
    values = [(to_matrix(p) * rotation).sum().item() for p in torch.tensor(list(permutations(range(5))))]
    assert sum(value == max(values) for value in values) == 5
