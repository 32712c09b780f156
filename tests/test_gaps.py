"""Tiles with pixels worn off their edges: how many is found, and seams are compared across the gap."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.gaps import blurred, find_gap
from unshuffle.tasks.jigsaw import as_float, cut, seam_costs
from unshuffle.tasks.turned import turned_seams

PHOTO = Path(str(files("unshuffle") / "data" / "coffee.jpg"))


def worn(gap: int, grid: Grid, size: int = 28) -> torch.Tensor:
    pixels = np.asarray(Image.open(PHOTO).convert("RGB"))[: size * grid.height, : size * grid.width]
    return as_float(cut(pixels, grid)[0])[:, gap : size - gap, gap : size - gap]


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_how_much_is_worn_off_is_found(gap: int) -> None:
    tiles = worn(gap, Grid(7, 9))
    assert find_gap(tiles) == gap
    turned = torch.stack([tile.rot90(k % 4, (0, 1)) for k, tile in enumerate(tiles)])
    assert find_gap(turned, turned=True) == gap


def test_too_few_tiles_have_no_gap_that_could_be_found() -> None:
    assert find_gap(torch.rand(2, 9, 9, 3)) == 0
    assert find_gap(torch.rand(9, 3, 9, 3)) == 0


def test_smoothing_keeps_lines_that_are_straight() -> None:
    line = torch.arange(40.0)[None, :, None] * 2 + 5
    assert torch.allclose(blurred(line, 2.0)[:, 7:-7], line[:, 7:-7])
    assert torch.allclose(blurred(torch.full((2, 9, 3), 7.0), 4.0), torch.tensor(7.0))


def test_true_neighbours_are_told_better_than_by_the_cost_without_a_gap() -> None:
    grid, gap = Grid(7, 9), 2
    tiles = worn(gap, grid)
    right = []
    for seams in (seam_costs(tiles), seam_costs(tiles, gap=gap)):
        found = 0
        for cost, pairs in zip((seams.right, seams.below), grid.relations(), strict=True):
            best = cost.clone().fill_diagonal_(torch.inf)
            found += int((best.argmin(1)[pairs[:, 0]] == pairs[:, 1]).sum() + (best.argmin(0)[pairs[:, 1]] == pairs[:, 0]).sum())  # fmt: skip
        right.append(found)
    assert right[1] > right[0]


def test_the_costs_of_turned_pieces_are_those_of_the_turned_tiles() -> None:
    tiles = worn(1, Grid(3, 3), 12)
    pieces = turned_seams(tiles, gap=1)
    plain = seam_costs(torch.stack([tile.rot90(k, (0, 1)) for tile in tiles for k in range(4)]), gap=1)
    apart = ~torch.block_diag(*[torch.ones(4, 4, dtype=torch.bool)] * 9)
    for ours, theirs in ((pieces.right, plain.right), (pieces.below, plain.below)):
        ratio = (ours / theirs)[apart]
        assert float(ratio.std() / ratio.mean()) < 1e-3  # medians are over other pairs: one factor


def test_the_command_wears_tiles_off_and_finds_out_how_much(tmp_path: Path) -> None:
    arguments = ["jigsaw", str(PHOTO), "--grid", "6x5", "--shuffle", "--gap", "1", "--json", "--out", str(tmp_path)]
    told = CliRunner().invoke(build("jigsaw"), arguments)
    assert told.exit_code == 0, told.output
    result = json.loads(told.stdout)
    assert result["gap"] == 1
    assert result["accuracy"]["neighbour"] == 1.0
    again = ["jigsaw", str(tmp_path / "reassembled.png"), "--grid", "6x5", "--gap", "auto", "--json", "--out", str(tmp_path / "again")]  # fmt: skip
    result = json.loads(CliRunner().invoke(build("jigsaw"), again).stdout)
    assert result["gap"] == 1
    assert result["order"] == list(range(30))
    refused = CliRunner().invoke(build("jigsaw"), [*arguments[:-4], "9"])
    assert refused.exit_code == 2
    assert "0 to 3" in refused.output
