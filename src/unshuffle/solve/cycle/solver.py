r"""Tours: $E(P) = \sum_a p_a^T D\, p_{a+1}$ on a ring, annealed coarse to fine in positions.

On the full ring long wavelengths relax by diffusion, in a time that grows like n^2. So n items first find their place among
about 8 bins, then 16, 32, ..., n. The coarse energy is not a heuristic but E restricted to P constant on bins of s = n/m
positions: with $p_A = P_A / s$, $E = \sum_A (s-1)\, p_A^T D p_A + p_A^T D p_{A+1}$, for any real $s \ge 1$; s = 1 is the problem itself.
Without the levels the gap at n = 500 is 24-30 % instead of 6 %.

P is stored positions x items here (see `chain_pull`) and transposed once, at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...operators.permutation import to_matrix
from ...structure.bins import COARSEST, rebin, widths
from ...structure.layouts import Cycle
from ...watch import Watch, dispensable
from .. import exact
from ..anneal import Pace, decode, scattered
from ..confidence import insertion_share, same_orders, shared_links
from ..request import Request
from ..rounds import Best, from_scores
from ..sets import usual_temperature, walk_around
from ..solution import Solution
from ..units import smoothest, steepest
from .levels import NEAR, Level, anneal_level
from .quick import quick_tours

MODES = 4  # of the cost that a warp mixes; with 10 it is less smooth and helps less
DOUBTFUL = 0.6
"""A mean share below this is lowered. Of 480 cities in 8 tours, those with a mean share around 0.08, 0.33, 0.51, 0.70, 0.88 have both
neighbours of the best known tour in 0, 19, 39, 80, 87 %."""
CALM = 0.5
"""Of the temperature of sets. Sets ask for every neighbour of the best tour, the confidence for those of this one: with 1, 0.7, 0.5 it is off by
0.07, 0.03, 0.02 on 16 tours each of 50 and 100 cities that no benchmark reports."""
LARGE = 2000  # beyond this many cities cool twice as fast: half a point longer at n = 100, but minutes instead of a quarter of an hour


@dataclass(frozen=True)
class Tours:
    """Constants of the recipe, all relative to the problem's own scales. Chosen on instances that no benchmark reports."""

    power: float = 1.3
    """Coarse levels see d (D/d)^power, d the distance to the nearest neighbour: far is further, local scale unchanged."""
    shake: float = 0.5
    """All but the first run's first round see coarse costs times 1 + shake U(-1, 1). Alone, runs fall into the same valley: best of 8
    at n = 100 is 3.1 % without, 2.1 % with it, while the mean of single runs stays 3.2 %. (Normal noise of the same
    size has tails that make false neighbours: 12 % at n = 200.)"""
    warp: float = 0.6
    """They also see them times 1 + warp (f_i + f_k) / 2, with f a random mix of the cost's `MODES` smoothest modes, |f| <= 1: pairwise
    noise averages out over a bin, a slow one makes another global shape worth while. n = 100, 12 instances: shorter by
    0.3 +- 0.15 %, after local search from all rounds by 0.26 +- 0.11."""
    coarsest: float = COARSEST
    bins: float = 3.0
    """A level ends when an item covers fewer bins than this; 2 and 5 are worse by half a point."""
    amplify: float = 0.5
    """gamma = amplify d sqrt(beta / beta at the start of the level): decides in the end, disturbs little before.
    A constant gamma of 2 d gives 4.1 instead of 3.7 % at n = 100; twice this is worse by 0.2 points at n = 200."""
    self_weight: float = 0.5
    """Adds w p_a^T D p_a at the last level: nothing at a permutation (D_ii = 0), but it removes period-two oscillation."""
    soon: float = 0.9
    """Start at this share of the critical beta."""
    reheat: int = 3
    """Levels that a later round repeats. Means of four runs at n = 100 after 0, 1, 3, 7 rounds: 3.4, 3.1, 3.0, 2.8 %."""
    rounds: int | None = None
    """Later rounds; by default as many as `default_rounds` finds time for."""
    pace: Pace = Pace()


