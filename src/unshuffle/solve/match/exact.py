r"""Structure as distances that agree up to noise, for sets of points in the same units: one is the other, moved.

Two pairs agree by $\exp(-(D^A_{ij} - D^B_{kl})^2 / 2\epsilon^2)$, less what chance would have it; the support of a placement is the
sum over the other placements. The kernel is a sum over bumps along the axis of distances, $\sum_c b_c(x) b_c(y)$, so that the
support costs a few products of matrices and not (m n)^2. The tolerance $\epsilon$ goes from the nearest distance, beyond which
points cannot be told apart, down to the noise that the matched distances show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ...operators.assignment import assign
from ...watch import Watch
from .found import Asked, Found
from .overlay import coordinates, flat, overlaid
from .slack import Slack
from .starts import GROUPS, coarse, rotations

REJECT = 0.7
"""Share of a usual pair's support below which a pair is left out: its distances are then off by three standard deviations of the
others' noise, in two dimensions."""


@dataclass(frozen=True)
class Tolerances:
    """In units of the median nearest distance; the scores of a level run from the first beta to the last."""

    coarse: float = 1.0
    middle: float = 0.5
    fine: float = 0.25
    noise: float = 1.5
    """Standard deviations of the noise that the last tolerance is."""
    runs: int = 64
    """Rotations tried in a plane; in space four times as many."""
    starts: int = 6
    starts_of_groups: int = 2
    soft: float = 8.0
    most: int = 100
    """Bumps at most: more do not fit the memory and time of a large set."""
    many: int = 40
    """Bumps at most while it is searched among more points than there are groups: what they find is looked at closely after."""
    least: int = 12
    """Bumps once there is no more time."""


