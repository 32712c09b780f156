"""Not every item has a place: rectangles, rejection and a given number of placements, against the padded problem written out."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor

import unshuffle as us
from reference import log_sinkhorn
from unshuffle.compute.jit import have_numba
from unshuffle.operators._sinkhorn import engine, noise

if have_numba:
    from unshuffle.operators._sinkhorn import bordered


def padded(scores: Tensor, items: Tensor, positions: Tensor, keep: int | None = None) -> Tensor:
    """The definition: n - k dummy items and m - k dummy positions, all written out; k = 0 and dummies that meet for reject alone."""
    m, n = scores.shape[-2:]
    k = keep or 0
    batch = scores.shape[:-2]
    right = items.expand(*batch, m).unsqueeze(-1).expand(*batch, m, m - k)
    below = positions.expand(*batch, n).unsqueeze(-2).expand(*batch, n - k, n)
    corner = scores.new_full((*batch, n - k, m - k), 0.0 if keep is None else -torch.inf)
    return torch.cat([torch.cat([scores, right], -1), torch.cat([below, corner], -1)], -2)


def defined(scores: Tensor, items: Tensor, positions: Tensor, iterations: int, keep: int | None = None) -> Tensor:
    m, n = scores.shape[-2:]
    return log_sinkhorn(padded(scores, items, positions, keep), iterations)[..., :m, :n]


SHAPES = [(1, 1), (2, 5), (3, 139), (16, 10, 8), (2, 9, 5, 12), (3, 33, 33), (71, 64), (100, 3)]
KINDS = ["fits", "reject", "keep", "reject and keep"]


def options(kind: str, items: Tensor, positions: Tensor, m: int, n: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"reject": (items, positions)} if "reject" in kind else {}
    return asked | ({"keep": max(1, min(m, n) // 2)} if "keep" in kind else {})


def both(scores: Tensor, kind: str, iterations: int, spread: float = 1.0) -> dict[str, tuple[Tensor, Tensor]]:
    """Values and all gradients: ours, and those of float64 autograd through the padded problem."""
    m, n = scores.shape[-2:]
    weights = torch.randn(scores.shape, dtype=torch.float64)
    prices = spread * torch.randn(m, dtype=scores.dtype), spread * torch.randn(n, dtype=scores.dtype)
    ours = [x.clone().requires_grad_() for x in (scores, *prices)]
    exact = [x.double().requires_grad_() for x in (scores, *prices)]
    asked = options(kind, ours[1], ours[2], m, n)
    P = us.sinkhorn(ours[0], iterations, **asked)
    zero = torch.zeros((), dtype=torch.float64)
    keep = asked.get("keep", min(m, n) if kind == "fits" else None)
    Q = defined(exact[0], *(exact[1:] if "reject" in kind else (zero, zero)), iterations, keep)
    (P * weights.to(P)).sum().backward()
    (Q * weights).sum().backward()
    found = {"P": (P.detach(), Q.detach()), "scores": (ours[0].grad, exact[0].grad)}
    if "reject" in kind:
        found |= {"items": (ours[1].grad, exact[1].grad), "positions": (ours[2].grad, exact[2].grad)}
    return found  # pyright: ignore[reportReturnType]


def worst(found: dict[str, tuple[Tensor, Tensor]]) -> float:
    """None is the gradient of a price that nobody pays: all are placed."""
    deviations = ((0 if a is None else a.double()) - b for a, b in found.values())
    return max(
        float(d.abs().max() / b.abs().max().clamp_min(1)) for d, (_, b) in zip(deviations, found.values(), strict=True)
    )


@pytest.fixture(params=["kernel", "torch"] if have_numba else ["torch"])
def engine_of(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(engine, "choose", lambda *_: ("torch", ""))
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_all_gradients_are_those_of_the_padded_problem(shape, kind, dtype, engine_of):
    found = both(3 * torch.randn(shape, dtype=torch.float32).to(dtype), kind, 10)
    assert found["P"][0].shape == shape
    assert worst(found) < (1e-5 if dtype == torch.float32 else 1e-9)


@pytest.mark.skipif(not have_numba, reason="the kernel with a border")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 9, 40), (2, 2, 12, 3), (12, 260), (66, 20)])
def test_easy_scores_are_never_padded(shape, kind, monkeypatch):
    monkeypatch.setattr(engine, "perturbed_sinkhorn", None)
    scores = torch.randn(shape).requires_grad_()
    found = both(
        scores.detach().transpose(-1, -2).contiguous().transpose(-1, -2), kind, 10
    )  # and need not be contiguous
    assert worst(found) < 1e-5
    asked = options(kind, torch.zeros(shape[-2]), torch.zeros(shape[-1]), *shape[-2:])
    assert us.sinkhorn(scores, **asked).is_contiguous()


@pytest.mark.skipif(not have_numba, reason="the kernel of small matrices with a border")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(19, 4, 4), (8, 3, 3), (16, 10, 10), (9, 20, 20), (16, 3, 19), (17, 18, 2)])
def test_small_ones_go_eight_at_a_time(shape, kind, monkeypatch):
    """Two groups and a rest, sizes written out and not, a border on either side or both; and the padded square does the same."""
    monkeypatch.setattr(bordered, "forward", rest := Mock(wraps=bordered.forward))
    m, n = shape[-2:]
    scores = torch.randn(shape, requires_grad=True)
    left_out, empty = (torch.randn(shape[0], k, requires_grad=True) for k in (m, n))
    exact = [x.detach().double().requires_grad_() for x in (scores, left_out, empty)]
    asked = options(kind, left_out, empty, m, n)
    soft = us.sinkhorn(scores, **asked)
    assert rest.call_count == (shape[0] % 8 > 0) * (m != n or kind != "fits")  # the batch is too small for two threads
    keep = asked.get("keep", min(m, n) if kind == "fits" else None)
    prices = exact[1:] if "reject" in kind else [torch.zeros((), dtype=torch.float64)] * 2
    expected, weights = defined(exact[0], *prices, 10, keep), torch.randn(shape)
    assert (soft - expected).abs().max() < 1e-5
    (soft * weights).sum().backward()
    (expected * weights).sum().backward()
    for ours, theirs in zip((scores, left_out, empty), exact, strict=True):
        if theirs.grad is not None and ours.grad is not None:
            assert (ours.grad - theirs.grad).abs().max() < 1e-5 * theirs.grad.abs().max().clamp_min(1)
    assert (left_out.grad is None) == ("reject" not in kind)
    square = us.gumbel_sinkhorn(scores, noise=0.0, **options(kind, left_out, empty, m, n))
    again = torch.autograd.grad((square * weights).sum(), scores)[0]
    assert (square - soft).abs().max() < 1e-5
    assert (again - exact[0].grad).abs().max() < 1e-5 * again.abs().max().clamp_min(1)


def test_prices_may_be_for_each_matrix_or_shared():
    scores, exact = torch.randn(2, 3, 21, 24), []
    for shapes in (((3, 21), (2, 1, 24)), ((2, 3, 21), (24,)), ((), ())):
        left_out, empty = (torch.randn(shape, requires_grad=True) for shape in shapes)
        exact = [price.detach().double().requires_grad_() for price in (left_out, empty)]
        given = [price.expand(2, 3, k) for price, k in zip(exact, (21, 24), strict=True)]
        P, Q = us.sinkhorn(scores, reject=(left_out, empty)), defined(scores.double(), *given, 10)
        weights = torch.randn(P.shape)
        (P * weights).sum().backward()
        (Q * weights).sum().backward()
        for ours, theirs in zip((left_out, empty), exact, strict=True):
            assert (ours.grad - theirs.grad).abs().max() < 1e-5 * theirs.grad.abs().max().clamp_min(1)


def test_an_empty_batch_has_no_gradient_to_give():
    scores, price = torch.zeros(0, 5, 7, requires_grad=True), torch.tensor(0.1, requires_grad=True)
    us.sinkhorn(scores, reject=price).sum().backward()
    assert scores.grad is not None
    assert scores.grad.shape == (0, 5, 7)
    assert price.grad == 0


def test_to_keep_nothing_is_to_place_nothing():
    scores = torch.randn(2, 4, 6).requires_grad_()
    soft = us.sinkhorn(scores, keep=0)
    assert soft.count_nonzero() == 0
    assert us.gumbel_sinkhorn(scores, samples=3, keep=0).shape == (3, 2, 4, 6)
    assert us.gumbel_sinkhorn(scores, samples=3, keep=0).count_nonzero() == 0
    assert torch.autograd.grad(soft.sum(), scores)[0].count_nonzero() == 0
    for layer in (us.GumbelSinkhorn(keep=0), us.GumbelSinkhorn(us.Constant(1.0), keep=0)):
        assert layer(scores).count_nonzero() == 0
        assert us.StraightThrough(layer)(scores, samples=2).count_nonzero() == 0


def test_prices_of_items_are_a_list_an_array_or_a_tensor_and_a_pair_is_a_tuple():
    scores, each = torch.randn(2, 5, dtype=torch.float64), [0.3, -0.1]
    expected = us.sinkhorn(scores, reject=torch.tensor(each, dtype=torch.float64))
    for reject in (each, np.array(each), (each, 0.0), (np.array(each), np.zeros(5))):
        assert torch.equal(us.sinkhorn(scores, reject=reject), expected)  # pyright: ignore[reportArgumentType]
        layer = us.Sinkhorn(reject=reject)  # pyright: ignore[reportArgumentType]
        torch.testing.assert_close(layer(scores), expected)
        assert torch.equal(us.assign(scores, reject=reject), layer.decode(scores))  # pyright: ignore[reportArgumentType]
    assert not torch.equal(us.sinkhorn(scores, reject=(0.3, -0.1)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_at_any_spread_and_finite_at_ten_thousand(kind, engine_of):
    found = both(40 * torch.randn(4, 21, 17, dtype=torch.float64), kind, 8, spread=30.0)
    assert worst(found) < 1e-9
    for ours, _ in both(1e4 * torch.randn(4, 21, 17).sign(), kind, 8, spread=1e4).values():
        assert ours.isfinite().all()


def test_second_derivatives_and_a_tolerance(engine_of):
    scores, price = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    inputs = (scores.requires_grad_(), price.requires_grad_())
    assert torch.autograd.gradcheck(lambda s, r: us.sinkhorn(s, 4, reject=(r, 0.3)), inputs)
    assert torch.autograd.gradgradcheck(lambda s, r: us.sinkhorn(s, 2, reject=(r, 0.3)), inputs)
    near = us.sinkhorn(scores, 10_000, reject=0.2, tolerance=1e-10)
    assert (near - us.sinkhorn(scores, 3_000, reject=0.2)).abs().max() < 1e-8


def test_missing_mass_is_the_probability_of_being_left_out():
    scores = torch.randn(5, 6, 9, dtype=torch.float64)
    for asked in ({"reject": 0.4}, {"reject": (torch.randn(6), torch.randn(9))}, {"keep": 3}):
        P = us.sinkhorn(scores, 4_000, **asked)
        assert (P.sum(-1) < 1 + 1e-6).all()
        assert (P.sum(-2) < 1 + 1e-9).all()
    assert us.sinkhorn(scores, 4_000, keep=3).sum((-1, -2)) == pytest.approx([3.0] * 5)
    assert (us.sinkhorn(scores, 500).sum(-1) - 1).abs().max() < 1e-6  # all six have a place
    dear, cheap = (us.sinkhorn(scores, reject=r).sum() for r in (5.0, -5.0))
    assert dear < 1
    assert cheap > 29


@pytest.mark.parametrize("kind", KINDS)
def test_cold_it_is_the_partial_assignment(kind):
    """One problem for both: what sinkhorn comes to as beta grows is what assign says."""
    generator = torch.Generator().manual_seed(3)
    scores, items, positions = (torch.randn(size, generator=generator) for size in ((40, 5, 7), (5,), (7,)))
    asked = options(kind, items, positions, 5, 7)
    cold = asked | ({"reject": (200 * items, 200 * positions)} if "reject" in kind else {})
    soft = us.sinkhorn(200 * scores.double(), 3000, **cold)
    hard = us.to_matrix(us.assign(scores, **asked), torch.float64, items=5)
    prices = (items, positions) if "reject" in kind else (torch.zeros(5), torch.zeros(7))

    def value(P: Tensor) -> Tensor:
        left_out, empty = (((1 - P.sum(d)) * price).sum(-1) for d, price in zip((-1, -2), prices, strict=True))
        return (P * scores).sum((-1, -2)) + left_out + empty

    assert (value(soft) - value(hard)).abs().max() < 0.03  # 12 / 200 at most, by the entropy


def gumbel_of(key_seed: int, matrices: int, m: int, n: int) -> Tensor:
    key = noise.new_key(torch.Generator().manual_seed(key_seed))
    return noise.gumbel(torch.arange(matrices), m, n, key, torch.float64)


@pytest.mark.parametrize(("m", "n"), [(4, 6), (6, 4), (40, 35), (3, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_falls_on_real_entries_only(m, n, kind, engine_of):
    scores, items, positions = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, m, n), (m,), (n,))
    )
    beta = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    asked, leaves = options(kind, items, positions, m, n), [scores, beta]
    g = gumbel_of(5, 6, m, n).reshape(3, 2, m, n)
    scaled = {k: tuple(beta * p for p in v) if k == "reject" else v for k, v in asked.items()}
    weights = torch.randn(3, 2, m, n, dtype=torch.float64)
    draw = {"samples": 3, "noise": 0.5, "generator": torch.Generator().manual_seed(5)}
    ours = us.gumbel_sinkhorn(scores, beta, **draw, **asked)
    exact = us.sinkhorn(beta * (scores + 0.5 * g), **scaled)
    if "reject" in kind:
        leaves += [items, positions]
    assert (ours - exact).abs().max() < 1e-5  # the kernel's noise has the digits of a float
    found, expected = (torch.autograd.grad((P * weights).sum(), leaves) for P in (ours, exact))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() < 1e-4 * b.abs().max().clamp_min(1)


def test_being_left_out_is_one_more_outcome_of_a_row():
    """Temperatures per entry: a row that is torn between a place and no place is undecided."""
    scores = torch.full((2, 3), -8.0, dtype=torch.float64)
    scores[0, 0], scores[1, 1] = 0.0, 9.0  # item 0: place 0 or none; item 1: place 1
    seen = []

    def local(Q, beta, allowed):
        seen.append(Q)
        return us.LocalTemperature(us.ExcessEntropy(0.1), max_boost=0.5)(Q, beta, allowed)

    P = us.gumbel_sinkhorn(scores, 1.0, local=local, noise=0.0, reject=0.0, iterations=200)
    (Q,) = seen
    assert Q.shape == (3, 4)
    assert Q[:2].sum(-1) == pytest.approx([1.0, 1.0], abs=1e-3)
    assert Q[:, :3].sum(-2) == pytest.approx([1.0] * 3)
    field = us.LocalTemperature(us.ExcessEntropy(0.1), max_boost=0.5)(Q, 1.0)
    assert field[0, 3] < field[1, 3]  # item 0 is the undecided one
    again = us.gumbel_sinkhorn(scores, field, noise=0.0, reject=0.0, iterations=200)
    torch.testing.assert_close(P, again)
    # and the padded problem, with the temperature of being left out on the price
    square = padded(scores * field[:2, :3], torch.zeros(()), torch.zeros(()))
    torch.testing.assert_close(P, log_sinkhorn(square, 200)[:2, :3])
    with pytest.raises(us.BadInput, match="one more row and column"):
        us.gumbel_sinkhorn(scores, field[:2, :3], reject=0.0)
    us.gumbel_sinkhorn(scores, field[:2, :3])  # without a price there is nothing to be cold or warm


def test_masks_leave_items_out_or_name_them():
    scores, allowed = torch.randn(2, 4, 6), torch.ones(4, 6, dtype=torch.bool)
    allowed[2] = False
    P = us.sinkhorn(scores, allowed=allowed, reject=0.0)
    assert P[:, 2].eq(0).all()
    assert P[:, [0, 1, 3]].gt(0).all()
    for keep in (None, 4):
        with pytest.raises(us.BadInput, match=r"row 2 of matrix 0 \(an item\)"):
            us.sinkhorn(scores, allowed=allowed, keep=keep)
    with pytest.raises(us.BadInput, match=r"column 2 of matrix 0 \(a position\)"):
        us.sinkhorn(scores.mT, allowed=allowed.T)
    crowded = torch.ones(4, 6, dtype=torch.bool)
    crowded[:3, 2:] = False  # three items for two positions
    with pytest.raises(us.BadInput, match="the 3 items"):
        us.sinkhorn(scores, 300, allowed=crowded)
    crowded[3, 2:] = False
    with pytest.raises(us.BadInput, match="keep=3 placements are impossible: the mask of matrix 0 lets at most 2"):
        us.sinkhorn(scores, 300, allowed=crowded, keep=3)


@pytest.mark.parametrize(
    ("words", "asked"),
    list(
        {
            "price of item 1": {"reject": torch.tensor([0.0, float("nan"), 0.0, 0.0])},
            "price of position 5": {"reject": (0.0, torch.tensor([0.0] * 5 + [float("inf")]))},
            "there are 4 items": {"reject": torch.zeros(5)},
            "there are 4 items and batches": {"reject": torch.zeros(2, 4)},
            "must be finite": {"reject": [0.0, 0.0, float("nan"), 0.0]},
            "keep=5 placements are impossible": {"keep": 5},
            "keep must be a whole number": {"keep": -1},
        }.items()
    ),
)
def test_bad_prices_in_one_sentence(words, asked):
    for operator in (us.sinkhorn, us.gumbel_sinkhorn, us.assign):
        with pytest.raises(us.BadInput, match=words):
            operator(torch.randn(3, 4, 6), **asked)
    with pytest.raises(us.BadInput, match="at least one of each"):
        us.sinkhorn(torch.randn(0, 6), reject=0.0)


# --- relaxations and learning --------------------------------------------------------------------------------------------


PARTIAL = {"reject": {"reject": 0.3}, "pair": {"reject": (0.3, -0.2)}, "keep": {"keep": 3}, "fits": {}}


@pytest.mark.parametrize("asked", list(PARTIAL.values()), ids=list(PARTIAL))
@pytest.mark.parametrize("schedule", [us.Constant(2.0), us.EntropyTarget(0.6, 0.6, 1)], ids=["beta", "entropy"])
def test_relaxations_leave_out(asked, schedule):
    relax = us.GumbelSinkhorn(schedule, us.LocalTemperature(), noise=0.2, **asked)
    scores = torch.randn(3, 4, 6, requires_grad=True)
    P = relax(scores, samples=2, generator=torch.Generator().manual_seed(0))
    assert P.shape == (2, 3, 4, 6)
    P.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert torch.equal(relax.decode(scores), us.assign(scores, **asked))
    assert relax.report(scores).row_entropy.shape == (3, 4)
    hard = us.StraightThrough(us.Sinkhorn(us.Constant(3.0), **asked))(scores)
    assert torch.equal(hard.detach(), us.to_matrix(us.assign(scores, **asked), items=4))


def test_straight_through_decides_as_its_noisy_scores_do():
    scores, reject = (
        torch.randn(6, 5, 8, dtype=torch.float64, requires_grad=True),
        torch.nn.Parameter(torch.tensor(0.1)),
    )
    relax = us.StraightThrough(us.GumbelSinkhorn(us.Constant(2.0), reject=reject))
    P = relax(scores, generator=torch.Generator().manual_seed(5))
    expected = us.assign(scores + gumbel_of(5, 6, 5, 8), reject=0.1)
    assert torch.equal(P.detach(), us.to_matrix(expected, torch.float64, items=5))
    (P * torch.randn(P.shape)).sum().backward()
    assert scores.grad is not None
    assert scores.grad.abs().sum() > 0
    assert list(relax.parameters()) == [reject]  # a price can be learned
    assert reject.grad is not None
    assert reject.grad != 0


def test_others_refuse_rectangles_in_a_sentence():
    for relax in (us.ColumnSoftmax(), us.OT4P()):
        with pytest.raises(us.BadInput, match=r"\(..., n, n\)"):
            relax(torch.randn(4, 6))


def test_a_network_learns_who_has_a_place():
    """Lists of six, two of which are foreign (below 0): the four others are put in order, and how sure that is covers both."""

    def lists(generator: torch.Generator, count: int = 32) -> Tensor:
        items = torch.rand(count, 6, 1, generator=generator)
        items[:, :2] -= 2.0
        return items.gather(1, torch.rand(count, 6, 1, generator=generator).argsort(1))

    def energy(P: Tensor, items: Tensor) -> Tensor:
        values = items.squeeze(-1)
        late = (P * torch.arange(4.0)).sum(-1)
        return 5 * (P.sum(-1) * (values < 0)).sum(-1) - (late * values).sum(-1)

    relax = us.GumbelSinkhorn(us.Constant(3.0), noise=0.3, keep=4)
    network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    batches = us.Fresh(lists, steps=60)
    us.fit(
        network,
        batches,
        us.OnPermutation(energy),
        relax,
        epochs=2,
        samples=2,
        descent=us.Descent(0.02),
        held_out=lists(torch.Generator(), 8),
    )
    items = lists(torch.Generator().manual_seed(9), 20)
    found = us.predict(network, items, relax)
    assert found.order.shape == (20, 4)
    assert found.confidence.shape == (20, 6)
    foreign = items.squeeze(-1) < 0
    assert (us.inverse(found.order, 6).eq(-1) == foreign).float().mean() > 0.95
    assert found.confidence[foreign].mean() > 0.9
    with pytest.raises(us.BadInput, match="not every item has a place"):
        us.predict(network, items)


# --- graphs and transforms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fits", "reject", "keep"])
def test_exported_and_mapped(kind):
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items, self.positions = torch.nn.Parameter(torch.randn(4)), torch.nn.Parameter(torch.randn(6))

        def forward(self, scores: Tensor) -> Tensor:
            return us.sinkhorn(scores, **options(kind, self.items, self.positions, 4, 6))

    layer, scores = Layer(), torch.randn(3, 4, 6)
    exported = torch.export.export(layer, (scores,), dynamic_shapes=({0: torch.export.Dim("lists", min=2)},))
    more = torch.randn(5, 4, 6)
    torch.testing.assert_close(exported.module()(more), layer(more))
    torch.testing.assert_close(torch.vmap(layer)(more), layer(more))
    each = torch.vmap(torch.func.grad(lambda s: layer(s).square().sum()))(more)
    whole = more.clone().requires_grad_()
    layer(whole).square().sum().backward()
    torch.testing.assert_close(each, whole.grad)


def test_half_precision_and_shapes_without_memory():
    scores, reject = torch.randn(3, 4, 6), torch.randn(4)
    low = us.sinkhorn(scores.bfloat16(), reject=reject)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), us.sinkhorn(scores.bfloat16().float(), reject=reject), atol=4e-3, rtol=0.01)
    assert us.sinkhorn(torch.empty(2, 4, 6, device="meta"), reject=0.1).shape == (2, 4, 6)


@pytest.mark.parametrize("asked", [{"reject": 0.5}, {"keep": 2}, {}])
def test_degrees_of_a_tour_are_refused_where_items_are_left_out(asked):
    """With one more row and column for those, a square Q would still be square, and its degrees nonsense."""
    scores = torch.randn(4, 4) if asked else torch.randn(4, 6)
    degree = us.LocalTemperature(us.DegreeViolation(), 0.3)
    for local in (degree, us.MatchedScalar(degree)):
        with pytest.raises(us.BadInput, match="degrees of a tour"):
            us.gumbel_sinkhorn(scores, beta=2.0, local=local, **asked)
    us.gumbel_sinkhorn(scores, beta=2.0, local=us.LocalTemperature(), **asked)


def test_tau_of_orders_that_share_nobody_is_undefined():
    assert us.kendall_tau(torch.tensor([-1, -1, -1]), torch.tensor([0, 1, 2])).isnan()
    both = us.kendall_tau(torch.tensor([[-1, -1, 2], [0, 1, 2]]), torch.tensor([0, 1, 2]))
    assert both.isnan().tolist() == [True, False]
