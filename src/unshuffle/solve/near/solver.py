r"""Paths and tours of thousands of items, from where they are or from a sparse cost: no annealing, memory n times a few numbers.

Tours: the shortest links first (`links`), then local search with kicks (`search`). Paths: the same, beside an order along the data as
a whole (`course`) that local search may change only within its thickness. If that is hardly longer it is taken: it cannot be folded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from ...structure.layouts import Cycle, Path
from ...watch import Watch
from ..confidence import shared_links
from ..request import Request
from ..solution import Polished, Solution
from .circuit import Circuit
from .course import graph_of, landmark_coordinates, span_of
from .links import among_points, shortest_links
from .space import Large, Space
from .sure import confidence_of

KICKS = 20
"""Per item of a tour. 20,000 uniform points after 0 and 30: 4.1 and 1.1 % above 0.7124 sqrt(nA)."""
FEW_KICKS = 5
"""Per item of a path along the data: more make it shorter, but not righter."""
OTHERS, FEWEST_KICKS, SHAKE = (
    4,
    2,
    0.3,
)  # other tours, kicks per item of each, and how far the costs of their first links are shaken
AGREED = (0.27, 0.46, 0.61, 0.82, 0.96)
"""How often both neighbours of an item are those of the best known tour, if 0, 1, ... 4 other tours have the rarer of its two links: 20
instances of 1,000 uniform points with tours of others. benchmarks/solve_large.py reports 16 more."""
AXES = 4  # in which a sparse graph is laid out to join pieces
THICKNESS = 2.0
"""A path along the data may be changed within so many times the number of positions that near items stand apart. A noisy helix of
20,000 points, tau as projected on the true curve 0.9974: within 1, 2, 4, 8 of them 0.9962, 0.9959, 0.9954, 0.9943."""
DETOUR = 1.25
"""A path along the data is taken if it is at most so many times as long as one that goes anywhere. Curves of any thickness that leaves
them one: up to 1.14; a ribbon of 1 x 30: 1.18; a ribbon of 1 x 5, a square, a cube: 1.5 and more."""


def solve_near(layout: Path | Cycle, given: Large, request: Request) -> Solution:
    """The shortest of ``runs`` searches, one by default."""
    watch, runs = request.watch, request.runs
    start = None if request.init is None else request.init.numpy()
    space = given.space(watch)
    if watch.stopped:  # before anything was known
        order = torch.arange(layout.n) if request.init is None else request.init
        length = space.length(order.numpy(), isinstance(layout, Cycle))
        return Solution(order, length, _hard(order), torch.zeros(layout.n), torch.tensor([length]))
    found: list[Circuit] = []
    seeds = torch.randint(2**40, (runs or 1,), generator=request.generator).tolist()
    for number, seed in enumerate(seeds):
        name = f"run {number + 1} of {len(seeds)}, " if len(seeds) > 1 else ""
        found.append(_Search(space, np.random.default_rng(seed), watch, name).solve(isinstance(layout, Cycle), start))
        if watch.stopped:
            break
    ways = np.stack([circuit.way for circuit in found])
    lengths = torch.tensor([space.length(way, found[0].closed) for way in ways], dtype=torch.float64)
    best = int(lengths.argmin())
    order = torch.from_numpy(ways[best])
    others = [] if watch.stopped or not found[0].closed else _other_tours(space, np.random.default_rng(seeds[0]), watch)
    tried = torch.from_numpy(np.stack([ways[best], *np.delete(ways, best, axis=0), *others]))
    if others and not watch.stopped:
        of_all = torch.cat((order.unsqueeze(0), torch.from_numpy(np.stack(others))))
        shared = shared_links(of_all, 0, closed=True, directed=False)
        confidence = torch.tensor(AGREED)[(shared * OTHERS).round().long()]
    else:
        confidence = confidence_of(space, ways[best], closed=found[0].closed)
    return Solution(
        order=order,
        energy=float(lengths[best]),
        soft=_hard(order),
        confidence=confidence,
        energies=lengths,
        agreement=float((lengths <= lengths[best] * (1 + 1e-12)).double().mean()),
        tried=tried,
    )


def _other_tours(space: Space, rng: np.random.Generator, watch: Watch) -> list[Int[np.ndarray, "n"]]:
    """Tours from other starts, less searched: what they share with the best one is sure."""
    one, other, cost = space.pairs()
    found = []
    for number in range(OTHERS):
        shaken = cost * (1 + SHAKE * rng.uniform(-1, 1, len(cost)))
        points = space.costs.points if space.costs.points.shape[1] else np.arange(space.n, dtype=float)[:, None]
        circuit = Circuit(space, shortest_links(space.n, (one, other, shaken), among_points(points)), rng)
        stage = f"other tours, {number + 1} of {OTHERS}"
        circuit.settle(watch, stage)
        circuit.kick(FEWEST_KICKS * space.n, watch, stage)
        found.append(circuit.way)
        if watch.stopped:
            break
    return found


def _hard(order: Int[torch.Tensor, "n"]) -> torch.Tensor:
    """The permutation as a sparse matrix."""
    n = len(order)
    places = torch.stack((order, torch.arange(n)))
    return torch.sparse_coo_tensor(places, torch.ones(n), (n, n), check_invariants=False)


def searched(layout: Path | Cycle, given: Large, found: Solution, **_: object) -> Polished:
    """Local search is part of finding it."""
    return Polished(found.order, found.energy)


@dataclass(frozen=True, eq=False)
class _Search:
    space: Space
    rng: np.random.Generator
    watch: Watch
    name: str

    def solve(self, closed: bool, start: Int[np.ndarray, "n"] | None = None) -> Circuit:
        """From a given order by local search alone, never longer than that; otherwise from the shortest links."""
        if start is not None:
            whole = Circuit if closed else Circuit.of_path
            return self._searched(whole(self.space, start.copy(), self.rng))
        points = self.space.costs.points
        if not points.shape[1]:
            points = self._laid_out()
        self.watch(stage=f"{self.name}shortest links")
        tour = shortest_links(self.space.n, self.space.pairs(), among_points(points))
        if not closed:
            return self._path(tour)
        return self._searched(Circuit(self.space, tour, self.rng))

    def _searched(self, circuit: Circuit) -> Circuit:
        circuit.settle(self.watch, f"{self.name}local search")
        circuit.kick((KICKS if circuit.closed else FEW_KICKS) * self.space.n, self.watch, f"{self.name}kicks")
        return circuit

    def _laid_out(self) -> Float[np.ndarray, "n axes"]:
        """Coordinates of the items of a sparse graph; if time is over, one: the order that they came in."""
        graph = graph_of(self.space, np.arange(self.space.n))
        axes = landmark_coordinates(graph, self.watch, AXES)
        return np.arange(self.space.n, dtype=float)[:, None] if axes is None else np.ascontiguousarray(axes.T)

    def _path(self, tour: Int[np.ndarray, "n"]) -> Circuit:
        """Along the data, or anywhere if that is much shorter."""
        links = self.space.between(tour, np.roll(tour, -1))
        free = Circuit.of_path(self.space, np.roll(tour, -int(links.argmax()) - 1), self.rng)
        free.settle(self.watch, f"{self.name}local search")
        along = None if self.watch.stopped else landmark_coordinates(graph_of(self.space, tour), self.watch)
        if along is None:
            return free
        order = np.argsort(along[0], kind="stable")
        window = max(10, round(THICKNESS * span_of(self.space, order)))
        course = Circuit.of_path(self.space, order, self.rng, window)
        course.settle(self.watch, f"{self.name}along the data")
        best, kicks = (course, FEW_KICKS) if course.length <= DETOUR * free.length else (free, KICKS)
        best.kick(kicks * self.space.n, self.watch, f"{self.name}kicks")
        return best
