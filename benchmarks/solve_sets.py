"""Do the sets hold the truth? `Solution.sets(0.9)` on paths, tours, grids and contacts whose answers are known.

    python benchmarks/solve_sets.py [--data FOLDER] [--only paths tours grids contacts strips tables] [--out results/solve_sets.json]

Curves, tours and tables are made here, of other seeds than those that temperatures were chosen on (9000 and up). FOLDER/faces: portraits 200 to
211 with noise, cut into 49 tiles (chosen on 120 to 129, and on 600 to 659 where to cut); FOLDER/hic: chromosomes II, IV, VI with noise added to
the logarithms (chosen on I, III, V, VII, VIII); FOLDER/shredded: the last five pages, their black painted over as in path_confidence.py
(chosen on the first five). The truth of a tour is the best known one.
Standard errors are over problems. Sets of whole places hold the truth more often than 90 %, most of all where one place is
nearly sure; "exactly" is what they hold if the last place of each is left out as often as makes it 90 % by their own account.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from path_confidence import pages
from rich.progress import track
from solve_orders import scaffold_noisy
from solve_seriation import curve
from tour_confidence import best_known

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.readers.pictures import read_picture
from unshuffle.readers.tables import Table
from unshuffle.solve.sets import Sets
from unshuffle.tasks.criteria import Criterion, Kind
from unshuffle.tasks.jigsaw import as_float, cut, reassemble
from unshuffle.tasks.seriation import dissimilarity, seriate
from unshuffle.tasks.strips import reassemble_page

LEVEL = 0.9
Case = tuple[str, Callable[..., Sets], np.ndarray, np.ndarray, float]
"""Name, sets at a level, true place of each item, pairs of true neighbours, and the share of items that the order itself has in place
(of tours: the share of links)."""


SURE: list[tuple[np.ndarray, np.ndarray]] = []
"""Confidences that were not yet measured elsewhere, and whether both neighbours are right."""


def as_read(place: np.ndarray, order: np.ndarray) -> np.ndarray:
    """True places, counted from the end at which the order begins."""
    same = np.dot(np.argsort(order) - (len(order) - 1) / 2, place) >= 0
    return place if same else len(place) - 1 - place


def either_way(name: str, sets: Callable[..., Sets], place: np.ndarray, order: np.ndarray) -> Case:
    """Of an order whose first end nothing tells."""
    return in_line(name, sets, as_read(place, order), order)


def in_line(name: str, sets: Callable[..., Sets], place: np.ndarray, order: np.ndarray) -> Case:
    item = np.argsort(place)
    return name, sets, place, np.stack((item[:-1], item[1:])), float((place[order] == np.arange(len(order))).mean())


def paths(_: Path | None) -> Iterator[Case]:
    for k, kind in enumerate(("spiral", "sine", "helix")):
        for noise in (0.01, 0.03, 0.06):
            for seed in range(8100 + k, 8140 + k, 10):
                mixed = np.random.default_rng(seed).permutation(100)
                cost = torch.from_numpy(curve(kind, 100, noise, seed)[np.ix_(mixed, mixed)].copy())
                found = us.solve(us.Path(100), cost=cost)
                yield either_way(f"noise {noise}", found.sets, mixed, found.order.numpy())


def tours(_: Path | None) -> Iterator[Case]:
    for n in (50, 100):
        for seed in range(8200, 8206):
            points = torch.rand(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            cost = torch.cdist(points, points)
            found = us.solve(us.Cycle(n), cost=cost, seed=seed)
            best = best_known(cost, found.order, np.random.default_rng(seed)).numpy()
            true = np.stack((best, np.roll(best, -1)))
            order = found.order.numpy()
            ahead = set(zip(order, np.roll(order, -1), strict=True))
            right = np.mean([(a, b) in ahead or (b, a) in ahead for a, b in true.T])
            yield f"n = {n}", found.sets, np.empty(0), true, float(right)


def grids(data: Path | None) -> Iterator[Case]:
    files = [] if data is None else sorted((data / "faces").glob("*.jpg"))[200:212]
    grid = us.Grid(7, 7)
    for number, file in enumerate(files):
        for noise in (5, 15, 30):
            rng = np.random.default_rng(number)
            picture = read_picture(file)
            noisy = (picture + rng.normal(0, noise, picture.shape)).clip(0, 255).astype(np.uint8)
            mixed = rng.permutation(grid.n)
            found = reassemble(as_float(cut(noisy, grid)[0][mixed]), grid)
            true = np.argsort(mixed)[torch.cat(grid.relations()).numpy().T]
            right = float((mixed[found.order.numpy()] == np.arange(grid.n)).mean())
            yield f"noise {noise}", found.sets, mixed, true, right


def contacts(data: Path | None) -> Iterator[Case]:
    if data is None:
        return
    with np.load(data / "hic" / "yeast_10kb_I-VIII.npz") as known:
        for name in ("II", "IV", "VI"):
            counts = known[f"chr{name}"].astype(float)
            for noise in (0.3, 0.6, 1.0):
                mixed, found = scaffold_noisy(counts, noise)
                yield either_way(f"noise {noise}", found.sets, mixed, found.groups[0])


def strips(data: Path | None) -> Iterator[Case]:
    for number, page in enumerate([] if data is None else pages(data)):
        mixed = np.random.default_rng(number).permutation(len(page))
        found = reassemble_page([page[k] for k in mixed]).solution
        yield in_line("painted over", found.sets, mixed, found.order.numpy())


def tables(_: Path | None) -> Iterator[Case]:
    """Counts of finds that come and go along a hidden order, most of them 0: by 2-SUM."""
    for seed in range(8300, 8400):  # of 40 the calibration error is 0.03 to 0.07 by chance
        rng = np.random.default_rng(seed)
        n, finds = int(rng.integers(20, 50)), int(rng.integers(15, 40))
        centre, width, total = rng.uniform(-0.1, 1.1, finds), rng.uniform(0.05, 0.15, finds), rng.choice([3, 10, 40])
        counts = rng.poisson(total * np.exp(-(((np.sort(rng.random(n))[:, None] - centre) / width) ** 2) / 2))
        counts = counts[counts.any(1)]
        mixed = rng.permutation(len(counts))
        names = [str(k) for k in range(max(counts.shape))]
        table = Table(names[: len(mixed)], names[: counts.shape[1]], counts[mixed].astype(float))
        found = seriate(dissimilarity(table, Kind.counts), Criterion.two_sum)
        name = f"{total} at most"
        true = np.abs(np.diff(mixed[found.order])) == 1
        SURE.append((found.solution.confidence.numpy()[found.order], np.r_[True, true] & np.r_[true, True]))
        yield either_way(name, found.solution.sets, mixed, found.order)


KINDS: dict[str, Callable[[Path | None], Iterator[Case]]] = {
    "paths": paths,
    "tours": tours,
    "grids": grids,
    "contacts": contacts,
    "strips": strips,
    "tables": tables,
}


def judged(case: Case) -> dict[str, float]:
    _, sets_at, place, pairs, right = case
    told = {"right": right}
    both = np.concatenate((pairs.T, pairs[::-1].T)).tolist()
    sets, exact = sets_at(LEVEL), sets_at(LEVEL, torch.Generator().manual_seed(0))
    for name, some, fewer, true in (
        ("place", sets.places, exact.places, enumerate(place.tolist())),
        ("partner", sets.partners, exact.partners, both),
    ):
        if some:
            true = list(true)
            told[f"{name} held"] = float(np.mean([b in some[a].tolist() for a, b in true]))
            told[f"{name} held exactly"] = float(np.mean([b in fewer[a].tolist() for a, b in true]))
            told[f"{name}s"] = float(np.mean([len(each) for each in some]))
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--out", type=Path, default=Path("results/solve_sets.json"))
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for kind in options.only:
        rows: dict[str, list[dict[str, float]]] = {}
        for case in track(KINDS[kind](options.data), kind):
            rows.setdefault(case[0], []).append(judged(case))
        if not rows:
            continue
        rows["all"] = [row for some in rows.values() for row in some]
        result[kind] = {
            name: {key: round(float(np.mean([row[key] for row in some])), 3) for key in some[0]}
            for name, some in rows.items()
        }
        held = [key for key in rows["all"][0] if "held" in key]  # problems differ more than items do
        result[kind]["all"] |= {
            f"{key}, standard error": round(
                float(np.std([row[key] for row in rows["all"]]) / len(rows["all"]) ** 0.5), 3
            )
            for key in held
        }
        if kind == "tables":
            sure, right = (torch.from_numpy(np.concatenate(column)) for column in zip(*SURE, strict=True))
            result[kind]["confidence"] = {
                "mean": round(float(sure.mean()), 3),
                "both neighbours right": round(float(right.double().mean()), 3),
                "expected calibration error": round(us.metrics.expected_calibration_error(sure, right), 3),
            }
        print(kind, json.dumps(result[kind], indent=1))
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
