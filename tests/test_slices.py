"""Slices of volumes and frames of films: registered, ordered, shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter, shift
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.tasks import slices


def volume(n: int = 18, side: int = 56, seed: int = 0) -> np.ndarray:
    """Slices of a random smooth body, from 0 to 1."""
    rng = np.random.default_rng(seed)
    noise = [s**1.5 * gaussian_filter(rng.standard_normal((3 * n, side, side)), s) for s in (2, 5, 10)]
    field = np.sum(noise, axis=0)[::3]
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    body = 1 / (1 + np.exp(20 * ((x / 0.85) ** 2 + (y / 0.7) ** 2 + np.linspace(-0.7, 0.7, n)[:, None, None] ** 2 - 1)))
    return np.clip(body * (0.5 + 0.2 * field / field.std()), 0, 1)


def mixed(slabs: np.ndarray, seed: int = 0, jitter: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled, shifted, in other light, noisy; and where each belongs."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(len(slabs))
    moved = [shift(slabs[k], rng.uniform(-jitter, jitter, 2), order=1, mode="nearest") for k in truth]
    lights = 1 + 0.1 * rng.standard_normal(len(slabs))
    noisy = [light * page + 0.03 * rng.standard_normal(page.shape) for light, page in zip(lights, moved, strict=True)]
    return np.clip(noisy, 0, 1), truth


def neighbours_right(order: list[int], truth: np.ndarray) -> float:
    return float((np.abs(np.diff(truth[order])) == 1).mean())


def test_a_folder_of_slices_is_ordered(tmp_path):
    pages, truth = mixed(volume())
    folder = tmp_path / "sections"
    folder.mkdir()
    for k, page in enumerate(pages):
        cut = page[: 56 - k % 2]  # sizes may differ a little
        Image.fromarray((255 * cut).astype(np.uint8)).save(folder / f"s{k}.png")
    call = ["slices", str(folder), "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(build("slices"), call)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert neighbours_right(result["order"], truth) == 1.0
    assert result["names in order"][0] == f"s{result['order'][0]}.png"
    assert "unknown" in result["direction"]
    assert min(result["confidence"]) >= 0
    assert max(result["confidence"]) <= 1
    assert {f.name for f in (tmp_path / "out").iterdir()} == {"order.csv", "contact-sheet.png", "result.json"}
    lines = (tmp_path / "out" / "order.csv").read_text().splitlines()
    assert lines[0] == "position,slice,number in the input,down,right,confidence"
    assert len(lines) == 19


def test_shifts_are_those_that_were_made(tmp_path):
    page = volume(n=3, side=80, seed=3)[1]
    moves = [(0, 0), (3, -2), (-1, 4)]
    np.save(tmp_path / "moved.npy", np.stack([shift(page, move, order=1, mode="nearest") for move in moves]))
    found = slices.order_slices(slices.read_stack(tmp_path / "moved.npy"))
    for place in (1, 2):
        back = np.subtract(moves[found.order[place - 1]], moves[found.order[place]])
        assert np.abs(found.shifts[place] - back).max() <= 1
    assert found.alike.min() > 0.9


def test_a_film_keeps_its_motion(tmp_path):
    y, x = np.mgrid[:48, :48]
    frames = np.stack([np.exp(-((x - 8 - 2 * t) ** 2 + (y - 24) ** 2) / 40) for t in range(16)])
    truth = np.random.default_rng(1).permutation(16)
    pages = [Image.fromarray((255 * frames[k]).astype(np.uint8)) for k in truth]
    pages[0].save(tmp_path / "film.tif", save_all=True, append_images=pages[1:])
    found = slices.order_slices(slices.read_stack(tmp_path / "film.tif"))
    assert neighbours_right(found.order.tolist(), truth) == 1.0


def test_many_slices_are_compared_with_the_nearest_only(monkeypatch, tmp_path):
    monkeypatch.setattr(slices, "ALL_PAIRS", 10)
    monkeypatch.setattr(slices, "NEAREST", 6)
    pages, truth = mixed(volume(), jitter=0.5)
    np.save(tmp_path / "many.npy", pages)
    found = slices.order_slices(slices.read_stack(tmp_path / "many.npy"))
    assert neighbours_right(found.order.tolist(), truth) > 0.9


def test_stopped_at_once_there_is_an_order(tmp_path):
    np.save(tmp_path / "some.npy", volume(n=9))
    found = slices.order_slices(slices.read_stack(tmp_path / "some.npy"), time_limit=0.0)
    assert sorted(found.order.tolist()) == list(range(9))
    assert found.solution.status == "time limit"


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 8, 8)), "at least three"),
        (np.zeros((5, 8)), "of shape"),
        (np.full((5, 8, 8), np.nan), "NaN"),
        (np.zeros((5, 8, 8, 7)), "channels"),
        (np.array(["a"]), "no array of numbers"),
    ],
)
def test_what_is_no_stack_is_told(array, words, tmp_path):
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(us.BadInput, match=words):
        slices.read_stack(tmp_path / "bad.npy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(us.BadInput, match="holds 0 slices"):
        slices.read_stack(tmp_path / "empty")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.tif", "a.gif"])
def test_damaged_stacks_are_told_in_one_sentence(name, tmp_path, capfd):
    random = np.random.default_rng(0)
    stack = random.integers(0, 256, (5, 20, 20), dtype=np.uint8)
    if name == "a.npy":
        np.save(tmp_path / name, stack)
    elif name == "a.npz":
        np.savez_compressed(tmp_path / name, stack)
    else:
        first, *others = (Image.fromarray(page) for page in stack)
        first.save(tmp_path / name, save_all=True, append_images=others)
    whole = (tmp_path / name).read_bytes()
    spoilt = bytearray(whole)
    spoilt[200:600] = bytes(400)
    for part in (
        whole[: len(whole) // 2],
        whole[: len(whole) * 9 // 10],
        bytes(spoilt) if name == "a.npz" else whole[:150],
    ):
        (tmp_path / name).write_bytes(part)
        with pytest.raises(us.BadInput, match=r"damaged|cannot be read|that can be read"):
            slices.read_stack(tmp_path / name)
    assert not capfd.readouterr().err
