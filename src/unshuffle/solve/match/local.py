r"""Structure as neighbourhoods, for sets whose distances cannot be compared: two assays, two scales, two dimensions.

Items are alike if they share neighbours: with $G_k$ the symmetric graph of k nearest neighbours,
$S = \mathrm{mean}_k\, G_k^2 / \sqrt{d d^T}$, k from 2 % to a third of the smaller set. The energy is the mismatch
$\sum (S^A_{ij} - S^B_{kl})^2 P_{ik} P_{jl}$ (partial Gromov-Wasserstein, but of what is near: with distances far away in it,
the energy of swapped cell types can be lower than the truth's) and the cut, $\lambda \sum (S_{ij})^2 r_i (1 - r_j)$ with the
sums r of the rows, the same for the columns: neighbours of which one takes part and the other is left out. Without it the best
fit is a part of everything; with it what is missing is missing as a whole.

By one structure alone two parts that are swapped often fit better than the truth. So the alignments that are compared come from S and
from the sum of S and the heat after 4 and 16 steps (`heat`), and of them is kept what agrees best in the mean of the three.

Sets of different size can be read in two ways: a part of the larger is missing in the smaller, or the smaller is a sample of the
same. Both are tried, and the one whose structures correlate more is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ...watch import Watch
from .checks import counted
from .found import Asked, Found
from .heat import heat
from .slack import Slack
from .starts import RUNS, coarse, directions, distinct, double_centred, rotations

NEIGHBOURS = (0.02, 0.04, 0.08, 0.16, 0.32)
"""Shares of the smaller set."""
DIMENSIONS = 8
"""Of the space in which hop counts are laid out."""
SETTLED = 8
"""Steps at one temperature, after which P changes no more."""
STARTS = 6
"""Different alignments that are taken from the groups to the items."""


@dataclass(frozen=True)
class Temperatures:
    """In units of the critical beta, at which the first alignment of the two sets becomes favourable."""

    groups: tuple[float, ...] = (2.0, 2.0, 2.0, 2.5, 3.1, 3.9, 4.9, 6.0)
    choice: tuple[float, ...] = (3.0, 3.75, 4.7)
    soft: float = 3.0
    """P in equilibrium at this beta is what is reported: sharper, it fits the noise."""
    sharp: tuple[float, ...] = tuple(3.0 * 1.25**k for k in range(15))


def laid_out(D: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Distances between places in a space of few dimensions that have about these distances: Isomap, if they are hops in a graph.

    Counts are nothing but ties: hops in a graph of 110 neighbours tell 110 near items from the others, and who of them is nearest
    only together, by all others from which they are as far.
    """
    X, _ = directions(-0.5 * D**2, DIMENSIONS)
    return torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist").double()


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


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The energy of two sets, its gradient and its critical temperature."""

    S1: Float[Tensor, "m m"]
    S2: Float[Tensor, "n n"]
    prior: Tensor | None = None
    pull: Tensor | None = None
    even: bool = False
    """The smaller set is a sample of the larger, of which everyone is then matched in part; or else some are left out."""
    cut: float = 1.0
    """Price of neighbours of which one is left out, in units of a mismatch. The whole price finds the part that is missing, but
    at low temperatures who leaves takes the neighbours along; half of it is linear in the rows' sums, and has no such waves."""

    @classmethod
    def of(
        cls, D1: Tensor, D2: Tensor, prior: Tensor | None = None, pull: Tensor | None = None, even: bool = False
    ) -> Neighbourhoods:
        smaller = min(len(D1), len(D2))
        D1, D2 = (laid_out(D) if counted(D) else D for D in (D1, D2))
        S1, S2 = (shared_neighbours(D, _counts(len(D) if even else smaller, smaller)) for D in (D1, D2))
        return cls(*_in_units(S1, S2), prior, pull, even)

    @property
    def size(self) -> int:
        return min(len(self.S1), len(self.S2))

    @cached_property
    def critical(self) -> float:
        return self.size * (len(self.S1) * len(self.S2)) ** 0.5 / (2 * self._strongest())

    def slack(self) -> Slack:
        return Slack(len(self.S1), len(self.S2), reject=False, even=self.even)

    def support(self, P: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
        """Minus the derivative of the energy (halved): what each placement would save, given the others."""
        rows, columns = P.sum(-1, keepdim=True), P.sum(-2, keepdim=True)
        mismatch = self.S1**2 @ rows + columns @ self.S2**2
        return (2 * self.S1 @ P @ self.S2 - (1 - 2 * self.cut) * mismatch) / self.size - self._linear

    def mismatch(self, P: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        """Of each pair with all that are placed."""
        rows, columns = P.sum(-1, keepdim=True), P.sum(-2, keepdim=True)
        return (self.S1**2 @ rows + columns @ self.S2**2 - 2 * self.S1 @ P @ self.S2) / self.size

    def unlike(self, P: Float[Tensor, "m n"]) -> float:
        """The mismatch of a pair that has nothing to do with each other."""
        each = (self.S1**2).mean() + (self.S2**2).mean() - 2 * self.S1.mean() * self.S2.mean()
        return float(P.sum() * each / self.size) + 1e-9

    def agreement(self, P: Float[Tensor, "m n"]) -> float:
        """Correlation of the one structure with the other over all pairs of pairs, less the share that is cut, either way."""
        rows, columns, mass = P.sum(-1), P.sum(-2), P.sum() ** 2
        means, squares, cut = zip(*map(_moments, (rows, columns), (self.S1, self.S2), self._shares), strict=True)
        together = float((P * (self.S1 @ P @ self.S2)).sum() / mass) - means[0] * means[1]
        spreads = [max(square - mean**2, 1e-6) ** 0.5 for square, mean in zip(squares, means, strict=True)]
        return together / (spreads[0] * spreads[1]) - 2 * sum(cut)

    def energy(self, P: Tensor, support: Tensor) -> Float[Tensor, "runs"]:
        """Per item."""
        return -(P * (support - self._linear)).sum((-1, -2)) / 2 / self.size

    def free_energy(self, P: Tensor, support: Tensor, beta: float) -> Float[Tensor, "runs"]:
        """Negative free energy per item: large is good."""
        pulled = 0 if self.pull is None else (P * self.pull).sum((-1, -2))
        entropy = -(P * P.clamp_min(1e-12).log()).sum((-1, -2))
        return (pulled + entropy) / self.size - beta * self.energy(P, support)

    def anneal(
        self, P: Tensor, betas: tuple[float, ...], watch: Watch, stage: str, steps: int = 3
    ) -> tuple[Tensor, Tensor, Float[Tensor, "runs"]]:
        """P, the support it gives and the free energy after this ladder of temperatures."""
        project, support, beta = self.slack(), self.support(P), betas[0]
        for beta in (b * self.critical for b in betas):
            for _ in range(1 if watch.stopped else steps):
                support = self.support(P)
                P = project(self.pulled(beta * support))
            energies = self.energy(P, support)
            entropy = -(P * P.clamp_min(1e-12).log()).sum((-1, -2)) / self.size
            best = int((entropy - beta * energies).argmax())
            energy, spread = float(energies[best]), float(entropy[best])
            if not watch(stage=stage, beta=beta, energy=energy, entropy=spread, soft=P[best].clone):
                break
        return P, support, self.free_energy(P, support, beta)

    def pulled(self, scores: Tensor) -> Tensor:
        return scores if self.pull is None else scores + self.pull

    @property
    def _shares(self) -> tuple[float, float]:
        """How much of an item of A, and of B, there is to be matched."""
        m, n = len(self.S1), len(self.S2)
        return (min(1.0, n / m), min(1.0, m / n)) if self.even else (1.0, 1.0)

    @cached_property
    def _linear(self) -> Tensor:
        """What a placement costs whoever else is placed."""
        first, second = (share * (S**2).sum(1) for share, S in zip(self._shares, (self.S1, self.S2), strict=True))
        prior = 0 if self.prior is None else 2 * self.prior
        return self.cut * (first[:, None] + second) / self.size - prior

    def _strongest(self) -> float:
        """Largest singular value of P -> S1 P S2 on what leaves rows and columns alone, by power iteration."""
        X = torch.randn(len(self.S1), len(self.S2), generator=torch.Generator().manual_seed(0))
        length = 1.0
        for _ in range(30):
            X = double_centred(self.S1 @ X @ self.S2)
            length = max(float(X.norm()), 1e-9)
            X = X / length
        return length


def _moments(masses: Tensor, S: Tensor, share: float) -> tuple[float, float, float]:
    """Mean and mean square of the structure among those that take part, and which share of its squares leads to others."""
    total, among = masses.sum() ** 2, masses @ S**2 @ masses
    cut = 1 - among / (share * masses @ (S**2).sum(1)).clamp_min(1e-9)
    return float(masses @ S @ masses / total), float(among / total), float(cut)


def _in_units(S1: Tensor, S2: Tensor) -> tuple[Tensor, Tensor]:
    unit = ((S1.var(correction=0) + S2.var(correction=0)) / 2).sqrt().clamp_min(1e-6)  # 0: all are alike
    return (S1 / unit).float(), (S2 / unit).float()


def _heated(D1: Tensor, D2: Tensor, even: bool) -> list[Neighbourhoods]:
    """The same sets by other structures, which vote on which parts correspond; none for counts, which they were seen to mislead."""
    if counted(D1) or counted(D2):
        return []
    smaller = min(len(D1), len(D2))
    both = (heat(D, len(D) if even else smaller) for D in (D1, D2))
    return [Neighbourhoods(*_in_units(S1, S2), even=even) for S1, S2 in zip(*both, strict=True)]


def _counts(count: int, smaller: int) -> list[int]:
    """Neighbours in a set of ``count`` that stand for the same shares of it as in a set of ``smaller``."""
    few = sorted({min(smaller, max(2, round(smaller * share))) for share in NEIGHBOURS})
    return [min(count, round(k * count / smaller)) for k in few]


def match_neighbourhoods(
    D1: Float[Tensor, "m m"],
    D2: Float[Tensor, "n n"],
    asked: Asked,
    temperatures: Temperatures | None = None,
) -> Found:
    """The better of two readings: a part is missing in the smaller set, or it is a sample of the same."""
    t, (prior, pull, reject, generator, watch) = temperatures or Temperatures(), asked
    readings = (False, True) if len(D1) != len(D2) else (False,)
    aligned = [
        (problem, _aligned(problem, _heated(D1, D2, problem.even), generator, watch, t))
        for problem in (Neighbourhoods.of(D1, D2, prior, pull, even) for even in readings)
    ]
    problem, P = max(aligned, key=lambda found: found[0].agreement(found[1]))
    problem = replace(problem, cut=0.5)
    beta, compared = t.soft * problem.critical, (problem.S1, problem.S2)
    P, support, _ = problem.anneal(P[None], (t.soft,), watch, "equilibrium", steps=SETTLED)
    soft = problem.slack()(problem.pulled(beta * support), iterations=30)
    P, support, _ = problem.anneal(P, t.sharp, watch, "neighbourhoods")
    if reject is None:
        return Found(support[0], soft[0], None, True, compared)
    unit = problem.unlike(P[0])
    support = 1 - problem.mismatch(P[0]) / unit
    price = torch.tensor([beta * unit * reject / 2])
    soft = Slack(*support.shape, reject=True)(problem.pulled(beta * unit * support)[None], price, iterations=30)
    return Found(support, soft[0], reject / 2, True, compared)


def _aligned(
    problem: Neighbourhoods, heated: list[Neighbourhoods], generator: torch.Generator, watch: Watch, t: Temperatures
) -> Tensor:
    """Groups from many starts, the best few taken to the items; of these P the one with the lowest free energy or, where there are
    several structures, with the best agreement over all of them: parts that are swapped may fit better by one alone."""
    structures = [problem, *heated]
    starts = [_starts(problem, generator, watch, t)]
    if heated:
        S1, S2 = (torch.stack(sides).sum(0) for sides in zip(*((one.S1, one.S2) for one in structures), strict=True))
        starts.append(_starts(replace(problem, S1=S1, S2=S2), generator, watch, t))
    if (known := problem.pull if problem.pull is not None else problem.prior) is not None:
        starts.append(problem.slack()(problem.pulled(torch.zeros_like(known))[None]))
    P, _, value = problem.anneal(torch.cat(starts), t.choice, watch, "choice")
    if heated:
        value = torch.tensor([sum(one.agreement(run) for one in structures) / len(structures) for run in P])
        value = value if problem.prior is None else value + (P * problem.prior).sum((-1, -2)) / problem.size
    return P[value.argmax()]


def _starts(problem: Neighbourhoods, generator: torch.Generator, watch: Watch, t: Temperatures) -> Tensor:
    """The best different alignments of groups, as soft permutations of items."""
    M1, M2, size = coarse(problem.S1, problem.S2)
    few = Neighbourhoods(M1 @ problem.S1 @ M1.T, M2 @ problem.S2 @ M2.T, even=problem.even)
    P = few.slack()(rotations(few.S1, few.S2, RUNS, generator))
    P, _, value = few.anneal(P, t.groups, watch, "groups")
    return size * (M1.T @ P[distinct(P, value, STARTS)] @ M2)
