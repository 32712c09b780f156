"""Jigsaws: a photo into tiles, tiles into a picture.

Seams are compared by two costs that fail on different tiles: the Mahalanobis gradient compatibility (MGC, Gallagher 2012)
asks whether the step across the seam is like the steps inside the two tiles; extrapolation (after Pomeranz, Shemesh,
Ben-Shahar 2011) asks how far the last two lines of one tile, continued, miss the first of the other. Their geometric mean
is the cost: right on 86 % of the nearest neighbours of hard photos where MGC alone is right on 76 %.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import BadInput
from ..operators.assignment import assign
from ..solve import checks
from ..solve.grid.compare import AT_ONCE, SECONDS, sum_of_lengths, sum_of_roots
from ..solve.grid.evidence import Evidence
from ..solve.grid.listed import in_lists
from ..solve.kinds import LAYOUTS, solved
from ..solve.solution import Solution
from ..structure.layouts import Grid
from ..watch import Step, Stopped, Watch

PLAIN = (0.4, 0.3)
"""Weights of log extrapolation cost and of log MGC in the choice of the border, beside mean affinity. Of opposite borders
that match, the true ones are plain (cheap to extrapolate) yet not quite alike (dear by MGC). Fitted on 300 portraits
(600 cuts each): with 4, 5, 6, 7, 10 pieces a side 1, 1, 1, 1, 0.997 of the cuts are right; 0.97 to 0.998 by affinity."""


@dataclass(frozen=True)
class Seams:
    """Costs of all pairs of tiles; entry (i, k) is for k directly right of i, or directly below it."""

    right: Float[Tensor, "n n"]
    below: Float[Tensor, "n n"]
    border: tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]
    """What to add to an affinity to judge whether a seam is inside the picture (high) or its border (low)."""


Tiles = Float[Tensor, "n height width channels"]
PASSES = 6  # over all pairs of tiles: extrapolation and two gradients, to the right and below
PASSES_ACROSS = 16  # where there is a gap


def seam_costs(
    tiles: Tiles, watch: Watch | None = None, every: int = 1, late: float = 0.0, gap: int = 0, full: bool = False
) -> Seams:
    """Pixel values from 0 to 255, whatever the bit depth was; ``every`` so many pixels along a seam are compared.

    `Stopped` if the watch says so before all tiles are; for a limit of time, only ``late`` seconds after it. Seams of which not every pixel
    is compared are compared as if there were no gap: the network of `gaps` knows whole ones. ``full``: no tile is missing (`gaps.exclusive`).
    """
    gap = gap if every == 1 else 0
    done, passes = 0.0, PASSES_ACROSS if gap else PASSES

    def tell(share: float) -> None:
        nonlocal done
        if watch is not None and not (
            watch(stage="compare the seams", done=done / passes) or _may_be_late(watch, late)
        ):
            raise Stopped
        done += share

    right, right_border = _one_way(tiles[:, ::every], tell, gap, full)
    below, below_border = _one_way(tiles.transpose(1, 2)[:, ::every], tell, gap, full)
    return Seams(right, below, (right_border, below_border))


def _may_be_late(watch: Watch, late: float) -> bool:
    return watch.status == "time limit" and bool(watch.time_limit) and watch.seconds <= (watch.time_limit or 0.0) + late


FEW = 8  # pixels of a seam that are compared at first where time may be short
SHARE = 0.3  # of the time that is left for comparing more of them
LATE = 1.0  # seconds: without the first comparison there is nothing to show
ASKING = 6e-5  # seconds per tile and pixel along its seams where there is a gap
LONG = 1.0  # seconds of comparing from which on somebody may lose patience


def seams_in_time(tiles: Tiles, watch: Watch, gap: int = 0) -> Seams | None:
    """All pixels along the seams. Where time may be short first a few, then as many as there is time for; None: not even those."""
    along = max(tiles.shape[1:3])
    few, limit = along // FEW, watch.time_limit
    if few < 2 or comparing(tuple(tiles.shape), gap) < (LONG if limit is None else min(LONG, SHARE * limit)):
        few = 0
    rough, began = None, watch.seconds
    try:
        rough = seam_costs(tiles, watch, few, LATE, gap, full=True) if few else None
        enough = 1
        if rough is not None and limit is not None:
            whole = (watch.seconds - began) * few
            enough = math.ceil(whole / max(SHARE * (limit - watch.seconds), 1e-9))
        if not few:
            return seam_costs(tiles, watch, late=LATE, gap=gap, full=True)
        return seam_costs(tiles, watch, enough, gap=gap, full=True) if enough < few else rough
    except Stopped:
        return rough


Tell = Callable[[float], None]


def _one_way(
    tiles: Float[Tensor, "n along across channels"], tell: Tell, gap: int, full: bool
) -> tuple[Tensor, Tensor]:
    last, before_last = tiles[:, :, -1].contiguous(), tiles[:, :, -2].contiguous()
    first, second = tiles[:, :, 0].contiguous(), tiles[:, :, 1].contiguous()
    E = extrapolation(before_last, last, first, second, tell)
    if gap:
        from .gaps import across, exclusive, facing, gapped_cost, likely

        onward, backward = across(tiles, gap, tell), across(tiles.flip(2), gap, tell)
        costs = [E, *(a + b.T for a, b in zip(onward, backward, strict=True))]
        Z = facing(tiles, likely(costs), gap, tell)
        return gapped_cost(exclusive(Z) if full else Z), logs_for_border(E, costs[1], last[0])
    M = gradients(before_last, last, first, tell) + gradients(second, first, last, tell).T
    return seam_cost(E, M, last[0])


def seam_cost(E: Tensor, M: Tensor, line: Tensor, states: int = 1) -> tuple[Tensor, Tensor]:
    """The two costs as one, and what to add to its affinity to judge whether a seam is of the border; ``line`` is that of one tile."""
    return (by_median(E, states) * by_median(M, states)).sqrt_(), logs_for_border(E, M, line)


def logs_for_border(E: Tensor, M: Tensor, line: Tensor) -> Tensor:
    """What to add to an affinity, by the two costs."""
    samples = line.numel()
    # half a grey level everywhere is the least difference that means anything: flat tiles are quantised
    logs = E.clamp_min(samples * (0.5 / 255) ** 0.5).log(), M.clamp_min(0.1 * len(line)).log()
    return PLAIN[0] * logs[0] - PLAIN[1] * logs[1]


def by_median(cost: Tensor, states: int) -> Tensor:
    """Only the ratio to other pairs counts. A tile is never its own neighbour, in no state."""
    n = len(cost)
    if n < 2 * states:
        return torch.ones_like(cost)
    tile = torch.arange(n) // states
    own = tile[:, None] == tile
    typical = cost[~own].median()
    scaled = cost / (typical if typical > 0 else cost.max().clamp_min(1e-30))
    return scaled.masked_fill_(own, float(scaled.max()))


Line = Float[Tensor, "n along channels"]


def _blocks(n: int, samples: int, tell: Tell) -> Iterator[slice]:
    """Of the tiles, as many at once as make a block of pairs; tells before each what share of all it is."""
    block = max(1, AT_ONCE // (n * samples))
    for k in range(0, n, block):
        tell(min(block, n - k) / n)
        yield slice(k, k + block)


def extrapolation(
    before_last: Line, last: Line, first: Line, second: Line, tell: Tell = lambda _: None
) -> Float[Tensor, "n n"]:
    r"""$E_{ik} = \sum |2 l_i - l'_i - r_k|^{1/2} + |2 r_k - r'_k - l_i|^{1/2}$ with values in [0, 1].

    The root makes many small misses cost more than one large one: an edge that ends at the seam is forgiven.
    """
    n = len(last)
    l, r = last.reshape(n, -1) / 255, first.reshape(n, -1) / 255
    onward, backward = 2 * l - before_last.reshape(n, -1) / 255, 2 * r - second.reshape(n, -1) / 255
    E = torch.empty(n, n)
    for rows in _blocks(n, l.shape[1], tell):
        E[rows] = sum_of_roots(onward[rows], r, l[rows], backward)
    return E


def gradients(before_last: Line, last: Line, first: Line, tell: Tell = lambda _: None) -> Float[Tensor, "n n"]:
    r"""$M_{ik} = \sum_p \sqrt{(\delta_p - \mu_i)^T S_i^{-1} (\delta_p - \mu_i)}$, $\delta = r_k - l_i$; mean and covariance of $l_i - l'_i$.

    Nine dummy gradients (zero, and plus and minus one grey level per channel and in all) keep S invertible, as in MGC.
    """
    step = last - before_last
    return lengths(step, last + step.mean(1, keepdim=True), first, tell)


def lengths(steps: Line, ahead: Line, first: Line, tell: Tell = lambda _: None) -> Float[Tensor, "n n"]:
    """The same for any line that is foretold ``ahead`` of a tile, in units of the ``steps`` that are usual in it."""
    n, along, channels = ahead.shape
    whiten, base = whitened(steps, ahead)
    M = torch.empty(n, n)
    every = first.transpose(1, 2).contiguous()
    for rows in _blocks(n, along * channels, tell):
        M[rows] = sum_of_lengths(whiten[rows], base[rows], every)
    return M


def whitened(steps: Line, ahead: Line) -> tuple[Tensor, Tensor]:
    """What makes the steps of each tile uncorrelated and of size one, lower triangular, and the foretold line after that."""
    n, _, channels = ahead.shape
    mean = steps.mean(1, keepdim=True)
    unit = torch.cat((torch.eye(channels), torch.ones(1, channels)))
    dummies = torch.cat((torch.zeros(1, channels), unit, -unit)).expand(n, -1, -1)
    spread = torch.cat((steps - mean, dummies), 1)
    S = spread.transpose(1, 2) @ spread / (spread.shape[1] - 1)
    whiten = torch.linalg.inv(torch.linalg.cholesky(S)).tril()
    return whiten, whiten @ ahead.transpose(1, 2)


def foreseen(
    tiles: tuple[int, ...], time_limit: float | None = None, turned: bool = False, listed: bool = False
) -> tuple[float, float]:
    """Seconds and gigabytes, roughly, on a small machine, by the shape of the tiles; 5,015 of 28 pixels took 316 s in whole matrices."""
    states = (4 if tiles[1] == tiles[2] else 2) if turned else 1
    n, pairs = float(tiles[0]), float(tiles[0] * states) ** 2
    if listed:  # each piece with all on four sides, of which turning the whole picture saves some
        compared = 2 / states * comparing(tiles) * states**2
        seconds, gigabytes = (
            compared + 2e-7 * (n * states) ** 2.2,
            0.3 + 3 * 4e-9 * math.prod(tiles) + 7e-5 * n * states,
        )
    else:
        seconds, gigabytes = comparing(tiles) * pairs / n**2 + 1e-5 * pairs, 80e-9 * pairs
    return seconds if time_limit is None else min(seconds, time_limit), gigabytes


def comparing(tiles: tuple[int, ...], gap: int = 0) -> float:
    """Seconds, roughly, to compare all seams on a small machine."""
    n, height, width, channels = tiles
    return SECONDS * float(n) ** 2 * (height + width) * channels + bool(gap) * ASKING * n * (height + width)


def reassemble(
    tiles: Float[Tensor, "n height width channels"],
    grid: Grid,
    *,
    gap: int = 0,
    allowed: Tensor | None = None,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Solution:
    """The order of the tiles in raster order of ``grid``; `solve` with the costs of seams, and a border that looks like one.

    ``gap``: pixels worn off each edge of a tile.
    """
    if len(tiles) != grid.n:
        raise BadInput(f"A grid of {grid.width}x{grid.height} needs {grid.n} tiles, but {len(tiles)} came.")
    at_least_two_by_two(tiles)
    listed = in_lists(len(tiles)) and allowed is None and not gap and min(grid.height, grid.width) > 1
    if listed and polish:
        raise BadInput(f"Polish compares all tiles with all, and {len(tiles)} are too many for that: leave it out.")
    with Watch(time_limit, callback) as watch, torch.no_grad():
        if listed:
            from .candidates import listed_evidence

            try:
                evidence = listed_evidence(tiles.to(torch.float32), grid, watch)
            except Stopped:
                return as_they_came(grid, None, watch)
            return solved(LAYOUTS[Grid](), grid, evidence, (grid.n, grid.n), watch, runs=runs, seed=seed)
        seams = seams_in_time(tiles.to(torch.float32), watch, gap)
        if seams is None:
            return as_they_came(grid, checks.feasible(checks.mask(allowed, grid.n, grid.n)), watch)
        evidence = evidence_of(seams, grid)
        options = {"allowed": allowed, "runs": runs, "seed": seed, "polish": polish}
        return solved(LAYOUTS[Grid](), grid, evidence, (grid.n, grid.n), watch, **options)


def at_least_two_by_two(tiles: Float[Tensor, "n height width channels"]) -> None:
    """Seams are continued from two lines of pixels."""
    if min(tiles.shape[1:3]) < 2:
        raise BadInput(f"Tiles must be at least 2x2 pixels, not {tiles.shape[2]}x{tiles.shape[1]}.")


def evidence_of(seams: Seams, grid: Grid) -> Evidence:
    """What `solve` needs: the costs, and a border that looks like one."""
    return Evidence.of(checks.pair(checks.costs((seams.right, seams.below)), grid), grid, seams.border)


def as_they_came(grid: Grid, allowed: Tensor | None, watch: Watch) -> Solution:
    """Stopped before anything could be known: nothing has moved but what a mask moves, and nothing is sure."""
    n = grid.n
    order = torch.arange(n) if allowed is None else assign(torch.eye(n), allowed)
    nothing = torch.full((1,), float("nan"), dtype=torch.float64)
    soft, confidence = torch.tensor(1.0 / n).expand(n, n), torch.zeros(n)
    found = Solution(order, float("nan"), soft, confidence, nothing)
    return dataclasses.replace(found, seconds=watch.seconds, status=watch.status, history=watch.history)


def at_border(order: Int[Tensor, "n"], grid: Grid, seams: Seams) -> Int[Tensor, "n"]:
    """The same picture, shifted so that it is cut where its border looks most like one."""
    return torch.from_numpy(evidence_of(seams, grid).frame.opened(order.numpy()))


def cut(pixels: np.ndarray, grid: Grid, pad: bool = False) -> tuple[np.ndarray, str]:
    """Tiles (n, height, width, channels) in raster order, and in words what was done to a picture that does not divide.

    Left-over columns on the right and rows at the bottom are dropped, or the last ones repeated until they make a tile.
    """
    height, width = pixels.shape[:2]
    h, w = grid.height, grid.width
    most = (width // 2, height // 2)
    if w > most[0] or h > most[1]:
        raise BadInput(
            f"A grid of {w}x{h} does not fit a picture of {width}x{height} pixels: tiles need at least 2x2 pixels, "
            f"so at most {most[0]}x{most[1]} tiles."
        )
    if pad:
        new = (-(-height // h) * h, -(-width // w) * w)
        extra = ((0, new[0] - height), (0, new[1] - width), (0, 0))
        pixels = np.pad(pixels, extra, mode="edge")
    else:
        new = (height // h * h, width // w * w)
        pixels = pixels[: new[0], : new[1]]
    said = (
        ""
        if new == (height, width)
        else f"{'padded' if pad else 'cropped'} from {width}x{height} to {new[1]}x{new[0]} pixels"
    )
    blocks = pixels.reshape(h, new[0] // h, w, new[1] // w, -1).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(blocks.reshape(grid.n, new[0] // h, new[1] // w, -1)), said


EMPTY = 0.5  # of the largest value: the grey of a hole


def join(tiles: np.ndarray, order: Int[Tensor, "n"], grid: Grid, turns: Int[Tensor, "n"] | None = None) -> np.ndarray:
    """The picture (height, width, channels) with ``tiles[order]`` in raster order, each turned by its quarter turns; holes are grey."""
    _, th, tw, channels = tiles.shape
    placed = tiles[order.numpy()]
    placed[order.numpy() < 0] = EMPTY * (np.iinfo(tiles.dtype).max if tiles.dtype.kind == "u" else 255)
    if turns is not None:
        placed = np.stack(
            [np.rot90(tile, turn) for tile, turn in zip(placed, turns.clamp_min(0).tolist(), strict=True)]
        )
    rows = placed.reshape(grid.height, grid.width, th, tw, channels)
    return rows.transpose(0, 2, 1, 3, 4).reshape(grid.height * th, grid.width * tw, channels)


def as_float(tiles: np.ndarray) -> Float[Tensor, "n height width channels"]:
    """Values from 0 to 255: 16-bit pictures keep their finer steps as fractions."""
    scale = 255.0 / np.iinfo(tiles.dtype).max
    return torch.from_numpy(tiles.astype(np.float32) * np.float32(scale))


def identical(tiles: np.ndarray) -> Int[np.ndarray, "n"]:
    """A number per tile, the same for tiles with the same pixels: which of these stands where cannot be known."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(tile.tobytes(), len(seen)) for tile in tiles])
