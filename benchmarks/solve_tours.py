"""Tours without and with local search, beside nearest neighbour and nearest neighbour with the same local search.

    python benchmarks/solve_tours.py --data FOLDER [--sizes 100 200 500 1000] [--count K] [--tsplib]

FOLDER holds ``tsp/uniform.npz`` (xy_n, len_n) and ``tsp/tsplib``. Gaps are to the best known lengths, in percent. The constants of
the recipe were chosen on other instances: n = 100 on generated ones, n >= 200 on those behind the ones reported here.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import unshuffle as us
from unshuffle.operators.local_search import improve_tour
from unshuffle.structure.layouts import Cycle
from unshuffle.tasks.tour import read_cities

COUNTS = {100: 64, 200: 32, 500: 8, 1000: 4}
BARS = {100: (4.0, 5), 200: (4.5, 15), 500: (5.5, 60), 1000: (7.0, 240)}
COLUMNS = ("ours", "polished", "nn", "nn_polished")


def nearest_neighbour(cost: np.ndarray, start: int) -> list[int]:
    left = np.ones(len(cost), dtype=bool)
    order = [start]
    left[start] = False
    while left.any():
        order.append(int(np.where(left, cost[order[-1]], np.inf).argmin()))
        left[order[-1]] = False
    return order


def measure(cost: torch.Tensor, best: float, seed: int) -> dict[str, float]:
    """Gaps in percent of one instance; nearest neighbour gets as many starts as we have runs."""
    n, ring = len(cost), Cycle(len(cost))
    began = time.perf_counter()
    solution = us.solve(ring, cost=cost, seed=seed, polish=True)
    seconds = time.perf_counter() - began
    runs = len(solution.energies)
    starts = np.random.default_rng(seed).choice(n, size=min(runs, n), replace=False)
    tours = torch.tensor([nearest_neighbour(cost.numpy(), int(s)) for s in starts])
    lengths = {
        "ours": solution.energy,
        "polished": solution.polished_energy,
        "nn": float(ring.energy(tours, cost).min()),
        "nn_polished": float(ring.energy(improve_tour(tours, cost), cost).min()),
        "single": float(solution.energies.mean()),
    }
    gaps = {name: 100 * (length / best - 1) for name, length in lengths.items() if length is not None}
    return {**gaps, "runs": runs, "seconds": seconds, "agreement": solution.agreement}


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([row[key] for row in rows])), 3) for key in rows[0]}


def uniform(data: Path, n: int, count: int, seed: int) -> dict[str, float]:
    file = np.load(data / "tsp" / "uniform.npz")
    rows = []
    for xy, best in zip(file[f"xy_{n}"][:count], file[f"len_{n}"][:count], strict=True):
        points = torch.from_numpy(xy)
        cost = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
        rows.append(measure(cost, float(best), seed))
    return {"instances": len(rows), **summary(rows)}


def tsplib(data: Path, seed: int) -> dict[str, dict[str, float]]:
    folder = data / "tsp" / "tsplib"
    words = (folder / "best_known.txt").read_text().replace(":", " ").split()
    best = {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    table = {}
    for path in sorted(folder.glob("*.tsp")):
        cities = read_cities(path)
        table[path.stem] = measure(cities.cost, best[path.stem], seed)
        show(path.stem, table[path.stem])
    return table


def show(name: str, row: dict[str, float]) -> None:
    gaps = "  ".join(f"{column} {row[column]:6.2f}" for column in COLUMNS)
    print(f"{name:>10}  {gaps}  runs {row['runs']:.0f}  {row['seconds']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(COUNTS))
    parser.add_argument("--count", type=int, default=None, help="instances per size, instead of 64, 32, 8, 4")
    parser.add_argument("--tsplib", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/solve_tours.json"))
    options = parser.parse_args()
    result = json.loads(options.out.read_text()) if options.out.exists() else {}
    us.solve(Cycle(12), cost=torch.rand(12, 12), polish=True)  # compile before the clock starts
    for n in options.sizes:
        row = uniform(options.data, n, options.count or COUNTS[n], options.seed)
        result[f"uniform {n}"] = {**row, "bar": BARS[n][0], "bar_seconds": BARS[n][1]}
        show(f"n={n}", row)
        save(options.out, result)
    if options.tsplib:
        table = tsplib(options.data, options.seed)
        result["tsplib"] = {"mean": {**summary(list(table.values())), "bar": 7.0, "bar_polished": 4.0}, **table}
        show("TSPLIB", result["tsplib"]["mean"])
        save(options.out, result)


def save(path: Path, result: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
