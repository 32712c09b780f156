"""The Sinkhorn operator against its definition: values, gradients, stability, masks."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import unshuffle as us
from reference import log_sinkhorn
from unshuffle.compute.jit import have_numba
from unshuffle.operators._sinkhorn import checks, in_torch
from unshuffle.operators._sinkhorn.block import Block
from unshuffle.operators._sinkhorn.engine import perturbed_sinkhorn

needs_numba = pytest.mark.skipif(not have_numba, reason="tests the kernel")
SIZES = [
    (1, 1),
    (2, 2),
    (5, 5),
    (3, 7, 7),
    (16, 10, 10),
    (19, 10, 10),
    (2, 9, 4, 4),
    (20, 20),
    (3, 33, 33),
    (2, 50, 50),
    (131, 131),
]
BOUND = {torch.float32: 1e-4, torch.float64: 1e-9}


def both(scores: Tensor, iterations: int, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ours and the definition's values and gradients."""
    ours, definition = scores.detach().clone().requires_grad_(), scores.detach().clone().requires_grad_()
    P, Q = us.sinkhorn(ours, iterations), log_sinkhorn(definition, iterations)
    (P * weights).sum().backward()
    (Q * weights).sum().backward()
    assert ours.grad is not None
    assert definition.grad is not None
    return P.detach(), ours.grad, Q.detach(), definition.grad


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp_min(1e-3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("iterations", [1, 2, 10, 25])
def test_values_and_gradient_are_those_of_the_definition(shape, iterations, dtype):
    scores, weights = 3 * torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    P, grad, Q, expected = both(scores, iterations, weights)
    assert P.dtype == dtype
    assert (P - Q).abs().max() < BOUND[dtype]
    assert relative(grad, expected) < BOUND[dtype]


@given(n=st.integers(1, 24), batch=st.integers(1, 18), scale=st.floats(0.01, 60), seed=st.integers(0, 10**6))
def test_any_size_batch_and_spread(n, batch, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    scores, weights = torch.randn(2, batch, n, n, generator=generator)
    P, grad, Q, expected = both((scale * scores).double(), 6, weights.double())
    P32, grad32, _, _ = both(scale * scores, 6, weights)
    assert relative(grad, expected) < 1e-9
    assert (P - Q).abs().max() < 1e-9
    assert (P32 - Q).abs().max() < 1e-5  # float32 rounds the scores: at 60 by 4e-6
    assert (grad32 - expected).abs().max() < 1e-3 * expected.abs().max().clamp_min(1)


def test_gradcheck_and_second_derivatives():
    scores = torch.randn(2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: us.sinkhorn(s, 7), (scores,))
    assert torch.autograd.gradgradcheck(lambda s: us.sinkhorn(s, 3), (scores,))


def test_layouts_of_memory_do_not_matter():
    base = torch.randn(4, 6, 6, dtype=torch.float64)
    plain = us.sinkhorn(base)
    assert torch.equal(us.sinkhorn(base.mT.contiguous().mT), plain)
    assert torch.equal(us.sinkhorn(base.repeat(1, 1, 2)[..., :6]), plain)
    expanded = base[:1].expand(3, 6, 6).requires_grad_()
    assert torch.equal(us.sinkhorn(expanded), plain[:1].expand(3, 6, 6))
    single = base[0].clone().requires_grad_()
    (us.sinkhorn(single.expand(3, 6, 6)) * base[1:]).sum().backward()
    _, expected, _, _ = both(base[:1].expand(3, 6, 6), 10, base[1:])
    assert single.grad is not None
    torch.testing.assert_close(single.grad, expected.sum(0))
    assert us.sinkhorn(torch.empty(0, 5, 5)).shape == (0, 5, 5)


def hard_cases() -> dict[str, Tensor]:
    n = 30
    uniform = 2 * torch.rand(n, n) - 1
    return {
        "spread 100": 100 * uniform,
        "spread 10000": 10_000 * uniform,
        "constant rows": torch.linspace(-1e4, 1e4, n).unsqueeze(1).expand(n, n).clone(),
        "constant columns": torch.linspace(-1e4, 1e4, n).expand(n, n).clone(),
        "permutation times 1e4": 1e4 * us.to_matrix(torch.randperm(n)),
        "duplicated rows": (1e3 * uniform)[torch.randint(0, 5, (n,))],
        "all equal": torch.zeros(n, n),
    }


@pytest.mark.parametrize("name", hard_cases())
def test_stable_at_any_spread(name):
    scores = hard_cases()[name]
    weights = torch.randn_like(scores)
    P, grad, _, _ = both(scores, 10, weights)
    _, _, Q, expected = both(scores.double(), 10, weights.double())
    assert P.isfinite().all()
    assert grad.isfinite().all()
    assert (P - Q).abs().max() < 1e-4
    assert relative(grad.double(), expected) < 1e-3
    assert us.marginal_error(P) <= us.marginal_error(Q) + 1e-4


@needs_numba
@pytest.mark.parametrize("n", [20, 50])
def test_scalings_that_drift_are_exact(n):
    """Crowded items drift to free places, a little further with every iteration: far in the end, but each row one way only."""
    draw = torch.Generator().manual_seed(n)
    scores = -800.0 * (torch.rand(9, n, 1, generator=draw) - torch.linspace(0, 1, n)) ** 2
    P, ours, Q, definition = both(scores, 30, torch.randn(9, n, n, generator=draw))
    assert torch.allclose(P, Q, atol=1e-4)
    assert torch.allclose(ours, definition, atol=1e-4)


@needs_numba
@pytest.mark.parametrize("n", [3, 10, 50, 131])
@pytest.mark.parametrize("field", [False, True])
@pytest.mark.parametrize("which", [slice(None), [5, 6]], ids=["all", "some that are not looked at first"])
def test_weak_columns_are_exact(n, field, which):
    """A network whose inputs lie far from 0 gives all items nearly the same scores; that is an offset, not a difficulty."""
    draw = torch.Generator().manual_seed(n)
    scores, offsets = 3 * torch.randn(17, n, n, generator=draw), 100 * torch.randn(17, 1, n, generator=draw)
    scores[which] += offsets[which]
    beta = 0.5 + torch.rand(17, n, 1, generator=draw).expand(17, n, n) if field else torch.full((17, 1, 1), 0.7)
    if field:  # rows of other betas would weigh the offsets differently: a harder problem, which this is not about
        scores = scores / beta
    weights = torch.randn(17, n, n, generator=draw)
    ours, exact = scores.clone().requires_grad_(), scores.double().requires_grad_()
    own_beta, exact_beta = beta.clone().requires_grad_(), beta.double().requires_grad_()
    P = us.gumbel_sinkhorn(ours, own_beta, noise=0.0, samples=1, iterations=7)[0]
    Q = log_sinkhorn(exact * exact_beta, 7)
    (P * weights).sum().backward()
    (Q * weights).sum().backward()
    assert ours.grad is not None
    assert exact.grad is not None
    assert own_beta.grad is not None
    assert exact_beta.grad is not None
    assert torch.allclose(P.double(), Q, atol=1e-4)  # scores of 300 are given to 3e-5
    assert torch.allclose(ours.grad.double(), exact.grad, atol=1e-4)
    assert torch.allclose(own_beta.grad.double(), exact_beta.grad, atol=3e-2, rtol=1e-4)


def test_every_size_in_even_lines():
    """Up to n = 64 the products are sums of rows in whole chunks, up to 128 rows are held in registers: sizes on either side of every chunk, with dummies in the last row too."""
    draw = torch.Generator().manual_seed(3)
    for n in (
        7,
        8,
        9,
        15,
        16,
        17,
        24,
        25,
        33,
        40,
        41,
        48,
        49,
        56,
        57,
        63,
        64,
        65,
        80,
        81,
        96,
        97,
        111,
        112,
        113,
        127,
        128,
        129,
    ):
        scores, weights = 3 * torch.randn(2, n, n, generator=draw), torch.randn(2, n, n, generator=draw)
        scores[1, :, n // 2] -= 60  # a weak column
        for alike in (1, 3):
            ours, exact = scores.clone().requires_grad_(), scores.double().requires_grad_()
            P = perturbed_sinkhorn(ours, iterations=10, block=Block(alike=alike))
            Q = in_torch.plain_sinkhorn(exact, 10, alike=alike)
            (found,), (expected,) = (
                torch.autograd.grad(P, ours, weights),
                torch.autograd.grad(Q, exact, weights.double()),
            )
            assert (P - Q).abs().max() < 3e-6
            assert (found - expected).abs().max() < 3e-6 * expected.abs().max().clamp_min(1)


def like_trained(batch: int, n: int, strength: float, draw: torch.Generator) -> Tensor:
    """Scores as a network gives them in the middle of learning to sort: smooth in the item and the position, offsets of thousands
    by position, and items that crowd at one end, from which they spread by log n an iteration."""
    value, place = torch.rand(batch, n, 1, generator=draw) ** 4, torch.linspace(0, 1, n)
    bend = torch.randn(batch, 1, 3, generator=draw) @ torch.stack([place, (6 * place).sin(), (17 * place).cos()])
    return strength * (1500 * bend - 3000 * (value - place) ** 2 + torch.randn(batch, n, n, generator=draw))


@pytest.mark.parametrize(
    ("n", "strength", "iterations"), [(7, 3.0, 60), (50, 0.3, 10), (50, 3.0, 40), (101, 1.0, 20), (131, 1.0, 20)]
)
@pytest.mark.parametrize("kind", ["beta", "field", "masked"])
def test_trained_scores_are_exact(n, strength, iterations, kind):
    """Values and gradients to 1e-5 of what float64 gives for the same float32 logits, whatever leaves the range of floats."""
    draw = torch.Generator().manual_seed(n)
    scores, weights = like_trained(9, n, strength, draw), torch.randn(9, n, n, generator=draw)
    if kind == "masked":
        hidden = (torch.rand(n, n, generator=draw) < 0.3) & ~torch.eye(n, dtype=torch.bool)
        scores[1:] = scores[1:].masked_fill(hidden, -torch.inf)
    # a power of two: the logits are then the same numbers in float32 and float64
    beta = torch.full((9, n, n) if kind == "field" else (9, 1, 1), 0.5)
    ours, own_beta = scores.clone().requires_grad_(), beta.clone().requires_grad_()
    exact, exact_beta = scores.double().requires_grad_(), beta.double().requires_grad_()
    P = us.gumbel_sinkhorn(ours, own_beta, noise=0.0, samples=1, iterations=iterations)[0]
    shown = exact.masked_fill(exact == -torch.inf, 0.0)  # 0 * -inf is not 0
    logits = (exact_beta * shown).masked_fill(exact == -torch.inf, -torch.inf)
    Q = log_sinkhorn(logits, iterations)
    found = torch.autograd.grad((P * weights).sum(), (ours, own_beta))
    expected = torch.autograd.grad((Q * weights).sum(), (exact, exact_beta))
    assert (P - Q).abs().max() < 1e-5
    assert (found[0] - expected[0]).abs().max() < 1e-5 * expected[0].abs().max().clamp_min(1)
    # a sum of n^2 gradients, each off by some 3e-7, times scores
    assert ((found[1] - expected[1]).abs() <= 3e-6 * shown.abs().max()).all()


@needs_numba
def test_some_of_these_scores_leave_the_range_of_floats():
    """The tests above are about moved matrices, and the state has the same shapes for all of them."""
    from unshuffle.operators._sinkhorn import kernel, noise

    draw = torch.Generator().manual_seed(0)
    for n, T, kinds in ((50, 40, {kernel.EASY, kernel.MOVED}), (7, 60, {kernel.EASY, kernel.PACKED, kernel.MOVED})):
        seen = set()
        for strength in (0.0, 0.3, 3.0):
            scores = like_trained(17, n, strength, draw)
            _, state = kernel.forward(kernel.problem(scores, None, noise.SILENT), scores, 2, T, None)
            assert [x.shape for x in state] == [(34, T, n), (34, T + 1, n)] * 2 + [(34,), (34,), (34, n), (1,)]
            seen |= set(state.kind.tolist())
        assert kinds <= seen


def test_easy_hard_and_packed_matrices_in_one_batch():
    """A batch in which the scalings of some matrices need powers of two: nothing leaks from one to the other."""
    for n, count in ((10, 21), (40, 5)):
        scores = torch.randn(count, n, n, dtype=torch.float64)
        scores[::4] *= 5000
        weights = torch.randn_like(scores)
        P, grad, Q, expected = both(scores, 10, weights)
        assert (P - Q).abs().max() < 1e-9
        for k in range(count):
            assert relative(grad[k], expected[k]) < 1e-8


def test_tolerance_mode_stops_when_rows_sum_to_one():
    scores = torch.randn(5, 12, 12, dtype=torch.float64).requires_grad_()
    P = us.sinkhorn(scores, 500, tolerance=1e-6)
    assert us.marginal_error(P).max() <= 1e-6
    assert us.marginal_error(us.sinkhorn(scores, 3)).max() > 1e-4
    weights = torch.randn_like(P)
    (P * weights).sum().backward()
    _, _, _, expected = both(scores, 200, weights)
    assert scores.grad is not None
    assert relative(scores.grad, expected) < 1e-3
    capped = us.sinkhorn(scores, 4, tolerance=1e-12)
    torch.testing.assert_close(capped, us.sinkhorn(scores, 4))


def through_torch(scores: Tensor, iterations: int, tolerance: float | None) -> Tensor:
    """What runs on other devices, and without numba."""
    return in_torch.TorchSinkhorn.apply(scores, iterations, tolerance)  # pyright: ignore[reportReturnType]


def through_the_door(scores: Tensor, iterations: int, tolerance: float | None) -> Tensor:
    return us.sinkhorn(scores, iterations, tolerance=tolerance)


@pytest.mark.parametrize("operator", [through_the_door, through_torch])
def test_each_matrix_stops_by_its_own_tolerance(operator):
    """In a batch of easy, middling and hard matrices each is what it would be alone, with its gradients, first and second."""
    spreads = torch.tensor([0.1, 1.0, 2.0, 4.0, 500.0], dtype=torch.float64)
    scores = (spreads[:, None, None] * torch.randn(5, 6, 6, dtype=torch.float64)).requires_grad_()
    weights = torch.randn(5, 6, 6, dtype=torch.float64)

    def results(s: Tensor, w: Tensor) -> list[Tensor]:
        P = operator(s, 60, 1e-3)
        (first,) = torch.autograd.grad((P * w).sum(), s, create_graph=True)
        (plain,) = torch.autograd.grad((P * w).sum(), s, retain_graph=True)
        (second,) = torch.autograd.grad((first * w).sum(), s)
        return [P.detach(), first.detach(), plain, second]

    together = results(scores, weights)
    torch.testing.assert_close(together[1], together[2])
    for k in range(5):
        alone = results(scores[k : k + 1].detach().requires_grad_(), weights[k : k + 1])
        for ours, own in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[k], own[0], rtol=1e-6, atol=1e-9)


def test_forbidden_entries_stay_zero_and_have_no_gradient():
    for n in (6, 30):
        allowed = torch.rand(n, n) < 0.5
        allowed |= us.to_matrix(torch.randperm(n)).bool()
        scores = torch.randn(9, n, n, dtype=torch.float64, requires_grad=True)
        P = us.sinkhorn(scores, 200, allowed=allowed)
        assert (P[:, ~allowed] == 0).all()
        assert us.marginal_error(P).max() < 0.2
        (P * torch.randn_like(P)).sum().backward()
        assert scores.grad is not None
        assert scores.grad.isfinite().all()
        assert (scores.grad[:, ~allowed] == 0).all()
        by_hand = scores.detach().masked_fill(~allowed, -torch.inf)
        torch.testing.assert_close(us.sinkhorn(by_hand, 200), P.detach())
        torch.testing.assert_close(P.detach(), log_sinkhorn(by_hand, 200))


def test_a_mask_is_examined_once_however_many_matrices_do_not_settle(monkeypatch):
    asked = []
    monkeypatch.setattr(checks, "why_infeasible", lambda *given, **more: asked.append(given) or "")
    checks._feasible.cache_clear()
    allowed = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) < 0.4
    for step in range(2):
        scores = 30 * torch.randn(9, 12, 12, generator=torch.Generator().manual_seed(step))
        us.sinkhorn(scores, 2, allowed | torch.eye(12, dtype=torch.bool))
    checks._feasible.cache_clear()
    assert len(asked) == 1


def test_an_anchor_fixes_its_row_and_column():
    allowed = torch.ones(8, 8, dtype=torch.bool)
    allowed[3], allowed[:, 5] = False, False
    allowed[3, 5] = True
    P = us.sinkhorn(torch.randn(8, 8), 20, allowed=allowed)
    assert P[3, 5] == pytest.approx(1)
    assert P[3].sum() == pytest.approx(1)


nan, inf = float("nan"), float("inf")
BAD = [
    (torch.tensor([[0.0, nan], [0.0, 0.0]]), "row 0, column 1.* is NaN"),
    (torch.tensor([[0.0, 0.0], [inf, 0.0]]), r"row 1, column 0.* is \+inf"),
    (torch.tensor([[-inf, -inf], [0.0, 0.0]]), "row 0 .* no allowed position"),
    (torch.tensor([[-inf, 0.0], [-inf, 0.0]]), "column 0 .* no allowed item"),
    (torch.tensor([[0, -inf, -inf], [0, -inf, -inf], [0.0, 1, 2]]), "only 1 allowed position"),
    (torch.zeros(3), "shape"),
    (torch.zeros(0, 0), "at least one of each"),
    (torch.zeros(2, 2, dtype=torch.int32), "float32 or float64"),
    (torch.zeros(2, 2, dtype=torch.int64), "float32 or float64"),
]


@pytest.mark.parametrize(("scores", "words"), BAD)
@pytest.mark.parametrize("copies", [1, 9])
def test_bad_scores_in_one_sentence(scores, words, copies):
    if copies > 1 and scores.ndim != 2:
        pytest.skip("not a matrix")
    batch = scores if copies == 1 else scores.expand(copies, *scores.shape).clone()
    with pytest.raises(us.BadInput, match=words):
        _unchecked(us.sinkhorn)(batch)


def _unchecked(function):
    """The function without the shape checks of the test run: what a user calls."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def test_bad_settings():
    with pytest.raises(us.BadInput, match="iterations"):
        us.sinkhorn(torch.zeros(2, 2), 0)
    with pytest.raises(us.BadInput, match="tolerance"):
        us.sinkhorn(torch.zeros(2, 2), 5, tolerance=-1.0)
    with pytest.raises(us.BadInput, match="bool mask"):
        _unchecked(us.sinkhorn)(torch.zeros(2, 2), allowed=torch.ones(2, 2))


@needs_numba
def test_the_torch_path_is_the_same_operator():
    """What runs on other devices, and without numba, in the same words and numbers."""
    scores, weights = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    scores[0] *= 1000
    P, grad, _, _ = both(scores, 10, weights)
    other = scores.clone().requires_grad_()
    Q = in_torch.TorchSinkhorn.apply(other, 10, None)
    (Q * weights).sum().backward()
    assert other.grad is not None
    assert (P - Q).abs().max() < 1e-9
    assert relative(other.grad, grad) < 1e-9


@needs_numba
def test_threads_do_not_change_the_result():
    scores = torch.randn(64, 40, 40)
    weights = torch.randn_like(scores)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(both(scores, 10, weights)[:2])
    finally:
        torch.set_num_threads(before)
    for P, grad in results[1:]:
        assert torch.equal(P, results[0][0])
        assert torch.equal(grad, results[0][1])


@needs_numba
def test_may_be_called_from_several_threads_at_once():
    scores = torch.randn(200, 20, 20)
    expected = us.sinkhorn(scores)
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(10):
            if not torch.equal(us.sinkhorn(scores), expected):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    assert not wrong


@needs_numba
def test_saved_memory_does_not_grow_with_the_iterations():
    """Beyond scores and P, the graph keeps 2T vectors and no matrix."""
    n, batch = 64, 4
    scores = torch.randn(batch, n, n, requires_grad=True)
    for iterations in (1, 10, 100):
        P = us.sinkhorn(scores, iterations)
        u, v, *_ = P.grad_fn.state  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        saved = P.grad_fn.saved_tensors  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        assert u.size + v.size == batch * n * (2 * iterations + 1)
        assert {t.data_ptr() for t in saved if t is not None} == {scores.data_ptr(), P.data_ptr()}
