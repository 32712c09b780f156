"""Straight cuts, by scissors or of a picture cut into columns: neighbour accuracy, and how much the confidence claims.

python benchmarks/solve_straight.py [--data FOLDER] [--out results/straight.json]

Pages of text are rendered here, in several typefaces and sizes: cleanly cut into 10, 20 and 30 strips without a background, and into 20
on a grey lid, tilted one way or the other by up to 0, 0.5, 1 and 2 degrees. FOLDER/photos, if given: photos cleanly cut into 20
strips, beside the jigsaw solver on the same strips. The strips are shuffled before solving.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float, cut, reassemble
from unshuffle.tasks.strips import find_paper, reassemble_page

FONTS = [(f"DejaVu{face}.ttf", size) for face in ("Serif", "Sans", "SansMono") for size in (13, 17, 22)]
LID = 128
SURE = 0.5

Score = tuple[int, int, int, int]
"""Right neighbours, joins, joins with a confidence above `SURE`, and how many of these are right."""


def page(font: str, size: int, seed: int, height: int = 1100, width: int = 800) -> np.ndarray:
    """Paragraphs of made-up words, as a scanner at 100 dpi sees them."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (width, height), 250)
    pen = ImageDraw.Draw(image)
    typeface = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font), size)
    for y in range(30, height - 50, round(1.5 * size)):
        words = ["".join(rng.choice(list("aabcdeeefghiijklmnoprsttuvwy"), rng.integers(2, 9))) for _ in range(60)]
        if rng.random() < 0.9:
            pen.text((30, y), " ".join(words)[: rng.integers(30, 120)], fill=30, font=typeface)
    return (np.asarray(image, float) + rng.normal(0, 2, (height, width))).clip(0, 255).astype(np.uint8)


def columns(sheet: np.ndarray, count: int) -> list[Image.Image]:
    return [Image.fromarray(part) for part in np.array_split(sheet, count, axis=1)]


def tilted(strips: list[Image.Image], degrees: float, seed: int) -> list[Image.Image]:
    """On a grey lid, each turned one way or the other and a few rows up or down, with a scanner's noise."""
    rng, scans = np.random.default_rng(seed), []
    for strip in strips:
        lid = Image.new("L", (strip.width + 100, strip.height + 60), LID)
        lid.paste(strip, (50, 30 + int(rng.integers(-3, 4))))
        angle = degrees * rng.choice([-1, 1]) * rng.uniform(0.7, 1)
        turned = np.asarray(lid.rotate(angle, Image.Resampling.BICUBIC, fillcolor=LID), float)
        scans.append(Image.fromarray((turned + rng.normal(0, 1.5, turned.shape)).clip(0, 255).astype(np.uint8)))
    return scans


def score(strips: list[Image.Image], seed: int) -> Score:
    mixed = np.random.default_rng(seed).permutation(len(strips))
    found = reassemble_page(find_paper([(str(k), strips[k]) for k in mixed])).solution
    order, sure = found.order, found.confidence
    right = np.diff(mixed[order.numpy()]) == 1
    claimed = torch.minimum(sure[order][1:], sure[order][:-1]).numpy() > SURE
    return int(right.sum()), len(right), int(claimed.sum()), int(right[claimed].sum())


def as_jigsaw(pixels: np.ndarray, count: int, seed: int) -> int:
    """Right neighbours of the jigsaw solver, on a grid of one row."""
    tiles, _ = cut(pixels, Grid(1, count))
    mixed = np.random.default_rng(seed).permutation(count)
    order = reassemble(as_float(tiles[mixed]), Grid(1, count)).order.numpy()
    return int((np.diff(mixed[order]) == 1).sum())


def told(name: str, scores: list[Score], rest: str = "") -> dict[str, float]:
    right, joins, claimed, kept = np.array(scores).sum(0).tolist()
    least = min(score[0] for score in scores)
    print(f"{name:34}{right:5} of {joins:5} {least:6} {claimed:14} {kept / max(claimed, 1):12.3f}{rest}", flush=True)
    return {"right": right, "joins": joins, "least": least, "sure": claimed, "sure and right": kept}


def keep(result: dict[str, dict[str, float]], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pages", type=int, default=len(FONTS))
    parser.add_argument("--out", type=Path, default=Path("results/straight.json"))
    arguments = parser.parse_args()
    pages = [page(*font, seed) for seed, font in enumerate(FONTS[: arguments.pages])]
    print(f"{'':34}{'right neighbours':>14} {'least':>6} {'sure (> 0.5)':>12} {'of them right':>14}")
    result = {}
    for count in (10, 20, 30):
        name = f"text, {count} clean strips"
        result[name] = told(name, [score(columns(sheet, count), k) for k, sheet in enumerate(pages)])
        keep(result, arguments.out)
    for degrees in (0.0, 0.5, 1.0, 2.0):
        name = f"text, 20 strips on a lid, {degrees:g} degrees"
        result[name] = told(name, [score(tilted(columns(sheet, 20), degrees, k), k) for k, sheet in enumerate(pages)])
        keep(result, arguments.out)
    if arguments.data is not None:
        photos = [np.asarray(Image.open(f).convert("RGB")) for f in sorted((arguments.data / "photos").glob("*.jpg"))]
        other = sum(as_jigsaw(photo, 20, k) for k, photo in enumerate(photos))
        scores = [score(columns(photo, 20), k) for k, photo in enumerate(photos)]
        result["photos, 20 clean strips"] = told("photos, 20 clean strips", scores, f"   (jigsaw solver: {other})")
        result["photos, 20 clean strips"]["jigsaw solver"] = other
        keep(result, arguments.out)


if __name__ == "__main__":
    main()
