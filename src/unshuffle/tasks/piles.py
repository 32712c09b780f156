"""Piles of tiles as people have them: turned, incomplete, with tiles of other pictures among them, of unknown size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
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
        known = grid or find_shape(pieces, watch, all_belong=not foreign)
        apart = 2 if grid is not None and len(turns) == 4 and known.height != known.width else 1
        pieces = dataclasses.replace(pieces, grid=known, apart=apart)
        watch.where = Where(known, torch.arange(len(tiles)))
        options = {"runs": runs, "seed": seed, "polish": polish}
        found = solved(of_pieces(len(turns)), known, pieces, (len(tiles), known.n), watch, **options)
        return upright(in_quarters(found, turns), tiles, known, any_way=grid is None) if turned else (found, known)


FEWEST = 4  # tiles that are a picture: what is left holds together by chance


@dataclasses.dataclass(frozen=True)
class Reassembled:
    """One of several: what stands in each cell of its grid, by the numbers of the whole pile."""

    solution: Solution
    grid: Grid


def reassemble_several(
    tiles: Float[Tensor, "n height width channels"],
    *,
    turned: bool = False,
    gap: int = 0,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> list[Reassembled]:
    """As many pictures as the pile holds, the surest first: each is found among the tiles that those before have left.

    To each of them all tiles of the others are foreign, so this is `reassemble_pile` of unknown size over and over. Tiles that fit nowhere
    are in none.
    """
    at_least_two_by_two(tiles)
    turns = turns_of(tiles.shape[1:3]) if turned else (0,)
    pictures: list[Reassembled] = []
    with Watch(time_limit, callback) as watch, torch.no_grad():
        try:
            seams = (turned_seams if turned else seam_costs)(tiles.to(torch.float32), watch, gap=gap)
        except Stopped:
            return []
        whole = Pieces((seams.right, seams.below), len(turns), Grid(1, len(tiles)), seams.border, apart=1)
        whole = dataclasses.replace(whole, reject=usual_price(whole.cost, len(turns)))
        left = torch.arange(len(tiles))
        while len(left) >= FEWEST and not watch.stopped:
            pieces, watch.where = whole.among(left), Where(None, left)
            grid = find_shape(pieces, watch, all_belong=False)
            pieces, watch.where = dataclasses.replace(pieces, grid=grid), Where(grid, left)
            options = {"runs": runs, "seed": seed}
            found = solved(of_pieces(len(turns)), grid, pieces, (len(left), grid.n), watch, **options)
            used = found.order[found.order >= 0]
            if len(used) < FEWEST:
                break
            if turned:
                found, grid = upright(in_quarters(found, turns), tiles[left], grid, any_way=True)
            pictures.append(Reassembled(_numbered(found, left, len(tiles)), grid))
            left = left[~torch.isin(torch.arange(len(left)), used)]
    return pictures


def _numbered(found: Solution, tiles: Int[Tensor, "some"], n: int) -> Solution:
    """A solution of some of n tiles, in the numbers of all."""
    soft, confidence = found.soft.new_zeros(n, found.soft.shape[1]), found.confidence.new_zeros(n)
    soft[tiles], confidence[tiles] = found.soft, found.confidence
    order = torch.where(found.order >= 0, tiles[found.order], -1)
    return dataclasses.replace(found, order=order, soft=soft, confidence=confidence, given=None)


def _nothing(tiles: Tensor, grid: Grid | None, turned: bool, watch: Watch) -> tuple[Solution, Grid]:
    """Stopped before anything was known: the tiles as they came, as far as there are cells."""
    known = grid or Grid(1, len(tiles))
    found = as_they_came(known, None, watch)
    order = torch.where(found.order < len(tiles), found.order, -1)
    state = torch.where(order < 0, -1, 0) if turned else None
    nothing = torch.zeros(len(tiles), known.n), torch.zeros(len(tiles))
    return dataclasses.replace(found, order=order, state=state, soft=nothing[0], confidence=nothing[1]), known
