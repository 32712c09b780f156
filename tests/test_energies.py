"""Expected pair energies: against double loops, exact at hard orders, and as cheap as they say."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import reference_method as reference
from unshuffle.errors import BadInput
from unshuffle.operators.permutation import to_matrix
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.structure.energies import (
    expected_energy,
    heat_map,
    pair_distances,
    row_sum_penalty,
    self_loop_penalty,
    utsp_loss,
)
from unshuffle.structure.layouts import Cycle, Graph, Grid, Path


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHTS = draw(6, 6, seed=9)
RIGHT, BELOW = draw(6, 6, seed=1), draw(6, 6, seed=2)


def cases():
    """A layout on six positions, its cost, and the same as a list of (a, b, weight, D)."""
    right, below = reference.grid_neighbours(2, 3)
    yield Path(6), RIGHT, [(p, p + 1, 1.0, RIGHT) for p in range(5)]
    yield Cycle(6), RIGHT, [(p, (p + 1) % 6, 1.0, RIGHT) for p in range(6)]
    terms = [(a, b, 1.0, RIGHT) for a, b in right] + [(a, b, 1.0, BELOW) for a, b in below]
    yield Grid(2, 3), (RIGHT, BELOW), terms
    every = itertools.product(range(6), range(6))
    yield Graph(WEIGHTS), RIGHT, [(a, b, float(WEIGHTS[a, b]), RIGHT) for a, b in every]


CASES = list(cases())
NAMES = ["path", "cycle", "grid", "graph"]


@pytest.mark.parametrize(("layout", "cost", "terms"), CASES, ids=NAMES)
def test_expected_energy_is_the_double_loop(layout, cost, terms):
    P = sinkhorn(draw(6, 6, seed=3))
    assert expected_energy(layout, P, cost).item() == pytest.approx(reference.pair_energy(P, terms))


@pytest.mark.parametrize(("layout", "cost", "terms"), CASES, ids=NAMES)
def test_at_a_hard_order_it_is_the_energy_of_the_layout(layout, cost, terms):
    order = draw(4, 6, seed=5).argsort(-1)
    soft = expected_energy(layout, to_matrix(order, torch.float64), cost)
    torch.testing.assert_close(soft, layout.energy(order, cost))


@pytest.mark.parametrize(("layout", "cost", "terms"), CASES, ids=NAMES)
def test_gradients_with_respect_to_both(layout, cost, terms):
    P = sinkhorn(draw(2, 6, 6, seed=3)).requires_grad_()
    costs = [c.clone().requires_grad_() for c in (cost if isinstance(cost, tuple) else (cost,))]
    assert torch.autograd.gradcheck(lambda P, *costs: expected_energy(layout, P, costs), (P, *costs))


@pytest.mark.parametrize(("layout", "cost", "terms"), CASES, ids=NAMES)
def test_batched_costs_are_one_by_one(layout, cost, terms):
    P = sinkhorn(draw(3, 6, 6, seed=3))
    costs = [torch.stack((c, 2 * c, c.T)) for c in (cost if isinstance(cost, tuple) else (cost,))]
    together = expected_energy(layout, P, costs)
    alone = [expected_energy(layout, P[k], [c[k] for c in costs]) for k in range(3)]
    torch.testing.assert_close(together, torch.stack(alone))


class CountProducts(TorchDispatchMode):
    """How many matrix products a block of code runs."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("layout", "cost", "relations"), [(c[0], c[1], r) for c, r in zip(CASES[:3], (1, 1, 2), strict=True)]
)
def test_one_matrix_product_per_relation_each_way(layout, cost, relations):
    P = sinkhorn(draw(6, 6, seed=3)).requires_grad_()
    with CountProducts() as forward:
        energy = expected_energy(layout, P, cost)
    with CountProducts() as backward:
        energy.backward()
    assert (forward.count, backward.count) == (relations, relations)


def test_the_true_order_has_the_least_energy():
    """Points on a line, on a circle, and on a grid: no order of six beats the true one."""
    line = torch.tensor([[0.0], [1.0], [2.5], [3.0], [5.0], [8.0]])
    angle = torch.arange(6) * torch.pi / 3
    circle = torch.stack((angle.cos(), angle.sin()), -1)
    cells = torch.tensor([[r, 1.3 * c] for r in range(2) for c in range(3)])
    orders = torch.tensor(list(itertools.permutations(range(6))))
    for layout, points in ((Path(6), line), (Cycle(6), circle), (Grid(2, 3), cells)):
        energies = expected_energy(layout, to_matrix(orders), pair_distances(points))
        assert energies[0] == pytest.approx(energies.min().item(), abs=1e-5)


def test_a_diffuse_assignment_pays_for_its_indecision():
    D = pair_distances(torch.arange(6.0).unsqueeze(-1))
    uniform = torch.full((6, 6), 1 / 6)
    assert expected_energy(Path(6), uniform, D) > 1.9 * expected_energy(Path(6), torch.eye(6), D)


def test_heat_map_is_P_V_Pt_and_its_sum_with_D_the_energy_of_the_cycle():
    P = sinkhorn(draw(5, 5))
    V = torch.eye(5, dtype=torch.float64).roll(1, dims=1)  # V[p, p+1] = 1
    H = heat_map(P)
    torch.testing.assert_close(H, P @ V @ P.T)
    D = draw(5, 5, seed=7)
    torch.testing.assert_close((H * D).sum(), expected_energy(Cycle(5), P, D))
    torch.testing.assert_close(self_loop_penalty(P), H.diagonal().sum())


def test_heat_map_direction_on_a_known_tour():
    order = torch.tensor([2, 0, 1, 3])
    H = heat_map(to_matrix(order))
    assert H.nonzero().tolist() == [[0, 1], [1, 3], [2, 0], [3, 2]]  # each item and its successor


def test_row_sums_and_the_whole_utsp_loss():
    T = torch.softmax(draw(5, 5), dim=0)
    D = draw(5, 5, seed=7)
    rows = sum((1 - sum(T[i, p] for p in range(5))) ** 2 for i in range(5))
    torch.testing.assert_close(row_sum_penalty(T), rows)
    H = heat_map(T)
    torch.testing.assert_close(utsp_loss(T, D), 20 * rows + (H * D).sum() + 0.1 * H.trace())


@pytest.mark.parametrize(("row_weight", "loop_weight"), [(20.0, 0.0), (3.0, 0.7)])
@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (3, 5, 5), (4, 1, 2, 2)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_gradient_of_the_utsp_loss_made_on_the_way(shape, row_weight, loop_weight, symmetric):
    """As autograd through its terms, for several samples of each list; a second derivative too."""
    T = torch.softmax(draw(*shape), dim=-2).requires_grad_()
    D, weights = draw(*shape[-3:], seed=7), draw(*shape[:-2], seed=8)
    D = D + D.mT if symmetric else D
    length = (T * (D @ T.roll(-1, dims=-1))).sum((-2, -1))
    expected = row_weight * row_sum_penalty(T) + length + loop_weight * self_loop_penalty(T)
    found = utsp_loss(T, D, row_weight, loop_weight)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((weights * loss).sum(), T, create_graph=True)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)
    again = [torch.autograd.grad(gradient.square().sum(), T)[0] for gradient in gradients]
    torch.testing.assert_close(*again)


def test_wrong_costs_are_refused_in_one_sentence():
    with pytest.raises(BadInput, match="relation"):
        expected_energy(Grid(2, 3), torch.eye(6), [torch.ones(6, 6)])
    with pytest.raises(BadInput, match="6 x 6"):
        expected_energy(Path(6), torch.eye(6), torch.ones(5, 5))