def solve_cycle(layout: Cycle, cost: Float[Tensor, "n n"], asked: Request, recipe: Tours | None = None) -> Solution:
    """The shortest of ``runs`` annealed tours."""
    if asked.allowed is None and _constant(cost):  # all tours are equally good, and there is no scale to anneal by
        order = torch.arange(layout.n)
        energies = layout.energy(order, cost).repeat(asked.runs or default_runs(layout.n))
        unsure = torch.full((layout.n,), 1 / layout.n)
        return Solution(order, float(energies[0]), to_matrix(order, torch.float32), unsure, energies)
    recipe = recipe or (Tours() if layout.n <= LARGE else Tours(pace=Pace(step=0.008)))
    costs = Scaled(cost, recipe)
    found = _in_groups(layout, cost, costs, recipe, asked)
    if asked.watch.stopped and asked.allowed is None:
        tours = torch.from_numpy(quick_tours(cost.numpy()))
        found = found.unless(tours, layout.energy(tours, cost))
    best = int(found.energies.argmin())
    agreement = same_orders(found.orders, best, closed=True, directed=not costs.symmetric)
    return found.solution(_confidence(layout, cost, costs, found, asked), agreement)


def _confidence(layout: Cycle, cost: Tensor, costs: Scaled, found: Best, asked: Request) -> Float[Tensor, "n"]:
    """Per item the mean of two shares: of tours nearly as good that have its rarer link; and, in geometric mean, of other rounds that have it
    and of its own gap among all. The first alone tells sure items from others better, but is too sure of them; of doubtful ones
    the mean is. If time is over, the second alone."""
    best = found.orders[int(found.energies.argmin())]
    links = {"closed": True, "directed": not costs.symmetric}
    place = insertion_share(best, cost, costs.nearest * costs.unit, closed=True)
    same = (found.tried == best).all(1).nonzero()
    shared = shared_links(found.tried, int(same[0]), **links)
    alone = (place * shared).sqrt()
    if asked.watch.stopped:
        return alone.float()
    with dispensable():
        return _mean(_among_near(layout, cost, best, asked.allowed), alone)
    return alone.float()