class Distances:
    """The agreement of two distance matrices at one tolerance."""

    def __init__(self, D1: Float[Tensor, "m m"], D2: Float[Tensor, "n n"], tolerance: float, most: int) -> None:
        top = float(torch.maximum(D1.max(), D2.max()))
        self.tolerance = max(tolerance, top / most, 1e-9)
        centres = torch.arange(0, top + 2 * self.tolerance, self.tolerance)
        self.B1, self.B2 = (self._bumps(D, centres) for D in (D1, D2))
        m, n = len(D1), len(D2)
        pairs = m * (m - 1) * n * (n - 1)
        self.chance = min(0.99, float((self.B1.sum((1, 2)) * self.B2.sum((1, 2))).sum()) / max(pairs, 1))

    def _bumps(self, D: Tensor, centres: Tensor) -> Tensor:
        height = (2 / math.pi) ** 0.25  # equal distances agree by 1
        return height * torch.exp(-(((D - centres[:, None, None]) / self.tolerance) ** 2)) * (1 - torch.eye(len(D)))

    def support(self, P: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
        """How many of the others agree, beyond chance."""
        return (self._agreeing(P) - self.chance * _others(P)) / (1 - self.chance)

    def _agreeing(self, P: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
        agreeing = torch.zeros_like(P)
        for a, b in zip(self.B1, self.B2, strict=True):
            agreeing += a @ P @ b
        return agreeing

    def agreement(self, P: Float[Tensor, "1 m n"]) -> float:
        """Which share of the distances between matched points agrees, beyond what would if the pairs were shuffled.

        The points of a dense part are all equally far from each other, and agree with those of any other, however they are paired.
        """
        rows, columns, mass = P[0].sum(1), P[0].sum(0), float(P.sum())
        agree = float((P * self._agreeing(P)).sum()) / max(float((P * _others(P)).sum()), 1.0)
        shuffled = float(((rows @ self.B1 @ rows) * (columns @ self.B2 @ columns)).sum())
        for total in (rows, columns):
            shuffled /= max(mass**2 - float(total @ total), 1.0)
        return (agree - shuffled) / max(1 - shuffled, 1e-6)


def _others(P: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
    """How much of P is in other rows and columns."""
    return P.sum((-1, -2), keepdim=True) - P.sum(-1, keepdim=True) - P.sum(-2, keepdim=True) + P


class Search:
    """P with a price for being left out that is a share of what a placement is worth now."""

    def __init__(self, reject: float, prior: Tensor | None, pull: Tensor | None, watch: Watch) -> None:
        self.reject, self.prior, self.pull, self.watch = reject, prior, pull, watch

    def level(
        self, problem: Distances, P: Tensor, betas: tuple[float, float], steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """P, support by structure and a usual pair's support after ``steps`` from the first beta to the last, in units of
        log n / support."""
        project, (m, n) = Slack(*P.shape[-2:], reject=True), P.shape[-2:]
        support = usual = P
        for k in range(steps):
            support = problem.support(P)
            usual = ((P * support).sum((-1, -2)) / P.sum((-1, -2)).clamp_min(1e-9)).clamp_min(1e-3)
            beta = betas[0] * (betas[1] / betas[0]) ** (k / max(steps - 1, 1)) * math.log(max(m, n) + 1)
            P = self.projected(project, support, usual, beta)
            best = int(self.worth(P, support).argmax())
            entropy = -float((P[best] * P[best].clamp_min(1e-12).log()).sum()) / m
            told = {"beta": beta, "energy": -float(usual[best]), "entropy": entropy}
            if not self.watch(stage="distances", **told, soft=P[best].clone):
                break
        return P, support, usual

    def worth(self, P: Tensor, support: Tensor) -> Float[Tensor, "runs"]:
        return (P * self.preferred(support)).sum((-1, -2))

    def preferred(self, support: Float[Tensor, "runs m n"]) -> Float[Tensor, "runs m n"]:
        return support if self.prior is None else support + min(support.shape[-2:]) * self.prior

    def projected(self, project: Slack, support: Tensor, usual: Tensor, beta: float, iterations: int = 10) -> Tensor:
        """Structure alone sets the scale and the price: else two pairs of a high prior would melt all the others."""
        scale = beta / support.amax((-1, -2)).clamp_min(1e-3)
        scores = scale[:, None, None] * self.preferred(support)
        return project(scores if self.pull is None else scores + self.pull, scale * self.reject * usual / 2, iterations)


def match_distances(
    D1: Float[Tensor, "m m"],
    D2: Float[Tensor, "n n"],
    asked: Asked,
    tolerances: Tolerances | None = None,
) -> Found:
    """From rotations of the groups to the points, from coarse to fine tolerance, and at last the noise itself."""
    t, (prior, pull, reject, generator, watch) = tolerances or Tolerances(), asked
    places = coordinates(D1), coordinates(D2)
    D1, D2 = D1.float(), D2.float()
    share = REJECT if reject is None else reject
    search, unit = Search(share, prior, pull, watch), _nearest(D1, D2)
    most = t.most if max(len(D1), len(D2)) <= GROUPS else min(t.most, t.many)
    P = _starts(D1, D2, search, t.runs if all(map(flat, places)) else 4 * t.runs, replace(t, most=most), generator)
    if watch.stopped:  # what the groups say: with few bumps, a product of the matrices is as soon done as said
        P, t, most = P[:1], replace(t, middle=t.coarse, most=t.least), t.least
    problem = Distances(D1, D2, t.middle * unit, most)
    P, support, usual = search.level(problem, P, (3.0, 6.0), 6)
    best = search.worth(P, support).argmax()
    P, support, usual = P[best][None], support[best][None], usual[best][None]
    spatial = places[0] is not None and places[1] is not None
    if not watch.stopped and _convincing(problem, P, spatial):
        P, support, usual = search.level(Distances(D1, D2, t.fine * unit, t.most), P, (4.0, 20.0), 8)
        noise = _noise(D1, D2, search.preferred(support)[0], float(share * usual / 2))
        problem = Distances(D1, D2, min(t.noise * noise, t.fine * unit), t.most)
        P, support, usual = search.level(problem, P, (8.0, 20.0), 8)
        if reject is None and spatial and not watch.stopped:
            over = overlaid(*places, P[0], prior, pull)  # pyright: ignore[reportArgumentType]
            if over is not None:
                return Found(over.scores, over.soft, over.price, True, (D1, D2))
    beta = t.soft * math.log(max(P.shape[-2:]) + 1)
    soft = search.projected(Slack(*P.shape[-2:], reject=True), support, usual, beta, 30)[0]
    return Found(
        search.preferred(support)[0] / float(usual), soft, share / 2, _convincing(problem, P, spatial), (D1, D2)
    )


def _convincing(problem: Distances, P: Float[Tensor, "1 m n"], spatial: bool) -> bool:
    """Whether more than half of the distances between matched points agree; and where these are no points of space, among which
    strangers seldom do, at least a third of what there would be if the smaller set were matched as a whole."""
    agreement = problem.agreement(P)
    return agreement > 0.5 and (spatial or agreement * float(P.sum()) / min(P.shape[-2:]) > 1 / 3)


def _starts(D1: Tensor, D2: Tensor, search: Search, runs: int, t: Tolerances, generator: torch.Generator) -> Tensor:
    """The best of many rotations, found on groups where there are many points; and what is known beforehand, as one more."""
    S1, S2 = -(D1**2), -(D2**2)
    M1, M2, size = coarse(S1, S2)
    d1, d2 = ((M @ D @ M.T).fill_diagonal_(0.0) for M, D in ((M1, D1), (M2, D2)))
    P = Slack(len(M1), len(M2), reject=False)(rotations(M1 @ S1 @ M1.T, M2 @ S2 @ M2.T, runs, generator))
    free = Search(search.reject, None, None, search.watch)
    P, support, _ = free.level(Distances(d1, d2, t.coarse * _nearest(d1, d2), t.most), P, (1.0, 4.0), 8)
    best = free.worth(P, support).topk(t.starts if size == 1 else t.starts_of_groups).indices
    starts = size * (M1.T @ P[best] @ M2)
    known = search.pull if search.pull is not None else search.prior
    if known is None:
        return starts
    seeded = Slack(*known.shape, reject=False)((known * (1 if search.pull is not None else 10))[None])
    return torch.cat([starts, seeded])


def _nearest(D1: Tensor, D2: Tensor) -> float:
    """Median distance to the nearest other point that is not in the same place."""
    near = [torch.where(D > 0, D, torch.inf).min(1).values for D in (D1, D2)]
    near = torch.cat(near)
    near = near[near.isfinite()]
    return float(near.median()) if len(near) else 1.0


def _noise(D1: Tensor, D2: Tensor, support: Tensor, price: float) -> float:
    """Standard deviation of the differences between matched distances, by their median."""
    order = assign(support, reject=price)
    places = (order >= 0).nonzero()[:, 0]
    items = order[places]
    if len(items) < 4:
        return math.inf
    apart = (D1[items][:, items] - D2[places][:, places]).abs()
    return 1.4826 * float(apart[torch.triu(torch.ones_like(apart), 1) > 0].median())
