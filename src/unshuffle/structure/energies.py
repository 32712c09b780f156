r"""Expected pair energies of a soft permutation on a layout: $E(P) = \sum_{(a,b)} w_{ab} \, p_a^T D p_b$.

The sum runs over neighbouring positions (a, b); $p_a$ is column a of P; $D_{ik}$ is the cost of item k directly after
item i. For independent columns it is the expected cost of the order, so a diffuse P pays for its indecision, where a loss on
blended items $P^T X$ can be lowered by not deciding. At a hard permutation it is the layout's own `energy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..compute.memory import empty_like
from ..compute.transforms import symbolic
from ..errors import BadInput, number, shown
from ..operators.permutation import square
from ..operators.precision import widened, without_autocast
from ..shapes import SoftPermutation
from .layouts import Cycle, Graph, Grid, Layout, Path, pair_costs, relation_weights

PairCost = Float[Tensor, "... items items"]
PerList = Float[Tensor, "*batch"]


def expected_energy(layout: Layout, P: SoftPermutation, cost: PairCost | Sequence[PairCost]) -> PerList:
    """E(P) for one cost matrix, or one per neighbour relation (`Grid`: right, below); costs may be batched like P.

    One matrix product per relation forwards, and one backwards if the cost needs no gradient. (`Graph`: two and two.)
    Half types, and whatever comes under autocast, are summed in float32, and energies are float32 then.
    """
    if not isinstance(layout, (Path, Cycle, Grid, Graph)):
        raise BadInput(f"An energy needs a layout such as us.Path(n), not {shown(layout)}.")
    P = square(widened(P), "A soft permutation")
    if P.shape[-1] != layout.n:
        raise BadInput(f"The layout has {layout.n} positions, but the soft permutation has {P.shape[-1]}.")
    costs: Any = list(map(widened, cost)) if isinstance(cost, (list, tuple)) else widened(cost)  # pyright: ignore
    with without_autocast(P):
        return _expected_energy(layout, P, costs)


def _expected_energy(layout: Layout, P: Tensor, cost: Any) -> Tensor:
    if isinstance(layout, Graph):
        (D,) = pair_costs(layout, cost, 1)
        return (P * (D @ P @ layout.weights.to(P).mT)).sum((-2, -1))
    relations = layout.relations()
    total = P.new_zeros(P.shape[:-2])
    costs = pair_costs(layout, cost, len(relations))
    for pairs, D, weight in zip(relations, costs, relation_weights(layout), strict=True):
        first, second = P[..., pairs[:, 0]], P[..., pairs[:, 1]]
        total = total + weight * (first * (D @ second)).sum((-2, -1))
    return total


def heat_map(P: SoftPermutation) -> Float[Tensor, "*batch n n"]:
    r"""$H = P V P^T$, $H_{ik} = \sum_p P_{ip} P_{k,p+1}$: how much item k follows item i on the closed tour.

    V, the cyclic shift, is never built: it is a roll of the columns.
    """
    P = square(widened(P), "A soft permutation")
    with without_autocast(P):
        return P @ P.roll(-1, dims=-1).mT


def self_loop_penalty(P: SoftPermutation) -> PerList:
    r"""$\sum_i H_{ii}$ without the matrix H: an item that follows itself."""
    P = square(widened(P), "A soft permutation")
    return (P * P.roll(-1, dims=-1)).sum((-2, -1))


def row_sum_penalty(P: SoftPermutation) -> PerList:
    r"""$\sum_i (1 - \sum_p P_{ip})^2$: for relaxations that normalise columns only (UTSP)."""
    return (1 - square(widened(P), "A soft permutation").sum(-1)).square().sum(-1)


def utsp_loss(T: SoftPermutation, distances: PairCost, row_weight: float = 20.0, loop_weight: float = 0.1) -> PerList:
    r"""$C_1 \sum_i (1 - \sum_p T_{ip})^2 + \langle H, D \rangle + 0.1 \sum_i H_{ii}$, UTSP's loss.

    Published: $C_1$ = 20 for 100 and 200 cities, 10 for 500 and 1000.
    """
    number("row_weight", row_weight)
    number("loop_weight", loop_weight)
    T = square(widened(T), "A soft permutation")
    (distances,) = pair_costs(Cycle(T.shape[-1]), widened(distances), 1)
    with without_autocast(T):
        return _tour_loss(T, distances, row_weight, loop_weight)


def _tour_loss(T: Tensor, distances: Tensor, row_weight: float, loop_weight: float) -> Tensor:
    learning = T.requires_grad and torch.is_grad_enabled() and not distances.requires_grad
    # first of all not in a graph, which must not depend on how large the batch is
    if learning and not symbolic(T, distances) and T.numel() > 0 and T.shape[-distances.ndim :] == distances.shape:
        return TourLoss.apply(T, distances, row_weight, loop_weight)  # pyright: ignore[reportReturnType]
    return _utsp_loss(T, distances, row_weight, loop_weight)


def _utsp_loss(T: Tensor, distances: Tensor, row_weight: float, loop_weight: float) -> Tensor:
    length = (T * (distances @ T.roll(-1, dims=-1))).sum((-2, -1))
    return row_weight * row_sum_penalty(T) + length + loop_weight * self_loop_penalty(T)


class TourLoss(torch.autograd.Function):
    r"""`_utsp_loss` and its gradient in one go, a sample at a time.

    The gradient of the length is $D Q$ rolled to the left plus $D^T Q$ rolled to the right, and its product with Q twice the length: so nothing
    but the gradient is as large as Q. Autograd would keep and add up a dozen such matrices, each in fresh memory.
    """

    @staticmethod
    def forward(ctx: Any, T: Tensor, distances: Tensor, row_weight: float, loop_weight: float) -> Tensor:
        ctx.weights = (row_weight, loop_weight)
        gradient = empty_like(T)
        samples, found = (x.reshape(-1, *distances.shape) for x in (T, gradient))
        losses, back = [], distances.mT
        ways = (distances,) if torch.equal(distances, back) else (distances, back)
        for Q, G in zip(samples, found, strict=True):
            products = [D @ Q for D in ways]
            for product in products if loop_weight else ():
                product.add_(Q, alpha=loop_weight)
            torch.add(products[0].roll(-1, dims=-1), products[-1].roll(1, dims=-1), out=G)
            short = 1 - Q.sum(-1, keepdim=True)
            losses.append((Q * G).sum((-2, -1)) / 2 + row_weight * short.square().sum((-2, -1)))
            G -= 2 * row_weight * short
        ctx.save_for_backward(T, distances, gradient)
        return torch.stack(losses).reshape(T.shape[:-2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (T, distances, gradient), (grad,) = ctx.saved_tensors, grads
        if torch.is_grad_enabled():  # a second derivative is wanted
            with torch.enable_grad():
                again = _utsp_loss(T, distances, *ctx.weights)
            return *torch.autograd.grad(again, T, grad, create_graph=True), None, None, None
        return torch.mul(gradient, grad[..., None, None], out=empty_like(T)), None, None, None


def pair_distances(points: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n n"]:
    """Euclidean distances, the pair cost of a tour."""
    if not isinstance(points, Tensor) or points.ndim < 2 or not points.is_floating_point():
        raise BadInput(f"Points must be a floating-point tensor (..., n, d), not {shown(points)}.")
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
