"""What ``solve`` does for each kind of problem: one table, a row per layout and one for losses.

A new layout is a class in `structure.layouts`, a solver and a row here. The front door hands what the user gave to the row's
check, and what the check made of it to the rest of the row, unseen: a matrix, a pair of them, or any other form of cost.
A row is a function so that the solvers of other layouts, and their kernels, are not imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..compute.threads import small_steps
from ..errors import BadInput, whole
from ..operators.permutation import to_matrix
from ..structure.layouts import Cycle, Graph, Grid, Layout, Path
from ..watch import Step, Watch, dispensable
from . import checks, exact
from .request import Request
from .solution import Polished, Solution

if TYPE_CHECKING:
    from .sets import Shares

Judged = tuple[Float[Tensor, "n n"], Float[Tensor, "n"]]
"""The soft permutation around an order, and the confidence of each item in it."""


NOT_THE_SAME = "With states a Grid takes cost=(right, below), which are not the same."


def certain(layout: Layout, cost: Any, order: Int[Tensor, "n"], allowed: Tensor | None) -> Judged:
    return to_matrix(order, torch.float32), torch.ones(layout.n)


@dataclass(frozen=True)
class Method:
    """How problems of one kind are checked, solved and polished."""

    check: Callable[[Any, Any], Any]
    """(what the user gave, problem): what the other columns take, or one sentence why it does not fit."""
    solve: Callable[..., Solution]
    """(problem, checked, request)"""
    polish: Callable[..., Polished]
    """(problem, checked, solution, allowed=, generator=, watch=): local search from where annealing ended."""
    judge: Callable[..., Judged] | None = certain
    """(problem, checked, order, allowed): how sure an order is that no annealing ended in. None: never try all."""
    partial: bool = False
    """Items may be left out and positions stay empty."""
    shares: Callable[..., Shares] | None = None
    """(problem, checked, allowed, solution): how often items are elsewhere, for `Solution.sets`. None: by the soft permutation."""
    by_order: bool = False
    """A start is an order: there are too many items for scores of items x positions."""
    small: int = 300
    """Up to so many items one step of annealing is too little work to share among threads."""


def _path() -> Method:
    from .path.solver import judge_path, polish_path, solve_path
    from .sets import chain_shares

    polish = _best_of(polish_path)
    return Method(check=checks.chain, solve=solve_path, polish=polish, judge=judge_path, shares=chain_shares)


def _cycle() -> Method:
    from .cycle.solver import judge_cycle, solve_cycle
    from .local_search import improve_tour
    from .sets import chain_shares

    return Method(
        check=checks.one,
        solve=solve_cycle,
        polish=_best_of(lambda _, cost, orders, **rest: improve_tour(orders, cost, **rest)),
        judge=judge_cycle,
        shares=chain_shares,
    )


def _grid() -> Method:
    from .grid.evidence import Evidence
    from .grid.solver import judge_grid, polish_grid, solve_grid
    from .sets import grid_shares

    def check(given: Any, grid: Grid) -> Evidence:
        return Evidence.of(checks.pair(given, grid), grid)

    return Method(check, solve_grid, polish_grid, judge_grid, shares=grid_shares, small=0)


def of_pieces(states: int, reject: bool | None = None) -> Method:
    """Of grids whose items have states, or that have more or fewer items than positions at the usual price of a seam."""
    from .grid.pieces import Pieces, Whole
    from .grid.states import polish_states, solve_states

    def check(given: Any, grid: Grid) -> Pieces:
        if isinstance(given, Tensor):
            raise BadInput(NOT_THE_SAME)
        cost = Whole(checks.pair(given, None if reject is not None else grid, states), states)
        return Pieces(cost, grid, reject=cost.usual_price() if reject else None)

    return Method(check, solve_states, polish_states, judge=None, small=0, partial=reject is not None)


def _vacant(states: int, reject: Any) -> Method:
    """Of grids with a price for every item left out and every position left empty."""
    from .grid.vacant import Vacant, as_found, solve_vacant

    def check(given: Any, grid: Grid) -> Vacant:
        if isinstance(given, Tensor):
            raise BadInput(NOT_THE_SAME)
        return Vacant.of(checks.pair(given, None, states), states, grid, reject)

    return Method(check, solve_vacant, as_found, judge=None, small=0, partial=True)


def _of_directions() -> Method:
    """Of paths whose items may be turned round."""
    from .path.directions import Ends, as_searched, direction_shares, solve_directions

    return Method(Ends.of, solve_directions, as_searched, judge=None, shares=direction_shares)


def _graph() -> Method:
    from .graph import graph_shares, judge_graph, solve_graph
    from .local_search import improve_assignment

    def polish(graph: Graph, cost: Tensor, orders: Tensor, *, allowed: Tensor | None, **_: Any) -> Tensor:
        return improve_assignment(orders, cost, graph.weights, allowed=allowed)

    return Method(check=checks.one, solve=solve_graph, polish=_best_of(polish), judge=judge_graph, shares=graph_shares)


def _loss() -> Method:
    from .loss import as_items, polish_loss, solve_loss

    return Method(check=lambda items, _: as_items(items), solve=solve_loss, polish=polish_loss, judge=None, small=0)


LAYOUTS: dict[type, Callable[[], Method]] = {Path: _path, Cycle: _cycle, Grid: _grid, Graph: _graph}


def _partial(reject: Any) -> Method:
    """Of paths, cycles, graphs, and grids of one cost, with more or fewer items than positions."""
    from .partial import Prices, Squared, solve_partial

    def check(given: Any, layout: Any) -> Squared:
        cost = checks.single(given, layout)
        return Squared(layout, cost, Prices.of(reject, cost, layout))

    def searched(layout: Any, problem: Squared, found: Solution, **_: Any) -> Polished:
        return Polished(found.order, found.energy)  # local search is part of finding it

    return Method(check, solve_partial, searched, judge=None, partial=True)


WHOLE = 2000
"""Up to so many items coordinates and sparse costs become a whole matrix, which is annealed. Tours of more are shorter, and found in
seconds instead of minutes, by near neighbours alone."""


def _known(problem: Path | Cycle, cost: Any, items: Any) -> Any:
    """The cost matrix of a few items with coordinates or a sparse cost; of many, what they are known by."""
    from .near.space import Large, checked_items, checked_sparse, filled

    n, name = problem.n, type(problem).__name__
    known: Any = checked_sparse(cost, n, name) if items is None else checked_items(items, n, name)
    if n > WHOLE:
        if isinstance(problem, Path) and problem.reach > 1:
            raise BadInput(f"reach={problem.reach} of more than {WHOLE} items needs cost= as a whole matrix.")
        return Large(known)
    if items is None:
        return torch.from_numpy(filled(known))
    points = torch.from_numpy(known)
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


def _near() -> Method:
    from .near.nearby import near_shares
    from .near.solver import searched, solve_near

    return Method(
        check=lambda given, _: given, solve=solve_near, polish=searched, judge=None, shares=near_shares, by_order=True
    )


def method_for(problem: Any, cost: Any, items: Any, reject: Any = None) -> tuple[Method, Any, tuple[int, int]]:
    """The row of this problem, what the user gave to go with it, checked, and the numbers of items and positions."""
    row = next((row for layout, row in LAYOUTS.items() if isinstance(problem, layout)), None)
    if row is not None:
        name = type(problem).__name__
        chain = isinstance(problem, (Path, Cycle))
        if cost is None and items is None:
            either = " or items=, their coordinates (n x d)" if chain else ""
            raise BadInput(f"A {name} needs cost=, the pair cost of neighbours (items x items){either}.")
        if items is not None and not chain:
            raise BadInput(f"A {name} takes cost= alone; items= belong to a Path, a Cycle or a loss of your own.")
        if items is not None and cost is not None:
            raise BadInput(f"A {name} takes cost= or items=, not both.")
        if chain and (items is not None or hasattr(cost, "tocsr")):
            if reject is not None:
                raise BadInput("reject= goes with cost= as a whole matrix, not with items= or a sparse cost.")
            cost = _known(problem, cost, items)
            if not isinstance(cost, Tensor):
                return _near(), cost, (problem.n, problem.n)
        states, n = checks.states_of(cost), problem.n
        given = checks.costs(cost) if states is None else checks.pieces(cost, states)
        m = len(given[0] if isinstance(given, tuple) else given) // (states or 1)
        one_cost = reject is not None and states is None and isinstance(given, Tensor)
        if isinstance(problem, Grid) and (states is not None or reject is not None) and not one_cost:
            seams = reject is None or isinstance(reject, bool)
            method = of_pieces(states or 1, reject) if seams else _vacant(states or 1, reject)
        elif states == 2 and isinstance(problem, Path) and reject is None:
            method = _of_directions()
        elif states is not None:
            rest = ", or two states on a Path without reject=" if isinstance(problem, Path) else ""
            raise BadInput(f"Items of a {name} have no states: its cost is a matrix (items x items){rest}.")
        else:
            method = row() if reject is None else _partial(reject)
        return method, method.check(given, problem), (n if reject is None else m, n)
    if not callable(problem) or isinstance(problem, type):
        what = f"the class {problem.__name__}" if isinstance(problem, type) else type(problem).__name__
        raise BadInput(f"solve takes a layout or a function of the reordered items, not {what}.")
    if items is None:
        raise BadInput("A loss needs items=, the things to reorder (n x d).")
    if cost is not None:
        raise BadInput("A loss takes items= alone; cost= belongs to a layout.")
    if reject is not None:
        raise BadInput("A loss has a place for every item: reject= belongs to a layout.")
    method = _loss()
    things = method.check(items, problem)
    return method, things, (len(things), len(things))


def solved(
    method: Method,
    problem: Any,
    given: Any,
    sizes: tuple[int, int],
    watch: Watch,
    *,
    allowed: Any = None,
    init: Any = None,
    runs: int | None = None,
    seed: int = 0,
    polish: bool = False,
) -> Solution:
    """By trying all orders of a few items or by the solver for it, then polished; all by the clock of ``watch``."""
    if allowed is not None and method.by_order:
        raise BadInput(
            f"allowed= is a matrix of items x positions: for more than {WHOLE} items, give cost= as a matrix too."
        )
    mask, runs = checks.mask(allowed, *sizes), checks.count(runs)
    start = checks.start(init, *sizes, by_order=method.by_order)
    mask = mask if method.partial else checks.feasible(mask)
    asked = Request(torch.Generator().manual_seed(whole("seed", seed, 0)), watch, mask, start, runs)
    with torch.no_grad(), small_steps(max(sizes) <= method.small):
        if method.judge is not None and max(sizes) <= exact.MOST:
            found = tried_all(method, problem, given, mask)
        else:
            found = method.solve(problem, given, asked)
        ended = watch.rest()
        options = {"allowed": mask, "generator": asked.generator, "watch": watch}
        polished = method.polish(problem, given, found, **options) if polish else None
    status = watch.status if watch.stopped else ended
    told = {"seconds": watch.seconds, "status": status, "history": watch.history, "layout": problem}
    weigh = None if method.shares is None else partial(method.shares, problem, given, mask)
    return replace(found, polished=polished, given=given, allowed=mask, weigh=weigh, **told)


def tried_all(method: Method, layout: Any, cost: Any, allowed: Tensor | None) -> Solution:
    """The best of all orders, judged as its layout is."""
    order, energy = exact.best_of_all(layout, cost, allowed)
    soft, confidence = (method.judge or certain)(layout, cost, order, allowed)
    return Solution(order, energy, soft, confidence, torch.tensor([energy], dtype=torch.float64))


def instead(
    found: Solution, layout: Layout, cost: Any, order: Int[Tensor, "n"], judge: Callable[..., Judged] | None = None
) -> Solution:
    """``found`` with an order that came from elsewhere: its energy, how sure it is (by the layout unless ``judge`` says it), and local
    search from there as well."""
    method, given, _ = method_for(layout, cost, None)
    soft, confidence = (judge or method.judge or certain)(layout, given, order, None)
    other = replace(
        found,
        order=order,
        energy=float(layout.energy(order, given)),
        soft=soft,
        confidence=confidence,
        agreement=0.0,
        tried=torch.cat((order.unsqueeze(0), found.starts)),
    )
    return (
        other if found.polished is None else replace(other, polished=method.polish(layout, given, other, allowed=None))
    )


TOGETHER = 8  # orders are polished between two looks at the clock


def _best_of(search: Callable[..., Tensor]) -> Callable[..., Polished]:
    """Local search from every order that annealing ended in, the best first where time is short; the best of what it finds."""

    def polish(
        layout: Layout, cost: Any, found: Solution, *, allowed: Tensor | None, watch: Watch | None = None, **_: Any
    ) -> Polished:
        watch = watch or Watch()
        starts = found.starts
        if watch.time_limit is not None:
            starts = starts[layout.energy(starts, cost).argsort(stable=True)]
        parts = starts.split(TOGETHER)
        best = Polished(found.order, found.energy)
        with dispensable():
            for k, some in enumerate(parts):
                if not watch.spare():
                    break
                orders = search(layout, cost, some, allowed=allowed, more=watch.spare)
                energies = layout.energy(orders, cost)
                first = int(energies.argmin())
                if k == 0 or float(energies[first]) < best.energy:
                    best = Polished(orders[first], float(energies[first]))
                watch.show(Step(watch.seconds, f"polish {k + 1} of {len(parts)}", math.inf, best.energy, 0.0))
        return best

    return polish
