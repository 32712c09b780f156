r"""Structure as neighbourhoods, for sets whose distances cannot be compared: two assays, two scales, two dimensions.

Items are alike if they share neighbours: with $G_k$ the symmetric graph of k nearest neighbours,
$S = \mathrm{mean}_k\, G_k^2 / \sqrt{d d^T}$, k from 2 % to a third of the smaller set and the same for both. The energy is the
mismatch $\sum (S^A_{ij} - S^B_{kl})^2 P_{ik} P_{jl}$ (partial Gromov-Wasserstein, but of what is near: with distances far away in it,
the energy of swapped cell types can be lower than the truth's).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ...watch import Watch
from .found import Asked, Found
from .slack import Slack
from .starts import RUNS, coarse, distinct, double_centred, rotations

NEIGHBOURS = (0.02, 0.04, 0.08, 0.16, 0.32)
"""Shares of the smaller set."""
STARTS = 6
"""Different alignments that are taken from the groups to the items."""


@dataclass(frozen=True)
class Temperatures:
    """In units of the critical beta, at which the first alignment of the two sets becomes favourable."""

    groups: tuple[float, ...] = (2.0, 2.0, 2.0, 2.5, 3.1, 3.9, 4.9, 6.0)
    choice: tuple[float, ...] = (3.0, 3.75, 4.7)
    sharp: tuple[float, ...] = tuple(3.0 * 1.25**k for k in range(15))
    soft: float = 3.0
    """P of the sharp support at this beta is what is reported. On branching manifolds seen through two noisy views FOSCTTM is
    nearly flat from 3 to 8; sharper, P fits the noise."""


def shared_neighbours(D: Float[Tensor, "n n"], counts: list[int]) -> Float[Tensor, "n n"]:
    total, ordered = torch.zeros_like(D), D.sort(1).values
    for k in counts:
        edge = ordered[:, k - 1 : k]
        nearer, tied = (edge > D).double(), (edge == D).double()
        # what is tied at the edge counts in part, as if ties were broken at random: hop counts are nothing but ties
        G = nearer + tied * (k - nearer.sum(1, keepdim=True)) / tied.sum(1, keepdim=True)
        G = torch.maximum(G, G.T).fill_diagonal_(1.0)
        degree = G.sum(1)
        total += G @ G / torch.sqrt(degree[:, None] * degree) / len(counts)
    return total


class Neighbourhoods:
    """The energy of two sets, its gradient and its critical temperature."""

    def __init__(self, S1: Float[Tensor, "m m"], S2: Float[Tensor, "n n"], prior: Tensor | None, pull: Tensor | None):
        self.S1, self.S2, self.prior, self.pull = S1, S2, prior, pull
        self.size = min(len(S1), len(S2))
        self.critical = self.size * (len(S1) * len(S2)) ** 0.5 / (2 * self._strongest())

    @classmethod
    def of(cls, D1: Tensor, D2: Tensor, prior: Tensor | None, pull: Tensor | None) -> Neighbourhoods:
        smaller = min(len(D1), len(D2))
        counts = sorted({min(smaller, max(2, round(smaller * share))) for share in NEIGHBOURS})
        S1, S2 = shared_neighbours(D1, counts), shared_neighbours(D2, counts)
        middle = (S1.mean() + S2.mean()) / 2
        unit = ((S1.var(correction=0) + S2.var(correction=0)) / 2).sqrt().clamp_min(1e-6)  # 0: all are alike
        return cls(((S1 - middle) / unit).float(), ((S2 - middle) / unit).float(), prior, pull)

    def support(self, P: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
        """Minus the derivative of the energy (halved): what each placement would save, given the others."""
        rows, columns = P.sum(-1, keepdim=True), P.sum(-2, keepdim=True)
        mismatch = self.S1**2 @ rows + columns @ self.S2**2 - 2 * self.S1 @ P @ self.S2
        return -mismatch / self.size + (0 if self.prior is None else 2 * self.prior)

    def free_energy(self, P: Tensor, support: Tensor, beta: float) -> Float[Tensor, "runs"]:
        """Negative free energy per item: large is good."""
        linear = 0 if self.prior is None else (P * self.prior).sum((-1, -2))
        gain = beta * ((P * support).sum((-1, -2)) / 2 + linear)
        pulled = 0 if self.pull is None else (P * self.pull).sum((-1, -2))
        return (gain + pulled - (P * P.clamp_min(1e-12).log()).sum((-1, -2))) / self.size

    def anneal(
        self, P: Tensor, betas: tuple[float, ...], watch: Watch, stage: str, steps: int = 3
    ) -> tuple[Tensor, Tensor, Float[Tensor, "runs"]]:
        """P, the support it gives and the free energy after this ladder of temperatures."""
        project, support, beta = Slack(*P.shape[-2:], reject=False), self.support(P), betas[0]
        for beta in (b * self.critical for b in betas):
            for _ in range(steps):
                support = self.support(P)
                P = project(self.pulled(beta * support))
            energies = (P * support).sum((-1, -2)) / 2 / self.size
            entropy = -(P * P.clamp_min(1e-12).log()).sum((-1, -2)) / self.size
            best = int((beta * energies + entropy).argmax())
            told = {"beta": beta, "energy": -float(energies[best]), "entropy": float(entropy[best])}
            if not watch(stage=stage, **told, soft=P[best].clone):
                break
        return P, support, self.free_energy(P, support, beta)

    def pulled(self, scores: Tensor) -> Tensor:
        return scores if self.pull is None else scores + self.pull

    def _strongest(self) -> float:
        """Largest singular value of P -> S1 P S2 on what leaves rows and columns alone, by power iteration."""
        X = torch.randn(len(self.S1), len(self.S2), generator=torch.Generator().manual_seed(0))
        length = 1.0
        for _ in range(30):
            X = double_centred(self.S1 @ X @ self.S2)
            length = max(float(X.norm()), 1e-9)
            X = X / length
        return length


def match_neighbourhoods(
    D1: Float[Tensor, "m m"],
    D2: Float[Tensor, "n n"],
    asked: Asked,
    temperatures: Temperatures | None = None,
) -> Found:
    """Align groups from many starts, take the best few to the items, sharpen the one with the lowest free energy."""
    t, (prior, pull, reject, generator, watch) = temperatures or Temperatures(), asked
    problem = Neighbourhoods.of(D1, D2, prior, pull)
    P, _, value = problem.anneal(_starts(problem, generator, watch, t), t.choice, watch, "choice")
    P, support, _ = problem.anneal(P[value.argmax()][None], t.sharp, watch, "neighbourhoods")
    # the mismatch of a pair that has nothing to do with each other
    unit = float((problem.S1**2).sum() / len(D1) + (problem.S2**2).sum() / len(D2)) / problem.size + 1e-9
    beta, (m, n) = t.soft * problem.critical, P.shape[-2:]
    price = None if reject is None else torch.tensor([beta * unit * (reject - 1) / 2])
    soft = Slack(m, n, reject=reject is not None)(problem.pulled(beta * support), price, iterations=30)
    return Found(1 + support[0] / unit, soft[0], None if reject is None else reject / 2, True, (problem.S1, problem.S2))


def _starts(problem: Neighbourhoods, generator: torch.Generator, watch: Watch, t: Temperatures) -> Tensor:
    """The best different alignments of groups, as soft permutations of items; and what is known beforehand, as one more."""
    M1, M2, size = coarse(problem.S1, problem.S2)
    few = Neighbourhoods(M1 @ problem.S1 @ M1.T, M2 @ problem.S2 @ M2.T, None, None)
    P = Slack(len(M1), len(M2), reject=False)(rotations(few.S1, few.S2, RUNS, generator))
    P, _, value = few.anneal(P, t.groups, watch, "groups")
    starts = size * (M1.T @ P[distinct(P, value, STARTS)] @ M2)
    known = problem.pull if problem.pull is not None else problem.prior
    if known is None:
        return starts
    seeded = Slack(*known.shape, reject=False)(problem.pulled(torch.zeros_like(known))[None])
    return torch.cat([starts, seeded])
