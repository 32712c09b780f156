"""Strips as people have them: of one page or of several, upright or upside down, not always all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from ...solve.kinds import method_for, solved
from ...solve.path.directions import Ends, standing
from ...solve.path.links import linked_chains
from ...solve.sets import Shares, near_orders
from ...solve.solution import Solution
from ...structure.layouts import Path
from ...watch import Step, Watch, Where
from .chances import ROUGH, STRAIGHT, join_chances, usual
from .evidence import strip_cost, turned_cost
from .lines import Lines, pages_of
from .paper import Strip
from .rough import StripCost
from .spaces import space_cost

CLEAR = 5.0
"""Standard deviations that a join stands out from all pairs, nearly all of which are none. On ten pages three at a time, no join of
strips of two pages was that clear, and the larger part of every page holds together."""

BLOCKS = 2.0
"""Times the temperature of joins: whole blocks of strips change places where one join is wrong. On the first five pages, painted over, sets
of places at 90 % hold the true one in 89, 93, 97 % with 1.8, 2, 2.2."""

MISSING = 0.1  # of the strips, where some may be missing


@dataclass(frozen=True)
class Page:
    """A page: which strips of the pile it has, their order by the numbers of these, and how likely each join is."""

    strips: Int[Tensor, "some"]
    solution: Solution
    chances: Float[Tensor, "joins"]
    """Of strip k and k + 1 of the page."""

    @property
    def order(self) -> Int[Tensor, "some"]:
        """By the numbers of the pile."""
        return self.strips[self.solution.best_order]

    @property
    def turned(self) -> list[bool]:
        """Whether the strip at each place of the page is upside down as it came."""
        state = self.solution.best_state
        return [False] * len(self.strips) if state is None else [bool(s) for s in state]

    @property
    def confidence(self) -> Float[Tensor, "some"]:
        """That both neighbours of the strip at each place of the page are right."""
        return self.solution.confidence[self.solution.best_order]


def reassemble_page(
    strips: list[Strip],
    weights: StripCost | None = None,
    *,
    turned: bool = False,
    missing: bool = False,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Page:
    """The strips of one page, left to right. If some may be ``turned``, ``solution.state`` says which: 1 is upside down.

    If some may be ``missing``, a join is less sure where others have taken all better ones.
    """
    with Watch(time_limit, callback) as watch:
        return _one_page(
            strips, torch.arange(len(strips)), weights, turned, watch, missing=missing, seed=seed, polish=polish
        )


def reassemble_pages(
    strips: list[Strip],
    weights: StripCost | None = None,
    *,
    turned: bool = False,
    missing: bool = False,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> list[Page]:
    """As many pages as the pile holds, the largest first.

    What clearly joins is of one page, and chains whose lines of print are in the same rows; strips with neither go where they fit best.
    Then each page is put together by itself.
    """
    states = 2 if turned else 1
    with Watch(time_limit, callback) as watch:
        cost = among_others(_cost(strips, weights, turned, watch))
        watch(stage="tell the pages apart")
        middle, spread = usual(cost)
        clear = linked_chains(cost, states, most=middle - CLEAR * spread)
        label = pages_of(clear, states, Lines.of(strips))
        chains = [torch.from_numpy(np.sort(chain // states)) for chain in linked_chains(cost, states, groups=label)]
        chains.sort(key=lambda chain: -len(chain))
        options = {"missing": missing, "seed": seed, "polish": False}
        return [_one_page(strips, chain, weights, turned, watch, **options) for chain in chains]


def _one_page(
    strips: list[Strip],
    some: Int[Tensor, "some"],
    weights: StripCost | None,
    turned: bool,
    watch: Watch,
    *,
    missing: bool,
    seed: int,
    polish: bool,
) -> Page:
    layout = Path(len(some))
    watch.where = Where(layout, some)
    chosen = [strips[k] for k in some.tolist()]
    cost = _cost(chosen, weights, turned, watch)
    straight = all(strip.straight for strip in chosen)
    if straight and not turned:
        cost = cost + torch.from_numpy(space_cost(chosen, weights or StripCost()))
    method, given, sizes = method_for(layout, cost, None)
    found = solved(method, layout, given, sizes, watch, seed=seed, polish=polish)
    alone = (1 + MISSING * len(some) * missing) * (2 if turned else 1)  # every edge is there upright and upside down
    temperature = STRAIGHT if straight else ROUGH
    chance = join_chances(among_others(cost), temperature, alone)
    chances = _along(found, torch.from_numpy(chance))
    sure = torch.ones(len(some))
    ends = torch.ones(1)
    sure[found.best_order] = (torch.cat((ends, chances)) * torch.cat((chances, ends))).float()
    weigh = partial(_shares, given, temperature, chance)
    return Page(some, replace(found, confidence=sure, weigh=weigh), chances)


def _shares(
    given: Tensor | Ends, temperature: float, chance: Float[np.ndarray, "pieces pieces"], found: Solution
) -> Shares:
    """Places by other orders of the strips as they stand, neighbours by what is known of all pairs of edges."""
    n = len(found.confidence)
    states = len(chance) // n
    joined = chance.reshape(n, states, n, states).sum((1, 3)) / states
    cost = given.upright(standing(found)) if isinstance(given, Ends) else given
    others = near_orders(Path(n), cost.double().numpy(), found.best_order.numpy(), BLOCKS * temperature)
    return Shares(others.places, csr_array(joined + joined.T))


def _along(found: Solution, chance: Float[Tensor, "pieces pieces"]) -> Float[Tensor, "joins"]:
    order, state = found.best_order, found.best_state
    pieces = order if state is None else 2 * order + state
    return chance[pieces[:-1], pieces[1:]].float()


def _cost(strips: list[Strip], weights: StripCost | None, turned: bool, watch: Watch) -> Tensor:
    watch(stage="compare the edges", done=0.0)

    def more(done: float) -> bool:
        return watch(stage="compare the edges", done=done)

    return turned_cost(strips, weights, more) if turned else strip_cost(strips, weights, more)


def among_others(cost: Float[Tensor, "n *states n *states"]) -> Float[np.ndarray, "pieces pieces"]:
    """The cost of all pairs of pieces, strip * states + state; that of a strip beside itself is infinite."""
    states = 1 if cost.ndim == 2 else cost.shape[1]
    pairs = cost.reshape(states * len(cost), -1).numpy()
    item = np.arange(len(pairs)) // states
    return np.where(item[:, None] == item, np.inf, pairs)
