"""Tiles in states: the costs of pieces, crystals with states, empty cells and tiles left out, turned puzzles as a user has them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.solve.grid.affinity import Affinities
from unshuffle.solve.grid.crystal import Room, Rows, balance, shares
from unshuffle.solve.solution import Polished, Solution
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float, cut, join, seam_costs
from unshuffle.tasks.piles import reassemble_pile
from unshuffle.tasks.turned import turned_scores, turned_seams, upright, whole_turned


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth random colours with a little grain: every seam can be told from every other."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    total = np.zeros((height, width, 3))
    for _ in range(25):
        fy, fx = rng.normal(0, 25, 2)
        total += rng.normal(0, 1, 3) * np.cos(fy * y + fx * x + rng.uniform(0, 7))[..., None]
    return np.clip(127 + 28 * total + rng.normal(size=total.shape), 0, 255).astype(np.uint8)


def mixed(picture: np.ndarray, grid: Grid, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tiles in random order and turned at random; the tile of each cell; the quarter turns that each tile needs."""
    tiles, _ = cut(picture, grid)
    rng = np.random.default_rng(seed)
    order = rng.permutation(grid.n)
    turns = rng.choice((0, 1, 2, 3) if tiles.shape[1] == tiles.shape[2] else (0, 2), grid.n)
    return np.stack([np.rot90(tiles[k], -t) for k, t in zip(order, turns, strict=True)]), np.argsort(order), turns


def solution(order: list[int], state: list[int] | None = None, polished: Polished | None = None) -> Solution:
    n = len(order)
    return Solution(
        order=torch.tensor(order),
        state=None if state is None else torch.tensor(state),
        energy=0.0,
        soft=torch.eye(n),
        confidence=torch.ones(n),
        energies=torch.zeros(1),
        polished=polished,
    )


@pytest.mark.parametrize(("height", "width"), [(6, 6), (6, 8)])
def test_the_costs_of_pieces_are_those_of_the_turned_tiles(height: int, width: int) -> None:
    tiles = as_float(cut(texture(2 * height, 2 * width), Grid(2, 2))[0])
    turns = (0, 1, 2, 3) if height == width else (0, 2)
    pieces = torch.stack([torch.rot90(tile, k) for tile in tiles for k in turns])
    own = torch.arange(len(pieces))[:, None] // len(turns) == torch.arange(len(pieces)) // len(turns)
    found, whole = turned_seams(tiles), seam_costs(pieces)
    for ours, theirs in ((found.right, whole.right), (found.below, whole.below)):
        ratio = (ours / theirs)[~own]  # the two are scaled by the medians of different pairs
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-4, atol=0)
        assert (ours[own] == ours.max()).all()
    for ours, theirs in zip(found.border, whole.border, strict=True):
        torch.testing.assert_close(ours[~own], theirs[~own], rtol=1e-4, atol=1e-4)


def padded(K: np.ndarray, room: Room, drawn: float, sweeps: int) -> np.ndarray:
    """Sinkhorn of the square problem: tiles and blank tiles against seats and places beside the board."""
    n, cells = len(K), room.h * room.w
    whole = np.ones((n + room.blank, cells + room.outside))
    whole[:n, :cells] = K.reshape(n, cells, room.states).sum(2)
    whole[:n, cells:] = drawn
    v = np.ones(whole.shape[1])
    for _ in range(sweeps):
        u = 1 / (whole @ v)
        v = 1 / (u @ whole)
    u = 1 / (whole @ v)
    return (K.reshape(n, cells, room.states) * u[:n, None, None] * v[:cells, None]).reshape(n, -1)


@pytest.mark.parametrize(
    "room", [Room(2, 3), Room(2, 3, 4), Room(2, 3, 4, blank=2), Room(2, 3, 2, 0, 3, 0.5), Room(2, 3, 2, 6, 5, 0.5)]
)
def test_a_sweep_in_lists_is_sinkhorn_of_the_padded_problem(room: Room) -> None:
    rng = np.random.default_rng(0)
    cells = room.h * room.w
    n, seats = cells - room.blank + room.outside, cells * room.states
    excess, base = rng.exponential(size=(n, seats)) * (rng.random((n, seats)) < 0.5), rng.uniform(0.2, 1, n)
    entries = [np.flatnonzero(row) for row in excess]
    first = np.concatenate(([0], np.cumsum([len(e) for e in entries])))
    rows = Rows(
        first,
        np.concatenate(entries).astype(np.int32),
        np.concatenate([r[e] for r, e in zip(excess, entries, strict=False)]),
    )
    v, beside, drawn = np.ones(cells), np.ones(1), float(np.exp(room.pull))
    balance(rows, base, v, beside, room, drawn, 4)
    new = Rows(np.empty(n + 1, np.int64), np.empty(first[-1], np.int32), np.empty(first[-1], np.float32))
    kept, _, _ = shares(rows, base, v, beside, room, drawn, new)
    reference = padded((excess + base[:, None]) / base[:, None], room, drawn, 4)
    row = np.repeat(np.arange(n), np.diff(new.first))
    np.testing.assert_allclose(new.value[:kept], reference[row, new.seat[:kept]], rtol=1e-5)
    assert kept == (reference[excess > 0] >= 2e-3).sum()


