"""``solve``: one instance, no training. The front door; `kinds` says what it does for which layout.

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
    from .solution import Solution

FOR_POLISH = 0.2  # of a time limit is left to local search


def solve(
    problem: Layout | Callable[[Tensor], Tensor],
    *,
    cost: Tensor | Sequence[Tensor] | Any = None,
    items: Tensor | Any = None,
    allowed: Tensor | Any = None,
    init: Tensor | Any = None,
    reject: float | Tensor | tuple[Any, float] | bool | None = None,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Solution:
    """The order with the lowest energy that annealing finds, from structure alone.

    ``problem`` is a layout (`Path`, `Cycle`, `Grid`, `Graph`) with ``cost``, where ``cost[i, k]`` is paid for item k
    directly after item i (`Grid`: a pair of matrices, right and below; of items that have states, such as tiles that may be turned,
    ``cost[i, s, k, t]``, and ``Solution.state`` says which; on a `Path` two states are the two directions of an item); or a differentiable function of the reordered
    ``items`` (n x d) that returns one number. ``allowed`` (bool, items x positions) forbids and anchors; ``init`` (scores,
    items x positions, for example a trained network's, or an order of all items) says where to start; ``runs`` annealings go on at the same time and
    the best wins. The same ``seed`` gives the same order. After ``time_limit`` seconds, on Ctrl-C, or when ``callback``
    returns False, the best order so far comes back. ``polish`` adds a local search, reported apart.

    A `Path` or a `Cycle` takes ``items`` in place of ``cost`` too: coordinates or features (n x d), compared by their Euclidean distance; or
    a scipy sparse matrix as ``cost``, such as a graph of nearest neighbours, symmetric, in which a pair that is not stored costs twice
    the dearest that is. Beyond 2,000 such items no whole matrix is made, nothing is annealed, and ``soft`` is sparse: near neighbours and local
    search find the order, a path along the data as a whole where that is hardly longer. 100,000 items take minutes.

    With ``reject`` there may be more or fewer items (``cost``) than positions; empty ones are -1. It is the price, in units of
    the cost, of an item left out and of a position left empty: a number, a pair (item, position), one for
    each item (empty positions are then free), True for prices from the costs themselves, or False for no more of either than there must
    be. On a `Grid` of two costs True and False are made for pictures: the price is of a seam, two neighbouring positions that are not
    both taken, a fifth of the way from what the best neighbour of an item costs to what any two cost, by their medians; items that fit
    worse than that on average are left out.

    Examples:
        >>> points = torch.rand(50, 2)
        >>> us.solve(us.Cycle(50), cost=torch.cdist(points, points)).order
    """
    from ..watch import Watch
    from .kinds import method_for, solved

    method, given, sizes = method_for(problem, cost, items, reject)
    options = {"allowed": allowed, "init": init, "runs": runs, "seed": seed, "polish": polish}
    with Watch(time_limit, callback, keep=FOR_POLISH if polish else 0.0) as watch:
        return solved(method, problem, given, sizes, watch, **options)
