"""The front door, the annealing loop and its kernels, tours, quadratic assignment, losses of the user's own."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sys

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unshuffle as us
from unshuffle.solve import confidence, warm
from unshuffle.solve.anneal import Pace, anneal
from unshuffle.solve.cycle import chain
from unshuffle.solve.cycle.solver import Scaled, Tours, solve_cycle
from unshuffle.solve.loss import Losses, _moved, _moves, polish_loss, solve_loss
from unshuffle.solve.request import Request
from unshuffle.solve.rounds import Rounds
from unshuffle.solve.units import smoothest, steepest
from unshuffle.solve.warm import WarmState, warm_step
from unshuffle.structure.bins import rebin, widths
from unshuffle.structure.energies import expected_energy
from unshuffle.watch import Watch


def _points(n, seed=0, d=2):
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _distances(n, seed=0):
    return torch.cdist(_points(n, seed), _points(n, seed))


def _quick(layout, cost, seed=0, **options):
    """One round of two runs: what the properties below need, in a fraction of the time."""
    asked = Request(torch.Generator().manual_seed(seed), **{"runs": 2, "watch": Watch(), **options})
    return solve_cycle(layout, cost, asked, recipe=Tours(rounds=0))


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (6, 6), (1, 4)])
@pytest.mark.parametrize("masked", [False, True])
def test_warm_step_is_the_same_through_numba_and_torch(rows, columns, masked):
    soft = torch.rand(3, rows, columns)
    bias = torch.zeros(rows, columns)
    if masked:
        bias[0, 0] = -torch.inf
    states = [WarmState(soft.clone(), bias, row_mass=columns / rows) for _ in range(2)]
    fast, slow = states
    for _ in range(4):
        pull = torch.rand(3, rows, columns)
        warm_step(fast, pull, 3.0, momentum=0.5)
        slow.smooth = pull.clone() if slow.smooth is None else slow.smooth
        warm._step_torch(slow, pull, 3.0, 0.4, 0.5, 5)
    for name in ("soft", "ahead", "potential", "purity"):
        torch.testing.assert_close(getattr(fast, name), getattr(slow, name), rtol=1e-4, atol=1e-5)
    assert torch.isfinite(fast.soft).all()
    assert not masked or bool((fast.soft[:, 0, 0] == 0).all())


def test_warm_steps_converge_to_sinkhorn():
    scores = torch.randn(1, 6, 6)
    state = WarmState(torch.full((1, 6, 6), 1 / 6))
    for _ in range(50):
        warm_step(state, -scores, 2.0)
    torch.testing.assert_close(state.soft, us.sinkhorn(2.0 * scores, iterations=300), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e4, 1e30])
def test_warm_step_never_makes_nan(scale):
    state = WarmState(torch.rand(2, 9, 9))
    for _ in range(20):
        warm_step(state, scale * torch.randn(2, 9, 9), 5.0, momentum=0.8)
    assert torch.isfinite(state.soft).all()
    assert bool((state.soft >= 0).all())


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_chain_field_is_the_gradient_of_the_expected_energy(closed, symmetric, monkeypatch):
    n = 7
    monkeypatch.setattr(chain, "FEW", 0)
    D = torch.rand(n, n) * (1 - torch.eye(n))
    D = D + D.T if symmetric else D
    P = torch.rand(1, n, n, requires_grad=True)
    layout = us.Cycle(n) if closed else us.Path(n)
    (gradient,) = torch.autograd.grad(expected_energy(layout, P, D).sum(), P)
    ring = P.detach().mT.contiguous()
    pull = chain.chain_pull(ring, D[None].contiguous(), symmetric=symmetric, closed=closed)
    torch.testing.assert_close(pull.mT, gradient, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(chain, "have_numba", False)
    plain = chain.chain_pull(ring, D[None], symmetric=symmetric, closed=closed, self_weight=0.7)
    monkeypatch.setattr(chain, "have_numba", True)
    fast = chain.chain_pull(ring, D[None].contiguous(), symmetric=symmetric, closed=closed, self_weight=0.7)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


def test_the_coarse_energy_is_the_energy_of_binned_permutations():
    """E restricted to P constant on bins of s positions: (s-1) p'Dp + p'Dp_next, summed over bins."""
    n, m = 12, 4
    D = _distances(n).float()
    P = torch.rand(1, m, n)
    s = n / m
    p = P / s
    coarse = ((s - 1) * (p @ D * p) + p @ D * p.roll(-1, 1)).sum()
    full = p.repeat_interleave(n // m, dim=1).mT
    torch.testing.assert_close(coarse, expected_energy(us.Cycle(n), full, D)[0])


def test_rebinning_keeps_mass_and_levels_end_at_n():
    soft = torch.rand(2, 5, 9)
    torch.testing.assert_close(rebin(soft, 9).sum(1), soft.sum(1))
    for n in (8, 9, 10, 100, 1001):
        assert widths(n, 9.6)[-1] == n
        assert widths(n, 9.6)[0] <= 9.6


def test_steepest_is_the_largest_eigenvalue_by_both_ways():
    D = _distances(80)
    row = D.mean(0)
    exact = -float(torch.linalg.eigvalsh(D - row - row[:, None] + row.mean())[0])
    assert steepest(D) == pytest.approx(exact, rel=1e-2)
    assert steepest(D[:40, :40]) > 0


@pytest.mark.parametrize("n", [40, 90], ids=["dense", "Lanczos"])
def test_smoothest_modes_of_points_are_their_coordinates(n):
    """For squared distances the centred cost is -2 x x^T: two modes span the plane, and say nothing else."""
    points = torch.rand(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    modes = smoothest(torch.cdist(points, points) ** 2, 2)
    centred = points - points.mean(0)
    left = centred - modes @ (modes.mT @ centred)
    assert left.abs().max() < 1e-2 * centred.abs().max()


@pytest.mark.parametrize("symmetric", [True, False])
def test_rounds_see_warped_costs_and_the_first_of_all_the_true_one(symmetric):
    D = _distances(90) if symmetric else _distances(90) * (1 + 0.1 * torch.rand(90, 90))
    recipe = Tours(shake=0.0)
    costs = Scaled(D, recipe)
    draw = torch.Generator().manual_seed(0)
    first, other = costs.shaken(2, recipe, draw, plain=True)
    torch.testing.assert_close(first, costs.coarse[0])
    off = ~torch.eye(90, dtype=torch.bool)
    factor = (other / costs.coarse[0])[off]
    assert 1 - recipe.warp <= float(factor.min()) < 0.8
    assert 1.2 < float(factor.max()) <= 1 + recipe.warp + 1e-6
    assert torch.allclose(other, other.mT) == symmetric
    near = costs.near[:, 0]  # slow: two neighbours are stretched alike
    stretch = (other / costs.coarse[0]).fill_diagonal_(1).mean(1)
    assert (stretch - stretch[near]).abs().mean() < 0.3 * (stretch - stretch.roll(1)).abs().mean()


def test_a_constant_cost_has_no_modes_and_a_nearly_constant_one_is_solved():
    D = torch.ones(80, 80, dtype=torch.float64).fill_diagonal_(0)
    D[0, 1] = D[1, 0] = 0.5
    assert smoothest(torch.ones(80, 80), 4).shape == (80, 0)
    assert us.solve(us.Cycle(80), cost=D).energy == pytest.approx(79.5)


def test_beta_waits_where_the_entropy_falls_fast():
    def cooled(fall):
        state = WarmState(torch.full((1, 20, 20), 1 / 20))
        pull = torch.randn(1, 20, 20, generator=torch.Generator().manual_seed(0))
        watch = Watch()
        anneal(state, lambda soft, beta: pull, 0.0, pace=Pace(step=0.01, fall=fall, frozen=0.9, span=9.0), watch=watch)
        assert float(state.purity) > 0.9
        return len(watch.history)

    assert cooled(0.001) > 1.5 * cooled(math.inf)


# ---------------------------------------------------------------- tours


def test_points_on_a_circle_come_out_as_the_circle():
    angle = torch.rand(40, dtype=torch.float64) * 2 * math.pi
    points = torch.stack((angle.cos(), angle.sin()), 1)
    s = us.solve(us.Cycle(40), cost=torch.cdist(points, points))
    assert s.energy == pytest.approx(float(us.Cycle(40).energy(angle.argsort(), torch.cdist(points, points))))
    assert s.status == "finished"
    assert torch.equal(s.order.sort().values, torch.arange(40))
    assert bool(((s.confidence >= 0) & (s.confidence <= 1)).all())
    assert s.agreement == 1.0
    torch.testing.assert_close(s.soft.sum(0), torch.ones(40), atol=1e-2, rtol=0)


def test_much_shorter_than_nearest_neighbour():
    D = _distances(80, seed=5)
    order, left = [0], set(range(1, 80))
    while left:
        order.append(min(left, key=lambda k: float(D[order[-1], k])))
        left.remove(order[-1])
    assert float(_quick(us.Cycle(80), D).energies.min()) < 0.92 * float(us.Cycle(80).energy(torch.tensor(order), D))


def test_same_seed_same_tour_and_energy_is_the_length():
    D = _distances(30)
    a, b = (_quick(us.Cycle(30), D, seed=3) for _ in range(2))
    assert torch.equal(a.tried, b.tried)
    assert torch.equal(a.soft, b.soft)
    torch.testing.assert_close(a.energies, us.Cycle(30).energy(a.tried, D))
    assert a.energy == a.energies.min()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_cost_does_not_matter(scale):
    D = _distances(25)
    plain, scaled = _quick(us.Cycle(25), D), _quick(us.Cycle(25), D * scale)
    torch.testing.assert_close(scaled.energies / scale, plain.energies, rtol=0.02, atol=0)


@pytest.mark.parametrize(
    "layout",
    [us.Path, us.Cycle, lambda n: us.Grid(1, n), lambda n: us.Graph(torch.rand(n, n))],
    ids=["path", "cycle", "grid", "graph"],
)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_tiny_problems_are_solved_exactly(layout, n, masked):
    D, problem, places = torch.rand(n, n, dtype=torch.float64), layout(n), torch.arange(n)
    cost = (D, D.mT.clone()) if isinstance(problem, us.Grid) else D
    allowed = torch.ones(n, n, dtype=torch.bool)
    allowed[0, :-1] = not masked
    orders = torch.tensor(list(itertools.permutations(range(n))))
    orders = orders[allowed[orders, places].all(1)]
    found = us.solve(problem, cost=cost, allowed=allowed)
    assert found.energy == pytest.approx(float(problem.energy(orders, cost).min()))
    assert found.energy == pytest.approx(float(problem.energy(found.order, cost)))
    assert allowed[found.order, places].all()
    assert found.agreement == 1.0
    assert bool(((found.confidence >= 0) & (found.confidence <= 1)).all())


def test_a_solution_is_shown_in_one_line():
    found = us.solve(us.Path(200), cost=_distances(200), runs=1, time_limit=0.0, polish=True)
    shown = repr(found)
    assert len(shown) < 150
    assert "\n" not in shown
    assert shown.startswith("Solution(200 items, energy ")
    assert f"polished {found.best_energy:.6g}" in shown
    assert "time limit" in shown
    assert found.best_energy <= found.energy
    plain = us.solve(us.Path(5), cost=_distances(5))
    assert torch.equal(plain.best_order, plain.order)
    assert plain.best_energy == plain.energy
    assert "polished" not in repr(plain)
    assert repr(found.polished) == f"Polished(200 items, energy {found.best_energy:.6g})"
    assert repr(us.Graph(torch.ones(200, 200))) == "Graph(n=200)"


@pytest.mark.parametrize(
    "cost",
    [
        torch.zeros(12, 12),
        torch.ones(12, 12),
        torch.cdist(*[torch.tensor([[0.0, 0], [1, 0], [1, 1]]).repeat(4, 1)] * 2),  # four cities on each spot
        _distances(12) - 3,
        torch.rand(12, 12, generator=torch.Generator().manual_seed(1)),  # asymmetric
        torch.where(torch.rand(12, 12, generator=torch.Generator().manual_seed(1)) < 0.2, 1e9, 1.0),
    ],
    ids=["zero", "constant", "duplicates", "negative", "asymmetric", "never"],
)
def test_odd_costs_give_an_order_and_no_nan(cost):
    found = _quick(us.Cycle(12), cost.double())
    assert torch.equal(found.starts.sort(dim=1).values, torch.arange(12).expand(len(found.starts), 12))
    assert torch.isfinite(found.soft).all()
    assert torch.isfinite(found.confidence).all()


def test_duplicates_stand_together():
    spots = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=torch.float64).repeat(3, 1)
    D = torch.cdist(spots, spots)
    assert float(_quick(us.Cycle(12), D).energies.min()) == pytest.approx(4.0)


def test_allowed_is_kept_and_anchors_hold():
    n = 20
    D = _distances(n)
    allowed = torch.ones(n, n, dtype=torch.bool)
    for item, position in ((3, 0), (7, 10)):
        allowed[item], allowed[:, position] = False, False
        allowed[item, position] = True
    allowed[5, :15] = False
    found = _quick(us.Cycle(n), D, allowed=allowed)
    assert bool(allowed[found.starts, torch.arange(n)].all())
    s = us.solve(us.Cycle(n), cost=D, allowed=allowed, runs=1, polish=True, time_limit=2.0)
    assert s.order[0] == 3
    assert bool(allowed[s.best_order, torch.arange(n)].all())
    assert s.best_energy <= s.energy + 1e-12


def test_scores_that_say_nothing_do_no_harm():
    """Noise is kept as sharp as it is only by a cold start, which would freeze it."""
    draw = torch.Generator().manual_seed(4)
    points = torch.rand(40, 2, generator=draw, dtype=torch.float64)
    cost, plain = torch.cdist(points, points), us.solve(us.Cycle(40), cost=torch.cdist(points, points)).energy
    for noise in (1e-3, 1.0, 5.0):
        given = us.solve(us.Cycle(40), cost=cost, init=noise * torch.randn(40, 40, generator=draw))
        assert given.energy < 1.03 * plain


def test_init_is_where_it_starts():
    """From the scores of a good tour a run stays with it: the order comes back, not just its length."""
    n = 40
    points = _points(n)
    angle = (points - 0.5)[:, 0].atan2((points - 0.5)[:, 1])
    ring = torch.stack((angle.cos(), angle.sin()), 1)
    D = torch.cdist(ring, ring)
    order = angle.argsort().roll(7)
    found = _quick(us.Cycle(n), D, init=8 * us.to_matrix(order))
    assert torch.equal(found.order, order)


# ---------------------------------------------------------------- time, interrupts, messages


def test_no_time_still_gives_an_order():
    s = us.solve(us.Cycle(60), cost=_distances(60), time_limit=0.0)
    assert s.status == "time limit"
    assert torch.equal(s.order.sort().values, torch.arange(60))


def test_callback_and_ctrl_c_stop_with_the_best_so_far():
    D = _distances(60)
    s = us.solve(us.Cycle(60), cost=D, callback=lambda step: len(step.stage) < 0)
    assert s.status == "interrupted"
    s = us.solve(us.Cycle(60), cost=D, callback=lambda step: os.kill(os.getpid(), signal.SIGINT) or True)
    assert s.status == "interrupted"
    assert torch.equal(s.order.sort().values, torch.arange(60))
    assert len(s.history) <= 2


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (us.Cycle(3), {}, "needs cost="),
        (us.Cycle(3), {"cost": torch.zeros(4, 4)}, "3 x 3"),
        (us.Cycle(3), {"cost": torch.zeros(3, 2)}, "square"),
        (us.Cycle(3), {"cost": torch.full((3, 3), torch.nan)}, "finite"),
        (us.Cycle(3), {"cost": torch.zeros(3, 3), "items": torch.zeros(3, 1)}, "not both"),
        (lambda x: x.sum(), {"cost": torch.zeros(3, 3), "items": torch.zeros(3, 1)}, "cost= belongs"),
        (us.Cycle(3), {"cost": (torch.zeros(3, 3), torch.zeros(3, 3))}, "one cost matrix"),
        (us.Grid(1, 3), {"cost": (torch.zeros(3, 3),) * 3}, "right, below"),
        (us.Cycle(3), {"cost": torch.zeros(3, 3), "allowed": torch.ones(3, 3)}, "bool"),
        (
            us.Cycle(3),
            {"cost": torch.zeros(3, 3), "allowed": torch.zeros(3, 3, dtype=torch.bool)},
            "No order is possible",
        ),
        (us.Cycle(3), {"cost": torch.zeros(3, 3), "init": torch.zeros(2, 2)}, "init"),
        (us.Cycle(3), {"cost": torch.zeros(3, 3), "runs": 0}, "runs"),
        (us.Cycle(3), {"cost": torch.zeros(3, 3), "time_limit": -1.0}, "time_limit"),
        ("tour", {"cost": torch.zeros(3, 3)}, "layout or a function"),
        (lambda x: x.sum(), {}, "items="),
        (lambda x: x, {"items": torch.zeros(3, 2)}, "one number"),
        (lambda x: torch.tensor(1.0), {"items": torch.zeros(3, 2)}, "differentiable"),
        (lambda x: x.sum(), {"items": torch.full((3, 2), torch.nan)}, "finite"),
    ],
)
def test_bad_input_is_one_sentence(problem, options, words):
    with pytest.raises(us.BadInput, match=words):
        us.solve(problem, **options)


# ---------------------------------------------------------------- quadratic assignment


def test_quadratic_assignment_matches_all_orders():
    draw = torch.Generator().manual_seed(2)
    A, B = (torch.randint(0, 10, (8, 8), generator=draw).double() for _ in range(2))
    orders = torch.tensor(list(itertools.permutations(range(8))))
    layout = us.Graph(B)
    s = us.solve(layout, cost=A)
    assert s.energy == float(layout.energy(orders, A).min())
    assert s.energy == float(layout.energy(s.order, A))


def test_an_isomorphic_graph_is_found_again():
    draw = torch.Generator().manual_seed(0)
    n = 14
    W = torch.rand(n, n, generator=draw).double()
    W = W + W.T
    hidden = torch.randperm(n, generator=draw)
    cost = torch.empty_like(W)
    cost[hidden[:, None], hidden] = -W
    s = us.solve(us.Graph(W), cost=cost, runs=8)
    assert torch.equal(s.order, hidden)
    assert s.agreement > 1 / 8


def test_quadratic_assignment_keeps_allowed_and_seed():
    draw = torch.Generator().manual_seed(4)
    A, B = (torch.rand(10, 10, generator=draw).double() for _ in range(2))
    allowed = torch.ones(10, 10, dtype=torch.bool)
    allowed[2], allowed[:, 6] = False, False
    allowed[2, 6] = True
    a, b = (us.solve(us.Graph(B), cost=A, allowed=allowed, runs=3, seed=9, polish=True) for _ in range(2))
    assert a.order[6] == 2
    assert a.best_order[6] == 2
    assert torch.equal(a.order, b.order)


# ---------------------------------------------------------------- losses of the user's own


def test_a_loss_that_sorts():
    """Monotone at all scales, given as a plain function of one list."""

    def monotone(x):
        lags = (1, 2, 4, 8, 16)
        return sum((torch.relu(x[:-lag] - x[lag:]) ** 2).sum() for lag in lags)

    values = torch.rand(24, 1, generator=torch.Generator().manual_seed(0)) * 7 + 3
    s = us.solve(monotone, items=values)
    rank = us.inverse(s.order)
    assert float(us.kendall_tau(rank, us.inverse(values[:, 0].argsort()))) > 0.97


def test_a_loss_that_matches_a_template():
    draw = torch.Generator().manual_seed(1)
    template = torch.randn(20, 4, generator=draw)
    shuffle = torch.randperm(20, generator=draw)
    items = (template + 0.1 * torch.randn(20, 4, generator=draw))[shuffle]
    s = us.solve(lambda x: (x - template).square().sum(), items=items, runs=4)
    assert torch.equal(s.order, us.inverse(shuffle))


def test_a_loss_that_wants_a_smooth_film():
    """Frames of a moving blob: the true order or its mirror image, from squared differences of successive frames."""
    draw = torch.Generator().manual_seed(0)
    frames, axis = 20, torch.linspace(0, 1, 10)
    centre = torch.linspace(0.1, 0.9, frames)
    film = torch.exp(-((axis[None, :, None] - centre[:, None, None]) ** 2 + (axis[None, None] - 0.5) ** 2) / 0.03)
    film = film + 0.005 * torch.randn(film.shape, generator=draw)
    shuffle = torch.randperm(frames, generator=draw)

    def rough(x):
        return (x[1:] - x[:-1]).square().sum()

    s = us.solve(rough, items=film[shuffle])
    assert s.energy == pytest.approx(float(rough(film)), rel=1e-4)
    assert abs(float(us.kendall_tau(shuffle[s.order], torch.arange(frames)))) == pytest.approx(1.0)


def test_polish_of_a_loss_mends_what_annealing_left():
    """Total variation of smooth rows: neighbours only, and blends are smooth too, so annealing alone stops short."""
    at = torch.linspace(0, 3, 30).unsqueeze(1) + torch.linspace(0, 5, 7)
    rows = torch.sin(at) + 0.3 * torch.cos(2.3 * at)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(2))

    def total_variation(x):
        return (x[1:] - x[:-1]).abs().sum()

    start = us.solve(total_variation, items=rows[order], runs=2, time_limit=0.0, polish=True)
    assert start.best_energy == start.energy  # no time left: nothing is polished
    found = us.solve(total_variation, items=rows[order], runs=2, polish=True)
    assert found.best_energy == pytest.approx(float(total_variation(rows[order][found.best_order])), rel=1e-5)
    assert found.best_energy <= found.energy
    assert found.best_energy == pytest.approx(float(total_variation(rows)), rel=1e-5)


def test_polish_of_a_loss_keeps_to_the_mask():
    allowed = torch.ones(8, 8, dtype=torch.bool)
    allowed[3] = allowed[:, 6] = False
    allowed[3, 6] = True
    values = torch.arange(8.0).unsqueeze(1)
    found = us.solve(lambda x: (x[1:] - x[:-1]).abs().sum(), items=values, allowed=allowed, runs=2, polish=True)
    assert int(found.best_order[6]) == 3
    assert sorted(found.best_order.tolist()) == list(range(8))


def test_polish_of_a_loss_does_not_copy_its_table_of_moves_for_every_batch(monkeypatch):
    n, copied = 30, []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            if function.overloadpacket in (torch.ops.aten.cat, torch.ops.aten.roll):
                copied.append(made.numel())
            return made

    items = torch.rand(n, 1, generator=torch.Generator().manual_seed(0))
    found = us.Solution(torch.arange(n), 0.0, torch.eye(n), torch.ones(n), torch.zeros(1))
    monkeypatch.setattr(sys.modules["unshuffle.solve.loss"], "AT_ONCE", 16 * items.numel())
    few = Watch(callback=lambda step: len(few.history) < 20)
    with Copies():
        polish_loss(lambda x: (x[1:] - x[:-1]).abs().sum(), items, found, generator=torch.Generator(), watch=few)
    assert len(few.history) == 20
    assert sum(copied) <= _moves(n).numel()  # it was made once


def test_every_move_of_a_loss_is_a_permutation():
    moves = _moves(6)
    new = _moved(moves, 6)
    assert len(moves) == 2 * 6 * 5
    assert (new.sort(1).values == torch.arange(6)).all()
    reverse, swap, move = (new[(moves == torch.tensor([kind, 1, 4])).all(1)][0].tolist() for kind in range(3))
    assert reverse == [0, 4, 3, 2, 1, 5]
    assert swap == [0, 4, 2, 3, 1, 5]
    assert move == [0, 2, 3, 4, 1, 5]


def test_a_loss_that_vmap_cannot_map_is_looped():
    target = torch.arange(8.0)

    def branching(x):
        gap = (x[:, 0] - target).square().sum()
        return gap if gap.item() > 0 else gap * 2

    shuffle = torch.randperm(8)
    recipe = Losses(rounds=Rounds(number=1))
    asked = Request(torch.Generator().manual_seed(0), Watch(), runs=2)
    found = solve_loss(branching, target[shuffle, None], asked, recipe)
    assert torch.equal(found.order, us.inverse(shuffle))


# ---------------------------------------------------------------- confidence and agreement


@pytest.mark.parametrize("closed", [True, False])
def test_insertion_share_is_the_definition(closed):
    """Take each item out, price every gap, softmax: the slow way round."""
    n, scale = 9, 0.2
    D = _distances(n, 8)
    order = torch.randperm(n)
    share = confidence.insertion_share(order, D, scale, closed=closed)
    for a in range(n):
        item = int(order[a])
        rest = [int(k) for k in order if int(k) != item]
        ends = [] if closed else [0.0, 0.0]
        gaps = [(rest[k - 1], rest[k]) for k in range(0 if closed else 1, n - 1)]
        prices = [float(D[u, item] + D[item, v] - D[u, v]) for u, v in gaps]
        if not closed:
            ends = [float(D[item, rest[0]]), float(D[rest[-1], item])]
        weights = torch.softmax(-torch.tensor(prices + ends) / scale, 0)
        places = gaps if closed else [*gaps, (None, rest[0]), (rest[-1], None)]
        before = int(order[a - 1]) if closed or a > 0 else None
        after = int(order[(a + 1) % n]) if closed or a < n - 1 else None
        assert float(share[item]) == pytest.approx(float(weights[places.index((before, after))]), abs=1e-5)


@pytest.mark.parametrize("n", [2, 3, 7, confidence.CHUNK + 5])
def test_link_share_against_the_slow_way(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    D, order, scale = torch.rand(n, n, generator=generator), torch.randperm(n, generator=generator), 0.3

    def share(a: int) -> float:
        """Of the link from position a to the next."""
        i, k = int(order[a]), int(order[a + 1])
        onward = [j for j in range(n) if j != i and (a == 0 or j != order[a - 1])]
        back = [j for j in range(n) if j != k and (a == n - 2 or j != order[a + 2])]
        own = math.exp(-float(D[i, k]) / scale)
        first = own / sum(math.exp(-float(D[i, j]) / scale) for j in onward)
        return math.sqrt(first * own / sum(math.exp(-float(D[j, k]) / scale) for j in back))

    links = [share(a) for a in range(n - 1)]
    weaker = torch.tensor([min(links[max(a - 1, 0) : a + 1]) for a in range(n)])
    assert torch.allclose(confidence.link_share(order, D, scale)[order], weaker, atol=1e-5)


def test_confidence_of_a_path_is_how_often_its_neighbours_are_right() -> None:
    """Points with gaps of random size and noise: of those above 0.9 nearly all, of those below 0.5 about half."""
    sure, right = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.stack([np.cumsum(rng.uniform(0.2, 1.8, 60)), np.zeros(60)], 1) + 0.35 * rng.standard_normal((60, 2))
        D = torch.cdist(torch.from_numpy(x), torch.from_numpy(x))
        mixed = torch.from_numpy(rng.permutation(60))
        found = us.solve(us.Path(60), cost=D[mixed][:, mixed], runs=4)
        true = (mixed[found.order].diff().abs() == 1).numpy()
        sure.append(found.confidence[found.order].numpy())
        right.append(np.r_[True, true] & np.r_[true, True])
    sure, right = np.concatenate(sure), np.concatenate(right)
    assert right[sure > 0.9].mean() > 0.85
    assert right[sure < 0.5].mean() < 0.6
    assert (sure > 0.9).sum() > 20
    assert (sure < 0.5).sum() > 20


def test_agreement_is_up_to_rotation_and_reflection():
    ring = torch.randperm(9)
    orders = torch.stack((ring, ring.roll(3), ring.flip(0), ring[torch.randperm(9)]))
    assert confidence.same_orders(orders, 0, closed=True, directed=False) == 0.75
    assert confidence.same_orders(orders, 0, closed=True, directed=True) == 0.5
    assert confidence.same_orders(orders, 0, closed=False, directed=False) == 0.5
    assert bool((confidence.shared_links(orders[:3], 0, closed=True, directed=False) == 1).all())
    assert bool((confidence.shared_links(orders[:2], 0, closed=False, directed=False) <= 1).all())


def test_an_item_is_as_sure_as_its_rarer_link():
    best = torch.tensor([0, 1, 2, 3, 4, 5])
    orders = torch.stack((best, torch.tensor([1, 0, 2, 3, 4, 5]), best.flip(0), torch.tensor([0, 1, 2, 3, 5, 4])))
    share = confidence.shared_links(orders, 0, closed=True, directed=False)
    expected = []
    for item in range(6):
        links = [{item, (item + 1) % 6}, {item, (item - 1) % 6}]
        others = [[{int(o[k]), int(o[(k + 1) % 6])} for k in range(6)] for o in orders[1:]]
        expected.append(min(sum(link in other for other in others) / 3 for link in links))
    assert share.tolist() == pytest.approx(expected)


def test_rounding_of_distances_is_no_asymmetry():
    """`torch.cdist` of more than 25 points is not exactly symmetric; runs may still find a tour in either direction."""
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(3))
    cost = torch.cdist(points, points)
    assert not torch.equal(cost, cost.mT)
    exact = (cost.double() + cost.double().mT) / 2
    rounded, symmetric = (us.solve(us.Cycle(60), cost=c, runs=2, seed=1) for c in (cost, exact))
    assert rounded.energy == pytest.approx(symmetric.energy, rel=1e-3)
    assert float(rounded.confidence.mean()) == pytest.approx(float(symmetric.confidence.mean()), abs=0.15)
    assert float(rounded.confidence.mean()) > 0.3


def test_one_way_costs_beside_a_huge_one_stay_one_way():
    """Cheap one way round, dear the other; one "never" must not make the difference look like rounding."""
    n = 30
    cost = torch.rand(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 5
    for i in range(n):
        cost[i, (i + 1) % n], cost[(i + 1) % n, i] = 1.0, 9.0
    cost[0, 5] = 1e9
    for layout in (us.Cycle(n), us.Path(n)):  # the best costs 1 a link, and taken for rounding any costs about 5
        found = us.solve(layout, cost=cost)
        assert found.energy == pytest.approx(float(layout.energy(found.order, cost)))
        assert found.energy < 2.5 * n


def test_local_search_starts_from_every_round():
    points = torch.rand(80, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    cost = torch.cdist(points, points)
    found = us.solve(us.Cycle(80), cost=cost, runs=1, polish=True)
    from unshuffle.solve.local_search import improve_tour

    alone = us.Cycle(80).energy(improve_tour(found.order, cost), cost)
    assert found.best_energy <= float(alone) + 1e-9
