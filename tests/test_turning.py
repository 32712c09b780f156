"""Layouts whose tiles stand in states: segments that are turned as they are placed again, tiles that change places and states."""

import numpy as np
import pytest

from test_turned import mixed, texture
from unshuffle.solve.grid.exchange import reseated
from unshuffle.solve.grid.pieces import Pieces, Whole
from unshuffle.solve.grid.reassembly import Effort
from unshuffle.solve.grid.regrow import in_all_states, regrow
from unshuffle.solve.grid.seams import NO_MASK
from unshuffle.solve.grid.states import Settling, Standing
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float
from unshuffle.tasks.turned import turned_seams

GRID = Grid(4, 6)


def puzzle(size: tuple[int, int] = (12, 12)) -> tuple[Pieces, np.ndarray]:
    """Pieces of a picture, and the true piece of each cell."""
    tiles, truth, turns = mixed(texture(GRID.height * size[0], GRID.width * size[1]), GRID)
    seams, states = turned_seams(as_float(tiles)), 4 if size[0] == size[1] else 2
    cost = Whole((seams.right, seams.below), states, seams.border)
    pieces = Pieces(cost, GRID, apart=2 if states == 4 else 1)
    return pieces, truth * states + turns[truth] // (4 // states)


def turned(board: np.ndarray, states: int, steps: int) -> np.ndarray:
    """A layout (height x width) turned as a whole, so many states on."""
    return np.rot90(board // states * states + (board % states + steps) % states, steps * (4 // states))


@pytest.mark.parametrize(("size", "first"), [((12, 12), 0), ((12, 12), 2), ((10, 14), 0), ((10, 14), 1)])
def test_a_block_that_lies_upside_down_is_turned(size: tuple[int, int], first: int) -> None:
    pieces, truth = puzzle(size)
    s, tiles = pieces.states, truth.reshape(pieces.shape)
    board = np.hstack((tiles[:, :4], turned(tiles[:, 4:], s, s // 2)))
    label = np.zeros(GRID.n, np.int64)
    label[board[:, 4:] // s] = 1
    b = pieces.belief
    y, x, number = in_all_states(board.reshape(-1), label, pieces.shape, s, first)
    found = regrow(y, x, b.glue, b.bonds, number, NO_MASK, 0.1, s)
    whole = turned(tiles, s, s // 2) if first else tiles
    assert found.tolist() == whole.reshape(-1).tolist()


def test_a_segment_that_fits_the_frame_in_no_other_state_begins_as_it_is() -> None:
    pieces, truth = puzzle()
    label = np.zeros(GRID.n, np.int64)
    y, x, number = in_all_states(truth, label, pieces.shape, 4, 1)
    found = regrow(y, x, pieces.belief.glue, pieces.belief.bonds, number, NO_MASK, 0.1, 4)
    whole = truth.reshape(pieces.shape)
    assert found.tolist() in (whole.reshape(-1).tolist(), turned(whole, 4, 2).reshape(-1).tolist())


def test_a_picture_a_quarter_turn_off_its_frame_is_found() -> None:
    """All seams but few are right, and nothing that moves without turning is better."""
    pieces, truth = puzzle()
    tiles = truth.reshape(pieces.shape)
    board = np.hstack((turned(tiles[:, 1:5], 4, 1), tiles[:, [0, 5]])).reshape(-1)
    state = np.zeros(GRID.n, np.int64)
    state[board // 4] = board % 4
    search = Settling(Standing.of(board // 4, state, pieces), pieces, np.random.default_rng(0), Effort(most=3))
    while not search.done:
        search.advance()
    assert search.best.score == pytest.approx(pieces.belief.total(truth))


@pytest.mark.parametrize("seed", range(3))
def test_tiles_that_changed_places_and_states_change_back(seed: int) -> None:
    pieces, truth = puzzle()
    rng = np.random.default_rng(seed)
    board, cells = truth.copy(), np.array([1, 9, 17, 22])  # no two of them neighbours
    board[cells] = board[rng.permutation(cells)] // 4 * 4 + rng.integers(0, 4, cells.size)
    found = reseated(board, pieces.belief, 4, GRID.n, rng, leave=False)
    assert found.tolist() == truth.tolist()


def test_tiles_put_again_are_never_worse_and_nobody_is_there_twice() -> None:
    pieces, _ = puzzle()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        board = rng.permutation(GRID.n) * 4 + rng.integers(0, 4, GRID.n)
        board[rng.permutation(GRID.n)[:3]] = -1  # missing cells, and tiles beside the board
        found = reseated(board, pieces.belief, 4, GRID.n, rng, leave=True)
        placed = found[found >= 0] // 4
        assert len(set(placed.tolist())) == len(placed)
        assert pieces.belief.total(found) >= pieces.belief.total(board)