@pytest.mark.parametrize(("rows", "columns", "size"), [(4, 4, (12, 12)), (3, 5, (12, 12)), (4, 3, (10, 14))])
def test_turned_puzzles_are_put_together(rows: int, columns: int, size: tuple[int, int]) -> None:
    grid = Grid(rows, columns)
    picture = texture(rows * size[0], columns * size[1], seed=rows)
    tiles, truth, turns = mixed(picture, grid)
    found, shape = reassemble_pile(as_float(tiles), grid, turned=True)
    assert shape == grid
    assert found.state is not None
    ours = join(tiles, found.order, grid, found.state)
    assert any(np.array_equal(np.rot90(ours, k), picture) for k in range(4))
    scores = turned_scores(found, torch.from_numpy(truth), torch.from_numpy(turns), grid, size[0] == size[1])
    assert scores.direct == scores.neighbour == 1
    assert np.array_equal(np.rot90(ours, scores.turn), picture)
    others = found.alternatives(3)
    assert found.energy < others[0].energy < others[2].energy
    boards = torch.stack([found.order, *(other.order for other in others)])
    quarters = torch.stack([found.state, *(s for o in others if (s := found.states_in(o.order)) is not None)])
    pieces = (boards * found.given.states + quarters // found.given.unit).numpy()
    energies = [found.energy, *(other.energy for other in others)]
    np.testing.assert_allclose(found.given.energies(pieces), energies, rtol=1e-5)
    for turn in (1, 2) if size[0] == size[1] else (2,):
        again = whole_turned(found, grid, turn).alternatives(3)
        np.testing.assert_allclose([other.energy for other in again], energies[1:], rtol=1e-5)


def test_scores_of_turned_pictures_know_turns_from_places() -> None:
    grid, order = Grid(2, 2), [0, 1, 2, 3]
    truth, upright_ = torch.arange(4), torch.zeros(4, dtype=torch.int64)
    one_turned = turned_scores(solution(order, [0, 1, 0, 0]), truth, upright_, grid, True)
    assert (one_turned.direct, one_turned.neighbour, one_turned.turn) == (0.75, 0.5, 0)
    whole = turned_scores(whole_turned(solution(order, [0] * 4), grid, 1), truth, upright_, grid, True)
    assert (whole.direct, whole.neighbour, whole.turn) == (1, 1, 3)


def test_a_whole_turn_of_the_solution_turns_the_picture() -> None:
    grid, tiles = Grid(3, 3), cut(texture(24, 24), Grid(3, 3))[0]
    found = solution([3, 1, 2, 0, 4, 8, 6, 7, 5], [0, 1, 2, 3, 0, 1, 2, 3, 0])
    before = join(tiles, found.order, grid, found.state)
    for turn in range(4):
        turned = whole_turned(found, grid, turn)
        assert np.array_equal(join(tiles, turned.order, grid, turned.state), np.rot90(before, turn))
        assert torch.equal(turned.soft, found.soft[:, torch.arange(9).reshape(3, 3).rot90(turn).reshape(-1)])


def test_light_is_above_unless_most_tiles_say_otherwise() -> None:
    grid = Grid(2, 2)
    sky = np.repeat(np.linspace(250, 5, 16).astype(np.uint8)[:, None, None], 16, 1).repeat(3, 2)
    tiles = as_float(cut(np.rot90(sky, 2), grid)[0])
    up, _ = upright(solution([0, 1, 2, 3], [1, 0, 0, 1]), tiles, grid)  # half of them are not most of them
    assert (
        join(tiles.numpy(), up.order, grid, up.state)[0].mean()
        > join(tiles.numpy(), up.order, grid, up.state)[-1].mean()
    )
    as_it_came, _ = upright(solution([0, 1, 2, 3], [0, 0, 0, 0]), tiles, grid)
    assert as_it_came.state is not None
    assert not as_it_came.state.any()


def test_states_of_the_users_own_costs() -> None:
    """Twelve items, two states each; seams are cheap between neighbours of a hidden layout in hidden states only."""
    rng, grid = np.random.default_rng(3), Grid(3, 4)
    order, state = torch.from_numpy(rng.permutation(12)), torch.from_numpy(rng.integers(0, 2, 12))
    costs = [torch.from_numpy(rng.uniform(1, 2, (12, 2, 12, 2))) for _ in range(2)]
    for cost, pairs in zip(costs, grid.relations(), strict=True):
        a, b = order[pairs[:, 0]], order[pairs[:, 1]]
        cost[a, state[a], b, state[b]] = 0.1
    found = us.solve(grid, cost=costs)
    assert torch.equal(found.order, order)
    assert found.state is not None
    assert torch.equal(found.state, state[order])
    assert found.energy == pytest.approx(1.7)
    polished = us.solve(grid, cost=costs, polish=True)
    assert polished.best_state is not None
    assert torch.equal(polished.best_state, state[order])


def test_best_state_follows_the_items_that_polish_moves() -> None:
    moved = solution([2, 0, -1, 1], [3, 1, -1, 2], Polished(torch.tensor([0, -1, 1, 2]), 0.0))
    assert moved.best_state is not None
    assert moved.best_state.tolist() == [1, -1, 2, 3]


@pytest.mark.parametrize(
    ("layout", "shape", "says"),
    [
        (us.Path(3), (3, 3, 3, 3), "Items of a Path have no states"),
        (us.Path(3), (3, 2, 3, 2), "takes one cost"),
        (us.Grid(2, 2), (0, 2, 0, 2), "items, states, items, states"),
        (us.Grid(2, 2), (4, 2, 4, 3), "items, states, items, states"),
    ],
)
def test_costs_that_do_not_fit_are_refused(layout: us.Path | us.Grid, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        us.solve(layout, cost=[torch.ones(shape)] * (2 if isinstance(layout, us.Grid) else 1))


def test_masks_are_refused_with_states() -> None:
    with pytest.raises(BadInput, match="neither allowed= nor init="):
        us.solve(us.Grid(2, 2), cost=[torch.ones(4, 2, 4, 2)] * 2, allowed=torch.eye(4, dtype=torch.bool))


def test_the_command_turns_a_folder_of_tiles(tmp_path: Path) -> None:
    grid = Grid(3, 4)
    picture = texture(36, 48, seed=5)
    tiles, _, _ = mixed(picture, grid)
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(tiles):
        Image.fromarray(tile).save(tmp_path / "tiles" / f"{k}.png")
    arguments = ["jigsaw", str(tmp_path / "tiles"), "--grid", "4x3", "--turned", "--json", "--out", str(tmp_path / "o")]
    arguments += ["--alternatives", "2"]
    result = CliRunner().invoke(build("jigsaw"), arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    turned = np.stack([np.rot90(tiles[k], t) for k, t in zip(told["order"], told["turns"], strict=True)])
    ours = join(turned, torch.arange(12), grid)
    assert np.array_equal(ours, np.asarray(Image.open(tmp_path / "o" / "reassembled.png")))
    assert np.array_equal(ours, picture) or np.array_equal(np.rot90(ours, 2), picture)
    assert (tmp_path / "o" / "order.csv").read_text().splitlines()[0].endswith("turns")
    turn = dict(zip(told["order"], told["turns"], strict=True))
    assert len(told["alternatives"]) == 2
    for other in told["alternatives"]:
        assert other["energy"] > told["energy"]
        assert other["turns"] == [turn[tile] for tile in other["order"]]


@pytest.mark.parametrize("missing", [0, 3])
def test_a_stopped_puzzle_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    """Who presses Ctrl-C waits for what follows from the costs of the pieces and of the tiles as they stand, each computed once."""
    computed = []
    of = Affinities.of.__func__
    monkeypatch.setattr(Affinities, "of", classmethod(lambda cls, *a, **k: computed.append(1) or of(cls, *a, **k)))
    tiles, _, _ = mixed(texture(72, 96), Grid(6, 8))
    options = {"turned": True, "callback": lambda step: step.stage != "anneal"}
    found, _ = reassemble_pile(as_float(tiles[missing:]), Grid(6, 8), **options)
    assert found.status == "interrupted"
    assert len(computed) == 2
    used = found.order[found.order >= 0]
    assert sorted(used.tolist()) == list(range(48 - missing))
