"""The files of commands: never over an input, never beside those of an earlier run, and what they say of the input is true."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from test_turned import texture
from unshuffle.cli.common import build
from unshuffle.cli.results import WRITES
from unshuffle.readers.pictures import read_picture, read_tiles
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import cut
from unshuffle.tasks.strips import read_strips

CITIES = "name,x,y\nA,0,0\nB,1,0\nC,1,1\nD,0,1\nE,0.5,2\n"
CROSS = "id,m1,m2,m3\n" + "".join(f"i{k},{'ABH'[k % 3]},{'ABH'[k % 3]},{'ABH'[k // 3 % 3]}\n" for k in range(12))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(build(str(arguments[0])), [str(a) for a in arguments])


def tiles(folder: Path, picture: np.ndarray, rows: int, columns: int) -> list[np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    cuts = [*np.random.default_rng(0).permutation(cut(picture, Grid(rows, columns))[0])]
    before = len([*folder.iterdir()])
    for k, tile in enumerate(cuts):
        Image.fromarray(tile).save(folder / f"{before + k}.png")
    return cuts


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("tour", "cities.csv", CITIES),
        ("seriate", "table.csv", CITIES),
        ("markers", "map.csv", CROSS),
        ("match", "pairs.csv", CITIES),
    ],
)
def test_an_input_is_never_overwritten(command: str, name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    done = run(command, *[path] * (2 if command == "match" else 1), "--out", tmp_path)
    assert done.exit_code == 2
    assert f"would overwrite {path}" in done.stderr
    assert path.read_text() == text
    assert [*tmp_path.iterdir()] == [path]
    assert run(command, *[path] * (2 if command == "match" else 1), "--out", tmp_path / "o").exit_code == 0


@pytest.mark.parametrize("command", ["jigsaw", "strips", "slices"])
def test_results_do_not_lie_among_the_pictures_they_are_of(command: str, tmp_path: Path) -> None:
    tiles(tmp_path, texture(36, 48, 0), 3, 4)
    done = run(command, tmp_path, "--out", tmp_path)
    assert done.exit_code == 2
    assert "among what is read" in done.stderr
    assert len([*tmp_path.iterdir()]) == 12


def test_what_an_earlier_run_wrote_does_not_stay_beside_the_new(tmp_path: Path) -> None:
    box, out = tmp_path / "box", tmp_path / "o"
    tiles(box, texture(36, 48, 0), 3, 4)
    tiles(tmp_path / "more", texture(36, 48, 0), 3, 4)
    tiles(tmp_path / "more", texture(12, 12, 5), 1, 1)
    assert run("jigsaw", tmp_path / "more", "--grid", "4x3", "--out", out).exit_code == 0
    assert (out / "left-out.png").exists()
    (out / "picture-1.png").write_bytes(b"somebody's own")
    assert run("jigsaw", box, "--grid", "4x3", "--out", out).exit_code == 0
    assert not (out / "left-out.png").exists()
    assert (out / "picture-1.png").read_bytes() == b"somebody's own"
    listed = json.loads((out / "result.json").read_text())["files"]
    assert {*listed} == {file.name for file in out.iterdir()} - {"picture-1.png"}


@pytest.mark.parametrize("command", ["tour", "seriate", "markers", "match", "jigsaw", "slices", "strips"])
def test_every_file_was_foretold(command: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    if command in ("jigsaw", "slices", "strips"):
        tiles(path, texture(36, 48, 0), 3, 4)
    else:
        path = tmp_path / "given.csv"
        path.write_text(CROSS if command == "markers" else CITIES)
    done = run(command, *[path] * (2 if command == "match" else 1), "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    names = [name.replace("NAME", "given") for name in WRITES[command]]
    assert all(any(file.match(name) for name in names) for file in (tmp_path / "o").iterdir())


def named(path: Path, values: np.ndarray, rows: list[str], columns: list[str]) -> Path:
    lines = [["", *columns], *([row, *map(str, line)] for row, line in zip(rows, values.tolist(), strict=True))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


@pytest.mark.parametrize("command", ["tour", "seriate", "hic"])
def test_a_matrix_goes_by_the_names_of_its_columns(command: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    place = rng.permutation(8)
    values = np.abs(place[:, None] - place).astype(float)
    if command == "hic":
        values = 10.5 / (1 + values)
    names, mixed = [f"n{k}" for k in range(8)], rng.permutation(8)
    straight = named(tmp_path / "straight.csv", values, names, names)
    other = named(tmp_path / "other.csv", values[:, mixed], names, [names[k] for k in mixed])
    results = [
        json.loads(run(command, path, "--json", "--out", tmp_path / path.stem).stdout) for path in (straight, other)
    ]
    assert results[0]["order"] == results[1]["order"]
    assert results[0]["sets"] == results[1]["sets"]


def test_tiles_of_wide_numbers_keep_their_shades_and_hidden_files_are_no_tiles(tmp_path: Path) -> None:
    grey = texture(36, 48, 0).mean(2)
    for kind in (np.float32, np.int32):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        cuts = [grey[y : y + 12, x : x + 12] for y in range(0, 36, 12) for x in range(0, 48, 12)]
        for k, tile in enumerate(cuts):
            Image.fromarray((tile * (0.001 if kind is np.float32 else 900)).astype(kind)).save(folder / f"{k}.tif")
        (folder / "._0.tif").write_bytes(b"what a Mac leaves beside a file")
        read, names = read_tiles(folder)
        assert names == [f"{k}.tif" for k in range(12)]
        shades = np.array(cuts).ravel()
        assert np.corrcoef(read.ravel(), shades)[0, 1] > 0.9999


def test_strips_are_read_by_number_and_upright(tmp_path: Path) -> None:
    page = texture(60, 132, 0)
    for k in range(11):
        strip = Image.fromarray(page[:, 12 * k : 12 * k + 12])
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned by 90 degrees clockwise, as phones write it
        strip.transpose(Image.Transpose.ROTATE_90).save(tmp_path / f"s{k}.png", exif=exif)
    strips = read_strips(tmp_path)
    assert [strip.name for strip in strips] == [f"s{k}.png" for k in range(11)]
    assert all(strip.picture.size == (12, 60) for strip in strips)


def test_the_ordered_table_has_the_numbers_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,a,b\nx,1234567,0.123456789\ny,7654321,3.1\nz,5555555,100000.25\n")
    assert run("seriate", path, "--out", tmp_path / "o").exit_code == 0
    rows = [*csv.reader((tmp_path / "o" / "table.csv").read_text().splitlines())]
    assert {tuple(row) for row in rows[1:]} == {
        ("x", "1234567", "0.123456789"),
        ("y", "7654321", "3.1"),
        ("z", "5555555", "100000.25"),
    }


def test_tiles_of_no_picture_are_listed_and_pictured_apart(tmp_path: Path) -> None:
    box, out = tmp_path / "box", tmp_path / "o"
    for seed in (0, 1):
        tiles(box, texture(48, 60, seed), 4, 5)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (12, 12, 3), np.uint8)).save(box / "40.png")
    done = run("jigsaw", box, "--several", "--turned", "--out", out)
    result = json.loads((out / "result.json").read_text())
    assert result["left_out"] == [40]
    assert read_picture(out / "left-out.png").shape == (12, 12, 3)
    assert [*csv.reader((out / "order.csv").read_text().splitlines())][-1] == ["", "", "", "41", "40.png", "", ""]
    assert "1 tile is in none of them (41)" in done.stdout
    assert "was guessed" in done.stdout


def test_one_known_pair_is_enough(tmp_path: Path) -> None:
    cities, known = tmp_path / "a.csv", tmp_path / "known.csv"
    cities.write_text(CITIES)
    for text in ("A,A\n", "first,second\nA,A\n"):
        known.write_text(text)
        done = run("match", cities, cities, "--anchors", known, "--out", tmp_path / "o")
        assert done.exit_code == 0, done.stderr
    known.write_text("A,nobody\n")
    assert "names 'nobody'" in run("match", cities, cities, "--anchors", known, "--out", tmp_path / "o").stderr


def test_a_title_over_contigs_is_no_contig(tmp_path: Path) -> None:
    place, names = np.arange(12), [*"aaaabbbbcccc"]
    np.save(tmp_path / "c.NPY.npy", 10.5 / (1 + np.abs(place[:, None] - place)))
    (tmp_path / "c.NPY.npy").rename(tmp_path / "c.NPY")
    table = tmp_path / "contigs.csv"
    table.write_text("\n".join(["contig", *names]))
    done = run("hic", tmp_path / "c.NPY", "--contigs", table, "--json", "--out", tmp_path / "o")
    assert {one["name"] for group in json.loads(done.stdout)["contigs"] for one in group} == {"a", "b", "c"}
    table.write_text("\n".join(["contig", *names[1:]]))
    assert "has 11 rows" in run("hic", tmp_path / "c.NPY", "--contigs", table, "--out", tmp_path / "o").stderr
