"""Piles of tiles: some missing, some of other pictures, the size not known; empty cells and items left out in `solve`."""

from __future__ import annotations

import dataclasses
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unshuffle as us
from test_turned import texture
from unshuffle.cli.common import build
from unshuffle.cli.jigsaw import lines
from unshuffle.errors import BadInput
from unshuffle.solve.grid.exchange import contacts, exchanged, seam_totals
from unshuffle.solve.grid.pieces import Pieces, Whole, usual_price
from unshuffle.solve.grid.shape import Outline, _exactly, _opened
from unshuffle.structure.layouts import Grid
from unshuffle.tasks import piles
from unshuffle.tasks.jigsaw import as_float, cut, join
from unshuffle.tasks.piles import _held_together, reassemble_pile

DATA = Path(str(files("unshuffle") / "data"))


def pile(grid: Grid, missing: tuple[int, ...], foreign: int, turned: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of a texture without those of some cells, with some of another; the cell of each, -1 if it is foreign."""
    whole, other = (cut(texture(14 * grid.height, 14 * grid.width, seed), grid)[0] for seed in (1, 2))
    cells = np.setdiff1d(np.arange(grid.n), missing)
    tiles, place = np.concatenate((whole[cells], other[7::9][:foreign])), np.concatenate((cells, np.full(foreign, -1)))
    rng = np.random.default_rng(0)
    mixed = rng.permutation(len(tiles))
    turns = rng.integers(0, 4, len(tiles)) * turned
    return np.stack([np.rot90(tiles[k], t) for k, t in zip(mixed, turns, strict=True)]), place[mixed]


def expected(place: np.ndarray, grid: Grid) -> list[int]:
    order = np.full(grid.n, -1)
    order[place[place >= 0]] = np.flatnonzero(place >= 0)
    return order.tolist()


@pytest.mark.parametrize(("foreign", "known"), [(0, True), (0, False), (3, True), (3, False)])
def test_missing_tiles_leave_holes_and_foreign_ones_are_left_out(foreign: int, known: bool) -> None:
    grid = Grid(5, 6)
    tiles, place = pile(grid, (8, 21, 29), foreign)
    found, shape = reassemble_pile(as_float(tiles), grid if known else None, foreign=foreign > 0)
    assert shape == grid
    assert found.order.tolist() == expected(place, grid)
    assert found.soft.shape == (len(tiles), grid.n)
    assert found.confidence.shape == (len(tiles),)


@pytest.mark.parametrize("known", [True, False])
def test_two_tiles_that_are_surest_of_each_other_are_no_picture(known: bool) -> None:
    grid = Grid(6, 7)
    tiles, place = pile(grid, (8, 21, 29), 0)
    alike = np.full((2, 14, 14, 3), 250, np.uint8)
    alike[:, 5:9, 5:9] = 3
    found, shape = reassemble_pile(as_float(np.concatenate((tiles, alike))), grid if known else None, foreign=True)
    assert shape == grid
    assert found.order.tolist() == expected(np.r_[place, -1, -1], grid)


def test_more_tiles_than_cells_leave_out_the_worst() -> None:
    grid = Grid(4, 5)
    tiles, place = pile(grid, (), 4)
    found, _ = reassemble_pile(as_float(tiles), grid, polish=True)
    assert found.order.tolist() == found.best_order.tolist() == expected(place, grid)


def test_turned_incomplete_and_of_unknown_size() -> None:
    grid = Grid(4, 6)
    tiles, place = pile(grid, (9,), 2, turned=True)
    found, shape = reassemble_pile(as_float(tiles), None, turned=True, foreign=True)
    assert found.state is not None
    picture = join(tiles, found.order, shape, found.state)
    truth = join(cut(texture(56, 84, 1), grid)[0], torch.where(torch.arange(24) == 9, -1, torch.arange(24)), grid)
    assert any(np.array_equal(np.rot90(picture, k), truth) for k in range(4))
    assert sorted(found.order[found.order >= 0].tolist()) == np.flatnonzero(place >= 0).tolist()
    assert (found.state[found.order < 0] == -1).all()


def test_solve_leaves_out_what_fits_worse_than_the_price() -> None:
    """Of 14 items 10 belong into 12 positions. The energy is that of the seams made, of 4 items left out and 2 empty positions."""
    rng, grid = np.random.default_rng(1), Grid(3, 4)
    right, below = (torch.from_numpy(rng.uniform(1, 2, (14, 14))) for _ in range(2))
    truth = torch.from_numpy(rng.permutation(14)[:12])
    for cost, pairs in zip((right, below), grid.relations(), strict=True):
        cost[truth[pairs[:, 0]], truth[pairs[:, 1]]] = 0.1
    for gone in truth[[3, 6]]:
        for cost in (right, below):
            cost[gone], cost[:, gone] = 3.0, 3.0
    found = us.solve(grid, cost=(right, below), reject=0.8)
    wanted = truth.clone()
    wanted[[3, 6]] = -1
    assert found.order.tolist() == wanted.tolist()
    made = [(wanted[a] >= 0) & (wanted[b] >= 0) for a, b in (pairs.T for pairs in grid.relations())]
    assert found.energy == pytest.approx(0.1 * int(sum(m.sum() for m in made)) + 0.8 * (4 + 2))


def test_the_usual_price_is_a_fifth_of_the_way_from_the_best_to_any() -> None:
    cost = torch.full((9, 9), 1.1)
    cost[torch.arange(9), (torch.arange(9) + 1) % 9] = 0.1
    assert usual_price((cost, cost)) == pytest.approx(0.3)
    pieces = cost.repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert usual_price((pieces, pieces), states=2) == pytest.approx(0.3)
    cost.fill_diagonal_(0.0)  # nobody is its own neighbour
    assert usual_price((cost, cost)) == pytest.approx(0.3)


def test_the_worth_of_places_is_the_sum_over_seams() -> None:
    grid = Grid(3, 3)
    pieces = Pieces(Whole((torch.rand(16, 16).double(), torch.rand(16, 16).double()), 2), grid, reject=0.5)
    b, board = pieces.belief, np.array([0, 3, -1, 5, 6, 9, -1, 10, -1])
    right, below = b.score
    total = 0.0
    for y in range(3):
        for x in range(3):
            here, beside = board[3 * y + x], board[3 * y + x + 1] if x < 2 else -1
            under = board[3 * y + 3 + x] if y < 2 else -1
            total += right[here, beside] if here >= 0 and beside >= 0 else 0.0
            total += below[here, under] if here >= 0 and under >= 0 else 0.0
    assert b.total(board) == pytest.approx(total, rel=1e-5)
    local = pieces.local(np.where(board >= 0, board // 2, -1), np.array([0, 1, 1, 0, 1, 0, 0, 0]))
    assert local.tile[local.order].tolist() == [0, 1, -1, 2, 3, 4, -1, 5, -1]
    sums = seam_totals(board, b)
    for cell in np.flatnonzero(board >= 0):
        without = board.copy()
        without[cell] = -1
        made = b.total(board) - b.total(without)
        assert sums[cell] == pytest.approx(made, abs=1e-5)
        assert contacts(without, b.shape, b.score, board[[cell]], np.array([cell]))[0, 0] == pytest.approx(
            made, abs=1e-5
        )
    better = exchanged(board, b, 2, 8, leave=True)
    assert b.total(better) >= b.total(board)
    used = better[better >= 0] // 2
    assert len(np.unique(used)) == len(used)


def board_of(filled: np.ndarray) -> np.ndarray:
    return np.where(filled, 0, -1)


def test_the_size_of_what_is_filled() -> None:
    filled = np.zeros((9, 9), bool)
    filled[7:9, 1:6] = filled[0:2, 1:6] = True  # four rows, over the edge of the torus
    filled[8, 3] = False
    filled[2, 2] = filled[7, 7] = True  # and two that do not belong
    assert Outline(_opened(board_of(filled)), filled).grid == Grid(4, 5)
    assert _exactly(20, 4, 4) == Grid(4, 5)
    assert _exactly(23, 4, 5) is None


def test_a_rectangle_is_made_longer_where_it_has_no_border() -> None:
    """A plain sky above has stayed away, in an uneven line; one tile in ten is missing."""
    filled = np.zeros((41, 41), bool)
    filled[10:26, 5:29] = np.arange(16 * 24).reshape(16, 24) % 10 > 0
    for column in range(5, 29):
        filled[10 : 10 + column // 4, column] = False
    outline = Outline(board_of(filled), filled)
    assert outline.grid.width == 24
    assert outline.holding(389) == Grid(18, 24)
    assert Outline(board_of(filled.T), filled).holding(389) == Grid(24, 18)
    assert outline.holding(200) == outline.grid
    filled[10:26, 5:29] = True  # nothing is missing: exactly as many
    assert Outline(board_of(filled), filled).holding(24 * 21) == Grid(21, 24)


@pytest.mark.parametrize(("between", "large"), [([0.9, 0.2, 0.9], 1000), ([0.2, 0.2, 0.9], 17)])
def test_pictures_that_grew_together_are_told_apart_by_dear_seams(between, large, monkeypatch) -> None:
    """Some of the seams between them look well by chance, on large boards even two that close a loop. Two pictures of 3x3 tiles side by side, of one of which a tile is missing."""
    grid = Grid(3, 6)
    order = torch.arange(18).reshape(3, 6)
    right, below = torch.full((18, 18), 0.1), torch.full((18, 18), 0.1)
    right[order[:, 2], order[:, 3]] = torch.tensor(between)
    order[1, 1] = -1
    monkeypatch.setattr(piles, "LARGE", large)
    parts = _held_together(order.numpy(), Pieces(Whole((right, below)), grid), price=0.5)
    assert [sorted(part.tolist()) for part in parts] == [[3, 4, 5, 9, 10, 11, 15, 16, 17], [0, 1, 2, 6, 8, 12, 13, 14]]
    assert len(_held_together(order.numpy(), Pieces(Whole((right, below)), grid), price=1.0)) == 1


def test_a_belief_is_taken_over_only_from_the_same_pieces_at_the_same_price() -> None:
    cost = torch.rand(24, 24), torch.rand(24, 24)
    known = Pieces(Whole(cost, 2), Grid(5, 5), reject=0.5)
    fresh, taken = (dataclasses.replace(known, grid=Grid(3, 4)) for _ in range(2))
    assert taken.like(known).belief.right is known.belief.right
    assert np.array_equal(taken.belief.below, fresh.belief.below)
    assert taken.belief.shape == (3, 4)
    for other in ({"reject": 0.4}, {"grid": Grid(1, 12)}, {"cost": Whole((cost[1], cost[0]), 2)}):
        assert dataclasses.replace(fresh, **other).like(known).belief.right is not known.belief.right


def test_fewer_and_more_items_than_positions_without_a_price() -> None:
    """False: as many are left out or stay empty as there must be."""
    grid = Grid(3, 4)
    right, below = (torch.full((12, 12), 1.0) for _ in range(2))
    for cost, pairs in zip((right, below), grid.relations(), strict=True):
        cost[pairs[:, 0], pairs[:, 1]] = 0.1
    fewer = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11])
    found = us.solve(grid, cost=(right[fewer][:, fewer], below[fewer][:, fewer]), reject=False)
    assert found.order.tolist() == [0, 1, 2, 3, 4, -1, 5, 6, 7, 8, 9, 10]
    more = (
        torch.nn.functional.pad(right, (0, 2, 0, 2), value=1.5),
        torch.nn.functional.pad(below, (0, 2, 0, 2), value=1.5),
    )
    assert us.solve(grid, cost=more, reject=False).order.tolist() == list(range(12))


def test_prices_and_costs_that_do_not_fit_are_refused() -> None:
    both = torch.rand(6, 6), torch.rand(6, 6)
    with pytest.raises(BadInput, match="give reject="):
        us.solve(us.Grid(2, 2), cost=both)
    with pytest.raises(BadInput, match="which are not the same"):
        us.solve(us.Grid(2, 2), cost=torch.rand(6, 4, 6, 4), reject=True)
    with pytest.raises(BadInput, match="reject"):
        us.solve(us.Grid(2, 2), cost=both, reject=float("nan"))
    with pytest.raises(BadInput, match="different items"):
        us.solve(us.Grid(2, 2), cost=(both[0], torch.rand(5, 5)), reject=True)


def test_the_command_draws_holes_and_what_is_left_out(tmp_path: Path) -> None:
    grid = Grid(4, 5)
    tiles, place = pile(grid, (7,), 2)
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(tiles):
        Image.fromarray(tile).save(tmp_path / "tiles" / f"{k}.png")
    arguments = ["jigsaw", str(tmp_path / "tiles"), "--foreign", "--json", "--out", str(tmp_path / "o")]
    result = CliRunner().invoke(build("jigsaw"), arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["grid"] == "5x4"
    assert told["order"] == expected(place, grid)
    assert told["left_out"] == np.flatnonzero(place < 0).tolist()
    hole = np.asarray(Image.open(tmp_path / "o" / "reassembled.png"))[14:28, 28:42]
    assert (hole == 127).all()
    assert np.asarray(Image.open(tmp_path / "o" / "left-out.png")).shape == (14, 28, 3)
    lines = (tmp_path / "o" / "order.csv").read_text().splitlines()
    assert len(lines) == 1 + 20 + 2
    assert lines[8] == "2,3,,,"
    assert lines[-1].startswith(",,")


@pytest.mark.parametrize("said", [True, False])
def test_several_pictures_in_one_pile(said: bool, tmp_path: Path) -> None:
    """Whether somebody says so or not."""
    grids = Grid(4, 5), Grid(5, 4)
    photos = [
        np.asarray(Image.open(DATA / name).convert("RGB")) for name in ("coffee.jpg", "french-alpine-landscape.jpg")
    ]
    wholes = [photo[: 50 * g.height, : 50 * g.width] for photo, g in zip(photos, grids, strict=True)]
    tiles = np.concatenate([cut(whole, grid)[0] for whole, grid in zip(wholes, grids, strict=True)])
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(np.random.default_rng(0).permutation(tiles)):
        Image.fromarray(tile).save(tmp_path / "tiles" / f"{k}.png")
    arguments = ["jigsaw", str(tmp_path / "tiles"), "--json", "--out", str(tmp_path / "o"), *["--several"] * said]
    arguments += ["--alternatives", "2"]
    result = CliRunner().invoke(build("jigsaw"), arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert sorted(picture["grid"] for picture in told["pictures"]) == ["4x5", "5x4"]
    assert told["left_out"] == []
    for k in (1, 2):
        ours = np.asarray(Image.open(tmp_path / "o" / f"picture-{k}.png"))
        assert any(np.array_equal(ours, whole) for whole in wholes)
    assert len((tmp_path / "o" / "order.csv").read_text().splitlines()) == 1 + 40
    for picture in told["pictures"]:
        first, second = picture["alternatives"]
        assert first["energy"] <= second["energy"]
        assert sorted(first["order"]) == sorted(second["order"]) == sorted(picture["order"])
        assert picture["order"] != first["order"] != second["order"]
        sets = picture["sets"]
        assert sets["items"] == sorted(picture["order"])
        assert len(sets["places"]) == len(sets["partners"]) == len(sets["items"])
        for tile, places, partners in zip(sets["items"], sets["places"], sets["partners"], strict=True):
            assert picture["order"].index(tile) in places
            assert set(partners) <= set(picture["order"]) - {tile}
            assert len(places) < 5, "not wherever there is room"


@pytest.mark.parametrize("asked", [["--grid", "6x5", "--polish"], ["--alternatives", "1"], ["--several"]])
def test_oblong_tiles_of_which_some_lie_on_their_side(asked: list[str], tmp_path: Path) -> None:
    """The turns are those of the tiles as they came; with a grid, whichever shape most of them have."""
    photo = Image.open(DATA / "coffee.jpg").convert("RGB").resize((6 * 40, 5 * 28))
    tiles, rng = cut(np.asarray(photo), Grid(5, 6))[0], np.random.default_rng(1)
    (tmp_path / "tiles").mkdir()
    came = [np.rot90(tile, turn) for tile, turn in zip(rng.permutation(tiles), rng.integers(4, size=30), strict=True)]
    assert sum(tile.shape[0] == 40 for tile in came) > 15, "most lie on their side"
    for k, tile in enumerate(came):
        Image.fromarray(np.ascontiguousarray(tile)).save(tmp_path / "tiles" / f"{k}.png")
    refused = CliRunner().invoke(build("jigsaw"), ["jigsaw", str(tmp_path / "tiles")])
    assert refused.exit_code == 2
    assert "--turned" in refused.output
    arguments = ["jigsaw", str(tmp_path / "tiles"), "--turned", "--json", "--out", str(tmp_path / "o"), *asked]
    result = CliRunner().invoke(build("jigsaw"), arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    if "--several" in asked:
        told, file = told["pictures"][0], "picture-1.png"
    else:
        file = "reassembled.png"
    assert told["grid"] == ("6x5" if "--grid" in asked else "5x6")
    drawn = np.asarray(Image.open(tmp_path / "o" / file))
    assert any(np.array_equal(np.rot90(drawn, turn), np.asarray(photo)) for turn in range(4))

    def put_together(order: list[int], turns: list[int]) -> np.ndarray:
        stand = [np.rot90(came[tile], turn) for tile, turn in zip(order, turns, strict=True)]
        across = int(told["grid"].split("x")[0])
        return np.concatenate([np.concatenate(stand[k : k + across], 1) for k in range(0, 30, across)], 0)

    assert np.array_equal(put_together(told["order"], told["turns"]), drawn)
    for other in told.get("alternatives", ()):
        assert put_together(other["order"], other["turns"]).shape == drawn.shape
    if "polished" in told:
        assert np.array_equal(put_together(told["polished"]["order"], told["polished"]["turns"]), drawn)
    lines = (tmp_path / "o" / "order.csv").read_text().splitlines()[1:]
    of_tile = dict(zip(told["order"], told["turns"], strict=True))
    for line in lines:
        cells = line.split(",")[-4:]
        assert of_tile[int(cells[0]) - 1] == int(cells[-1])


def test_tiles_that_are_left_out_are_not_placed_surely(tmp_path: Path) -> None:
    result = {
        "confidence": [1.0, 1.0, 0.95, 0.2],
        "left_out": [0, 1],
        "unchanged": False,
        "energy": 1.0,
        "status": "finished",
    }
    told = lines({**result, "grid": "2x1", "changed": "", "order": [2, 3], "gap": 0}, "1 s", tmp_path)
    assert "; 1 of them placed with confidence above 0.9" in told[0]


@pytest.mark.parametrize("count", [2, 3])
def test_two_and_three_tiles_without_a_grid_are_a_picture(count: int, tmp_path: Path) -> None:
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(cut(texture(14, 14 * count), Grid(1, count))[0]):
        Image.fromarray(tile).save(tmp_path / "tiles" / f"{k}.png")
    result = CliRunner().invoke(
        build("jigsaw"), ["jigsaw", str(tmp_path / "tiles"), "--json", "--out", str(tmp_path / "o")]
    )
    assert result.exit_code == 0, result.output
    assert sorted(json.loads(result.stdout)["order"])[-count:] == list(range(count))


def test_several_pictures_have_no_one_grid(tmp_path: Path) -> None:
    refused = CliRunner().invoke(build("jigsaw"), ["jigsaw", str(tmp_path), "--several", "--grid", "4x5"])
    assert refused.exit_code == 2
    assert "--several takes a folder" in refused.output
