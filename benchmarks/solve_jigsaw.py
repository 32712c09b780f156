"""Jigsaws against their bars: portraits, photos, the classic 432-piece pictures; and how far the confidence can be trusted.

    python benchmarks/solve_jigsaw.py --data FOLDER [--only faces,photos,small,classic] [--stride 4,0] [--out results]

FOLDER holds faces/, photos/ and jigsaw_432/. Default settings of the solver, one shuffle per picture (its number is the
seed). Problems that are not run keep their rows in the result file. The photos left out are not photographs (drawings, computer art, a pattern) or mostly plain black; they were
chosen by looking at the pictures before any was solved.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

from unshuffle.metrics import direct_accuracy, neighbour_accuracy, order_tau, perfect_accuracy
from unshuffle.operators.permutation import inverse
from unshuffle.paper.measured import Measured, note
from unshuffle.paper.store import Place
from unshuffle.readers.pictures import read_picture
from unshuffle.solve.grid.evidence import Evidence
from unshuffle.solve.grid.reassembly import Effort
from unshuffle.solve.grid.solver import solve_grid
from unshuffle.solve.request import Request
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import as_float, at_border, cut, identical, reassemble, seam_costs
from unshuffle.watch import Watch

LEFT_OUT = [
    "abstract-spiral",
    "valley-midnight",
    "waves-midnight",
    "saturnian-profile",
    "Fossa",
    "Infinite-Sea",
    "Painting-Colors",
    "analogpattern",
    "umang",
]
COLUMNS = (
    "tau",
    "direct",
    "neighbour",
    "perfect",
    "direct up to identical tiles",
    "anneal only: direct",
    "seconds",
    "core seconds",
)


def problems(data: Path) -> list[tuple[str, str, list[Path], int, int, float | None]]:
    """(group, name, pictures, columns, rows, least direct accuracy)"""
    faces = sorted((data / "faces").glob("*.jpg"))[:100]
    photos = [f for f in sorted((data / "photos").glob("*.jpg")) if not any(name in f.name for name in LEFT_OUT)]
    classic = sorted((data / "jigsaw_432").glob("*.png"), key=lambda f: int(f.stem))
    sides = [("faces", f"faces {p}x{p}", faces, p, p, 0.99 if p < 8 else None) for p in (4, 5, 6, 7, 8, 10, 12)]
    pieces = ((7, 7, 0.99), (12, 9, 0.97), (24, 18, 0.95), (48, 36, None))
    shots = [("photos" if w < 48 else "small", f"photos {w}x{h}", photos, w, h, bar) for w, h, bar in pieces]
    return [*sides, *shots, ("classic", "jigsaw_432 24x18", classic, 24, 18, 0.95)]


def one(path: Path, columns: int, rows: int, seed: int) -> dict:
    """One picture, shuffled and solved."""
    pixels = read_picture(path)
    upright = (pixels.shape[0] > pixels.shape[1]) != (rows > columns) and rows != columns
    grid = Grid(columns, rows) if upright else Grid(rows, columns)
    whole, _ = cut(pixels, grid)
    shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(seed))
    tiles, truth = whole[shuffle.numpy()], inverse(shuffle)
    began, worked = time.perf_counter(), time.process_time()
    found = reassemble(as_float(tiles), grid)
    seconds, core_seconds = time.perf_counter() - began, time.process_time() - worked
    group = torch.from_numpy(identical(tiles))
    seams = seam_costs(as_float(tiles))
    cost = Evidence.of((seams.right.double(), seams.below.double()), grid)
    with Watch() as watch:
        plain = solve_grid(grid, cost, Request(torch.Generator().manual_seed(0), watch), Effort(most=0))
    belief = cost.belief
    gap = found.energy - float(grid.energy(truth, cost))
    right = group[found.order] == group[truth]
    return {
        "picture": path.name,
        "tau": float(order_tau(found.order, truth)),
        "direct": float(direct_accuracy(found.order, truth)),
        "neighbour": float(neighbour_accuracy(found.order, truth, grid)),
        "perfect": float(perfect_accuracy(found.order, truth)),
        "direct up to identical tiles": float(right.float().mean()),
        "direct to expect at best": len(group.unique()) / grid.n,  # of each set of identical tiles one, by chance
        "anneal only: direct": float(direct_accuracy(at_border(plain.order, grid, seams), truth)),
        "seconds": seconds,
        "core seconds": core_seconds,
        "identical tiles": int((torch.bincount(group)[group] > 1).sum()),
        "at fault": "none" if right.all() else "search" if gap > 1e-6 * abs(found.energy) else "cost",
        "energy above the truth": gap,
        "score below the truth": belief.total(truth.numpy()) - belief.total(found.order.numpy()),
        "confidence": found.confidence[found.order].tolist(),
        "in place": right.tolist(),
    }


def reliability(cases: list[dict]) -> list[dict]:
    """Per tenth of confidence: how many tiles, how sure on average, how many in place (identical tiles count as one)."""
    sure = np.concatenate([case["confidence"] for case in cases])
    right = np.concatenate([case["in place"] for case in cases])
    tenth = np.minimum((sure * 10).astype(int), 9)
    return [
        {"from": k / 10, "tiles": int((tenth == k).sum()), "confidence": float(sure[tenth == k].mean()), "in place": float(right[tenth == k].mean())}
        for k in range(10)
        if (tenth == k).any()
    ]  # fmt: skip


def draw(curves: dict[str, list[dict]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", label="perfectly calibrated")
    for (name, curve), marker in zip(curves.items(), "osd^vx+*<>pPhH", strict=False):
        axes.plot([b["confidence"] for b in curve], [b["in place"] for b in curve], marker=marker, label=name)
    axes.set(xlabel="confidence of a tile", ylabel="share in place", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.savefig(path, dpi=130)


def save(result: dict, path: Path) -> None:
    """With the rows of the file that is there, where this run has none of that problem; whole or not at all."""
    before = json.loads(path.read_text()) if path.exists() else {"table": [], "not perfect": [], "reliability": {}}
    done = {row["problem"] for row in result["table"]}
    for part in ("table", "not perfect"):
        result[part] = [row for row in before[part] if row["problem"] not in done] + result[part]
    result["reliability"] = {**before["reliability"], **result["reliability"]}
    result.update({key: value for key, value in before.items() if key not in result})
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(result, indent=1) + "\n")
    fresh.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="faces,photos,classic,small", help="comma-separated groups")
    parser.add_argument("--stride", default="1,0", help="every how many-th picture, from which")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--name", default="solve_jigsaw")
    options = parser.parse_args()
    every, first = (int(part) for part in options.stride.split(","))
    reassemble(torch.rand(9, 4, 4, 3) * 255, Grid(3, 3))  # compile
    table, curves, faults = [], {}, []
    print(f"{'':<20}{'n':>4}" + "".join(f"{c[:22]:>24}" for c in COLUMNS) + "   bar")
    for group, name, files, columns, rows, bar in problems(options.data):
        if group not in options.only.split(","):
            continue
        cases = [one(path, columns, rows, seed) for seed, path in list(enumerate(files))[first::every]]
        line = {c: float(np.mean([case[c] for case in cases])) for c in COLUMNS}
        verdict = "" if bar is None else f"{bar:.2f} {'reached' if line['direct'] >= bar else 'MISSED'}"
        print(
            f"{name:<20}{len(cases):>4}" + "".join(f"{line[c]:>24.4f}" for c in COLUMNS) + f"   {verdict}", flush=True
        )
        curves[name] = reliability(cases)
        bad = [
            {k: v for k, v in case.items() if k not in ("confidence", "in place")}
            for case in cases
            if case["direct"] < 1
        ]
        for case in bad:
            print(f"    {case['picture']:<44} direct {case['direct']:.3f}, {case['identical tiles']:>3} identical tiles, up to them {case['direct up to identical tiles']:.3f}, at fault: {case['at fault']} (energy {case['energy above the truth']:+.3f}, score {-case['score below the truth']:+.3f} against the truth)", flush=True)  # fmt: skip
        table.append({"problem": name, "pictures": len(cases), "every, from": [every, first], "bar": bar, **line})
        faults += [{"problem": name, **case} for case in bad]
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"machine": platform.machine(), "threads": torch.get_num_threads(), "left out": LEFT_OUT, "table": table, "not perfect": faults, "reliability": curves}  # fmt: skip
    save(result, options.out / f"{options.name}.json")
    for line in table:
        if line["problem"] in (f"faces {side}x{side}" for side in (5, 6, 7)):
            row, size = Measured("benchmarks/solve_jigsaw.py", line["problem"]), line["problem"].removeprefix("faces ")
            place = Place("jigsaw", "", "solve", size.replace("x", " x "), 0, "cpu")
            note(options.out / "runs", row, place, {"tau": line["tau"], "direct": line["direct"]})
    curves = result["reliability"]
    draw(curves, options.out / f"{options.name}_reliability.png")


if __name__ == "__main__":
    main()
