r"""An annealer unrolled for a fixed number of steps: a network whose layers are steps of $P \leftarrow \mathrm{Sinkhorn}(-\beta\,\partial E/\partial P)$."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import BadInput, shown
from ..structure.bins import blurred, overlap, widths
from ..structure.energies import pair_distances
from .items import ItemScores, sizes

Points = Float[Tensor, "*batch n 2"]
Bins = Float[Tensor, "batch bins n"]

# per step of a level: log beta, amplification gamma, momentum (logit), damping (logit), self weight; first and last step of
# the first, the middle and the last level. Set by hand on generated instances; training starts here
BY_HAND = (
    ((-0.5, 0.5), (0.0, 0.2), (0.0, 0.0), (3.0, 3.0), (0.0, 0.0)),
    ((-0.3, 0.7), (0.0, 0.3), (0.0, 0.0), (3.0, 3.0), (0.0, 0.0)),
    ((0.0, 3.0), (0.3, 1.0), (0.0, 0.0), (0.0, 0.0), (0.5, 0.5)),
)
LEAST = 1e-18  # that is divided by: the gradient of 1/x has its square, and single precision ends at 1e38


class UnrolledAnnealer(nn.Module):
    r"""Points of the plane to scores against the positions of a closed tour, for any n, in about a hundred small steps.

    The expected length of a tour is minimised over soft assignments to 8, then 16, ... then n bins of s = n/m positions each
    (the recipe of `solve(Cycle(n))`, cut to a fixed number of steps, without restarts or stopping rules):

    $$ Q_A = (D p_{A-1} + D p_{A+1} + (2(s-1) + w) D p_A)/s - \gamma p_A, \qquad P = \mathrm{Sinkhorn}(-\beta \bar Q). $$

    Symmetry is broken by the angle around the centroid, so nothing is random. Learned: beta, gamma, w, momentum and
    damping at every step (linear between `knots` per level), the power of the distances on coarse levels, and how sharply
    the angles begin. All are in units of the problem's own lengths, and middle levels share theirs: one network serves every n.
    """

    def __init__(self, steps: tuple[int, int, int] = (10, 10, 30), knots: int = 4, sweeps: int = 5) -> None:
        super().__init__()
        if not isinstance(steps, (tuple, list)) or len(steps) != 3:
            raise BadInput(f"steps must be three numbers: first, middle and last level, not {shown(steps)}.")
        sizes(knots=knots, sweeps=sweeps, **{f"steps[{k}]": count for k, count in enumerate(steps)})
        self.steps, self.sweeps = steps, sweeps
        ends = torch.tensor(BY_HAND)
        self.schedule = nn.Parameter(ends[..., :1] + (ends[..., 1:] - ends[..., :1]) * torch.linspace(0, 1, knots))
        self.power = nn.Parameter(torch.tensor(1.3))
        self.sharpness = nn.Parameter(torch.tensor(2.0))

    def forward(self, items: Points) -> ItemScores:
        n = items.shape[-2]
        points = items.reshape(-1, n, 2)
        distances = in_own_units(points)
        coarse = distances.clamp_min(1e-12) ** self.power
        levels = widths(n, least=2)
        P = self._by_angle(points, levels[0])
        logits = P.log()
        for number, m in enumerate(levels):
            last = m == n
            P = P if P.shape[1] == m else blurred(overlap(P.shape[1], m), 0).to(P) @ P
            P, logits = self._level(P, distances if last else coarse, 2 if last else min(number, 1))
        return logits.mT.reshape(*items.shape[:-1], n)

    def _by_angle(self, points: Tensor, m: int) -> Bins:
        """Bins in a ring, cities at the rank of their angle around the centroid."""
        n = points.shape[1]
        x, y = (points - points.mean(1, keepdim=True)).unbind(-1)
        angle = torch.atan2(y, x).argsort(-1).argsort(-1).to(points) * (2 * torch.pi / n)
        bins = (torch.arange(m).to(points) + 0.5) * (2 * torch.pi / m)
        near = torch.exp(self.sharpness * torch.cos(angle.unsqueeze(1) - bins.unsqueeze(1)))
        return near / near.sum(1, keepdim=True)

    def _level(self, P: Bins, D: Tensor, kind: int) -> tuple[Bins, Bins]:
        """All steps of one level; soft assignment (columns sum to one, rows to s) and its logits."""
        m, n = P.shape[-2:]
        s = n / m
        potential, mean, before = P.new_zeros(len(P), 1, n), None, P
        logits = P
        for log_beta, gamma, momentum, damping, w in self._settings(kind):
            ahead = (P + torch.sigmoid(momentum) * (P - before)) / s
            around = ahead.roll(1, 1) + ahead.roll(-1, 1) + (2 * (s - 1) + w) * ahead
            # a bin of s cities is about sqrt(s) nearest-neighbour distances wide
            pull = around @ D / s - gamma * math.sqrt(s) * ahead
            mean = pull if mean is None else mean + torch.sigmoid(damping) * (pull - mean)
            logits = potential - torch.exp(log_beta) / (2 * math.sqrt(s)) * mean
            before, (P, v) = P, scaled(logits, s, self.sweeps)
            logits = logits + v.log()
            potential = potential + v.log()
            potential = potential - potential.mean(-1, keepdim=True)
        return P, logits

    def _settings(self, kind: int) -> list[tuple[Tensor, ...]]:
        """The five numbers of every step: linear between the knots."""
        steps = self.steps[kind]
        knots = self.schedule[kind].unsqueeze(0)
        return [
            tuple(column) for column in nn.functional.interpolate(knots, steps, mode="linear", align_corners=True)[0].T
        ]


def scaled(logits: Bins, mass: float, sweeps: int) -> tuple[Bins, Float[Tensor, "batch 1 n"]]:
    """exp(logits) with rows scaled to `mass`, then columns to one, `sweeps` times; and the last scaling of the columns."""
    K = torch.exp(logits - logits.amax(-1, keepdim=True).detach())
    v = K.new_ones(len(K), K.shape[-1], 1)
    u = v
    for _ in range(sweeps):
        u = mass / (K @ v).clamp_min(LEAST)
        v = 1 / (K.mT @ u).clamp_min(LEAST)
    return u * K * v.mT, v.mT


def in_own_units(points: Points) -> Float[Tensor, "*batch n n"]:
    """Distances, over the mean distance to the nearest neighbour."""
    D = pair_distances(points)
    far = torch.diag_embed(D.amax(-1))
    nearest = (D + far).amin(-1).mean(-1)
    return D / nearest.clamp_min(1e-12)[..., None, None]
