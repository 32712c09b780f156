"""Piles of tiles as people have them: turned, incomplete, with tiles of other pictures among them, of unknown size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.ndimage import label
from torch import Tensor

from ..errors import BadInput
from ..solve.grid.pieces import Pieces, usual_price
from ..solve.grid.shape import find_shape
from ..solve.kinds import of_pieces, solved
from ..solve.solution import Solution
from ..structure.layouts import Grid
from ..watch import Step, Stopped, Watch, Where
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
            seams = (turned_seams if turned else seam_costs)(tiles.to(torch.float32), watch, gap=gap)
        except Stopped:
            return _nothing(tiles, grid, turned, watch)
        cost = seams.right, seams.below
        known = grid or Grid(1, len(tiles))
        pieces = Pieces(cost, len(turns), known, seams.border, None, usual_price(cost, len(turns)) if foreign else None)
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
    turns = turns_of(tiles.shape[1:3]) if turned else (0,)
    pictures: list[Reassembled] = []
    with Watch(time_limit, callback) as watch, torch.no_grad():
        try:
            seams = (turned_seams if turned else seam_costs)(tiles.to(torch.float32), watch, gap=gap)
        except Stopped:
            return [Reassembled(*_nothing(tiles, None, turned, watch))]
        whole = Pieces((seams.right, seams.below), len(turns), Grid(1, len(tiles)), seams.border, apart=1)
        whole = dataclasses.replace(whole, reject=usual_price(whole.cost, len(turns)))
        left, holes = torch.arange(len(tiles)), 0
        options = {"runs": runs, "seed": seed}
        while len(left) >= FEWEST and (not watch.stopped or not pictures):
            some, found, grid, sure = _next_picture(whole, left, watch, all_belong and not holes, options)
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
    if all_belong and len(sure) - grid.n < max(LEAST * grid.n, SMALL):
        grid, pieces = outline.holding(len(left)), dataclasses.replace(pieces, reject=None)
    pieces, watch.where = dataclasses.replace(pieces, grid=grid).like(free), Where(grid, left)
    found = solved(of_pieces(pieces.states), grid, pieces, (len(left), grid.n), watch, **options)
    first, *others = _held_together(found, grid, pieces, whole.reject)
    aside = [part for part in others if len(part) >= max(LEAST * len(first), SMALL)]
    if not aside or watch.stopped:
        return left, found, grid, sure
    rest = left[~torch.isin(torch.arange(len(left)), torch.cat(aside))]
    return *_next_picture(whole, rest, watch, False, options)[:3], sure


def _held_together(found: Solution, grid: Grid, pieces: Pieces, price: float | None) -> list[Int[Tensor, "part"]]:
    """The tiles of the parts of a layout, the largest first: joined, loop of four by loop of four, by seams that cost no more than the
    price. One tile of a loop may be missing."""
    order = found.order.reshape(grid.height, grid.width)
    there, state = order >= 0, 0 if found.state is None else found.state.reshape(order.shape)
    piece = torch.where(there, order * pieces.states + state, 0)

    def dear(cost: Tensor, a: Tensor, b: Tensor, both: Tensor) -> np.ndarray:
        return (both & (cost[a, b] > (math.inf if price is None else price))).numpy()

    beside = dear(pieces.cost[0], piece[:, :-1], piece[:, 1:], there[:, :-1] & there[:, 1:])
    under = dear(pieces.cost[1], piece[:-1], piece[1:], there[:-1] & there[1:])
    filled = there.numpy().astype(int)
    three = filled[:-1, :-1] + filled[1:, :-1] + filled[:-1, 1:] + filled[1:, 1:] >= 3
    parts = np.asarray(label(three & ~(beside[:-1] | beside[1:] | under[:, :-1] | under[:, 1:]))[0])  # pyright: ignore
    tiles = []
    for k in range(1, parts.max(initial=0) + 1):
        loops = np.pad(parts == k, 1)
        covered = loops[1:, 1:] | loops[1:, :-1] | loops[:-1, 1:] | loops[:-1, :-1]
        tiles.append(order[torch.from_numpy(covered) & there])
    return sorted(tiles, key=len, reverse=True) or [found.order[found.order >= 0]]


def _tiles(picture: Reassembled) -> int:
    """How many it has."""
    return int((picture.solution.order >= 0).sum())


def _most(pictures: list[Reassembled]) -> int:
    return max(map(_tiles, pictures))


def _numbered(found: Solution, tiles: Int[Tensor, "some"], whole: Pieces) -> Solution:
    """A solution of some of the tiles, in the numbers of the ``whole`` pile."""
    n = whole.tiles
    if len(tiles) == n:
        return found
    pieces = found.given
    given = dataclasses.replace(pieces, cost=whole.cost, border=whole.border) if isinstance(pieces, Pieces) else None
    soft, confidence = found.soft.new_zeros(n, found.soft.shape[1]), found.confidence.new_zeros(n)
    soft[tiles], confidence[tiles] = found.soft, found.confidence
    order = torch.where(found.order >= 0, tiles[found.order], -1)
    return dataclasses.replace(found, order=order, soft=soft, confidence=confidence, given=given)


def _nothing(tiles: Tensor, grid: Grid | None, turned: bool, watch: Watch) -> tuple[Solution, Grid]:
    """Stopped before anything was known: the tiles as they came, as far as there are cells."""
    known = grid or Grid(1, len(tiles))
    found = as_they_came(known, None, watch)
    order = torch.where(found.order < len(tiles), found.order, -1)
    state = torch.where(order < 0, -1, 0) if turned else None
    nothing = torch.zeros(len(tiles), known.n), torch.zeros(len(tiles))
    return dataclasses.replace(found, order=order, state=state, soft=nothing[0], confidence=nothing[1]), known
