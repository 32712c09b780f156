"""Gumbel-Sinkhorn: the noise is Gumbel noise, belongs to its seed, and the gradients reach scores and beta."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import unshuffle as us
from unshuffle.compute.jit import have_numba
from unshuffle.operators._sinkhorn import engine, noise

needs_numba = pytest.mark.skipif(not have_numba, reason="tests the kernel")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise_of(samples: int, batch: int, n: int, seed: int = 0) -> Tensor:
    """The noise itself, taken out of a draw: one iteration of a single row and column normalisation hides it, so ask for it."""
    return noise.gumbel(torch.arange(samples * batch), n, n, noise.new_key(seeded(seed)), torch.float64)


@needs_numba
@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 33, 100, 1100])
def test_the_kernel_draws_the_same_noise_as_torch(n):
    from unshuffle.operators._sinkhorn import logits

    expected = noise.gumbel(torch.tensor([1]), n, n, (123456789, 4000000000), torch.float64)[0]
    for dtype, bound in ((np.float64, 1e-6), (np.float32, 5e-3)):
        got = np.empty(n * n, dtype)
        stream = tuple(np.uint32(word) for word in (123456789, 4000000000, 0, 1))
        zeros = np.zeros((1, n * n), dtype)
        nothing = np.empty((0, n), dtype)
        given = logits.Problem(zeros, np.ones(1, dtype), zeros[:0], nothing, nothing, dtype(1), stream, (n, n, 1))
        logits.logits(got, given, 1, logits.new_words(n), given.scores[0, :0])
        assert np.abs(got - expected.numpy().reshape(-1)).max() < bound


def test_philox_known_answers():
    """The published test vectors of Philox4x32-10."""
    for counter, key, words in (
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ):
        c = tuple(torch.tensor([x]) for x in counter)
        assert [int(w) for w in noise.philox(c, key)] == list(words)  # pyright: ignore[reportArgumentType]


def test_noise_is_gumbel():
    x = noise_of(4, 5, 200).reshape(-1).numpy()  # 800,000 draws
    assert x.mean() == pytest.approx(np.euler_gamma, abs=4 * math.pi / math.sqrt(6 * x.size))
    assert x.var() == pytest.approx(math.pi**2 / 6, rel=0.01)
    assert stats.kstest(x, stats.gumbel_r.cdf).pvalue > 1e-3
    assert np.isfinite(x).all()


def test_noise_is_independent_across_entries_samples_and_seeds():
    x = noise_of(2, 3, 100)
    flat = x.reshape(6, -1)
    correlations = np.corrcoef(flat.numpy()) - np.eye(6)  # between matrices
    assert np.abs(correlations).max() < 4 / 100
    for lag in (1, 2, 3, 25, 50, 99, 100, 2500, 5000):  # within: neighbours, and blocks of one counter
        a, b = flat[:, lag:].reshape(-1), flat[:, :-lag].reshape(-1)
        assert abs(float(torch.corrcoef(torch.stack((a, b)))[0, 1])) < 4 / math.sqrt(a.numel())
    again, other = noise_of(2, 3, 100), noise_of(2, 3, 100, seed=1)
    assert torch.equal(again, x)
    assert abs(float(torch.corrcoef(torch.stack((x.reshape(-1), other.reshape(-1))))[0, 1])) < 4 / math.sqrt(x.numel())
    assert x.unique().numel() > 0.9999 * x.numel()


@needs_numba
def test_draws_match_the_definition_with_that_noise():
    for n in (6, 40):
        scores = torch.randn(3, n, n, dtype=torch.float64)
        beta = 0.5 + torch.rand(3, n, n, dtype=torch.float64)
        P = us.gumbel_sinkhorn(scores, beta, samples=4, generator=seeded(3), noise=0.7)
        g = noise_of(4, 3, n, seed=3).reshape(4, 3, n, n)
        torch.testing.assert_close(P, us.sinkhorn(beta * (scores + 0.7 * g)), atol=1e-6, rtol=1e-5)


def test_seed_makes_it_repeatable_and_threads_do_not_matter():
    scores = torch.randn(40, 30, 30)
    before = torch.get_num_threads()
    draws = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        draws.append(us.gumbel_sinkhorn(scores, 2.0, samples=3, generator=seeded(7)))
    torch.set_num_threads(before)
    assert torch.equal(*draws)
    generator = seeded(7)
    first = us.gumbel_sinkhorn(scores, 2.0, samples=3, generator=generator)
    assert torch.equal(first, draws[0])
    assert not torch.equal(us.gumbel_sinkhorn(scores, 2.0, samples=3, generator=generator), first)
    torch.manual_seed(5)
    a = us.gumbel_sinkhorn(scores)
    torch.manual_seed(5)
    assert torch.equal(us.gumbel_sinkhorn(scores), a)


def draw_in(how: str, scores: Tensor, beta: Tensor, **settings) -> tuple[Tensor, Tensor]:
    """Five samples and the gradient of their squares, by the kernel or by torch."""
    s = scores.clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "have_numba", how == "kernel")
        P = us.gumbel_sinkhorn(s, beta, samples=5, generator=seeded(4), **settings)
        return P.detach(), torch.autograd.grad(P.square().sum(), s)[0]


@pytest.mark.parametrize("how", [pytest.param("kernel", marks=needs_numba), "torch"])
@pytest.mark.parametrize("shape", [(20, 6, 6), (6, 2, 30, 30), (2, 1, 1)])
def test_processes_that_split_a_batch_draw_what_one_with_all_of_it_would(how, shape):
    scores, beta = torch.randn(shape), 0.5 + torch.rand(shape)
    scores[0] *= 300  # its scalings need powers of two
    entries = shape[0]
    cut = entries // 2
    P, grad = draw_in(how, scores, beta)
    a, b = slice(0, cut), slice(cut, entries)
    parts = [draw_in(how, scores[k], beta[k], share=(k.start, entries)) for k in (a, b)]
    torch.testing.assert_close(torch.cat([p for p, _ in parts], 1), P)
    torch.testing.assert_close(torch.cat([g for _, g in parts]), grad)
    relax = us.GumbelSinkhorn(us.Constant(2.0))
    whole = relax(scores, generator=seeded(4))
    torch.testing.assert_close(relax(scores[b], generator=seeded(4), share=(cut, entries)), whole[b])


def test_a_share_must_fit_into_its_batch():
    for share in ((-1, 4), (2, 3), (0, 1)):
        with pytest.raises(us.BadInput, match="no room for 2 entries"):
            us.gumbel_sinkhorn(torch.zeros(2, 3, 3), share=share)


@pytest.mark.parametrize("shape", [(), (2, 1, 1), (6, 6), (2, 6, 6), (2, 6, 1), (1, 6), (1, 1, 1)])
@pytest.mark.parametrize("samples", [None, 3])
def test_gradients_of_scores_and_beta(shape, samples):
    scores = torch.randn(2, 6, 6, dtype=torch.float64, requires_grad=True)
    beta = (0.5 + torch.rand(shape, dtype=torch.float64)).requires_grad_()

    def draw(s, b):
        return us.gumbel_sinkhorn(s, b, samples=samples, iterations=4, generator=seeded())

    assert torch.autograd.gradcheck(draw, (scores, beta))
    if shape in ((), (2, 6, 6)) and samples:
        assert torch.autograd.gradgradcheck(draw, (scores, beta))


@needs_numba
@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("n", [6, 30])
def test_gradients_do_not_depend_on_threads_or_on_how_samples_are_shared(batch, n):
    scores, beta = torch.randn(batch, n, n, dtype=torch.float64), 0.5 + torch.rand(batch, n, n, dtype=torch.float64)
    scores[0] *= 400  # the scalings of one of them need powers of two
    weights = torch.randn(5, batch, n, n, dtype=torch.float64)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        s, b = scores.clone().requires_grad_(), beta.clone().requires_grad_()
        P = us.gumbel_sinkhorn(s, b, samples=5, generator=seeded(1))
        found.append(torch.autograd.grad((P * weights).sum(), (s, b)))
    torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-9, atol=1e-12)


BETAS = {
    "one": lambda n: torch.ones((), dtype=torch.float64),
    "a number": lambda n: torch.tensor(0.7, dtype=torch.float64),
    "a field": lambda n: 0.5 + torch.rand(3, n, n, dtype=torch.float64, generator=seeded(2)),
}


@needs_numba
@pytest.mark.parametrize("beta", ["one", "a number", "a field"])
@pytest.mark.parametrize("n", [2, 30])
def test_samples_that_are_added_up_give_the_gradient_of_samples_one_by_one(n, beta):
    """Where no gradient of beta is wanted, the samples of a matrix are summed before beta multiplies them."""
    scores, weights = torch.randn(3, n, n, dtype=torch.float64), torch.randn(5, 3, n, n, dtype=torch.float64)
    scores[0] *= 400  # the scalings of one of them need powers of two
    found = []
    for asked in (False, True):
        s, b = scores.clone().requires_grad_(), BETAS[beta](n).requires_grad_(asked)
        P = us.gumbel_sinkhorn(s, b, samples=5, generator=seeded(1))
        found.append(torch.autograd.grad((P * weights).sum(), s)[0])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


class WrittenDown(us.LocalTemperature):
    """The same controller, but the kernels know only the original."""


@needs_numba
@pytest.mark.parametrize(("n", "dtype"), [(21, torch.float64), (50, torch.float32), (300, torch.float32)])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_field_that_is_not_written_down_is_the_same(n, dtype, noise):
    scores = torch.randn(3, n, n, dtype=dtype, generator=seeded(n))
    scores[1] *= 400  # the scalings of one of them need powers of two
    beta = torch.tensor([0.7, 1.0, 1.9], dtype=dtype).reshape(3, 1, 1)
    settings, found = (us.ExcessEntropy(0.1), 0.5), []
    assert us.LocalTemperature(*settings).of_scores(scores, beta) is not None
    assert WrittenDown(*settings).of_scores(scores, beta) is None
    for kind in (us.LocalTemperature, WrittenDown):
        s = scores.clone().requires_grad_()
        P = us.gumbel_sinkhorn(s, beta, samples=2, local=kind(*settings), noise=noise, generator=seeded(1))
        found += [P, torch.autograd.grad(P.square().sum(), s)[0]]
    close = {"rtol": 1e-5, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-14}
    torch.testing.assert_close(found[0], found[2], **close)
    torch.testing.assert_close(found[1], found[3], **close)
    plain = us.gumbel_sinkhorn(scores, beta, samples=2, noise=noise, generator=seeded(1))
    assert (found[0] - plain).abs().max() > 1e-3, "the controller does something"


@needs_numba
def test_second_derivatives_with_a_field_that_is_not_written_down():
    scores = torch.randn(2, 21, 21, dtype=torch.float64, generator=seeded(1)).requires_grad_()
    found = []
    for kind in (us.LocalTemperature, WrittenDown):
        P = us.gumbel_sinkhorn(scores, 1.5, local=kind(us.ExcessEntropy(0.1), 0.5), generator=seeded(1))
        (first,) = torch.autograd.grad(P.square().sum(), scores, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), scores)[0])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)
    assert found[0].abs().max() > 0


@needs_numba
def test_where_a_controller_has_to_see_the_soft_permutation_it_does():
    local, scores = us.LocalTemperature(), torch.randn(2, 30, 30)
    one = torch.ones(())
    assert local.of_scores(scores, one) is not None
    assert local.of_scores(scores[..., :9, :9], one) is None, "small ones go eight at a time"
    assert local.of_scores(scores, torch.ones(30, 30)) is None
    assert local.of_scores(scores, one.clone().requires_grad_()) is None
    assert us.LocalTemperature(combine=us.MeanTau()).of_scores(scores, one) is None
    assert us.LocalTemperature(us.DegreeViolation()).of_scores(scores, one) is None
    scores[0, 1, 2] = -math.inf
    forbidden = (us.gumbel_sinkhorn(scores, local=kind(), generator=seeded(1)) for kind in (type(local), WrittenDown))
    torch.testing.assert_close(*forbidden, rtol=0, atol=0)
    scores[0, 1] = -math.inf
    with pytest.raises(us.BadInput, match="row 1 of matrix 0"):
        us.gumbel_sinkhorn(scores, local=local)
    scores[0, 1] = math.nan
    with pytest.raises(us.BadInput, match="NaN"):
        us.gumbel_sinkhorn(scores, local=local)


def test_without_noise_it_is_sinkhorn():
    scores = torch.randn(3, 7, 7)
    assert torch.equal(us.gumbel_sinkhorn(scores, 1.7, noise=0.0), us.sinkhorn(1.7 * scores))
    field = 0.5 + torch.rand(7, 7)
    P = us.gumbel_sinkhorn(scores, field, noise=0.0, samples=2)
    torch.testing.assert_close(P, us.sinkhorn(field * scores).expand(2, 3, 7, 7))


def test_large_beta_is_the_best_assignment_of_the_noisy_scores():
    scores = torch.randn(6, 6, dtype=torch.float64)
    P = us.gumbel_sinkhorn(scores, 60.0, generator=seeded(2), iterations=5000)
    g = noise_of(1, 1, 6, seed=2)[0]
    assert torch.equal(P.argmax(0), us.assign(scores + g))


def test_masks_anchor_and_leave_no_gradient():
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[2], allowed[:, 2] = False, False
    allowed[2, 2] = True
    scores = torch.randn(4, 5, 5, dtype=torch.float64, requires_grad=True)
    beta = torch.full((5, 5), 1.5, dtype=torch.float64, requires_grad=True)
    P = us.gumbel_sinkhorn(scores, beta, samples=3, allowed=allowed, generator=seeded())
    assert (P[..., ~allowed] == 0).all()
    (P**2).sum().backward()
    for grad in (scores.grad, beta.grad):
        assert grad is not None
        assert grad.isfinite().all()
        assert (grad[..., ~allowed] == 0).all()


def test_a_controller_sees_the_settled_permutation_without_gradient():
    scores = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    seen = []

    def local(Q, beta, allowed):
        seen.append(Q)
        return beta * torch.full_like(Q, 0.5)

    P = us.gumbel_sinkhorn(scores, 2.0, local=local, noise=0.0)
    torch.testing.assert_close(seen[0], us.sinkhorn(2.0 * scores).detach())
    assert not seen[0].requires_grad
    torch.testing.assert_close(P, us.sinkhorn(1.0 * scores))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"beta": 0.0}, "beta"),
        ({"beta": float("nan")}, "beta"),
        ({"beta": torch.ones(3, 3)}, "broadcast"),
        ({"beta": torch.tensor(0.0)}, "beta .* above 0"),
        ({"beta": torch.tensor([[-2.0]], requires_grad=True)}, "beta .* above 0 .* -2"),
        ({"beta": torch.tensor([[1.0], [-0.5]])}, "beta .* above 0 .* -0.5"),
        ({"beta": torch.tensor([[1.0, 1.0], [1.0, float("nan")]])}, "^beta must be finite, but row 1, column 1 is NaN"),
        ({"local": us.ExcessEntropy(0.6)}, r"write us.LocalTemperature\(us.ExcessEntropy\(threshold=0.6"),
        ({"local": us.DegreeViolation()}, r"write us.LocalTemperature\(us.DegreeViolation\("),
        ({"local": lambda Q: (Q, Q)}, r"write us.LocalTemperature\(<function"),
        ({"local": us.Constant(1.0)}, "local must be a function of"),
        ({"samples": 0}, "samples"),
        ({"noise": -1.0}, "noise"),
        ({"iterations": 0}, "iterations"),
        ({"allowed": torch.zeros(2, 2, dtype=torch.bool)}, "row 0"),
    ],
)
def test_bad_settings_in_one_sentence(arguments, words):
    with pytest.raises(us.BadInput, match=words):
        us.gumbel_sinkhorn(torch.zeros(2, 2), **arguments)


def test_an_error_of_a_controller_is_its_own():
    def local(Q, beta, allowed):
        raise TypeError("of my own")

    with pytest.raises(TypeError, match="of my own"):
        us.gumbel_sinkhorn(torch.zeros(2, 2), local=local)
