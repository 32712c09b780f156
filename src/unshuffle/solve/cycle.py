r"""Tours: $E(P) = \sum_a p_a^T D\, p_{a+1}$ on a ring, annealed coarse to fine in positions.

On the full ring long wavelengths relax by diffusion, in a time that grows like n^2. So n items first find their place among
about 8 bins, then 16, 32, ..., n. The coarse energy is not a heuristic but E restricted to P constant on bins of s = n/m
positions: with $p_A = P_A / s$, $E = \sum_A (s-1)\, p_A^T D p_A + p_A^T D p_{A+1}$, for any real $s \ge 1$; s = 1 is the problem itself.
Without the levels the gap at n = 500 is 24-30 % instead of 6 %.

P is stored positions x items here (see `chain_field`) and transposed once, at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..operators.chain import chain_field
from ..operators.warm import WarmState
from ..structure.layouts import Cycle
from .anneal import Field, Pace, anneal, decode, matching_beta, scattered, steepest
from .confidence import insertion_share, same_orders, shared_links
from .rounds import from_scores
from .solution import Runs
from .watch import Watch


@dataclass(frozen=True)
class Tours:
    """Constants of the recipe, all relative to the problem's own scales. Chosen on instances that no benchmark reports."""

    power: float = 1.3
    """Coarse levels see d (D/d)^power, d the distance to the nearest neighbour: far is further, local scale unchanged."""
    shake: float = 0.5
    """Every run but the first sees coarse costs times 1 + shake U(-1, 1). Alone, runs fall into the same valley: best of 8
    at n = 100 is 3.1 % without, 2.1 % with it, while the mean of single runs stays 3.2 %. (Normal noise of the same
    size has tails that make false neighbours: 12 % at n = 200.)"""
    coarsest: float = 9.6
    bins: float = 3.0
    """A level ends when an item covers fewer bins than this; 2 and 5 are worse by half a point."""
    amplify: float = 0.5
    """gamma = amplify d sqrt(beta / beta at the start of the level): decides in the end, disturbs little before.
    A constant gamma of 2 d gives 4.1 instead of 3.7 % at n = 100; twice this is worse by 0.2 points at n = 200."""
    self_weight: float = 0.5
    """Adds w p_a^T D p_a at the last level: nothing at a permutation (D_ii = 0), but it removes period-two oscillation."""
    soon: float = 0.9
    """Start at this share of the critical beta."""
    pace: Pace = Pace()


def solve_cycle(
    layout: Cycle,
    cost: Float[Tensor, "n n"],
    *,
    allowed: Tensor | None,
    init: Tensor | None,
    runs: int | None,
    generator: torch.Generator,
    watch: Watch,
    recipe: Tours | None = None,
) -> Runs:
    """The shortest of ``runs`` annealed tours."""
    recipe = recipe or Tours()
    runs = default_runs(layout.n) if runs is None else runs
    costs = Scaled(cost, recipe)
    soft = _ring(costs, runs, allowed, init, generator, watch, recipe).mT.contiguous()
    orders = decode(soft, allowed)
    energies = layout.energy(orders, cost)
    best = int(energies.argmin())
    place = insertion_share(orders[best], cost, costs.nearest * costs.unit, closed=True)
    shared = shared_links(orders, best, closed=True, directed=not costs.symmetric)
    agreement = same_orders(orders, best, closed=True, directed=not costs.symmetric)
    return Runs(orders, energies, soft[best], (place * shared).sqrt().float(), agreement)


def default_runs(n: int) -> int:
    """As many as two cores manage within a few seconds per hundred items; a run takes about n^2.2."""
    return max(2, min(32, round(32 * (100 / n) ** 0.9)))


class Scaled:
    """The cost in units of its own spectrum, and its coarse version."""

    def __init__(self, cost: Tensor, recipe: Tours) -> None:
        n = len(cost)
        off = ~torch.eye(n, dtype=torch.bool)
        shifted = (cost - min(0.0, float(cost[off].min()) if n > 1 else 0.0)) * off
        # a few huge costs ("never") would set the scale of all others
        capped = shifted.clamp_max(20 * float(shifted[off].median()) + 1e-300) if n > 1 else shifted
        capped = capped if bool((capped > 0).any()) else shifted
        self.n = n
        self.symmetric = bool(torch.equal(cost, cost.mT))
        self.unit = max(steepest(capped) / n, 1e-300) if n > 1 else 1.0
        fine = capped / self.unit
        positive = torch.where(off & (fine > 0), fine, torch.inf).amin(1)
        positive = positive[positive.isfinite()]  # identical cities have no distance to measure by
        self.nearest = float(positive.mean()) if len(positive) else 1.0
        coarse = self.nearest * (fine / self.nearest) ** recipe.power
        self.critical = 1 / (2 * max(steepest(coarse) / n, 1e-30)) if n > 1 else 1.0
        self.fine, self.coarse = (t.to(torch.float32).unsqueeze(0).contiguous() for t in (fine, coarse))

    def shaken(self, runs: int, shake: float, generator: torch.Generator) -> Tensor:
        """One coarse cost per run; the first is left as it is."""
        if runs == 1:
            return self.coarse
        noise = torch.rand(runs, self.n, self.n, generator=generator) * 2 - 1
        upper = noise.triu(1)
        noise = upper + upper.mT if self.symmetric else noise
        noise[0] = 0
        return noise.mul_(shake).add_(1).mul_(self.coarse)


