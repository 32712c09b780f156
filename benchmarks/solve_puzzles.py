"""Puzzles as people have them, against their bars: tiles that are turned.

    python benchmarks/solve_puzzles.py --data FOLDER [--only "turned 432,turned 12x9"] [--stride 2,0]

``FOLDER`` holds `photos/` and `jigsaw_432/`. Pictures are cut here, so the truth is known. A turned picture is compared with the
truth in the whole turn that fits best; "up to identical" takes tiles with the same pixels, turned or not, for each other.
Seconds are those of reassembling (comparing, annealing, mending), on the threads of torch.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from unshuffle.operators.permutation import inverse
from unshuffle.readers.pictures import read_picture
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float, cut, identical
from unshuffle.tasks.turned import reassemble_turned, turned_scores, whole_turned

LEFT_OUT = ("abstract-spiral", "valley-midnight", "waves-midnight", "saturnian-profile", "Fossa", "Infinite-Sea", "Painting-Colors", "analogpattern", "umang")  # fmt: skip
"""As in `solve_jigsaw`: named before anything was solved."""


def square_tiles(path: Path, columns: int, rows: int, size: int | None = None) -> tuple[np.ndarray, Grid]:
    """Square tiles, of ``size`` pixels or as large as they can be; the grid stands as the picture does."""
    pixels = read_picture(path)[..., :3]
    upright = (pixels.shape[0] > pixels.shape[1]) != (rows > columns) and rows != columns
    grid = Grid(columns, rows) if upright else Grid(rows, columns)
    side = size or min(pixels.shape[0] // grid.height, pixels.shape[1] // grid.width)
    return cut(pixels[: side * grid.height, : side * grid.width], grid)[0], grid


def turned(path: Path, columns: int, rows: int, seed: int) -> dict[str, float]:
    """All tiles in random order and turned at random."""
    whole, grid = square_tiles(path, columns, rows)
    generator = torch.Generator().manual_seed(seed)
    shuffle = torch.randperm(grid.n, generator=generator)
    turns = torch.randint(4, (grid.n,), generator=generator)
    tiles = np.stack([np.rot90(whole[k], -t) for k, t in zip(shuffle.tolist(), turns.tolist(), strict=True)])
    truth = inverse(shuffle)
    began, worked = time.perf_counter(), time.process_time()
    found = reassemble_turned(as_float(tiles), grid)
    times = {"seconds": time.perf_counter() - began, "core seconds": time.process_time() - worked}
    scores = turned_scores(found, truth, turns, grid, square=True)
    # tiles that look like what belongs where they stand are taken for it
    pieces = torch.from_numpy(identical(np.stack([np.rot90(tile, k) for tile in tiles for k in range(4)])))
    here = whole_turned(found, grid, scores.turn)
    assert here.state is not None
    alike = pieces[here.order * 4 + here.state] == pieces[truth * 4 + turns[truth]]
    order, state = torch.where(alike, truth, here.order), torch.where(alike, turns[truth], here.state)
    equal = turned_scores(replace(here, order=order, state=state), truth, turns, grid, square=True)
    return {
        "neighbour": scores.neighbour,
        "direct": scores.direct,
        "neighbour up to identical": equal.neighbour,
        "direct up to identical": equal.direct,
        "all right up to identical": float(equal.direct == 1),
        "upright": float(scores.turn == 0),
        "confidence": float(found.confidence.mean()),
        **times,
    }


Problem = tuple[str, list[Path], Callable[[Path, int], dict[str, float]]]


def problems(data: Path) -> list[Problem]:
    photos = [f for f in sorted((data / "photos").glob("*.jpg")) if not any(name in f.name for name in LEFT_OUT)]
    classic = sorted((data / "jigsaw_432").glob("*.png"), key=lambda f: int(f.stem))
    return [
        ("turned 7x7", photos, lambda path, seed: turned(path, 7, 7, seed)),
        ("turned 12x9", photos, lambda path, seed: turned(path, 12, 9, seed)),
        ("turned 432", classic, lambda path, seed: turned(path, 24, 18, seed)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="", help="comma-separated names of problems")
    parser.add_argument("--stride", default="1,0", help="every how many-th picture, from which")
    parser.add_argument("--out", type=Path, default=Path("results/solve_puzzles.json"))
    options = parser.parse_args()
    every, first = (int(part) for part in options.stride.split(","))
    reassemble_turned(torch.rand(9, 4, 4, 3) * 255, Grid(3, 3))  # compile
    table = json.loads(options.out.read_text())["table"] if options.out.exists() else []
    for name, files, solve in problems(options.data):
        if options.only and name not in options.only.split(","):
            continue
        cases = []
        for seed, path in list(enumerate(files))[first::every]:
            cases.append(solve(path, seed))
            print(f"  {path.name[:40]:<40}" + "  ".join(f"{k} {v:.3f}" for k, v in cases[-1].items()), flush=True)
        line = {key: round(float(np.mean([case[key] for case in cases])), 4) for key in cases[0]}
        print(f"{name:<16}{len(cases):>4}  " + "  ".join(f"{k} {v:.4f}" for k, v in line.items()), flush=True)
        row = {"problem": name, "pictures": len(cases), "every, from": [every, first], "threads": torch.get_num_threads(), **line}  # fmt: skip
        table = [other for other in table if other["problem"] != name] + [row]
        options.out.parent.mkdir(parents=True, exist_ok=True)
        fresh = options.out.with_suffix(".new")
        fresh.write_text(json.dumps({"machine": platform.machine(), "table": table}, indent=1) + "\n")
        fresh.replace(options.out)


if __name__ == "__main__":
    main()
