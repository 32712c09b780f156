"""Does the confidence of a path mean something? How often an item that is so sure has both neighbours of the true order.

    python benchmarks/path_confidence.py [--data FOLDER] [--out results/path_confidence.json]

Curves with noise are made here. FOLDER/shredded holds pages: on the black that they were scanned on all strips find their place, so the
black is painted white up to some grey, which takes a part of each edge away. The scale of the confidence was chosen on other
curves and on the first five pages; the last five are reported.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.progress import track
from scipy.ndimage import label
from solve_seriation import curve
from tour_confidence import reliability

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.tasks.strips import Strip, find_paper, read_strips, reassemble_page

FIRST = 8000  # seed
NOISE = (0.005, 0.01, 0.02, 0.05)
GREYS = (60, 80, 100)


def curves() -> Iterator[torch.Tensor]:
    for k, kind in enumerate(("spiral", "sine", "helix")):
        for noise in NOISE:
            for seed in range(FIRST, FIRST + 2):
                yield torch.from_numpy(curve(kind, 100, noise, seed + 10 * k))


def painted(strips: list[Strip], grey: int) -> list[Strip]:
    """What is darker than ``grey`` and joined to the border of the scan is white."""
    pictures = []
    for strip in strips:
        pixels = np.asarray(strip.picture.convert("RGB")).copy()
        areas = np.asarray(label(pixels.max(2) < grey)[0])  # pyright: ignore[reportIndexIssue]
        border = np.concatenate([areas[:, 0], areas[:, -1], areas[0], areas[-1]])
        pixels[np.isin(areas, np.setdiff1d(border, 0))] = 255
        pictures.append((strip.name, Image.fromarray(pixels)))
    return find_paper(pictures)


def pages(data: Path) -> Iterator[list[Strip]]:
    for folder in sorted(f for f in (data / "shredded").iterdir() if f.is_dir())[5:]:
        strips = read_strips(folder)
        for grey in GREYS:
            yield painted(strips, grey)


def one(given: torch.Tensor | list[Strip]) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and truth per item, in the order found; costs and strips are in true order and shuffled here."""
    n = len(given)
    mixed = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    if isinstance(given, list):
        found = reassemble_page([given[k] for k in mixed.tolist()]).solution
    else:
        found = us.solve(us.Path(n), cost=given[mixed][:, mixed])
    true = (mixed[found.order].diff().abs() == 1).numpy()
    return found.confidence[found.order].numpy(), np.r_[True, true] & np.r_[true, True]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("results/path_confidence.json"))
    options = parser.parse_args()
    kinds = {"curves": list(curves())} | ({} if options.data is None else {"strips": list(pages(options.data))})
    result = {}
    for name, costs in kinds.items():
        seen = [one(cost) for cost in track(costs, name)]
        sure, right = (np.concatenate([row[k] for row in seen]) for k in (0, 1))
        table, off = reliability(sure, right)
        print(f"{name}: {right.mean():.3f} right; mean of |confidence - right| over the bins {off:.3f}")
        result[name] = {
            "items": len(right),
            "right": round(float(right.mean()), 3),
            "off": round(off, 3),
            "bins": table,
        }
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