def _ring(
    costs: Scaled,
    runs: int,
    allowed: Tensor | None,
    init: Tensor | None,
    generator: torch.Generator,
    watch: Watch,
    recipe: Tours,
) -> Float[Tensor, "runs n n"]:
    """The soft tours (positions x items) after all levels."""
    n = costs.n
    levels = _levels(n, recipe.coarsest)
    coarse = costs.shaken(runs, recipe.shake, generator) if len(levels) > 1 else costs.coarse
    log_beta = math.log(recipe.soon * costs.critical)
    soft = scattered(runs, levels[0], n, n / levels[0], generator)
    if init is not None:
        soft, levels = _given(init, runs, levels, recipe, generator)
    for index, m in enumerate(levels):
        if watch.stopped:
            break
        last, s = m == n, n / m
        soft = _rebin(soft, m) if soft.shape[1] != m else soft
        state = WarmState(soft, _bias(allowed, m), row_mass=s)
        field = _field(costs.fine if last else coarse, costs, s, last, log_beta, recipe, torch.empty_like(state.soft))
        if init is not None and index == 0:
            log_beta = matching_beta(state, field, log_beta)
        # bins of two and more are convex enough to need no damping
        pace = recipe.pace if s <= 1.9 else replace(recipe.pace, damping=1.0)
        energy = _expected(costs, s)
        log_beta = anneal(
            state,
            field,
            log_beta,
            pace=pace,
            watch=watch,
            stage=f"level {index + 1} of {len(levels)}",
            purity=None if last else 1 / recipe.bins,
            energy=energy,
        )
        soft = state.soft
    return _rebin(soft, n) if soft.shape[1] != n else soft


def _levels(n: int, coarsest: float) -> list[int]:
    levels = [n]
    while levels[0] > coarsest:
        levels.insert(0, math.ceil(levels[0] / 2))
    return levels


def _field(D: Tensor, costs: Scaled, s: float, last: bool, start: float, recipe: Tours, out: Tensor) -> Field:
    r"""$Q_A = (D p_{A-1} + D p_{A+1} + 2(s-1)\, D p_A)/s - \gamma p_A$."""
    weight = 2 * (s - 1) + (recipe.self_weight if last else 0.0)

    def field(soft: Tensor, beta: float) -> Tensor:
        gamma = recipe.amplify * costs.nearest * math.sqrt(beta / math.exp(start))
        q = chain_field(soft, D, symmetric=costs.symmetric, closed=True, self_weight=weight, out=out)
        return q.mul_(1 / (s * s)).sub_(soft, alpha=gamma / s)

    return field


def _expected(costs: Scaled, s: float):
    """Expected length of the best run, in the user's units."""

    def energy(soft: Tensor) -> float:
        D = costs.fine[0]
        follow = torch.einsum("rai,rai->r", soft @ D, soft.roll(-1, 1) + (s - 1) * soft) / (s * s)
        return float(follow.min()) * costs.unit

    return energy


def _rebin(soft: Tensor, m: int) -> Tensor:
    """Mass moved to m bins by overlap, then blurred by [1/4, 1/2, 1/4]: new twin bins must be able to differ."""
    old = soft.shape[1]
    edges = torch.arange(m, dtype=torch.float64) * (old / m)
    cells = torch.arange(old, dtype=torch.float64)
    overlap = torch.minimum(edges[:, None] + old / m, cells + 1) - torch.maximum(edges[:, None], cells)
    new = overlap.clamp_min(0).to(soft) @ soft
    return 0.5 * new + 0.25 * (new.roll(1, 1) + new.roll(-1, 1))


def _bias(allowed: Tensor | None, m: int) -> Tensor | None:
    """-inf where no position of a bin is allowed to an item."""
    if allowed is None:
        return None
    n = len(allowed)
    overlap = _rebin(allowed.mT.to(torch.float32).unsqueeze(0), m)[0] if m != n else allowed.mT.to(torch.float32)
    return torch.where(overlap > 0, 0.0, -torch.inf)


def _given(
    init: Tensor, runs: int, levels: list[int], recipe: Tours, generator: torch.Generator
) -> tuple[Tensor, list[int]]:
    """Soft tours from scores, and the levels that are still to do: those on which they cover several bins."""
    n = len(init)
    state = from_scores(init.mT, runs, None, generator)
    width = 1 / float(state.purity.mean())
    todo = [m for m in levels if width * m / n >= recipe.bins] or levels[-1:]
    return _rebin(state.soft, todo[0]) if todo[0] != n else state.soft, todo
