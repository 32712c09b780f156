"""Examples to begin with: shipped photos, and a page, maps, tables and sets that are made when asked for."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

PHOTOS = {
    "coffee": "coffee.jpg",
    "boats": "nagasaki-boats.jpg",
    "alps": "french-alpine-landscape.jpg",
    "turned": "coffee.jpg",
}
TEXT = (
    "A page that went through a shredder still knows "
    "where it was cut: the ink of every letter goes on beyond the edge, and paper tears with a shape of its own. Lay two strips "
    "side by side and ask how well their edges agree; ask it of every pair; then let all of them find their places at once, "
    "softly at first, and ever more surely. Nobody has told the machine what a page looks like, or how to read. "
)
OTHER_TEXT = (
    "Dear friend, last winter the river froze from bank to bank, and the whole town walked across it to see whether the bread "
    "on the far side was any better. It was not, but nobody would admit to having gone all that way for nothing, so we praised "
    "the crust, we praised the salt, and we came home after dark with cold hands and warm loaves under our coats. "
)


def example(task: str, name: str, folder: Path) -> list[Path]:
    """The files of an example, written into the folder."""
    if name in PHOTOS:
        path = folder / PHOTOS[name]
        path.write_bytes((files("unshuffle") / "data" / PHOTOS[name]).read_bytes())
        return [path]
    return MAKERS[task, name](folder, np.random.default_rng(7))


def table(path: Path, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([titles, *rows])
    return path


def cities(path: Path, points: np.ndarray, names: Sequence[str] | None = None) -> list[Path]:
    names = names or [str(k + 1) for k in range(len(points))]
    rows = [(name, f"{x:.4f}", f"{y:.4f}") for name, (x, y) in zip(names, points.tolist(), strict=True)]
    return [table(path, ("city", "x", "y"), rows)]


def random_cities(folder: Path, random: np.random.Generator) -> list[Path]:
    return cities(folder / "cities.csv", random.random((60, 2)))


def spiral(folder: Path, random: np.random.Generator) -> list[Path]:
    turn = np.sqrt(np.linspace(0.02, 1, 90)) * 4 * np.pi
    points = np.stack((np.cos(turn), np.sin(turn)), 1) * (turn / (4 * np.pi))[:, None] / 2 + 0.5
    return cities(folder / "spiral.csv", random.permutation(points + random.normal(0, 0.004, points.shape)))


TOWNS = {
    "Lisbon": (-9.1, 38.7), "Madrid": (-3.7, 40.4), "Paris": (2.4, 48.9), "London": (-0.1, 51.5), "Dublin": (-6.3, 53.3),
    "Amsterdam": (4.9, 52.4), "Copenhagen": (12.6, 55.7), "Oslo": (10.8, 59.9), "Stockholm": (18.1, 59.3),
    "Helsinki": (24.9, 60.2), "Tallinn": (24.8, 59.4), "Riga": (24.1, 56.9), "Vilnius": (25.3, 54.7), "Warsaw": (21.0, 52.2),
    "Berlin": (13.4, 52.5), "Prague": (14.4, 50.1), "Vienna": (16.4, 48.2), "Budapest": (19.0, 47.5), "Zagreb": (16.0, 45.8),
    "Belgrade": (20.5, 44.8), "Sofia": (23.3, 42.7), "Bucharest": (26.1, 44.4), "Athens": (23.7, 38.0), "Tirana": (19.8, 41.3),
    "Rome": (12.5, 41.9), "Bern": (7.4, 46.9), "Brussels": (4.4, 50.8), "Ljubljana": (14.5, 46.1), "Sarajevo": (18.4, 43.9),
}  # fmt: skip


def towns(folder: Path, random: np.random.Generator) -> list[Path]:
    """Capitals; by title the command knows longitude and latitude and measures along the globe."""
    rows = [(name, *place) for name, place in TOWNS.items()]
    return [table(folder / "towns.csv", ("city", "lon", "lat"), rows)]


def graves(folder: Path, random: np.random.Generator) -> list[Path]:
    """Types of pottery come into fashion and go out again; which grave is older?"""
    age, fashion = np.sort(random.random(40)), np.linspace(-0.1, 1.1, 18)
    counts = random.poisson(8 * np.exp(-(((age[:, None] - fashion) / 0.12) ** 2) / 2))
    rows, columns = random.permutation(40), random.permutation(18)
    titles = ["grave", *(f"type {k + 1}" for k in columns)]
    return [
        table(folder / "graves.csv", titles, [[f"grave {r + 1}", *counts[r, columns].tolist()] for r in rows.tolist()])
    ]


def spectra(folder: Path, random: np.random.Generator) -> list[Path]:
    """A peak that wanders: curves of a process whose times were lost."""
    time, wave = np.linspace(0, 1, 60), np.linspace(0, 1, 48)
    peaks = (
        np.exp(-(((wave - (0.15 + 0.7 * time[:, None] ** 1.5)) / 0.08) ** 2)) * (0.6 + 0.4 * np.cos(3 * time))[:, None]
    )
    values = peaks + random.normal(0, 0.03, peaks.shape)
    titles = ["sample", *(f"{400 + 8 * k} nm" for k in range(48))]
    rows = [[f"sample {r + 1}", *(f"{v:.3f}" for v in values[r])] for r in random.permutation(60).tolist()]
    return [table(folder / "spectra.csv", titles, rows)]


def fish(folder: Path, random: np.random.Generator) -> list[Path]:
    """A fish, and the same fish turned, mirrored and shuffled, with a few points that the other does not have."""
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    A = np.stack((np.cos(t) - np.sin(t) ** 2 / np.sqrt(2), np.cos(t) * np.sin(t)), 1)
    A = np.concatenate((A, random.normal((0.25, 0), 0.25, (14, 2))))
    turn = np.deg2rad(130)
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * (1, -1)
    B = np.concatenate((A[:70] @ R.T + random.normal(0, 0.005, (70, 2)), random.uniform(-1.2, 1.2, (5, 2))))
    return _sets(folder, A, B[random.permutation(75)])


def cells(folder: Path, random: np.random.Generator) -> list[Path]:
    """The same cells, measured in two ways that have no column in common."""
    hidden = np.cumsum(random.normal(0, 1, (80, 3)), 0)
    A, B = (np.tanh(hidden @ random.normal(0, 0.3, (3, width))) for width in (12, 9))
    return _sets(folder, A, B[random.permutation(80)])


def _sets(folder: Path, *sets: np.ndarray) -> list[Path]:
    paths = []
    for name, X in zip(("a", "b"), sets, strict=True):
        titles = ["item", *(("x", "y") if X.shape[1] == 2 else [f"{name}{k + 1}" for k in range(X.shape[1])])]
        rows = [[f"{name}-{k + 1}", *(f"{v:.4f}" for v in row)] for k, row in enumerate(X.tolist())]
        paths.append(table(folder / f"{name}.csv", titles, rows))
    return paths


def shredded_page(folder: Path, random: np.random.Generator) -> list[Path]:
    """A page of text, cut into rough strips on a black scanner lid, in a random order."""
    return _mixed(folder, _strips(TEXT, 16, random), random)


def some_upside_down(folder: Path, random: np.random.Generator) -> list[Path]:
    strips = [strip[::-1, ::-1] if random.random() < 0.25 else strip for strip in _strips(TEXT, 14, random)]
    return _mixed(folder, strips, random)


def two_pages(folder: Path, random: np.random.Generator) -> list[Path]:
    return _mixed(folder, [*_strips(TEXT, 12, random), *_strips(OTHER_TEXT, 12, random)], random)


def _strips(text: str, count: int, random: np.random.Generator) -> list[np.ndarray]:
    height, width = 560, 640
    pixels, margin = np.asarray(_page(text, width, height), float), 12
    down = np.arange(height)
    cuts = [np.full(height, -1.0)]
    for k in range(1, count):
        rough = np.convolve(random.normal(0, 1.5, height + 24), np.ones(25) / 5, "valid")
        cuts.append(k * width / count + random.uniform(-3, 3) * (down / height - 0.5) + rough)
    cuts.append(np.full(height, width + 1.0))
    x, padded = np.arange(-margin, width + margin), np.pad(pixels, ((0, 0), (margin, margin)), mode="edge")
    pieces = []
    for left, right in pairwise(cuts):
        inside = (x + 1 - left[:, None]).clip(0, 1) * (right[:, None] - x).clip(0, 1)
        scan = np.where(inside > 0, padded * inside, 0)
        pieces.append(scan[:, max(int(left.min()), 0) : int(np.ceil(right.max())) + 2 * margin].astype(np.uint8))
    return pieces


def _mixed(folder: Path, strips: list[np.ndarray], random: np.random.Generator) -> list[Path]:
    from PIL import Image

    paths = [folder / f"strip-{place + 1:02d}.png" for place in range(len(strips))]
    for path, k in zip(paths, random.permutation(len(strips)).tolist(), strict=True):
        Image.fromarray(strips[k]).save(path)
    return paths


def _page(text: str, width: int, height: int) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("L", (width, height), 244)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=17)
    words, y = (text * 6).split(), 26
    while y < height - 30:
        line: list[str] = []
        while words and draw.textlength(" ".join([*line, words[0]]), font) < width - 64:
            line.append(words.pop(0))
        draw.text((32, y), " ".join(line), fill=40, font=font)
        y += 24
    return page


def missing_and_foreign(folder: Path, random: np.random.Generator) -> list[Path]:
    """A photo of 9 x 6 tiles of which five are lost, and five of another photo among them."""
    own, other = _tiles("coffee", 9, 6), _tiles("boats", 9, 6)
    return _pile(folder, [*own[random.permutation(54)[:49]], *other[random.permutation(54)[:5]]], random)


def two_in_one_pile(folder: Path, random: np.random.Generator) -> list[Path]:
    return _pile(folder, [*_tiles("coffee", 6, 4), *_tiles("alps", 6, 4)], random)


def _tiles(photo: str, across: int, down: int) -> np.ndarray:
    """Square ones, from the middle of the photo."""
    from PIL import Image, ImageOps

    with Image.open(str(files("unshuffle") / "data" / PHOTOS[photo])) as picture:
        side = picture.width // across
        pixels = np.asarray(ImageOps.fit(picture.convert("RGB"), (across * side, down * side)))
    return pixels.reshape(down, side, across, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)


def _pile(folder: Path, tiles: list[np.ndarray], random: np.random.Generator) -> list[Path]:
    from PIL import Image

    paths = [folder / f"tile-{k + 1:02d}.png" for k in range(len(tiles))]
    for path, k in zip(paths, random.permutation(len(tiles)).tolist(), strict=True):
        Image.fromarray(tiles[k]).save(path)
    return paths


MAKERS: dict[tuple[str, str], Callable[[Path, np.random.Generator], list[Path]]] = {
    ("tour", "random"): random_cities,
    ("tour", "spiral"): spiral,
    ("tour", "towns"): towns,
    ("table", "graves"): graves,
    ("table", "spectra"): spectra,
    ("match", "fish"): fish,
    ("match", "cells"): cells,
    ("strips", "shredded page"): shredded_page,
    ("strips", "some upside down"): some_upside_down,
    ("strips", "two pages"): two_pages,
    ("puzzle", "missing and foreign"): missing_and_foreign,
    ("puzzle", "two in one pile"): two_in_one_pile,
}
