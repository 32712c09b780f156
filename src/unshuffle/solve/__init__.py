"""``solve``: one instance, no training. The front door; each layout's solver is in its own file.

``unshuffle/__init__.py`` imports this module when the package is imported, so that ``us.solve`` is the function and not
this package of the same name. Nothing heavy may therefore be imported at the top of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ..structure.layouts import Layout
    from ..watch import Step
    from .solution import Runs, Solution

SMALL = 300  # items: below, one step of annealing is too little work to share among threads


def solve(
    problem: Layout | Callable[[Tensor], Tensor],
    *,
    cost: Tensor | Sequence[Tensor] | Any = None,
    items: Tensor | Any = None,
    allowed: Tensor | Any = None,
    init: Tensor | Any = None,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Solution:
    """The order with the lowest energy that annealing finds, from structure alone.

    ``problem`` is a layout (`Path`, `Cycle`, `Grid`, `Graph`) with ``cost``, where ``cost[i, k]`` is paid for item k
    directly after item i (`Grid`: a pair of matrices, right and below); or a differentiable function of the reordered
    ``items`` (n x d) that returns one number. ``allowed`` (bool, items x positions) forbids and anchors; ``init`` (scores,
    items x positions, for example a trained network's) says where to start; ``runs`` annealings go on at the same time and
    the best wins. The same ``seed`` gives the same order. After ``time_limit`` seconds, on Ctrl-C, or when ``callback``
    returns False, the best order so far comes back. ``polish`` adds a local search, reported apart.

    Examples:
        >>> points = torch.rand(50, 2)
        >>> us.solve(us.Cycle(50), cost=torch.cdist(points, points)).order
    """
    import torch

    from ..compute.threads import small_steps
    from ..errors import whole
    from ..structure.layouts import Cycle, Graph, Grid, Path
    from ..watch import Watch
    from . import checks
    from .solution import Solution

    costs = None if cost is None else checks.costs(cost)
    chosen, n = _solver(problem, costs, items)
    options = {
        "allowed": checks.mask(allowed, n),
        "init": checks.start(init, n),
        "runs": checks.count(runs),
        "generator": torch.Generator().manual_seed(whole("seed", seed, 0)),
    }
    small = n <= SMALL and not isinstance(problem, Grid) and costs is not None
    with Watch(checks.limit(time_limit), callback) as watch, torch.no_grad(), small_steps(small):
        found: Runs = chosen(watch=watch, **options)
        polished = (None, None)
        if polish and isinstance(problem, (Path, Cycle, Grid, Graph)):
            polished = _polish(problem, costs, found, options["allowed"])
        elif polish:
            polished = _polish_loss(problem, items, found, options["allowed"], options["generator"], watch)
    best = int(found.energies.argmin())
    return Solution(
        order=found.orders[best],
        soft=found.soft,
        energy=float(found.energies[best]),
        confidence=found.confidence,
        energies=found.energies,
        agreement=found.agreement,
        seconds=watch.seconds,
        status=watch.status,
        history=watch.history,
        polished_order=polished[0],
        polished_energy=polished[1],
    )


def _solver(problem: Any, costs: Any, items: Any) -> tuple[Callable[..., Runs], int]:
    """The solver of this kind of problem, waiting for its options, and the number of items."""
    from functools import partial

    from ..errors import BadInput
    from ..structure.layouts import Cycle, Graph, Grid, Path
    from .checks import one, pair

    if isinstance(problem, (Path, Cycle, Grid, Graph)):
        if costs is None:
            raise BadInput(f"A {type(problem).__name__} needs cost=, the pair cost of neighbours (items x items).")
        if items is not None:
            raise BadInput(f"A {type(problem).__name__} takes cost= alone; items= belong to a loss of your own.")
        if isinstance(problem, Grid):
            from .grid.solver import solve_grid

            return partial(solve_grid, problem, pair(costs, problem.n)), problem.n
        matrix = one(costs, problem)
        if isinstance(problem, Cycle):
            from .cycle.solver import solve_cycle as solver
        elif isinstance(problem, Path):
            from .path.solver import solve_path as solver
        else:
            from .graph import solve_graph as solver
        return partial(solver, problem, matrix), problem.n
    if not callable(problem):
        raise BadInput(f"solve takes a layout or a function of the reordered items, not {type(problem).__name__}.")
    if items is None:
        raise BadInput("A loss needs items=, the things to reorder (n x d).")
    if costs is not None:
        raise BadInput("A loss takes items= alone; cost= belongs to a layout.")
    from .loss import as_items, solve_loss

    things = as_items(items)
    loss: Any = problem
    return partial(solve_loss, loss, things), len(things)


def _polish(problem: Any, costs: Any, found: Runs, allowed: Tensor | None) -> tuple[Tensor, float]:
    """Local search from every order that a round ended in; the best of them."""
    from ..structure.layouts import Cycle, Graph, Grid, Path
    from . import local_search
    from .grid.solver import polish_grid

    searches: dict[type, Callable[..., Any]] = {
        Cycle: local_search.improve_tour,
        Path: local_search.improve_path,
        Grid: polish_grid,
        Graph: local_search.improve_assignment,
    }
    where = (
        (problem.weights,)
        if isinstance(problem, Graph)
        else (problem.height, problem.width)
        if isinstance(problem, Grid)
        else ()
    )
    orders = searches[type(problem)](found.starts, costs, *where, allowed=allowed)
    energies = problem.energy(orders, costs)
    best = int(energies.argmin())
    return orders[best], float(energies[best])


def _polish_loss(
    problem: Any, items: Any, found: Runs, allowed: Any, generator: Any, watch: Any
) -> tuple[Tensor, float]:
    """Local search of a loss from the best order: it takes thousands of values of the function."""
    from .loss import as_items, polish_loss

    order = found.orders[int(found.energies.argmin())]
    return polish_loss(problem, as_items(items), order, allowed=allowed, generator=generator, watch=watch)
