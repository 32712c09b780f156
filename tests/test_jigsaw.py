"""Jigsaws: costs of seams, cutting and joining, pictures of every kind, and the commands as a user runs them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.readers.pictures import png, read_picture, read_tiles
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.borders import find_grid
from unshuffle.tasks.jigsaw import (
    as_float,
    at_border,
    cut,
    extrapolation,
    gradients,
    identical,
    join,
    reassemble,
    seam_costs,
    seams_in_time,
)
from unshuffle.watch import Watch

PHOTO = Path(str(files("unshuffle") / "data" / "french-alpine-landscape.jpg"))


def texture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth random colours with a little grain: every seam can be told from every other."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    total = np.zeros((height, width, channels))
    for _ in range(25):
        fy, fx = rng.normal(0, 25, 2)
        total += rng.normal(0, 1, channels) * np.cos(fy * y + fx * x + rng.uniform(0, 7))[..., None]
    total += 0.05 * rng.normal(size=total.shape)
    return np.clip(127 + 28 * total, 0, 255).astype(np.uint8)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """As a user: the console script in a process of its own."""
    command = [sys.executable, "-c", "from unshuffle.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def here(*arguments: object) -> Any:
    """The same command in this process, which spares it the start."""
    return CliRunner().invoke(build("jigsaw"), ["jigsaw", *map(str, arguments)])


def refused(done: Any, *words: str) -> None:
    """Exit code 2, one sentence on standard error, nothing on standard output."""
    assert done.exit_code == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    for word in words:
        assert word in done.stderr


# -- costs


def test_extrapolation_is_its_formula():
    tiles = torch.rand(4, 5, 6, 3) * 255
    last, before, first, second = tiles[:, :, -1], tiles[:, :, -2], tiles[:, :, 0], tiles[:, :, 1]
    E = extrapolation(before, last, first, second)
    i, k = 2, 1
    onward = (2 * last[i] - before[i] - first[k]).abs().div(255).sqrt().sum()
    backward = (2 * first[k] - second[k] - last[i]).abs().div(255).sqrt().sum()
    assert float(E[i, k]) == pytest.approx(float(onward + backward), rel=1e-4)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_gradients_are_their_formula(channels):
    tiles = torch.rand(4, 7, 6, channels) * 255
    last, before, first = tiles[:, :, -1], tiles[:, :, -2], tiles[:, :, 0]
    M = gradients(before, last, first)
    i, k = 3, 0
    step = (last[i] - before[i]).double()
    mean = step.mean(0)
    unit = torch.cat((torch.eye(channels), torch.ones(1, channels))).double()
    rows = torch.cat((step - mean, torch.zeros(1, channels).double(), unit, -unit))
    inverse = torch.linalg.inv(rows.T @ rows / (len(rows) - 1))
    delta = (first[k] - last[i]).double() - mean
    expected = torch.einsum("pc,cd,pd->p", delta, inverse, delta).sqrt().sum()
    assert float(M[i, k]) == pytest.approx(float(expected), rel=1e-3)


def test_true_seams_are_the_cheapest():
    grid = Grid(4, 5)
    tiles, _ = cut(texture(80, 100), grid)
    seams = seam_costs(as_float(tiles))
    right, below = grid.relations()
    assert (seams.right[right[:, 0]].argmin(1) == right[:, 1]).float().mean() > 0.9
    assert (seams.below[below[:, 0]].argmin(1) == below[:, 1]).float().mean() > 0.9


def test_a_mirrored_picture_has_the_mirrored_costs():
    tiles = torch.rand(6, 5, 7, 3) * 255
    there, back = seam_costs(tiles), seam_costs(tiles.flip(2))
    assert torch.allclose(back.right.T, there.right, rtol=1e-4)
    assert torch.allclose(seam_costs(tiles.transpose(1, 2)).below, there.right, rtol=1e-4)


@pytest.mark.parametrize("value", [0, 255])
def test_flat_pictures_give_finite_costs_and_some_order(value):
    tiles = torch.full((12, 6, 6, 3), float(value))
    seams = seam_costs(tiles)
    assert torch.isfinite(seams.right).all()
    assert torch.isfinite(seams.border[0]).all()
    s = reassemble(tiles, Grid(3, 4))
    assert sorted(s.order.tolist()) == list(range(12))
    assert s.confidence.max() < 0.9  # nothing is known


# -- solving


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (3, 7), (1, 8), (2, 2), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_shuffled_texture_comes_back(rows, columns, channels):
    grid = Grid(rows, columns)
    whole, _ = cut(texture(rows * 20, columns * 20, channels), grid)
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(1))
    s = reassemble(as_float(whole[shuffle.numpy()]), grid)
    assert shuffle[s.order].tolist() == list(range(grid.n))


def test_the_shipped_photo_comes_back_and_the_confidence_knows():
    grid = Grid(9, 12)
    whole, _ = cut(read_picture(PHOTO), grid)
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(5))
    s = reassemble(as_float(whole[shuffle.numpy()]), grid, polish=True)
    right = shuffle[s.order] == torch.arange(grid.n)
    assert right.float().mean() > 0.97
    sure = s.confidence[s.order] > 0.9
    assert sure.float().mean() > 0.5
    assert right[sure].float().mean() > 0.9
    assert s.best_energy <= s.energy + 1e-9


def test_a_shifted_picture_is_cut_at_its_border():
    grid = Grid(5, 6)
    tiles, _ = cut(texture(100, 120), grid)
    shifted = torch.arange(30).reshape(5, 6).roll((2, 3), (0, 1)).reshape(-1)
    assert at_border(shifted, grid, seam_costs(as_float(tiles))).tolist() == list(range(30))


def test_tiles_that_do_not_fill_the_grid_are_refused():
    with pytest.raises(BadInput, match="needs 12 tiles"):
        reassemble(torch.rand(11, 4, 4, 3), Grid(3, 4))
    with pytest.raises(BadInput, match="2x2"):
        reassemble(torch.rand(4, 1, 4, 3), Grid(2, 2))


# -- cutting and joining


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(10, 30), st.integers(10, 30), st.booleans())
def test_cut_and_join_are_inverse(rows, columns, height, width, pad):
    pixels = texture(height, width, 2)
    grid = Grid(rows, columns)
    tiles, said = cut(pixels, grid, pad)
    again = join(tiles, torch.arange(grid.n), grid)
    common = tuple(min(a, b) for a, b in zip(again.shape, pixels.shape, strict=True))
    assert (again[: common[0], : common[1]] == pixels[: common[0], : common[1]]).all()
    assert (said == "") == (again.shape == pixels.shape)
    assert (again.shape[0] >= height and again.shape[1] >= width) if pad else (again.shape[0] <= height)
    if pad:  # what is added repeats the edge
        assert (again[height:] == again[height - 1]).all()
        assert (again[:, width:] == again[:, width - 1 : width]).all()


def test_identical_tiles_are_found():
    tiles = np.stack([texture(4, 4, seed=k) for k in (0, 1, 0, 2)])
    group = identical(tiles)
    assert group[0] == group[2]
    assert len(set(group.tolist())) == 3


# -- pictures of every kind


@pytest.mark.parametrize(
    ("mode", "channels", "dtype"),
    [("L", 1, np.uint8), ("RGB", 3, np.uint8), ("RGBA", 4, np.uint8), ("LA", 2, np.uint8), ("1", 1, np.uint8),
     ("P", 3, np.uint8), ("CMYK", 3, np.uint8), ("I;16", 1, np.uint16)],
)  # fmt: skip
def test_every_mode_is_read(tmp_path, mode, channels, dtype):
    base = Image.fromarray(texture(12, 17))
    if mode == "I;16":
        picture = Image.fromarray((texture(12, 17, 1)[..., 0].astype(np.uint16) * 257).astype(np.uint16))
    else:
        picture = base.convert(mode)
        if mode in ("RGBA", "LA"):
            picture.putalpha(Image.fromarray(texture(12, 17, 1, seed=3)[..., 0]))
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    picture.save(path)
    pixels = read_picture(path)
    assert pixels.shape == (12, 17, channels)
    assert pixels.dtype == dtype
    (tmp_path / "again.png").write_bytes(png(pixels))
    assert (read_picture(tmp_path / "again.png") == pixels).all()
    assert 0 <= float(as_float(pixels[None]).min()) <= float(as_float(pixels[None]).max()) <= 255


def test_opaque_alpha_is_dropped_and_exif_turns(tmp_path):
    Image.fromarray(texture(12, 17)).convert("RGBA").save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").shape == (12, 17, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(texture(12, 17)).save(tmp_path / "b.jpg", exif=exif)
    assert read_picture(tmp_path / "b.jpg").shape == (17, 12, 3)


def test_wide_integers_and_floats_become_16_bits(tmp_path):
    Image.fromarray(np.linspace(-3, 8, 120, dtype=np.float32).reshape(10, 12)).save(tmp_path / "f.tif")
    pixels = read_picture(tmp_path / "f.tif")
    assert pixels.dtype == np.uint16
    assert pixels.min() == 0
    assert pixels.max() == 65535


def test_broken_pictures_are_refused(tmp_path, monkeypatch):
    whole = tmp_path / "a.png"
    Image.fromarray(texture(60, 60)).save(whole)
    (tmp_path / "half.png").write_bytes(whole.read_bytes()[:2000])
    (tmp_path / "text.jpg").write_text("no picture")
    (tmp_path / "empty.png").write_bytes(b"")
    for name in ("half.png", "text.jpg", "empty.png"):
        with pytest.raises(BadInput, match=name):
            read_picture(tmp_path / name)
    with pytest.raises(BadInput, match="folder"):
        read_picture(tmp_path)
    monkeypatch.setattr("unshuffle.readers.pictures.MOST_PIXELS", 3000)
    with pytest.raises(BadInput, match="million pixels"):
        read_picture(whole)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)  # pillow's own warning
    with pytest.raises(BadInput, match="million pixels"):
        read_picture(whole)


def test_a_picture_of_a_phone_says_what_reads_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "IMG_1.HEIC").write_bytes(b"\x00\x00\x00\x18ftypheic")
    with pytest.raises(BadInput, match=r"unshuffle\[heic\]"):
        read_picture(tmp_path / "IMG_1.HEIC")


def test_tiles_of_a_folder_in_natural_order(tmp_path):
    tiles, _ = cut(texture(40, 60), Grid(2, 6))
    for k, tile in enumerate(tiles):
        Image.fromarray(tile).convert("L" if k == 3 else "RGB").save(tmp_path / f"tile{k + 1}.png")
    (tmp_path / "notes.txt").write_text("not a tile")
    read, names = read_tiles(tmp_path)
    assert names == [f"tile{k}.png" for k in range(1, 13)]
    assert read.shape == tiles.shape
    assert (read[0] == tiles[0]).all()
    Image.fromarray(texture(5, 5)).save(tmp_path / "tile99.png")
    with pytest.raises(BadInput, match=r"tile99\.png"):
        read_tiles(tmp_path)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(BadInput, match="no pictures"):
        read_tiles(tmp_path / "nothing")


# -- the commands


def test_demo(tmp_path):
    done = run("demo", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["accuracy"]["direct"] > 0.99
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert read_picture(tmp_path / "reassembled.png").shape == (360, 480, 3)
    assert read_picture(tmp_path / "before-after.png").shape[1] > 1000


def test_a_photo_is_shuffled_and_solved_with_anchors_and_polish(tmp_path):
    done = here(PHOTO, "--grid", "7x5", "--shuffle", "--anchors", 3, "--polish", "--out", tmp_path / "new" / "place")
    assert done.exit_code == 0, done.output
    assert "100.0%" in done.stdout
    assert "cropped from 480x360 to 476x360" in done.stdout
    result = json.loads((tmp_path / "new" / "place" / "result.json").read_text())
    assert result["anchors"] == 3
    assert result["polished"]["energy"] <= result["energy"] + 1e-9


def test_a_shuffled_picture_is_solved_and_its_order_written(tmp_path):
    grid = Grid(4, 5)
    whole, _ = cut(texture(84, 100, 4), grid)
    shuffle = torch.randperm(20, generator=torch.Generator().manual_seed(2))
    (tmp_path / "mixed.png").write_bytes(png(join(whole, shuffle, grid)))
    done = here(tmp_path / "mixed.png", "-g", "5x4", "-o", tmp_path, "-q")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    with (tmp_path / "order.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [int(shuffle[int(line["number in the input"]) - 1]) for line in table] == list(range(20))
    assert (read_picture(tmp_path / "reassembled.png") == join(whole, torch.arange(20), grid)).all()


def test_a_folder_of_16_bit_tiles_is_solved(tmp_path):
    grid = Grid(3, 4)
    deep = texture(60, 80, 1).astype(np.uint16) * 257
    whole, _ = cut(deep, grid)
    (tmp_path / "tiles").mkdir()
    shuffle = np.random.default_rng(0).permutation(12)
    for k, tile in enumerate(whole[shuffle]):
        (tmp_path / "tiles" / f"{k}.png").write_bytes(png(tile))
    done = here(tmp_path / "tiles", "--grid", "4x3", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert shuffle[json.loads(done.stdout)["order"]].tolist() == list(range(12))
    assert (read_picture(tmp_path / "reassembled.png") == deep).all()


@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (7, 7), (1, 8), (9, 12)])
def test_the_grid_of_a_shuffled_picture_is_found(rows, columns):
    grid, photo = Grid(rows, columns), read_picture(PHOTO)
    assert find_grid(photo) is None
    whole, _ = cut(photo, grid)
    for seed in range(3):
        shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(seed))
        assert find_grid(join(whole, shuffle, grid)) == grid


def test_without_a_grid_the_command_finds_it_or_says_what_to_do(tmp_path):
    grid = Grid(5, 6)
    whole, _ = cut(read_picture(PHOTO), grid)
    shuffle = torch.randperm(30, generator=torch.Generator().manual_seed(2))
    (tmp_path / "mixed.png").write_bytes(png(join(whole, shuffle, grid)))
    done = here(tmp_path / "mixed.png", "--out", tmp_path / "o", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["grid"] == "6x5"
    assert not result["unchanged"]
    assert shuffle[result["order"]].tolist() == list(range(30))
    refused(here(PHOTO, "--out", tmp_path / "p"), "No borders of tiles", "--shuffle")
    (tmp_path / "tiles").mkdir()
    for k, tile in enumerate(whole[:12]):
        (tmp_path / "tiles" / f"{k}.png").write_bytes(png(tile))
    done = here(tmp_path / "tiles", "--out", tmp_path / "p", "--json")
    assert json.loads(done.stdout)["grid"] == "6x2"  # the size of a folder's picture is found


def test_a_folder_of_one_picture_is_no_puzzle(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(png(read_picture(PHOTO)))
    done = here(tmp_path / "photos", "--out", tmp_path / "o")
    assert done.stdout.startswith("1 tile (1x1)")
    assert "give the picture itself" in done.stdout


def test_a_picture_that_comes_back_as_it_was_is_said_to(tmp_path):
    done = here(PHOTO, "--grid", "5x4", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "came back as it was" in done.stdout
    assert "confidence" not in done.stdout  # of places that nobody asked for
    assert json.loads((tmp_path / "result.json").read_text())["unchanged"]


def test_stopped_while_the_seams_are_compared_nothing_moves():
    tiles = torch.rand(30, 6, 6, 3) * 255
    stages = []
    s = reassemble(tiles, Grid(5, 6), callback=lambda step: stages.append(step) or step.stage != "compare the seams")
    assert s.status == "interrupted"
    assert s.order.tolist() == list(range(30))
    assert s.confidence.max() == 0
    assert [step.stage for step in stages] == ["compare the seams"]
    assert stages[0].done == 0
    allowed = torch.ones(30, 30, dtype=torch.bool)
    allowed[3] = False
    allowed[3, 7] = True
    s = reassemble(tiles, Grid(5, 6), allowed=allowed, time_limit=0.0)
    assert s.status == "time limit"
    assert int(s.order[7]) == 3


def shuffled(rows: int, columns: int) -> tuple[torch.Tensor, Grid, torch.Tensor]:
    grid = Grid(rows, columns)
    whole, _ = cut(texture(40 * rows, 40 * columns), grid)
    mixed = torch.randperm(grid.n, generator=torch.Generator().manual_seed(1))
    return as_float(whole[mixed.numpy()]), grid, mixed


def stopping_at(stage: str, after: int = 0):
    """A callback that stops at the first step of a stage, or so many steps later."""
    steps = iter(range(after))
    return lambda step: step.stage != stage or next(steps, None) is not None


@pytest.mark.parametrize("stage", ["anneal", "reassemble"])
@pytest.mark.parametrize("anchored", [False, True])
def test_a_stopped_jigsaw_is_as_good_as_tile_after_tile(stage, anchored):
    tiles, grid, mixed = shuffled(9, 10)
    allowed = None
    if anchored:
        allowed = torch.ones(90, 90, dtype=torch.bool)
        for place in (7, 40):
            tile = int((mixed == place).nonzero())
            allowed[tile], allowed[:, place] = False, False
            allowed[tile, place] = True
    s = reassemble(tiles, grid, allowed=allowed, callback=stopping_at(stage))
    assert s.status == "interrupted"
    assert (mixed[s.order] == torch.arange(90)).double().mean() > 0.9


def test_where_time_is_short_a_few_pixels_of_each_seam_come_first(monkeypatch):
    monkeypatch.setattr("unshuffle.tasks.jigsaw.LONG", 0.0)
    tiles, grid, mixed = shuffled(9, 10)
    fine, rough = seam_costs(tiles), seam_costs(tiles, every=5)
    watch = Watch()
    assert torch.equal(seams_in_time(tiles, watch).right, fine.right)
    assert len(watch.history) == 12  # both
    slow = Watch(
        10.0, lambda step: setattr(slow, "_began", slow._began - 0.8)
    )  # every step takes 0.8 s: half of the time is gone
    for stop in (Watch(None, stopping_at("compare the seams", 8)), slow):
        assert torch.equal(seams_in_time(tiles, stop).below, rough.below)
    assert len(slow.history) == 6
    monkeypatch.setattr("unshuffle.tasks.jigsaw.LATE", 60.0)
    late = Watch(
        10.0, lambda step: setattr(late, "_began", late._began - 3.0)
    )  # the limit comes before the end of the first
    assert torch.equal(seams_in_time(tiles, late).below, rough.below)
    assert late.status == "time limit"
    assert seams_in_time(tiles, Watch(None, stopping_at("compare the seams"))) is None
    s = reassemble(tiles, grid, callback=stopping_at("compare the seams", 8))
    assert s.status == "interrupted"
    assert (mixed[s.order] == torch.arange(90)).double().mean() > 0.9


def test_a_limit_in_which_nothing_can_be_compared_is_said_plainly(tmp_path):
    done = here(PHOTO, "--grid", "5x4", "--shuffle", "--out", tmp_path, "--time-limit", 0)
    assert done.exit_code == 0, done.output
    assert "Nothing was solved (time limit)" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert result["energy"] is None
    assert result["status"] == "time limit"


def test_bad_input_ends_in_one_sentence(tmp_path):
    small = tmp_path / "small.png"
    Image.fromarray(texture(20, 30)).save(small)
    refused(here(small, "--grid", "20x20", "--out", tmp_path / "o"), "30x20 pixels", "at most 15x10")
    refused(here(small, "--grid", "seven", "--out", tmp_path / "o"), "--grid", "7x7")
    refused(here(small, "--grid", "900x900", "--out", tmp_path / "o"), "810000 tiles")
    refused(here(small, "--anchors", 2, "--out", tmp_path / "o"), "--shuffle")
    refused(here(tmp_path / "none.jpg", "--out", tmp_path / "o"), "none.jpg")
    refused(here(tmp_path, "--grid", "2x2", "--out", tmp_path / "o"), "one tile is no puzzle")
    assert not (tmp_path / "o").exists()
