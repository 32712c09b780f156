"""Cross-cut shreds: a page cut both ways, so that its pieces are a grid. Sides are compared as those of strips, across and down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from ...solve.grid.pieces import Pieces, Whole
from ...solve.grid.shape import find_shape
from ...solve.kinds import instead, method_for, of_pieces, solved
from ...solve.solution import Solution
from ...structure.layouts import Grid
from ...watch import Step, Stopped, Watch
from ..jigsaw import seam_costs
from .evidence import strip_cost
from .lines import pitch_cost
from .page import HOLE, filled
from .paper import Strip, find_paper
from .rough import StripCost
from .rows import rows_arranged

SEAM = 0.3
"""How much the seams of jigsaws count beside the columns of print, both in units of their spread. 0.1 to 0.3 are equal on four pages, and
1 is worse on those with noise."""

SHEET = 1.75  # at most: how much longer than wide, or wider than long, a sheet of paper is. 1.41 (A4), and cuts take some of the width

PITCH = 0.03
"""Degrees of freedom of a row, for what even lines say of shreds below each other: all shreds of a row of them say the same."""


def reassemble_shreds(
    shreds: list[Strip],
    grid: Grid | None,
    weights: StripCost | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> tuple[Solution, Grid]:
    """What stands in each cell of the grid, -1 where a shred is missing, and that grid, which is found where it is not given."""
    with Watch(time_limit, callback) as watch, torch.no_grad():
        watch(stage="compare the edges", done=0.0)
        cost = shred_costs(shreds, weights, watch)
        found: list[tuple[Solution, Grid]] = []
        for shape in [grid] if grid is not None else _shapes(shreds, cost, watch):
            if not (found and watch.stopped):
                found.append((_on_grid(shape, cost, watch, seed=seed, polish=polish), shape))
        return min(found, key=lambda one: _total(one[0].best_order.reshape(one[1].height, one[1].width), cost))


def _shapes(shreds: list[Strip], cost: tuple[Tensor, Tensor], watch: Watch) -> list[Grid]:
    """What a crystal of them fills, and the grids of exactly as many that a sheet of paper may have.

    Shreds are less sure of their neighbours than tiles of a photo, and a crystal may put parts of a page beside each other. What their sides
    cost are log likelihoods against chance, so that whole pages can be compared.
    """
    n, known = len(shreds), Whole(cost)
    found = find_shape(Pieces(known, Grid(1, n), reject=known.usual_price()), watch)[0].holding(n)
    width, height = (float(np.median(sizes)) for sizes in zip(*map(_size, shreds), strict=True))
    exact = [Grid(rows, n // rows) for rows in range(2, n // 2 + 1) if n % rows == 0]
    sheets = [g for g in exact if 1 / SHEET <= height * g.height / (width * g.width) <= SHEET]
    return [found, *(grid for grid in sheets if grid != found)]


def _size(shred: Strip) -> tuple[float, float]:
    """Width and height of its paper."""
    return float(np.median(shred.right - shred.left)) + 1, shred.bottom - shred.top


def _total(board: Int[Tensor, "height width"], cost: tuple[Tensor, Tensor]) -> float:
    """Of all sides that meet."""
    pairs = (board[:, :-1], board[:, 1:]), (board[:-1], board[1:])
    return sum(float(c[a, b][(a >= 0) & (b >= 0)].sum()) for c, (a, b) in zip(cost, pairs, strict=True))


def _on_grid(grid: Grid, cost: tuple[Tensor, Tensor], watch: Watch, **options: Any) -> Solution:
    n = len(cost[0])
    if n == grid.n:
        method, given, sizes = method_for(grid, cost, None)
    else:
        method, given, sizes = of_pieces(1), Pieces(Whole(cost), grid), (n, grid.n)
    found = solved(method, grid, given, sizes, watch, **options)
    return _rearranged(found, grid, cost) if n == grid.n else found


def _rearranged(found: Solution, grid: Grid, cost: tuple[Tensor, Tensor]) -> Solution:
    board = found.order.numpy().reshape(grid.height, grid.width)
    order = torch.from_numpy(rows_arranged(board, cost[0].numpy(), cost[1].numpy()).reshape(-1))
    return found if torch.equal(order, found.order) else instead(found, grid, cost, order)


def shred_costs(
    shreds: list[Strip], weights: StripCost | None = None, watch: Watch | None = None
) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]:
    """Of every pair: the second right of the first, and below it; by what has been compared when the watch says to stop."""
    weights, watch = weights or StripCost(), watch or Watch()

    def more(done: float) -> bool:
        return watch(stage="compare the edges", done=done)

    on_side = [(s.name, s.picture.transpose(Image.Transpose.TRANSPOSE)) for s in shreds]
    cut_out = not any(shred.background for shred in shreds)  # lines of print, on their side, would look like strips
    right = strip_cost(shreds, weights, more)
    below = strip_cost(find_paper(on_side, all_paper=cut_out), replace(weights, shifts=0), more)
    if cut_out:
        with suppress(Stopped):
            seams = seam_costs(_tiles(shreds), watch)
            right, below = _with(right, seams.right), _with(below, seams.below)
    return right, below + torch.from_numpy(pitch_cost(shreds, PITCH))


def _tiles(shreds: list[Strip]) -> Float[Tensor, "n height width 3"]:
    """As the tiles of a jigsaw; clean cuts differ by a pixel in size."""
    height, width = (min(sizes) for sizes in zip(*(s.picture.size[::-1] for s in shreds), strict=True))
    pictures = [np.asarray(s.picture.convert("RGB"), np.float32)[:height, :width] for s in shreds]
    return torch.from_numpy(np.stack(pictures))


def _with(cost: Float[Tensor, "n n"], seam: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """What columns of print say and what seams of pictures say, in units of how much each varies."""
    apart = ~torch.eye(len(cost), dtype=torch.bool)
    seam = seam.double()
    return cost + SEAM * seam * float(cost[apart].std() / seam[apart].std().clamp_min(1e-12))


def paste_shreds(shreds: list[Strip], order: list[int], grid: Grid) -> Image.Image:
    """The page: shreds in rows and columns, each in the middle of its cell, on white; grey where one is missing."""
    chosen = [None if k < 0 else shreds[k] for k in order]
    cut_out = [None if shred is None else _cut_out(shred) for shred in chosen]
    sizes = [picture.size for picture in cut_out if picture is not None]
    width, height = (round(float(np.median(side))) for side in zip(*sizes, strict=True))
    page = Image.new("RGB", (grid.width * width, grid.height * height), "white")
    for place, picture in enumerate(cut_out):
        row, column = divmod(place, grid.width)
        if picture is None:
            page.paste(HOLE, (column * width, row * height, (column + 1) * width, (row + 1) * height))
        else:
            x, y = column * width + (width - picture.width) // 2, row * height + (height - picture.height) // 2
            page.paste(picture.convert("RGB"), (x, y), picture.getchannel("A"))
    return page


def _cut_out(shred: Strip) -> Image.Image:
    """The paper of a shred, transparent around it."""
    picture = shred.picture.convert("RGBA")
    picture.putalpha(Image.fromarray((255 * filled(shred)).astype(np.uint8)).resize(picture.size))
    return picture.crop(picture.getchannel("A").getbbox())
