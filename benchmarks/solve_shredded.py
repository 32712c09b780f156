"""Shredded pages as people have them: upside down, mixed, incomplete, cut both ways; and whether the confidence keeps its word.

    python benchmarks/solve_shredded.py --data FOLDER [--only turned ...] [--out results/shredded.json]

FOLDER/shredded holds one folder per page, whose files are numbered in true order. The scale of the confidence was chosen on the first five pages and
on rendered ones, the weights of the cost and what tells pages apart have seen all ten; the last five are reported. Shreds are cut from pages pasted together in true order, and from pages rendered here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from path_confidence import painted
from PIL import Image
from solve_straight import FONTS, columns, page, tilted

from unshuffle.files import write_atomic
from unshuffle.metrics import expected_calibration_error, neighbour_accuracy
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.strips import (
    Page,
    Strip,
    find_paper,
    paste,
    read_strips,
    reassemble_page,
    reassemble_pages,
    reassemble_shreds,
)

FIRST = 5  # pages before were chosen on
SEED = 900  # of rendered pages: others than those chosen on
SHREDS = Grid(4, 30)


def truth_of(strips: list[Strip], turned: bool, missing: float, seed: int) -> tuple[list[tuple[str, Image.Image]], np.ndarray, np.ndarray]:  # fmt: skip
    """Scans in a random order, the true number of each, and whether it is upside down."""
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(strips))[: len(strips) - round(missing * len(strips))]
    upside = rng.permutation(len(kept)) % 2 == 1 if turned else np.zeros(len(kept), bool)
    scans = [strips[k].picture.rotate(180) if u else strips[k].picture for k, u in zip(kept, upside, strict=True)]
    return [(f"{place}.png", scan) for place, scan in enumerate(scans)], kept, upside


def right_joins(found: Page, true: np.ndarray, upside: np.ndarray) -> int:
    """Neighbours of the true page that stand together the same way round; numbers of other pages are far away."""
    order = found.order.numpy()
    stands = upside[order] ^ np.array(found.turned)
    step = np.diff(true[order])
    return int(((stands[1:] == stands[:-1]) & (step == np.where(stands[1:], -1, 1))).sum())


def joins_of(true: np.ndarray) -> int:
    return int(np.isin(true + 1, true).sum())


def one_page(pages: list[list[Strip]], *, turned: bool = False, missing: float = 0.0) -> dict[str, float]:
    right, joins, least, began = 0, 0, 1.0, time.process_time()
    for seed, strips in enumerate(pages):
        scans, true, upside = truth_of(strips, turned, missing, seed)
        found = reassemble_page(find_paper(scans), turned=turned, missing=missing > 0)
        now, possible = right_joins(found, true, upside), joins_of(true)
        right, joins, least = right + now, joins + possible, min(least, now / possible)
    return told(right, joins, least, began, len(pages))


def told(right: int, joins: int, least: float, began: float, cases: int) -> dict[str, float]:
    seconds = (time.process_time() - began) / cases
    return {
        "neighbours": round(right / joins, 4),
        "right": right,
        "joins": joins,
        "worst": round(least, 4),
        "core seconds": round(seconds, 2),
    }


def mixed(pages: list[list[Strip]], *, turned: bool = False) -> dict[str, float]:
    """Three pages at a time."""
    right, joins, least, alike, began = 0, 0, 1.0, [], time.process_time()
    for seed in range(len(pages)):
        three = [pages[(seed + k) % len(pages)] for k in range(3)]
        parts = [truth_of(strips, turned, 0.0, 10 * seed + k) for k, strips in enumerate(three)]
        true = np.concatenate([part[1] + 1000 * k for k, part in enumerate(parts)])
        upside = np.concatenate([part[2] for part in parts])
        again = np.random.default_rng(seed).permutation(len(true))
        scans = [scan for part in parts for scan in part[0]]
        found = reassemble_pages(find_paper([scans[k] for k in again]), turned=turned)
        now, possible = sum(right_joins(one, true[again], upside[again]) for one in found), joins_of(true)
        right, joins, least = right + now, joins + possible, min(least, now / possible)
        alike.append(len(found) == 3)
    return told(right, joins, least, began, len(pages)) | {"three pages found": float(np.mean(alike))}


def shreds(sheets: list[np.ndarray]) -> dict[str, float]:
    """Clean cuts, four down and thirty across."""
    scores, began = [], time.process_time()
    for seed, sheet in enumerate(sheets):
        cut = [t for band in np.array_split(sheet, 4, axis=0) for t in np.array_split(band, 30, axis=1)]
        order = np.random.default_rng(seed).permutation(len(cut))
        strips = find_paper([(str(place), Image.fromarray(cut[k])) for place, k in enumerate(order)])
        found, _ = reassemble_shreds(strips, SHREDS)
        scores.append(float(neighbour_accuracy(found.order, torch.from_numpy(np.argsort(order)), SHREDS)))
        print(f"  {scores[-1]:.3f}", flush=True)
    seconds = (time.process_time() - began) / len(sheets)
    return {
        "neighbours": round(float(np.mean(scores)), 4),
        "worst": round(min(scores), 4),
        "core seconds": round(seconds, 2),
    }


def calibration(piles: list[list[Strip]]) -> dict[str, float]:
    """Of the strips of all piles: how sure, how often both neighbours are right, how far apart that is on average over ten bins."""
    sure, right = [], []
    for seed, strips in enumerate(piles):
        order = np.random.default_rng(seed).permutation(len(strips))
        found = reassemble_page([strips[k] for k in order])
        true = np.diff(order[found.order.numpy()]) == 1
        sure.append(found.confidence)
        right.append(torch.from_numpy(np.r_[True, true] & np.r_[true, True]))
    confidence, truth = torch.cat(sure), torch.cat(right)
    said = confidence > 0.9
    return {
        "strips": len(truth),
        "says": round(float(confidence.mean()), 3),
        "right": round(float(truth.double().mean()), 3),
        "calibration error": round(expected_calibration_error(confidence, truth), 3),
        "above 0.9": int(said.sum()),
        "of them right": round(float(truth[said].double().mean()), 3),
    }


def part_of(strips: list[Strip], rows: int, seed: int) -> list[Strip]:
    """Only some rows of a page: less to tell by."""
    top = int(np.random.default_rng(seed).integers(100, strips[0].picture.height - rows - 60))
    return find_paper([(s.name, s.picture.crop((0, top, s.picture.width, top + rows))) for s in strips])


def rendered(count: int) -> list[np.ndarray]:
    return [page(*FONTS[k % len(FONTS)], SEED + k) for k in range(count)]


def cases(pages: list[list[Strip]]) -> dict[str, Callable[[], dict[str, float]]]:
    def straight(tilt: float | None) -> list[list[Strip]]:
        cut = [columns(sheet, 20) for sheet in rendered(9)]
        scans = cut if tilt is None else [tilted(strips, tilt, SEED + k) for k, strips in enumerate(cut)]
        return [find_paper([(str(k), scan) for k, scan in enumerate(strips)]) for strips in scans]

    pasted = [np.asarray(paste(strips, list(range(len(strips)))).convert("L")) for strips in pages]
    return {
        "plain": lambda: one_page(pages),
        "turned": lambda: one_page(pages, turned=True),
        "missing": lambda: one_page(pages, missing=0.1),
        "three pages": lambda: mixed(pages),
        "three pages, turned": lambda: mixed(pages, turned=True),
        "shreds of real pages": lambda: shreds(pasted),
        "shreds of rendered pages": lambda: shreds(rendered(5)),
        "confidence, whole pages": lambda: calibration(pages),
        "confidence, painted over": lambda: calibration([painted(p, grey) for p in pages for grey in (60, 80, 100)]),
        "confidence, parts": lambda: calibration([part_of(p, r, k) for k, p in enumerate(pages) for r in (200, 400)]),
        "confidence, straight": lambda: calibration(straight(None)),
        "confidence, tilted": lambda: calibration(straight(1.0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=None, help="cases whose names begin so")
    parser.add_argument("--out", type=Path, default=Path("results/shredded.json"))
    options = parser.parse_args()
    pages = [read_strips(f) for f in sorted((options.data / "shredded").iterdir()) if f.is_dir()][FIRST:]
    result = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name, run in cases(pages).items():
        if options.only is None or name.startswith(tuple(options.only)):
            result[name] = run()
            print(f"{name:28}", "  ".join(f"{key} {value:g}" for key, value in result[name].items()), flush=True)
            write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
