"""Piles of tiles as people have them: turned, incomplete, with tiles of other pictures among them, of unknown size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.ndimage import binary_opening, label
from torch import Tensor

from ..errors import BadInput
from ..solve.grid.listed import in_lists
from ..solve.grid.pieces import Costs, Pieces, Whole
from ..solve.grid.reassembly import LARGE
from ..solve.grid.shape import find_shape
from ..solve.kinds import of_pieces, solved
from ..solve.solution import Solution
from ..structure.layouts import Grid
from ..watch import Step, Stopped, Watch, Where
from .candidates import Comparison, ListedCosts
from .jigsaw import as_they_came, at_least_two_by_two, seam_costs
from .turned import in_quarters, turned_seams, turns_of, upright


def reassemble_pile(
    tiles: Float[Tensor, "n height width channels"],
    grid: Grid | None,
    *,
    turned: bool = False,
    foreign: bool = False,
    gap: int = 0,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> tuple[Solution, Grid]:
    """What stands in each cell of the grid, -1 where a tile is missing, and that grid, which is found where it is not given.

    If tiles may be ``turned``, ``state`` holds their quarter turns. If some may be ``foreign``, those whose seams fit worse than they
    should (`usual_price`) are left out, and more cells stay empty; otherwise only tiles for which there is no cell are.
    """
    at_least_two_by_two(tiles)
    if len(tiles) < 2:
        raise BadInput("A pile of one tile is no puzzle.")
    turns = turns_of(tiles.shape[1:3]) if turned else (0,)
    with Watch(time_limit, callback) as watch, torch.no_grad():
        try:
            cost = _compared(tiles.to(torch.float32), turns, watch, gap)
        except Stopped:
            return _nothing(tiles, grid, turned, watch)
        known = grid or Grid(1, len(tiles))
        pieces = Pieces(cost, known, reject=cost.usual_price() if foreign else None)
        watch.where = Where(grid, torch.arange(len(tiles)))
        free = pieces
        if grid is None:
            outline, free = find_shape(pieces, watch)
            known = outline.grid if foreign else outline.holding(len(tiles))
        apart = 2 if grid is not None and len(turns) == 4 and known.height != known.width else 1
        pieces = dataclasses.replace(pieces, grid=known, apart=apart).like(free)
        watch.where = Where(known, torch.arange(len(tiles)))
        options = {"runs": runs, "seed": seed, "polish": polish}
        found = solved(of_pieces(len(turns)), known, pieces, (len(tiles), known.n), watch, **options)
        return upright(in_quarters(found, turns), tiles, known, any_way=grid is None) if turned else (found, known)


FEWEST = 4  # tiles that are a picture: what is left holds together by chance
LEAST, SMALL = 1 / 3, 12
"""If all tiles belong: a third of a picture's places or twelve tiles, if they are left over and sure of a neighbour, are another picture; fewer
are what this one lacks. Of 19 photos as 7x7 tiles, as 7x7 turned and incomplete, and as 12x9 incomplete, two were not found whole, and one
in a pile of three: at first 0.26, 0.26 and 0.29 of their places were left over."""


BEYOND = 0.1
"""Of what a crystal has filled: if more of it stands beside the rectangle that it seems to be, pictures are told apart before that is solved, else
afterwards, when the tiles that do not belong to the larger one have been mended."""


@dataclasses.dataclass(frozen=True)
class Reassembled:
    """One of several: what stands in each cell of its grid, by the numbers of the whole pile."""

    solution: Solution
    grid: Grid


def reassemble_several(
    tiles: Float[Tensor, "n height width channels"],
    *,
    turned: bool = False,
    all_belong: bool = False,
    gap: int = 0,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> list[Reassembled]:
    """As many pictures as the pile holds, the surest first: each is found among the tiles that those before have left.

    To each of them all tiles of the others are foreign, so this is `reassemble_pile` of unknown size over and over. Tiles that fit nowhere
    are in none; if ``all_belong`` there are no such tiles but by mistake, and few tiles are no picture: what is left for the last
    one is all in it, and if there is one alone this is `reassemble_pile`.
    """
    at_least_two_by_two(tiles)
    if all_belong and len(tiles) < FEWEST:
        options = {"turned": turned, "gap": gap, "runs": runs, "seed": seed, "time_limit": time_limit}
        return [Reassembled(*reassemble_pile(tiles, None, **options, callback=callback))]
    turns = turns_of(tiles.shape[1:3]) if turned else (0,)
    pictures: list[Reassembled] = []
    with Watch(time_limit, callback) as watch, torch.no_grad():
        try:
            cost = _compared(tiles.to(torch.float32), turns, watch, gap)
        except Stopped:
            return [Reassembled(*_nothing(tiles, None, turned, watch))]
        whole = Pieces(cost, Grid(1, len(tiles)), apart=1, reject=cost.usual_price())
        left, holes = torch.arange(len(tiles)), 0
        options = {"runs": runs, "seed": seed}
        while len(left) >= FEWEST and (not watch.stopped or not pictures):
            try:
                some, found, grid, sure = _next_picture(whole, left, watch, all_belong and not holes, options)
            except Stopped:  # while what is left was compared again
                break
            used = found.order[found.order >= 0]
            if len(used) < FEWEST:
                break
            if turned:
                found, grid = upright(in_quarters(found, turns), tiles[some], grid, any_way=True)
            pictures.append(Reassembled(_numbered(found, some, whole), grid))
            left, holes = left[~torch.isin(left, some[used])], holes + grid.n - len(used)
            if all_belong and int(torch.isin(left, sure).sum()) < max(LEAST * _most(pictures), SMALL):
                break
        return [one for one in pictures if not all_belong or _tiles(one) >= LEAST * _most(pictures)]


def _next_picture(
    whole: Pieces, left: Int[Tensor, "some"], watch: Watch, all_belong: bool, options: dict[str, Any]
) -> tuple[Int[Tensor, "fewer"], Solution, Grid, Int[Tensor, "sure"]]:
    """The tiles by which it counts (if those left made two pictures side by side, without those of the other), the surest picture of them, its
    grid, and which of those left are sure of a neighbour."""
    pieces, watch.where = whole if len(left) == whole.tiles else whole.among(left), Where(None, left)
    outline, free = find_shape(pieces, watch)
    grid, sure = outline.grid, left[torch.from_numpy(outline.sure)]
    if outline.beyond > BEYOND and (others := _others(outline.board, pieces, whole.reject)) and not watch.stopped:
        return *_without(others, whole, left, watch, options)[:3], sure
    if all_belong and len(sure) - grid.n < max(LEAST * grid.n, SMALL):
        grid, pieces = outline.holding(len(left)), dataclasses.replace(pieces, reject=None)
    pieces, watch.where = dataclasses.replace(pieces, grid=grid).like(free), Where(grid, left)
    found = solved(of_pieces(pieces.states), grid, pieces, (len(left), grid.n), watch, **options)
    state = 0 if found.state is None else found.state
    board = torch.where(found.order >= 0, found.order * pieces.states + state, -1).reshape(grid.height, grid.width)
    if (others := _others(board.numpy(), pieces, whole.reject)) and not watch.stopped:
        try:
            return *_without(others, whole, left, watch, options)[:3], sure
        except Stopped:  # while what is left was compared again
            pass
    return left, found, grid, sure


def _without(
    others: list[Tensor], whole: Pieces, left: Int[Tensor, "some"], watch: Watch, options: dict[str, Any]
) -> tuple[Int[Tensor, "fewer"], Solution, Grid, Int[Tensor, "sure"]]:
    """The next picture of those left that are in none of the others."""
    rest = left[~torch.isin(torch.arange(len(left)), torch.cat(others))]
    return _next_picture(whole, rest, watch, False, options)


def _others(board: np.ndarray, pieces: Pieces, price: float | None) -> list[Int[Tensor, "part"]]:
    """The tiles of the other pictures that stand on the board of the largest, if there are any."""
    first, *others = _held_together(board, pieces, price)
    return [part for part in others if len(part) >= max(LEAST * len(first), SMALL)]


def _held_together(board: np.ndarray, pieces: Pieces, price: float | None) -> list[Int[Tensor, "part"]]:
    """The tiles of the parts of a layout (height x width: a piece or -1), the largest first: joined, loop of four by loop of four, by seams that
    cost no more than the price. One tile of a loop may be missing. Between two large pictures a single loop
    closes by chance, so on large boards four of them, side by side and below each other, are the least that counts."""
    there, piece = board >= 0, np.maximum(board, 0)

    def dear(relation: int, a: np.ndarray, b: np.ndarray, both: np.ndarray) -> np.ndarray:
        return both & (pieces.cost.pairs(relation, a, b) > (math.inf if price is None else price))

    beside = dear(0, piece[:, :-1], piece[:, 1:], there[:, :-1] & there[:, 1:])
    under = dear(1, piece[:-1], piece[1:], there[:-1] & there[1:])
    filled = there.astype(int)
    three = filled[:-1, :-1] + filled[1:, :-1] + filled[:-1, 1:] + filled[1:, 1:] >= 3
    loops = three & ~(beside[:-1] | beside[1:] | under[:, :-1] | under[:, 1:])
    wide = 2 if there.sum() >= LARGE else 1
    parts = np.asarray(label(binary_opening(loops, np.ones((wide, wide))))[0])  # pyright: ignore
    tiles = []
    for k in range(1, parts.max(initial=0) + 1):
        loops = np.pad(parts == k, 1)
        covered = loops[1:, 1:] | loops[1:, :-1] | loops[:-1, 1:] | loops[:-1, :-1]
        tiles.append(torch.from_numpy(board[covered & there] // pieces.states))
    return sorted(tiles, key=len, reverse=True) or [torch.from_numpy(board[there] // pieces.states)]


def _tiles(picture: Reassembled) -> int:
    """How many it has."""
    return int((picture.solution.order >= 0).sum())


def _most(pictures: list[Reassembled]) -> int:
    return max(map(_tiles, pictures))


def _numbered(found: Solution, tiles: Int[Tensor, "some"], whole: Pieces) -> Solution:
    """A solution of some of the tiles, in the numbers of the ``whole`` pile; the others surely have no place in it."""
    n = whole.tiles
    if len(tiles) == n:
        return found
    pieces = found.given
    given = dataclasses.replace(pieces, cost=whole.cost) if isinstance(pieces, Pieces) else None
    soft, confidence = found.soft.new_zeros(n, found.soft.shape[1]), found.confidence.new_ones(n)
    soft[tiles], confidence[tiles] = found.soft, found.confidence
    order = torch.where(found.order >= 0, tiles[found.order], -1)
    return dataclasses.replace(found, order=order, soft=soft, confidence=confidence, given=given)


def _compared(tiles: Tensor, turns: tuple[int, ...], watch: Watch, gap: int) -> Costs:
    """The costs of all pieces; of many only of the likely pairs. `Stopped` if the watch says so before all tiles are compared."""
    if in_lists(len(tiles) * len(turns)) and not gap:
        return ListedCosts.of(Comparison(tiles, turns), watch)
    seams = (turned_seams if len(turns) > 1 else seam_costs)(tiles, watch, gap=gap)
    return Whole((seams.right, seams.below), len(turns), seams.border)


def _nothing(tiles: Tensor, grid: Grid | None, turned: bool, watch: Watch) -> tuple[Solution, Grid]:
    """Stopped before anything was known: the tiles as they came, as far as there are cells."""
    known = grid or Grid(1, len(tiles))
    found = as_they_came(known, None, watch)
    order = torch.where(found.order < len(tiles), found.order, -1)
    state = torch.where(order < 0, -1, 0) if turned else None
    nothing = torch.zeros(len(tiles), known.n), torch.zeros(len(tiles))
    return dataclasses.replace(found, order=order, state=state, soft=nothing[0], confidence=nothing[1]), known
