"""Jigsaws whose tiles may be turned: seams of all tiles in all their states, and which way up the picture is.

Turns are counted in quarters, counter-clockwise, as `numpy.rot90` does. Tiles that are not square fit only as they are or upside
down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..operators.permutation import inverse
from ..solve.grid.pieces import Pieces
from ..solve.solution import Solution
from ..structure.layouts import Grid
from ..watch import Stopped, Watch
from .gaps import across, facing, gapped_cost, likely
from .jigsaw import Seams, extrapolation, gradients, join, logs_for_border, seam_cost

UPRIGHT = (1.6, 1.4, -0.5)
"""How much more light, blue and detail the upper half of a photo has, weighed: logistic regression on 47 photos (0.81 the
right way up), checked on ten classic puzzles (1.0), six large pictures (0.83) and 300 portraits (0.92)."""
WIDE = 1.0  # log odds of a picture that is wider than high, where the size is found and not given
ENOUGH = 600  # pixels of the shorter side tell which way up a picture is
AS_IT_CAME = 0.5  # of the tiles: if so many have the same turn, that one is up, whatever the picture looks like


def turns_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The quarter turns by which a tile of this shape (height, width) still fits."""
    return (0, 1, 2, 3) if shape[0] == shape[1] else (0, 2)


def turned_tiles(tiles: Float[Tensor, "n height width channels"], turns: Sequence[int]) -> Tensor:
    """All pieces, tile * states + state."""
    return torch.stack([tiles.rot90(k, (1, 2)) for k in turns], 1).flatten(0, 1)


