r"""Quadratic assignment: $E(P) = \sum_{ab} w_{ab}\, p_a^T D\, p_b = \langle P, D P W^T\rangle$ on any weighted graph of positions.

There are no positions to coarsen, so the runs anneal at full size, several rounds: after each, a run goes on from the best
order it has seen, warmed up again. What makes runs and rounds differ is that both matrices are shaken while P is soft.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from ..structure.layouts import Graph
from ..watch import dispensable
from . import exact
from .anneal import Pull
from .confidence import same_energy
from .doubt import Assigned
from .request import Request
from .rounds import Best, Rounds, anneal_rounds
from .sets import Shares
from .solution import Solution


@dataclass(frozen=True)
class Assignments:
    """Constants of the recipe; energies are measured in units of the problem's own spectrum."""

    amplify: float = 0.5
    """gamma = amplify * unit * sqrt(beta / critical). With a constant gamma half of the QAPLIB instances never freeze."""
    shake: float = 0.5
    """Costs and weights are multiplied by 1 + shake U(-1, 1), fading to nothing at e^fade times the critical beta. Best of
    16 runs on 14 QAPLIB instances, mean gap: 7.1 % without, 2.0 % with 0.5, 2.4 % with 1."""
    fade: float = 2.0
    rounds: Rounds = Rounds()


def solve_graph(
    layout: Graph, cost: Float[Tensor, "n n"], asked: Request, recipe: Assignments | None = None
) -> Solution:
    """The best of ``runs`` annealed assignments."""
    found = anneal_graph(layout, cost, asked, recipe or Assignments())
    best = int(found.energies.argmin())
    confidence = torch.full((layout.n,), 1 / layout.n)
    with dispensable():
        assigned = Assigned.of(layout.weights, cost, found.orders[best], asked.allowed)
        confidence = assigned.judged(found.tried)[1]
    return found.solution(confidence, same_energy(found.energies, best))


def anneal_graph(layout: Graph, cost: Float[Tensor, "n n"], asked: Request, recipe: Assignments) -> Best:
    runs = default_runs(layout.n) if asked.runs is None else asked.runs
    problem = _Scaled(cost, layout.weights)
    return anneal_rounds(
        lambda: problem.pull(runs, recipe, asked.generator),
        lambda orders: layout.energy(orders, cost),
        (runs, layout.n),
        math.log(0.9 * problem.critical(recipe.amplify)),
        asked,
        rounds=recipe.rounds,
        expected=problem.expected,
    )


def judge_graph(layout: Graph, cost: Tensor, order: Int[Tensor, "n"], allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """How likely each item is at each position, and how sure each is in this order of a few, which is the best of all."""
    orders = exact.all_orders(layout.n, allowed) if layout.n <= exact.MOST else order.unsqueeze(0)
    return Assigned.of(layout.weights, cost, order, allowed).judged(orders)


def graph_shares(layout: Graph, cost: Tensor, allowed: Tensor | None, found: Solution) -> Shares:
    """For `Solution.sets`."""
    shares, _ = Assigned.of(layout.weights, cost, found.best_order, allowed).judged(found.starts)
    return Shares(csr_array(shares.double().numpy()), None)


def unit_of(layout: Graph, cost: Tensor) -> float:
    """How much more energy is much."""
    problem = _Scaled(cost, layout.weights)
    return problem.unit * problem.size


def default_runs(n: int) -> int:
    """A step costs about n^3 per run; 32 runs of 30 items take seconds. Below 20 items more cost nothing."""
    return max(2, round(32 * max(1.0, 20 / n) ** 2 * min(1.0, 50 / n) ** 2))


class _Scaled:
    """Costs and weights with mean size 1, and the unit in which the uniform P feels them."""

    def __init__(self, cost: Tensor, weights: Tensor) -> None:
        D, W = cost.double(), weights.double()
        self.size = max(float(D.abs().mean() * W.abs().mean()), 1e-300)
        D, W = D / max(float(D.abs().mean()), 1e-300), W / max(float(W.abs().mean()), 1e-300)
        self.D, self.W = D.float(), W.float()
        self.symmetric = bool(torch.equal(D, D.mT) and torch.equal(W, W.mT))
        low, high = (torch.linalg.eigvalsh(_centred(M))[[0, -1]].tolist() for M in (D, W))
        # most negative product of eigenvalues: the direction in which the uniform P breaks up first
        steep = -min(low[0] * high[1], low[1] * high[0])
        widest = max(abs(x * y) for x in low for y in high)
        self.unit = max(2 * steep, 1e-3 * widest, 1e-12) / len(D)

    def critical(self, amplify: float) -> float:
        return 1 / (self.unit * (1 + amplify))

    def pull(self, runs: int, recipe: Assignments, generator: torch.Generator) -> Pull:
        """dE/dP - gamma P on shaken matrices; the first run's are left as they are."""
        n = len(self.D)
        noise = (torch.rand(2, runs, n, n, generator=generator) * 2 - 1) / math.sqrt(2)
        noise = noise + noise.mT
        noise[:, 0] = 0
        critical = self.critical(recipe.amplify)

        def pull(soft: Tensor, beta: float) -> Tensor:
            cooled = math.log(beta / critical)
            fade = recipe.shake * max(0.0, 1 - cooled / recipe.fade)
            D, W = (self.D * (1 + fade * noise[0]), self.W * (1 + fade * noise[1])) if fade else (self.D, self.W)
            gamma = recipe.amplify * self.unit * math.exp(cooled / 2)
            return self.gradient(soft, D, W).sub_(soft, alpha=gamma)

        return pull

    def gradient(self, soft: Tensor, D: Tensor, W: Tensor) -> Tensor:
        if self.symmetric:
            return 2 * (D @ (soft @ W))
        return D @ (soft @ W.mT) + D.mT @ (soft @ W)

    def expected(self, soft: Tensor) -> float:
        return float((soft * (self.D @ (soft @ self.W.mT))).sum((1, 2)).min()) * self.size


def _centred(M: Tensor) -> Tensor:
    M = (M + M.mT) / 2
    row = M.mean(0)
    return M - row[None, :] - row[:, None] + row.mean()