def _mean(near: Float[Tensor, "n"], alone: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    mean = (near + alone) / 2
    return (mean * (mean / DOUBTFUL).clamp_max(1)).float()


def judge_cycle(layout: Cycle, cost: Tensor, order: Int[Tensor, "n"], allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same of a tour that no round ended in; of few items all tours are asked how often they have a link, instead of a walk among them."""
    soft, n = to_matrix(order, torch.float32), layout.n
    if n < 3:
        return soft, torch.ones(n)
    if _constant(cost):  # no scale to compare gaps by
        place = torch.full((n,), 1 / n, dtype=cost.dtype)
    else:
        costs = Scaled(cost, Tours())
        place = insertion_share(order, cost, costs.nearest * costs.unit, closed=True)
    return soft, _mean((_among_all if n <= exact.MOST else _among_near)(layout, cost, order, allowed), place)


def _among_all(layout: Cycle, cost: Tensor, order: Int[Tensor, "n"], allowed: Tensor | None) -> Float[Tensor, "n"]:
    """Per item how often tours have its rarer link, the shorter the oftener."""
    n, tours = layout.n, exact.all_orders(layout.n, allowed)
    calm = CALM * usual_temperature(layout, cost.numpy(), order.unsqueeze(0).numpy())
    energies = layout.energy(tours, cost)
    weight = (-(energies - energies.min()) / calm).softmax(0)
    follows = cost.new_zeros(n * n)
    follows.index_add_(0, (n * tours + tours.roll(-1, 1)).flatten(), weight.repeat_interleave(n))
    follows = follows.reshape(n, n)
    if torch.equal(cost, cost.mT):
        follows = follows + follows.mT
    after = follows[order, order.roll(-1)]
    near = torch.empty_like(after)
    near[order] = torch.minimum(after, after.roll(1)).clamp_max(1.0)
    return near


def _among_near(layout: Cycle, cost: Tensor, order: Int[Tensor, "n"], allowed: Tensor | None) -> Float[Tensor, "n"]:
    """The same, of tours that a walk among those that are nearly as good comes by."""
    given, best = cost.double().numpy(), order.numpy()
    calm = CALM * usual_temperature(layout, given, best[None])
    walk = walk_around(layout, given, best, calm, allowed=None if allowed is None else allowed.numpy())
    directed = not torch.equal(cost, cost.mT)
    return shared_links(torch.cat((order.unsqueeze(0), torch.from_numpy(walk))), 0, closed=True, directed=directed)


MOST_TOGETHER = 64  # runs in one batch, and less where their matrices would not fit


def _in_groups(layout: Cycle, cost: Tensor, costs: Scaled, recipe: Tours, asked: Request) -> Best:
    """As many runs at a time as fit (two, if time is limited: a few that finish are worth more than many that do not)."""
    generator, watch, allowed, init, _ = asked
    runs = asked.runs or default_runs(layout.n)
    fit = default_runs(layout.n) if watch.time_limit is not None else MOST_TOGETHER
    together = max(default_runs(layout.n), min(fit, int(4e8 / layout.n**2)))
    found: Best | None = None
    for first in range(0, runs, together):
        group = f"group {first // together + 1} of {-(-runs // together)}, " if runs > together else ""
        ring = _Ring(layout, cost, costs, allowed, watch, recipe, group)
        some = ring.solve(min(together, runs - first), init, generator)
        found = some if found is None else found.beside(some)
        if watch.stopped:
            break
    if found is None:
        raise ValueError(f"runs must be at least 1, not {runs}.")
    return found


def _constant(cost: Float[Tensor, "n n"]) -> bool:
    between = cost[~torch.eye(len(cost), dtype=torch.bool)]
    return bool((between.max() - between.min()) <= 1e-12 * between.abs().max())


def default_runs(n: int) -> int:
    """Two, one per core: time is better spent on rounds, which remember, than on more runs."""
    return 2


def default_rounds(n: int) -> int:
    """12 up to 1000 cities, 3 at 2000, 1 at 4000: a round costs about n^1.3. Most of the gain comes in the first four."""
    return max(1, min(12, round(12 * (1000 / n) ** 2)))


class Scaled:
    """The cost in units of its own spectrum, and its coarse version."""

    def __init__(self, cost: Tensor, recipe: Tours) -> None:
        n = len(cost)
        off = ~torch.eye(n, dtype=torch.bool)
        shifted = (cost - min(0.0, float(cost[off].min()))) * off
        # a few huge costs ("never") must not set the scale of all others; if most are 0 there is no scale to keep to
        usual = float(shifted[off].median())
        capped = shifted.clamp_max(20 * usual) if usual > 0 else shifted
        self.n = n
        self.symmetric = bool(torch.equal(cost, cost.mT))
        self.unit = max(steepest(capped) / n, 1e-300)
        fine = capped / self.unit
        positive = torch.where(off & (fine > 0), fine, torch.inf).amin(1)
        positive = positive[positive.isfinite()]  # identical cities have no distance to measure by
        self.nearest = float(positive.mean()) if len(positive) else 1.0
        coarse = self.nearest * (fine / self.nearest) ** recipe.power
        self.critical = 1 / (2 * max(steepest(coarse) / n, 1e-30))
        either = torch.where(off, torch.minimum(fine, fine.mT), torch.inf)
        self.near = either.topk(min(NEAR, n - 1), largest=False).indices
        self.fine, self.coarse = (t.to(torch.float32).unsqueeze(0).contiguous() for t in (fine, coarse))
        self.modes = smoothest(coarse, MODES).to(torch.float32)

    def shaken(self, runs: int, recipe: Tours, generator: torch.Generator, plain: bool) -> Tensor:
        """One coarse cost per run; the first is left as it is if ``plain``."""
        noise = torch.rand(runs, self.n, self.n, generator=generator) * 2 - 1
        upper = noise.triu(1)
        noise = upper + upper.mT if self.symmetric else noise
        warps = torch.randn(runs, self.modes.shape[1], generator=generator) @ self.modes.mT
        warps *= recipe.warp / 2 / warps.abs().amax(1, keepdim=True).clamp_min(1e-30)
        if plain:
            noise[0], warps[0] = 0, 0
        noise.mul_(recipe.shake).add_(1).mul_(self.coarse)
        for cost, warp in zip(noise, warps, strict=True):
            cost.mul_(1 + warp[:, None] + warp)
        return noise


@dataclass(frozen=True)
class _Ring:
    """One instance on its way through levels and rounds."""

    layout: Cycle
    cost: Tensor
    costs: Scaled
    allowed: Tensor | None
    watch: Watch
    recipe: Tours
    name: str = ""
    begun: dict[int, float] = field(default_factory=dict)
    """log beta at which each level was first entered."""

    def solve(self, runs: int, init: Tensor | None, generator: torch.Generator) -> Best:
        """All levels once, or those that given scores leave to do; then rounds: in turn the last levels again from the best
        tour so far, and all from scratch.

        Every round shakes the costs anew. A run never gets worse from round to round, so scores that mislead do little harm.
        """
        levels = widths(self.costs.n, self.recipe.coarsest)
        todo, soft = levels, self._scattered(runs, levels, generator)
        if init is not None:
            soft, todo = _given(init, runs, levels, self.recipe, generator)
        rounds = default_rounds(self.costs.n) if self.recipe.rounds is None else self.recipe.rounds
        name = f"{self.name}round 1 of {rounds + 1}, "
        best = self.descend(soft, todo, self._start(), generator, match=init is not None, name=name)
        for number in range(rounds):
            if self.watch.stopped:
                break
            todo, log_beta = levels, self._start()
            again = number % 2 == (init is not None)  # given scores do not say at which beta a level is entered
            if again:
                todo = levels[-self.recipe.reheat :]
                log_beta, soft = self.begun[todo[0]], rebin(to_matrix(best.orders, torch.float32).mT, todo[0])
            else:
                soft = self._scattered(runs, levels, generator)
            name = f"{self.name}round {number + 2} of {rounds + 1}, "
            best = best.better_of(self.descend(soft, todo, log_beta, generator, melt=again, name=name))
        return best

    def _start(self) -> float:
        return math.log(self.recipe.soon * self.costs.critical)

    def _scattered(self, runs: int, levels: list[int], generator: torch.Generator) -> Tensor:
        return scattered(runs, levels[0], self.costs.n, self.costs.n / levels[0], generator)

    def descend(
        self,
        soft: Tensor,
        levels: list[int],
        log_beta: float,
        generator: torch.Generator,
        match: bool = False,
        melt: bool = False,
        name: str = "",
    ) -> Best:
        """Anneal level after level, from few bins to one position per bin, and decode."""
        n, recipe, costs = self.costs.n, self.recipe, self.costs
        coarse = costs.shaken(len(soft), recipe, generator, plain=not self.begun) if len(levels) > 1 else costs.coarse
        for index, m in enumerate(levels):
            if self.watch.stopped:
                break
            soft = rebin(soft, m) if soft.shape[1] != m else soft
            if not match:
                self.begun.setdefault(m, log_beta)
            with dispensable():
                soft, log_beta = anneal_level(
                    self._level(m, coarse, log_beta),
                    soft,
                    log_beta,
                    bias=_bias(self.allowed, m),
                    near=costs.near,
                    match=match and index == 0,
                    melt=melt and index == 0,
                    watch=self.watch,
                    stage=f"{name}level {index + 1} of {len(levels)}",
                )
        if soft.shape[1] != n and self.allowed is None:  # stopped while many cities still shared a bin
            return self._at_once(len(soft))
        soft = (rebin(soft, n) if soft.shape[1] != n else soft).mT.contiguous()
        orders = decode(soft, self.allowed)
        return Best(orders, self.layout.energy(orders, self.cost), soft, orders)

    def _at_once(self, runs: int) -> Best:
        """The shortest of the quick tours, for all runs."""
        tours = torch.from_numpy(quick_tours(self.cost.numpy()))
        order = tours[self.layout.energy(tours, self.cost).argmin()]
        orders = order.expand(runs, -1)
        soft = to_matrix(order, torch.float32).expand(runs, -1, -1)
        return Best(orders, self.layout.energy(orders, self.cost), soft, orders[:1])

    def _level(self, m: int, coarse: Tensor, log_beta: float) -> Level:
        recipe, costs, last = self.recipe, self.costs, m == self.costs.n
        growing = recipe.amplify * costs.nearest / math.exp(log_beta / 2)
        return Level(
            cost=costs.fine if last else coarse,
            fine=costs.fine,
            symmetric=costs.symmetric,
            bins=m,
            self_weight=recipe.self_weight if last else 0.0,
            gamma=lambda beta: growing * math.sqrt(beta),
            unit=costs.unit,
            # bins of two and more are concave enough to need no damping
            pace=recipe.pace if costs.n / m <= 1.9 else replace(recipe.pace, damping=1.0),
            enough=recipe.pace.frozen if last else 1 / recipe.bins,
        )


def _bias(allowed: Tensor | None, m: int) -> Tensor | None:
    """-inf where no position of a bin is allowed to an item."""
    if allowed is None:
        return None
    n = len(allowed)
    overlap = rebin(allowed.mT.to(torch.float32).unsqueeze(0), m)[0] if m != n else allowed.mT.to(torch.float32)
    return torch.where(overlap > 0, 0.0, -torch.inf)


def _given(
    init: Tensor, runs: int, levels: list[int], recipe: Tours, generator: torch.Generator
) -> tuple[Tensor, list[int]]:
    """Soft tours from scores, and the levels that are still to do: those on which they cover several bins."""
    n = len(init)
    state = from_scores(init.mT, runs, None, generator)
    width = 1 / float(state.purity.mean())
    todo = [m for m in levels if width * m / n >= recipe.bins] or levels[-1:]
    return rebin(state.soft, todo[0]) if todo[0] != n else state.soft, todo