def turned_seams(tiles: Float[Tensor, "n height width channels"], watch: Watch | None = None, gap: int = 0) -> Seams:
    """The costs of all pairs of pieces, tile * states + state. Half of them are others seen upside down; and of square tiles
    what is below is what is right, a quarter turn later."""
    turns = turns_of(tiles.shape[1:3])
    pieces = turned_tiles(tiles, turns)
    states, done, passes = len(turns), 0.0, (5 if gap else 2) * (1 if len(turns) == 4 else 2)

    def tell(share: float) -> None:
        nonlocal done
        if watch is not None and not watch(stage="compare the seams", done=done / passes):
            raise Stopped
        done += share

    def one_way(pieces: Float[Tensor, "pieces along across channels"]) -> tuple[Tensor, Tensor]:
        last, before_last, first, second = (pieces[:, :, k].contiguous() for k in (-1, -2, 0, 1))
        E = extrapolation(before_last, last, first, second, tell)
        turned = _after(len(tiles), states, states // 2)
        if gap:
            costs = [E, *(M + M[turned][:, turned].T for M in across(pieces, gap, tell))]
            logs = likely(costs, states)
            logs = torch.minimum(logs, logs[:, turned][:, :, turned].mT)
            Z = facing(pieces, logs, gap, tell)
            return gapped_cost((Z + Z[turned][:, turned].T) / 2, states), logs_for_border(E, costs[1], last[0])
        M = gradients(before_last, last, first, tell)
        return seam_cost(E, M + M[turned][:, turned].T, last[0], states)

    right, right_border = one_way(pieces)
    if states == 2:
        below, below_border = one_way(pieces.transpose(1, 2))
    else:
        turned = _after(len(tiles), states, 1)
        below, below_border = (matrix[turned][:, turned] for matrix in (right, right_border))
    return Seams(right, below, (right_border, below_border))


def _after(n: int, states: int, steps: int) -> Int[Tensor, "pieces"]:
    """The piece that every piece becomes when the whole picture goes so many states on."""
    tile, state = torch.arange(n * states) // states, torch.arange(n * states) % states
    return tile * states + (state + steps) % states


def in_quarters(found: Solution, turns: tuple[int, ...]) -> Solution:
    """The solution with quarter turns for states."""
    if found.state is None:
        return found
    state = torch.where(found.state < 0, -1, torch.tensor(turns)[found.state])
    given = dataclasses.replace(found.given, unit=turns[1]) if isinstance(found.given, Pieces) else None
    return dataclasses.replace(found, state=state, given=given)


def upright(
    found: Solution, tiles: Float[Tensor, "n height width channels"], grid: Grid, *, any_way: bool = False
) -> tuple[Solution, Grid]:
    """The same picture the likelier way up: as most tiles came, if they came alike; else with light, blue and plain above.

    ``any_way``: a grid that is not square may be turned by a quarter too, and is given back as it then is.
    """
    state = found.state
    if state is None:
        return found, grid
    square = tiles.shape[1] == tiles.shape[2] and (any_way or grid.height == grid.width)
    step = max(1, min(grid.height * tiles.shape[1], grid.width * tiles.shape[2]) // ENOUGH)
    picture = join(tiles[:, ::step, ::step].numpy(), found.best_order, grid, found.best_state)

    def likely(turn: int) -> float:
        came = float(((state[state >= 0] + turn) % 4 == 0).float().mean())
        wide = WIDE * ((grid.width > grid.height) == (turn % 2 == 0)) * any_way
        return (1e3 * came if came > AS_IT_CAME else 0.0) + wide + _light_from_above(np.rot90(picture, turn))

    turn = max(range(4) if square else (0, 2), key=likely)
    return whole_turned(found, grid, turn), Grid(grid.width, grid.height) if turn % 2 else grid


def _light_from_above(picture: Float[np.ndarray, "height width channels"]) -> float:
    colour = np.asarray(picture, np.float64)
    colour = colour[..., :3] if colour.shape[2] >= 3 else colour[..., :1]
    light, up = colour.mean(2), np.linspace(1, -1, len(colour))
    blue = (colour[..., 2] - colour[..., :2].mean(2)).mean(1) if colour.shape[2] == 3 else np.zeros(len(colour))
    detail = np.log(np.abs(np.diff(light, axis=1)).mean(1) + 0.5)
    parts = (light.mean(1) / (light.std() + 1), blue / 20, detail)
    return sum(weight * float((part * up).mean()) for weight, part in zip(UPRIGHT, parts, strict=True))


@dataclasses.dataclass(frozen=True)
class TurnedScores:
    """How much of a picture is right, by the whole turn of it that makes most of it right."""

    direct: float
    neighbour: float
    turn: int
    """Quarter turns that the whole picture still lacks."""


def turned_scores(
    found: Solution, truth: Int[Tensor, "n"], turns: Int[Tensor, "n"], grid: Grid, square: bool
) -> TurnedScores:
    """Against the tile that belongs in each cell and the quarter turns that each *tile* needs: a tile that is turned wrongly is wrong,
    and so are its seams."""
    place = inverse(truth)
    right, below = grid.relations()

    def one(turn: int) -> TurnedScores:
        turned = whole_turned(found, grid, turn)
        order, state = turned.best_order, turned.best_state
        stands = place[order].masked_fill(
            state != turns[order], -grid.n * grid.width
        )  # where the tile of each cell belongs
        row, column = stands // grid.width, stands % grid.width
        beside = (column[right[:, 1]] - column[right[:, 0]] == 1) & (row[right[:, 0]] == row[right[:, 1]])
        under = (row[below[:, 1]] - row[below[:, 0]] == 1) & (column[below[:, 0]] == column[below[:, 1]])
        known = torch.cat((row[right].amin(1), row[below].amin(1))) >= 0
        neighbour = float((torch.cat((beside, under)) & known).float().mean()) if grid.n > 1 else 1.0
        return TurnedScores(float((stands == torch.arange(grid.n)).float().mean()), neighbour, turn)

    choices = range(4) if square and grid.height == grid.width else (0, 2)
    return max(map(one, choices), key=lambda scores: (scores.neighbour, scores.direct))


def whole_turned(found: Solution, grid: Grid, turn: int) -> Solution:
    """The whole picture by so many quarter turns; by an odd number the grid, too, is turned."""
    cells = torch.arange(grid.n).reshape(grid.height, grid.width).rot90(turn).reshape(-1)
    after = Grid(grid.width, grid.height) if turn % 2 else grid
    given = dataclasses.replace(found.given, grid=after) if isinstance(found.given, Pieces) else None
    changes: dict[str, Any] = {"order": found.order[cells], "soft": found.soft[:, cells], "given": given}
    if turn % 2:
        changes["layout"] = after
    if found.state is not None:
        changes["state"] = torch.where(found.order[cells] < 0, -1, (found.state[cells] + turn) % 4)
    if found.polished is not None:
        changes["polished"] = found.polished._replace(order=found.polished.order[cells])
    return dataclasses.replace(found, **changes)
