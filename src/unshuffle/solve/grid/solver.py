r"""Grids: annealed soft permutations on a torus, cut open, then reassembled from the segments that hold together.

On a torus the energy does not change when everything is shifted, so pinning one tile to one cell loses nothing and uses no
knowledge of the picture: it turns the search into the growth of a crystal from that tile. Unpinned, the uniform state
stays metastable far too long and freezes into domains that do not fit (12 x 9 photos: 1 % of the tiles in place against 92 %).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...compute.jit import have_numba
from ...compute.threads import in_chunks
from ...operators.assignment import assign
from ...operators.permutation import to_matrix
from ...operators.sinkhorn import sinkhorn
from ...structure.layouts import Graph, Grid
from ...watch import Watch, dispensable
from ..request import Request
from ..solution import Polished, Solution
from .affinity import Affinities
from .cooling import Cooling
from .crossing import Crossing
from .crystal import Lists, Room
from .dense import FORBIDDEN, Board, Crystal, grow
from .evidence import Evidence
from .expected import energy_of_lists, expected_energy
from .listed import ListedEvidence
from .reassembly import WEAK, Effort, Reassembly, fill, likeliest
from .regrow import regrow_by_segments
from .seams import NO_MASK
from .segments import improve_grid

RUNS = 2  # one per core of a small machine; reassembly from two starts finds more than from one
ALONE = 3000  # tiles from which on one run has to do: a round of reassembly takes a second and more
MANY = 300  # tiles from which on lists are faster than whole matrices
FEWEST = 30  # tiles: fewer were not tried
DOUBT = 0.05  # share of seams that are weak, from which on layouts are crossed
STARTS = 8  # crystals from which those that are crossed begin
LONGER = Effort(most=120)  # of thousands of tiles: rounds still succeed after 60
WHOLE = Cooling()
SLICE = 20  # steps between two looks at the clock
CLOSELY = 2  # the same for those who look on closely; how steps are sliced changes nothing but that
CONFIDENCE = Cooling(rate=1.0, last=np.inf, decided=0.0)
CONFIDENCE_STEPS = 5
FOR_SETS = replace(CONFIDENCE, start=1.5)
"""Of `sets`. Ten portraits of 49 tiles with four strengths of noise, sets at 90 % that leave the last out by chance: with 1.4, 1.55, 1.7 they
hold the true place in 92, 89, 86 % and the true neighbours in 92, 90, 86."""


@dataclass(frozen=True)
class Puzzle:
    """What every stage needs to know."""

    layout: Grid
    evidence: Evidence | ListedEvidence
    allowed: np.ndarray
    watch: Watch

    @property
    def shape(self) -> tuple[int, int]:
        return self.evidence.shape

    @property
    def belief(self) -> Affinities:
        return self.evidence.belief

    @property
    def slice(self) -> int:
        return CLOSELY if self.watch.closely else SLICE

    def energy(self, order: np.ndarray) -> float:
        return self.evidence.energy(order)


def solve_grid(
    layout: Grid,
    evidence: Evidence | ListedEvidence,
    asked: Request,
    effort: Effort | None = None,
) -> Solution:
    """Grown on a torus, opened, reassembled. Costs that do not tell right from below: see `_by_energy`."""
    if isinstance(evidence, Evidence) and evidence.alike:
        return _by_energy(layout, evidence[0], asked)
    generator, watch, allowed, init, runs = asked
    mask = NO_MASK if allowed is None else allowed.numpy()
    puzzle = Puzzle(layout, evidence, mask, watch)
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    starts = _on_torus(puzzle, runs or (RUNS if layout.n < ALONE else 1), rng)
    if watch.stopped:
        starts += at_once(puzzle)
    if init is not None:
        starts.insert(0, _from_scores(puzzle, init))
    ends = _reassembled(puzzle, starts, rng, effort or (LONGER if puzzle.belief.listed else Effort()))
    if effort is None and _doubtful(puzzle, ends):
        ends.append(_crossed(puzzle, ends, rng))
    best = max(range(len(ends)), key=lambda k: puzzle.belief.total(ends[k]))
    if allowed is None and init is None:  # whoever gives a mask or a start has said where the picture is
        ends = [evidence.frame.opened(end) for end in ends]
    order = torch.from_numpy(ends[best])
    soft, confidence = judge_grid(layout, evidence, order, allowed)
    energy = puzzle.energy(ends[best])
    return Solution(
        order=order,
        energy=energy,
        energies=torch.tensor([energy], dtype=torch.float64),
        soft=soft,
        confidence=confidence,
        agreement=float(np.mean([(end == ends[best]).all() for end in ends])),
    )


def judge_grid(
    layout: Grid,
    evidence: Evidence | ListedEvidence,
    order: Tensor,
    allowed: Tensor | None,
    cooling: Cooling = CONFIDENCE,
) -> tuple[Tensor, Tensor]:
    """The soft permutation around an order, and how sure the place of each tile in it is."""
    if evidence.alike:
        return to_matrix(order, torch.float32), torch.ones(layout.n)
    listed = evidence.belief.listed
    judged = None
    with dispensable():
        judged = None if listed else place_confidence(order.numpy(), evidence.belief, cooling)
    soft, confidence = judged or confidence_in_lists(order.numpy(), evidence.belief, cooling)
    if isinstance(soft, Tensor) and not listed:
        soft = soft.to_dense()
    if allowed is None:
        confidence *= evidence.frame.certainty(order.numpy())
    return torch.as_tensor(soft), torch.from_numpy(confidence)


def _on_torus(puzzle: Puzzle, runs: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One crystal from each of the ``runs`` surest tiles; all at the same time, one thread each."""
    n, shape = puzzle.layout.n, puzzle.shape
    centre = (shape[0] // 2) * shape[1] + shape[1] // 2
    seeds = np.argsort(-puzzle.belief.strength(), kind="stable")[np.arange(runs) % n]
    if n >= MANY and have_numba:
        orders = _in_lists(puzzle, seeds, centre)
        return [_opened(puzzle, order) for order in orders]
    soft = np.clip(1 + 0.05 * rng.standard_normal((runs, n, n), np.float32), 0, None) / n
    bias = np.zeros((runs, n, n), np.float32)
    for r, tile in enumerate(seeds):
        soft[r, tile] *= 0.2
        soft[r, :, centre] *= 0.2
        soft[r, tile, centre] = 1
        bias[r, tile, centre] = WHOLE.pin
    crystal = _grown(puzzle, soft, bias, torus=True, stage="anneal")
    orders = assign(torch.from_numpy(crystal.soft).clamp_min(1e-30).log()).numpy()
    return [_opened(puzzle, order) for order in orders]


def _in_lists(puzzle: Puzzle, seeds: np.ndarray, centre: int) -> np.ndarray:
    """The same for many tiles, without matrices."""
    boards = np.full((len(seeds), puzzle.layout.n), -1)
    boards[:, centre] = seeds
    crystals = [Lists(board, centre, Room(*puzzle.shape)) for board in boards]

    def some(low: int, high: int) -> None:
        for crystal in crystals[low:high]:
            crystal.grow(puzzle.belief.bonds, puzzle.slice)

    looks: dict[str, Any] = {}
    if isinstance(evidence := puzzle.evidence, Evidence):  # else all pairs are too many to look at
        looks = {
            "soft": lambda: as_soft(crystals[0].scores()),
            "expected": lambda: energy_of_lists(crystals[0], evidence),
        }
    on = True
    while on and not all(crystal.done for crystal in crystals):
        in_chunks(some, len(crystals))
        beta, entropy = min(c.beta for c in crystals), float(np.mean([c.entropy for c in crystals]))
        done = min(crystal.passed for crystal in crystals)
        on = puzzle.watch(stage="anneal", beta=beta, entropy=entropy, done=done, **looks)
    return np.stack([likeliest(crystal, puzzle.belief) for crystal in crystals])


def as_soft(scores: np.ndarray) -> Tensor:
    """Log shares as shares."""
    return torch.from_numpy(scores).softmax(1)


def _grown(puzzle: Puzzle, soft: np.ndarray, bias: np.ndarray, *, torus: bool, stage: str) -> Crystal:
    crystal = Crystal(soft, bias, WHOLE.start * np.log(max(puzzle.layout.n, 2)))
    evidence: Any = puzzle.evidence
    nothing = np.zeros(puzzle.layout.n)
    for _ in range(0, WHOLE.steps, puzzle.slice):
        grow(crystal, puzzle.belief.bonds, Board(*puzzle.shape, torus), WHOLE, puzzle.slice)
        beta, entropy = float(crystal.beta.min()), float(crystal.entropy.mean())
        on = puzzle.watch(
            stage=stage,
            beta=beta,
            entropy=entropy,
            soft=lambda: torch.from_numpy(crystal.soft[0].copy()),
            expected=lambda: expected_energy(crystal.soft[0].T, nothing, evidence, puzzle.shape),
        )
        if crystal.done.all() or not on:
            break
    return crystal


def _opened(puzzle: Puzzle, order: np.ndarray) -> np.ndarray:
    """The torus as a picture: cut at its weakest lines, or shifted to where the mask fits best and then made to fit."""
    if not puzzle.allowed.size:
        return puzzle.evidence.frame.opened(order)
    scores = puzzle.evidence.frame.scores(order)
    h, w = puzzle.shape
    tiles, cells = order.reshape(h, w), np.arange(h * w)
    best, least = order, (np.inf, np.inf)
    for down in range(h):
        for across in range(w):
            moved = np.roll(tiles, (-down, -across), (0, 1)).reshape(-1)
            misfit = (int((~puzzle.allowed[moved, cells]).sum()), float(scores[0][down - 1] + scores[1][across - 1]))
            if misfit < least:
                best, least = moved, misfit
    return best if least[0] == 0 else _made_to_fit(puzzle, best)


def _made_to_fit(puzzle: Puzzle, order: np.ndarray) -> np.ndarray:
    """Tiles that stand where they must not are melted and annealed again on the open grid, the others stay if they can."""
    n, cells = order.size, np.arange(order.size)
    fits = puzzle.allowed[order, cells]
    soft = np.where(puzzle.allowed, 1.0, 0.0).astype(np.float32) / n
    soft[order[fits]] *= 0.05
    soft[order[fits], cells[fits]] = 1
    soft /= soft.sum(1, keepdims=True)
    bias = np.where(puzzle.allowed, 0.0, FORBIDDEN).astype(np.float32)
    crystal = _grown(puzzle, soft[None], bias[None], torus=False, stage="fit the mask")
    scores = torch.from_numpy(crystal.soft[0]).clamp_min(1e-30).log()
    return assign(scores, torch.from_numpy(puzzle.allowed)).numpy()


def _from_scores(puzzle: Puzzle, init: Tensor) -> np.ndarray:
    """A run on the open grid from the soft permutation of somebody's scores."""
    allowed = None if not puzzle.allowed.size else torch.from_numpy(puzzle.allowed)
    soft = sinkhorn(init, iterations=20) if allowed is None else sinkhorn(init, iterations=20, allowed=allowed)
    bias = np.zeros_like(soft.numpy()) if allowed is None else np.where(puzzle.allowed, 0.0, FORBIDDEN)
    crystal = _grown(puzzle, soft.numpy()[None].copy(), bias[None].astype(np.float32), torus=False, stage="from scores")
    return assign(torch.from_numpy(crystal.soft[0]).clamp_min(1e-30).log(), allowed).numpy()


def at_once(puzzle: Puzzle) -> list[np.ndarray]:
    """What a stopped annealing is measured by: tile after tile where it fits best, from the surest one on or from those that a
    mask holds; none if it leads nowhere."""
    belief, mask, n = puzzle.belief, puzzle.allowed, puzzle.layout.n
    order, label = np.arange(n), np.arange(1, n + 1)
    if mask.size:
        order = assign(torch.eye(n), torch.from_numpy(mask)).numpy()
        label[mask.sum(1) == 1] = 0
    label[belief.strength().argmax() if label.all() else label.argmin()] = 0
    label = np.unique(label, return_inverse=True)[1].astype(np.int64)
    full = None
    with dispensable():
        full = fill(regrow_by_segments(order, belief.glue, belief.bonds, label, mask, Effort().toll), belief, mask)
    return [] if full is None else [full]


def _reassembled(
    puzzle: Puzzle, starts: list[np.ndarray], rng: np.random.Generator, effort: Effort
) -> list[np.ndarray]:
    """Where each start ends, reassembled in its own thread; equal starts are one, and if stopped they stay what they are."""
    if puzzle.watch.stopped or effort.most == 0:
        return starts
    distinct = {start.tobytes(): start for start in starts}
    searches: list[Reassembly] = []

    def some(low: int, high: int) -> None:
        for search in searches[low:high]:
            search.advance(3, puzzle.watch.spare)

    with dispensable():
        settings: dict[str, Any] = {"allowed": puzzle.allowed, "frame": puzzle.evidence.frame}
        for start, child in zip(distinct.values(), rng.spawn(len(distinct)), strict=True):
            searches.append(Reassembly(start, puzzle.belief, child, effort, **settings))
        while not all(search.done for search in searches):
            in_chunks(some, len(searches), float(puzzle.layout.n**2))
            best = max(searches, key=lambda search: search.total)
            found, energy = torch.from_numpy(best.order.copy()), puzzle.energy(best.order)
            done, soft = min(search.passed for search in searches), partial(to_matrix, found)
            if not puzzle.watch(stage="reassemble", energy=energy, entropy=0.0, done=done, soft=soft):
                break
    ends = {start: search.order for start, search in zip(distinct, searches, strict=False)}
    return [ends.get(start.tobytes(), start) for start in starts]


def _doubtful(puzzle: Puzzle, ends: list[np.ndarray]) -> bool:
    """Whether what was found may not be the best there is: many of its seams are wrong, or too plain to tell."""
    n = puzzle.layout.n
    if puzzle.watch.stopped or not have_numba or not FEWEST <= n < MANY:
        return False
    best = max(ends, key=puzzle.belief.total)
    return float(puzzle.belief.weak_seams(best, WEAK).mean()) > DOUBT


def _crossed(puzzle: Puzzle, ends: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """The best of what becomes of the ends and of short searches from more tiles, crossed with each other."""
    crossing = Crossing(ends, puzzle.belief, rng, puzzle.allowed)
    crossing.join(_on_torus(puzzle, STARTS, rng), puzzle.watch.spare)
    while not crossing.done:
        crossing.advance()
        best = crossing.best.order
        soft = partial(to_matrix, torch.from_numpy(best.copy()))
        if not puzzle.watch(stage="reassemble", energy=puzzle.energy(best), entropy=0.0, soft=soft):
            break
    return crossing.best.order


def place_confidence(
    order: np.ndarray, belief: Affinities, cooling: Cooling = CONFIDENCE
) -> tuple[np.ndarray, np.ndarray]:
    """Soft permutation at beta = 0.7 ln n around a layout, open borders; and of each tile how much of it stays in place.

    At that beta a tile is held by about one and a half sure neighbours. A tile that could as well stand elsewhere (an exact
    duplicate, a flat one) spreads out. Five steps from the layout: enough to leave, too few to dissolve the whole.
    """
    n = order.size
    soft = np.full((1, n, n), 0.05 / n, np.float32)
    soft[0, order, np.arange(n)] += 0.95
    crystal = Crystal(soft, np.zeros_like(soft), cooling.start * np.log(max(n, 2)))
    grow(crystal, belief.bonds, Board(*belief.shape, torus=False), cooling, CONFIDENCE_STEPS)
    confidence = np.empty(n, np.float32)
    confidence[order] = crystal.soft[0, order, np.arange(n)]
    return crystal.soft[0], confidence


def confidence_in_lists(
    order: np.ndarray, belief: Affinities, cooling: Cooling = CONFIDENCE
) -> tuple[Tensor, np.ndarray]:
    """The same of many tiles: the soft permutation is a sparse tensor of what is above the background."""
    n, h_w = order.size, belief.shape
    crystal = Lists(order, 0, Room(*h_w), replace(cooling, pin=0.0))
    crystal.grow(belief.bonds, CONFIDENCE_STEPS)
    first, cell, share = crystal.shares
    tile = np.repeat(np.arange(n), np.diff(first))
    own = order[cell] == tile
    confidence = np.zeros(n, np.float32)
    confidence[tile[own]] = share[own]
    where = torch.from_numpy(np.stack((tile, cell.astype(np.int64))))
    return torch.sparse_coo_tensor(where, torch.from_numpy(share), (n, n), check_invariants=True).coalesce(), confidence


def _by_energy(layout: Grid, cost: Tensor, asked: Request) -> Solution:
    """One dissimilarity for both directions (pictures arranged by likeness): the quadratic assignment it is.

    Affinities would be wrong here: left and right are alike, and no tile has one true neighbour.
    """
    from ..graph import solve_graph

    weights = torch.zeros(layout.n, layout.n, dtype=cost.dtype)
    for pairs in layout.relations():
        weights[pairs[:, 0], pairs[:, 1]] = 1.0
    return solve_graph(Graph(weights), cost, asked)


def polish_grid(layout: Grid, evidence: Evidence, found: Solution, *, allowed: Tensor | None, watch: Watch, generator: torch.Generator | None = None) -> Polished:  # fmt: skip
    """Local search on the energy itself: swaps, shifts of rows and columns, shifts of segments. Never worse."""
    belief = evidence.belief
    orders = improve_grid(found.starts, evidence, belief.glue, belief.bonds, allowed=allowed, watch=watch)
    energies = layout.energy(orders, evidence)
    best = int(energies.argmin())
    return Polished(orders[best], float(energies[best]))
