"""Many instances of one layout at once, for throughput: paths and cycles with symmetric costs by local search with kicks, one thread an
instance and no Python between its steps; whatever else there is, one after the other as ``solve`` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..compute.copying import copy_into
from ..compute.jit import have_numba, njit
from ..compute.threads import in_chunks
from ..errors import BadInput, whole
from ..operators.permutation import to_matrix
from ..shapes import numbers
from ..structure.layouts import Cycle, Layout, Path
from ..watch import Step, Watch
from . import checks, exact
from .confidence import insertion_share, shared_links
from .near.search import kicked, settle
from .near.space import NEAR, Costs
from .sets import chain_shares
from .solution import Solution

KICKS = 5
"""Per item and search. 64 tours of 50: their mean length is 5.7045 with 5, and 5.7043 with 20 and 60."""
TURNS = 4  # a tour is begun elsewhere so many times: the item it begins with cannot move
SEARCHES = 3  # from different items; the shortest wins, and what they agree on is sure
TOGETHER = 64 if have_numba else 1  # instances between two looks at the clock


@dataclass(frozen=True, eq=False)
class Solutions(Sequence[Solution]):
    """The solutions of all instances: a sequence of them, and their orders, energies and confidences as tensors."""

    each: tuple[Solution, ...]
    seconds: float
    status: str

    @property
    def order(self) -> Int[Tensor, "instances n"]:
        return torch.stack([found.order for found in self.each])

    @property
    def energy(self) -> Float[Tensor, "instances"]:
        return torch.tensor([found.energy for found in self.each], dtype=torch.float64)

    @property
    def confidence(self) -> Float[Tensor, "instances n"]:
        return torch.stack([found.confidence for found in self.each])

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Solution]: ...
    def __getitem__(self, index: int | slice) -> Solution | Sequence[Solution]:
        return self.each[index]

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.each)

    def __repr__(self) -> str:
        mean = float(self.energy.mean()) if self.each else float("nan")
        return f"Solutions({len(self)} instances, mean energy {mean:.6g}, {self.status} in {self.seconds:.1f} s)"


def solve_all(
    problem: Layout,
    *,
    cost: Any = None,
    items: Any = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Solutions:
    """Every instance of a batch solved on the same layout: ``cost`` (instances, n, n), or ``items`` (instances, n, d) of a path or a cycle.

    For throughput. Of a `Path` or a `Cycle` with symmetric costs nothing is annealed: local search with kicks, three searches an
    instance, on all cores; a thousand tours of 50 take seconds. Other layouts, costs with a direction and ``reach`` are solved one after the other.
    After ``time_limit`` seconds, on Ctrl-C, or when ``callback`` returns False, the rest is as short as a nearest neighbour makes it.

    Examples:
        >>> points = torch.rand(1000, 50, 2)
        >>> us.solve_all(us.Cycle(50), items=points).order.shape
        torch.Size([1000, 50])
    """
    if not isinstance(problem, Layout):
        raise BadInput(f"solve_all takes a layout, not {type(problem).__name__}.")
    whole("seed", seed, 0)
    costs = _batch(problem, cost, items)
    with Watch(time_limit, callback) as watch:
        near = isinstance(problem, (Path, Cycle)) and getattr(problem, "reach", 1) == 1
        if near and problem.n > exact.MOST and torch.equal(costs, costs.mT):
            found = _searched(problem, costs, seed, watch)  # pyright: ignore[reportArgumentType]
        else:
            found = _one_by_one(problem, costs, seed, watch)
        told = {"seconds": watch.seconds, "layout": problem}
        shares: Any = chain_shares
        weighed = [
            replace(one, given=cost, weigh=one.weigh or partial(shares, problem, cost, None), **told)
            for one, cost in zip(found, costs, strict=True)
        ]
        return Solutions(tuple(weighed), watch.seconds, watch.status)


def _batch(problem: Layout, cost: Any, items: Any) -> Float[Tensor, "instances n n"]:
    n, name = problem.n, type(problem).__name__
    if (cost is None) == (items is None):
        raise BadInput(f"solve_all takes cost= (instances, {n}, {n}) or items= (instances, {n}, d), one of them.")
    if items is not None:
        if not isinstance(problem, (Path, Cycle)):
            raise BadInput(f"A {name} takes cost= alone; items= belong to a Path or a Cycle.")
        points = numbers("items", items).detach().cpu().double()
        if points.ndim != 3 or points.shape[1] != n or not points.shape[2]:
            raise BadInput(f"items of a {name} of {n} must be (instances, {n}, d), not of shape {tuple(points.shape)}.")
        cost = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    elif isinstance(cost, (list, tuple)):
        shapes = {tuple(getattr(one, "shape", ())) for one in cost}
        if len(shapes) > 1:
            raise BadInput(f"All costs of a batch must be of one shape, but these differ: {sorted(shapes)}.")
        cost = torch.stack([numbers("A cost", one) for one in cost]) if len(cost) else torch.empty(0, n, n)
    costs = numbers("cost", cost).detach().to("cpu", torch.float64)
    if costs.ndim != 3 or tuple(costs.shape[1:]) != (n, n):
        raise BadInput(
            f"The costs of a {name} of {n} must be (instances, {n}, {n}), not of shape {tuple(costs.shape)}."
        )
    if not torch.isfinite(costs).all():
        raise BadInput("A cost must be finite, but some entries are NaN or infinite; use a large number.")
    return torch.stack([checks.exactly_symmetric(one) for one in costs]) if len(costs) else costs


def _one_by_one(problem: Layout, costs: Tensor, seed: int, watch: Watch) -> list[Solution]:
    from . import solve

    found = []
    for k, cost in enumerate(costs):
        left = None if watch.time_limit is None else max(0.0, watch.time_limit - watch.seconds)
        found.append(solve(problem, cost=cost, seed=seed, time_limit=0.0 if watch.stopped else left))
        watch(stage=f"instance {k + 1} of {len(costs)}", energy=found[-1].energy)
    return found


def _searched(problem: Path | Cycle, costs: Float[Tensor, "b n n"], seed: int, watch: Watch) -> list[Solution]:
    b, n = costs.shape[:2]
    closed = isinstance(problem, Cycle)
    far = costs + torch.diag(torch.full((n,), torch.inf, dtype=torch.float64))
    near = far.topk(min(NEAR, n - 1), largest=False).indices.numpy()
    matrices = costs.numpy()
    orders = np.zeros((b, SEARCHES, n), np.int64)
    seeds = np.random.default_rng(seed).integers(1, 2**40, (b, SEARCHES))
    for first in range(0, b, TOGETHER):
        more = watch(stage=f"instance {first + 1} of {b}")

        def some(low: int, high: int) -> None:
            for k in range(low, high):
                _searches(matrices[k], near[k], closed, KICKS * n if more else 0, seeds[k], orders[k])  # noqa: B023

        in_chunks(lambda low, high: some(first + low, first + high), min(TOGETHER, b - first))  # noqa: B023
    watch(stage=f"instance {b} of {b}")
    return [_judged(problem, cost, torch.from_numpy(tried)) for cost, tried in zip(costs, orders, strict=True)]


def _judged(problem: Path | Cycle, cost: Float[Tensor, "n n"], tried: Int[Tensor, "searches n"]) -> Solution:
    """The shortest of some orders, and how sure it is: its places against others, and what the searches agree on."""
    closed = isinstance(problem, Cycle)
    energies = problem.energy(tried, cost)
    best = int(energies.argmin())
    near = (cost + torch.diag(torch.full((len(cost),), torch.inf, dtype=cost.dtype))).amin(1)
    scale = float(near[near > 0].mean()) if bool((near > 0).any()) else 1.0
    place = insertion_share(tried[best], cost, scale, closed=closed)
    shared = shared_links(tried, best, closed=closed, directed=False)
    return Solution(
        order=tried[best],
        energy=float(energies[best]),
        soft=to_matrix(tried[best], torch.float32),
        confidence=(place * shared).sqrt().float(),
        energies=energies,
        agreement=float((energies <= energies[best] * (1 + 1e-12)).double().mean()),
        tried=tried,
    )


def _searches(matrix, near, closed, kicks, seeds, orders) -> None:
    """Fills in the orders that searches from different items end in."""
    none, empty = np.empty(0, np.int64), np.empty(0)
    costs = Costs(np.empty((len(matrix), 0)), none, none, empty, 0.0, matrix)
    for k in range(len(orders)):
        _search(costs, near, closed, kicks, int(seeds[k]), orders[k])


@njit
def _nearest_neighbour(matrix, item, order):
    """Always on to the nearest item that is left."""
    n = len(matrix)
    left = np.ones(n, np.bool_)
    for place in range(n):
        order[place] = item
        left[item] = False
        best, ahead = np.inf, -1
        for k in range(n):
            if left[k] and (ahead < 0 or matrix[item, k] < best):
                best, ahead = matrix[item, k], k
        item = ahead


@njit
def _search(costs, near, closed, kicks, seed, order):
    """Nearest neighbour, local search, kicks; the tour begun elsewhere each time, a path as a tour through nobody."""
    n = order.size
    _nearest_neighbour(costs.matrix, seed % n, order)
    if kicks == 0:
        return
    size = n if closed else n + 1
    chain = np.empty(size + 1, np.int64)
    copy_into(chain, order)
    chain[size - 1] = order[n - 1] if closed else n
    place, waiting = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.bool_)
    for turn in range(TURNS):
        shift = (seed // (turn + 1)) % size
        copy_into(chain, np.concatenate((chain[shift:size], chain[:shift])))
        chain[size] = chain[0]
        for p in range(size):
            place[chain[p]] = p
        queue, state = np.zeros(size + 1, np.int64), np.zeros(2, np.int64)
        for p in range(size):
            if chain[p] < n:
                waiting[chain[p]] = True
                queue[state[1]] = chain[p]
                state[1] += 1
        line, stretch = (queue, waiting, state), (0, size, size)
        settle(costs, near, chain, place, stretch, line, 1 << 40)
        kicked(costs, near, chain, place, stretch, line, kicks // TURNS, seed + turn)
    p = 0
    while not closed and chain[p] != n:
        p += 1
    for k in range(n):
        order[k] = chain[(p + k + (0 if closed else 1)) % size]
