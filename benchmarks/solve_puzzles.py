"""Puzzles as people have them: tiles that are turned, missing, of other pictures; the size known or not.

    python benchmarks/solve_puzzles.py --data FOLDER [--only "turned 432" --only "turned 12x9"] [--stride 2,0]

``FOLDER`` holds `photos/` and `jigsaw_432/`. Pictures are cut here, so the truth is known. A turned picture is compared with the
truth in the whole turn that fits best; "up to identical" takes tiles with the same pixels, turned or not, for each other; of the photos
only every other one, since on those between them the search was chosen. Of piles,
"neighbour" counts the true seams of which both tiles came, "in place" the tiles that came and belong, "precision" and "recall" the
tiles left out (one in ten is of the picture seven files on). Mixed: tiles of several photos in one pile, how many and of what size is not
said; the rules were chosen on other photos, but two of these piles have been looked at. Gaps: so many pixels are worn off each edge of tiles of 28, cut out of the
corner of a photo or of the photo at half its size; only photos on which the costs were not chosen; "gap found" is how often
``--gap auto`` says as much. Frame: 48x36 tiles of 14 pixels; "direct" is lost if the whole picture stands a line off its place.
Seconds are those of reassembling (comparing, annealing, mending), on the threads of torch.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from unshuffle.metrics import direct_accuracy, neighbour_accuracy
from unshuffle.operators.permutation import inverse
from unshuffle.readers.pictures import read_picture
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.gaps import find_gap
from unshuffle.tasks.jigsaw import as_float, cut, identical, reassemble
from unshuffle.tasks.piles import reassemble_pile, reassemble_several
from unshuffle.tasks.turned import turned_scores, whole_turned

LEFT_OUT = ("abstract-spiral", "valley-midnight", "waves-midnight", "saturnian-profile", "Fossa", "Infinite-Sea", "Painting-Colors", "analogpattern", "umang")  # fmt: skip
"""As in `solve_jigsaw`: named before anything was solved."""


LARGE = {5015: (85, 59), 10375: (125, 83), 22834: (185, 123)}
"""Pieces, and how many of them stand beside and below each other."""


def square_tiles(path: Path, columns: int, rows: int, size: int | None = None) -> tuple[np.ndarray, Grid]:
    """Square tiles, of ``size`` pixels out of the middle or as large as they can be; the grid stands as the picture does."""
    pixels = read_picture(path)[..., :3]
    upright = (pixels.shape[0] > pixels.shape[1]) != (rows > columns) and rows != columns
    grid = Grid(columns, rows) if upright else Grid(rows, columns)
    side = size or min(pixels.shape[0] // grid.height, pixels.shape[1] // grid.width)
    high, wide = side * grid.height, side * grid.width
    top, left = ((pixels.shape[0] - high) // 2, (pixels.shape[1] - wide) // 2) if size else (0, 0)
    return cut(pixels[top : top + high, left : left + wide], grid)[0], grid


def turned(path: Path, columns: int, rows: int, seed: int, size: int | None = None) -> dict[str, float]:
    """All tiles in random order and turned at random."""
    whole, grid = square_tiles(path, columns, rows, size)
    generator = torch.Generator().manual_seed(seed)
    shuffle = torch.randperm(grid.n, generator=generator)
    turns = torch.randint(4, (grid.n,), generator=generator)
    tiles = np.stack([np.rot90(whole[k], -t) for k, t in zip(shuffle.tolist(), turns.tolist(), strict=True)])
    truth = inverse(shuffle)
    began, worked = time.perf_counter(), time.process_time()
    found, _ = reassemble_pile(as_float(tiles), grid, turned=True)
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


def mixed(
    path: Path, seed: int, *, others: list[Path], columns: int, rows: int, size: int | None = None, turn: bool = True
) -> dict[str, float]:
    """The tiles of several pictures in one pile, turned or not; a true seam is right if both tiles are so in one of the pictures found."""
    rng = np.random.default_rng(seed)
    cuts = [square_tiles(file, columns, rows, size) for file in (path, *others)]
    whole, first = np.concatenate([tiles for tiles, _ in cuts]), np.cumsum([0] + [grid.n for _, grid in cuts])
    shuffle, turns = rng.permutation(len(whole)), rng.integers(0, 4, len(whole)) * turn
    tiles = np.stack([np.rot90(whole[k], -t) for k, t in zip(shuffle, turns, strict=True)])
    came = np.argsort(shuffle)  # the number in the pile of each tile of the pictures
    began, worked = time.perf_counter(), time.process_time()
    found = reassemble_several(as_float(tiles), turned=turn, all_belong=True)
    times = {"seconds": time.perf_counter() - began, "core seconds": time.process_time() - worked}
    picture, row, column, turned = np.full((4, len(tiles)), -1)
    for k, one in enumerate(found):
        order, state = one.solution.order.numpy(), one.solution.state
        cells = np.flatnonzero(order >= 0)
        picture[order[cells]], turned[order[cells]] = k, state.numpy()[cells] if state is not None else 0
        row[order[cells]], column[order[cells]] = np.divmod(cells, one.grid.width)
    right = []
    for k, (_, grid) in enumerate(cuts):
        cell = came[first[k] : first[k + 1]].reshape(grid.height, grid.width)
        for a, b, down, across in ((cell[:, :-1], cell[:, 1:], 0, 1), (cell[:-1], cell[1:], 1, 0)):
            a, b = a.reshape(-1), b.reshape(-1)
            whole_turn = (turned[a] - turns[a]) % 4
            steps = np.array([(down, across), (-across, down), (-down, -across), (across, -down)])[whole_turn]
            placed = (picture[a] >= 0) & (picture[a] == picture[b]) & (whole_turn == (turned[b] - turns[b]) % 4)
            right.append(placed & (row[b] - row[a] == steps[:, 0]) & (column[b] - column[a] == steps[:, 1]))
    return {
        "neighbour": float(np.concatenate(right).mean()),
        "as many pictures": float(len(found) == len(cuts)),
    } | times


def piled(
    path: Path, other: Path, columns: int, rows: int, seed: int, *, foreign: bool, known: bool
) -> dict[str, float]:
    """One tile in ten is missing, and if ``foreign`` as many of another picture are among them."""
    whole, grid = square_tiles(path, columns, rows)
    rng = np.random.default_rng(seed)
    gone = round(0.1 * grid.n)
    cells = rng.permutation(grid.n)[gone:]
    strangers = square_tiles(other, columns, rows)[0][rng.permutation(grid.n)[: gone * foreign]]
    tiles, place = np.concatenate((whole[cells], strangers)), np.concatenate((cells, np.full(len(strangers), -1)))
    mixed = rng.permutation(len(tiles))
    tiles, place = tiles[mixed], place[mixed]
    began, worked = time.perf_counter(), time.process_time()
    found, shape = reassemble_pile(as_float(tiles), grid if known else None, foreign=foreign)
    times = {"seconds": time.perf_counter() - began, "core seconds": time.process_time() - worked}
    order = found.order.numpy()
    row, column = np.full((2, len(tiles)), -9)
    row[order[order >= 0]], column[order[order >= 0]] = np.divmod(np.flatnonzero(order >= 0), shape.width)
    tile = np.full((grid.height, grid.width), -1)
    tile.reshape(-1)[place[place >= 0]] = np.flatnonzero(place >= 0)
    right = []
    for a, b, down, across in ((tile[:, :-1], tile[:, 1:], 0, 1), (tile[:-1], tile[1:], 1, 0)):
        both = (a >= 0) & (b >= 0)
        a, b = a[both], b[both]
        right.append((row[a] >= 0) & (row[b] - row[a] == down) & (column[b] - column[a] == across))
    out, belongs = ~np.isin(np.arange(len(tiles)), order), place >= 0
    in_place = belongs & (row == place // grid.width) & (column == place % grid.width)
    scores = {"neighbour": np.concatenate(right).mean(), "in place": in_place.sum() / belongs.sum()}
    if foreign:
        scores |= {"precision": (out & ~belongs).sum() / max(out.sum(), 1), "recall": out[~belongs].mean()}
    return {key: float(value) for key, value in scores.items()} | {"size": float(shape == grid)} | times


def gapped(path: Path, seed: int, *, gap: int, half: bool) -> dict[str, float]:
    """12x9 tiles of 28 pixels in random order, less ``gap`` pixels at each edge."""
    pixels = read_picture(path)[..., :3]
    if half:
        high, wide = pixels.shape[0] // 2 * 2, pixels.shape[1] // 2 * 2
        blocks = pixels[:high, :wide].reshape(high // 2, 2, wide // 2, 2, -1)
        pixels = blocks.mean((1, 3)).round().astype(np.uint8)
    grid = Grid(9, 12) if pixels.shape[1] > pixels.shape[0] else Grid(12, 9)
    whole = cut(pixels[: 28 * grid.height, : 28 * grid.width], grid)[0][:, gap : 28 - gap, gap : 28 - gap]
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(seed))
    tiles = as_float(whole[shuffle.numpy()])
    began, worked = time.perf_counter(), time.process_time()
    found = reassemble(tiles, grid, gap=gap)
    times = {"seconds": time.perf_counter() - began, "core seconds": time.process_time() - worked}
    scores = upright_scores(found.order, inverse(shuffle), grid)
    return scores | {"gap found": float(find_gap(tiles) == gap)} | times


def upright_scores(order: torch.Tensor, truth: torch.Tensor, grid: Grid) -> dict[str, float]:
    return {
        "neighbour": float(neighbour_accuracy(order, truth, grid)),
        "direct": float(direct_accuracy(order, truth)),
    }


def complete(path: Path, seed: int, *, columns: int, rows: int) -> dict[str, float]:
    """Upright and complete."""
    whole, grid = square_tiles(path, columns, rows)
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(seed))
    began, worked = time.perf_counter(), time.process_time()
    found = reassemble(as_float(whole[shuffle.numpy()]), grid)
    times = {"seconds": time.perf_counter() - began, "core seconds": time.process_time() - worked}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return upright_scores(found.order, inverse(shuffle), grid) | times | {"peak GB": peak}


Problem = tuple[str, list[Path], Callable[[Path, int], dict[str, float]]]


def problems(data: Path) -> list[Problem]:
    photos = [f for f in sorted((data / "photos").glob("*.jpg")) if not any(name in f.name for name in LEFT_OUT)]
    classic = sorted((data / "jigsaw_432").glob("*.png"), key=lambda f: int(f.stem))

    def of_piles(
        files: list[Path], columns: int, rows: int, *, foreign: bool, known: bool
    ) -> Callable[[Path, int], dict[str, float]]:
        def one(path: Path, seed: int) -> dict[str, float]:
            other = files[(files.index(path) + 7) % len(files)]
            return piled(path, other, columns, rows, seed, foreign=foreign, known=known)

        return one

    gaps = [
        (f"gap {gap}, 12x9 of 28 pixels{', half size' * half}", photos[1::2], partial(gapped, gap=gap, half=half))
        for gap in (1, 2, 3)
        for half in (False, True)
    ]
    large = [
        (f"large {n}", sorted((data / "jigsaw_large").glob(f"pieces_{n}_*.jpg")), partial(complete, columns=w, rows=h))
        for n, (w, h) in LARGE.items()
    ]
    huge = sorted((data / "jigsaw_large").glob("*.jpg"))  # of which the middle is taken

    def of_mixed(files: list[Path], count: int, columns: int, rows: int, size: int | None, turn: bool) -> Problem:
        """Each pile is of a picture and of those that follow it; no picture is in two piles."""
        shape = {"columns": columns, "rows": rows, "size": size, "turn": turn}

        def one(path: Path, seed: int) -> dict[str, float]:
            first = files.index(path)
            return mixed(path, seed, others=files[first + 1 : first + count], **shape)

        name = f"mixed {count} x {columns * rows if size else f'{columns}x{rows}'}{', turned' * turn}"
        return name, files[: len(files) // count * count : count], one

    piles = [of_mixed(photos[1::2], count, 12, 9, None, turn) for count in (2, 3, 5) for turn in (False, True)]

    return [
        *gaps,
        ("turned 540", huge, lambda path, seed: turned(path, 30, 18, seed, 28)),
        ("turned 805", huge, lambda path, seed: turned(path, 35, 23, seed, 28)),
        of_mixed(huge, 2, 35, 23, 28, True),
        of_mixed(huge, 5, 35, 23, 28, True),
        *piles,
        *large,
        ("frame 48x36", photos, partial(complete, columns=48, rows=36)),
        ("missing 432", classic, of_piles(classic, 24, 18, foreign=False, known=True)),
        ("missing 432, size unknown", classic, of_piles(classic, 24, 18, foreign=False, known=False)),
        ("missing and foreign 12x9", photos, of_piles(photos, 12, 9, foreign=True, known=True)),
        ("missing and foreign 12x9, size unknown", photos, of_piles(photos, 12, 9, foreign=True, known=False)),
        ("turned 7x7", photos[1::2], lambda path, seed: turned(path, 7, 7, seed)),
        ("turned 12x9", photos[1::2], lambda path, seed: turned(path, 12, 9, seed)),
        ("turned 432", classic, lambda path, seed: turned(path, 24, 18, seed)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", action="append", help="the name of a problem; may be given several times")
    parser.add_argument("--stride", default="1,0", help="every how many-th picture, from which")
    parser.add_argument("--out", type=Path, default=Path("results/solve_puzzles.json"))
    options = parser.parse_args()
    every, first = (int(part) for part in options.stride.split(","))
    reassemble_pile(torch.rand(9, 4, 4, 3) * 255, Grid(3, 3), turned=True)  # compile
    for name, files, solve in problems(options.data):
        if options.only and name not in options.only:
            continue
        cases = []
        for seed, path in list(enumerate(files))[first::every]:
            cases.append(solve(path, seed))
            print(f"  {path.name[:40]:<40}" + "  ".join(f"{k} {v:.3f}" for k, v in cases[-1].items()), flush=True)
        line = {key: round(float(np.mean([case[key] for case in cases])), 4) for key in cases[0]}
        print(f"{name:<16}{len(cases):>4}  " + "  ".join(f"{k} {v:.4f}" for k, v in line.items()), flush=True)
        row = {"problem": name, "pictures": len(cases), "every, from": [every, first], "threads": torch.get_num_threads(), **line}  # fmt: skip
        # read only now: another run may have written rows meanwhile
        table = json.loads(options.out.read_text())["table"] if options.out.exists() else []
        table = [other for other in table if other["problem"] != name] + [row]
        options.out.parent.mkdir(parents=True, exist_ok=True)
        fresh = options.out.with_suffix(".new")
        fresh.write_text(json.dumps({"machine": platform.machine(), "table": table}, indent=1) + "\n")
        fresh.replace(options.out)


if __name__ == "__main__":
    main()
