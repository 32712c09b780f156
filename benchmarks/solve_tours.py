"""Tours without and with local search, beside nearest neighbour and nearest neighbour with the same local search.

    python benchmarks/solve_tours.py --data FOLDER [--sizes 100 200 500 1000] [--count K] [--no-tsplib] [--fresh]

FOLDER holds ``tsp/uniform.npz`` (xy_n, len_n) and ``tsp/tsplib``. Gaps are to the best known lengths, in percent. Default settings: annealing
alone, no local search, unless a column says so. The constants of the recipe were chosen on other instances: generated ones, and for n >= 200
also those behind the ones reported here. Every instance is saved when it is done; a second call goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch

import unshuffle as us
from unshuffle.paper.measured import Measured, note
from unshuffle.paper.store import Place
from unshuffle.solve.local_search import improve_tour
from unshuffle.structure.layouts import Cycle
from unshuffle.tasks.tour import read_cities

COUNTS = {100: 64, 200: 32, 500: 8, 1000: 4}
BARS = {100: (4.0, 5), 200: (4.5, 15), 500: (5.5, 60), 1000: (7.0, 240)}
COLUMNS = ("ours", "polished_1", "polished", "nn", "nn_polished", "nn_polished_26")
DESCENTS = 26  # soft tours that the default settings anneal up to n = 1000: 2 runs of 13 rounds


def nearest_neighbour(cost: np.ndarray, start: int) -> list[int]:
    left = np.ones(len(cost), dtype=bool)
    order = [start]
    left[start] = False
    while left.any():
        order.append(int(np.where(left, cost[order[-1]], np.inf).argmin()))
        left[order[-1]] = False
    return order


def measure(cost: torch.Tensor, best: float, seed: int) -> dict[str, float]:
    """Gaps in percent of one instance.

    Ours is polished from its best tour alone (``polished_1``) and, as ``polish=True`` does, from the tour of every round of
    every run; nearest neighbour from as many starts as there are runs, and as there are rounds of all runs.
    """
    n, ring = len(cost), Cycle(len(cost))
    began, worked = time.perf_counter(), time.process_time()
    solution = us.solve(ring, cost=cost, seed=seed, polish=True)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    runs = len(solution.energies)
    starts = np.random.default_rng(seed).permutation(n)[:DESCENTS]
    tours = torch.tensor([nearest_neighbour(cost.numpy(), int(s)) for s in starts])
    plain, improved = ring.energy(tours, cost), ring.energy(improve_tour(tours, cost), cost)
    lengths = {
        "ours": solution.energy,
        "polished_1": float(ring.energy(improve_tour(solution.order, cost), cost)),
        "polished": solution.best_energy,
        "nn": float(plain[:runs].min()),
        "nn_polished": float(improved[:runs].min()),
        "nn_polished_26": float(improved.min()),
        "single": float(solution.energies.mean()),
    }
    gaps = {name: 100 * (length / best - 1) for name, length in lengths.items() if length is not None}
    return {**gaps, "runs": runs, "seconds": seconds, "cpu_seconds": cpu, "agreement": solution.agreement}


def instances(data: Path, sizes: list[int], count: int | None, tsplib: bool) -> list[tuple[str, str]]:
    """(group, instance), the quickest first."""
    named = [(f"uniform {n}", str(k)) for n in sizes for k in range(count or COUNTS[n])]
    files = sorted((data / "tsp" / "tsplib").glob("*.tsp"), key=lambda f: (f.stat().st_size, f.stem)) if tsplib else []
    return named + [("tsplib", path.stem) for path in files]


def load(data: Path, group: str, name: str) -> tuple[torch.Tensor, float]:
    """Costs and the best known length."""
    if group == "tsplib":
        words = (data / "tsp" / "tsplib" / "best_known.txt").read_text().replace(":", " ").split()
        best = dict(zip(words[::2], words[1::2], strict=True))
        whole = read_cities(data / "tsp" / "tsplib" / f"{name}.tsp").cost
        if whole is None:
            raise ValueError(f"{name} has too many cities for a matrix of all distances.")
        return whole, float(best[name])
    n, file = group.split()[1], np.load(data / "tsp" / "uniform.npz")
    points = torch.from_numpy(file[f"xy_{n}"][int(name)])
    cost = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return cost, float(file[f"len_{n}"][int(name)])


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    mean = {key: round(float(np.mean([row[key] for row in rows])), 3) for key in rows[0]}
    spread = {
        f"{key}_sd": round(float(np.std([row[key] for row in rows])), 3) for key in ("ours", "polished_1", "polished")
    }
    return {"instances": len(rows), **mean, **spread}


def show(name: str, row: dict[str, float]) -> None:
    gaps = "  ".join(f"{column} {row[column]:6.2f}" for column in COLUMNS)
    print(f"{name:>14}  {gaps}  {row['seconds']:.1f} s, {row['cpu_seconds']:.1f} s of a core", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(COUNTS))
    parser.add_argument("--count", type=int, default=None, help="instances per size, instead of 64, 32, 8, 4")
    parser.add_argument("--tsplib", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier call measured")
    parser.add_argument("--out", type=Path, default=Path("results/solve_tours.json"))
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out.exists() and not options.fresh else {}
    done: dict[str, dict[str, dict[str, float]]] = kept.get("each", {})
    us.solve(Cycle(64), cost=torch.rand(64, 64), polish=True)  # compile before the clock starts
    for group, name in instances(options.data, options.sizes, options.count, options.tsplib):
        if name not in done.setdefault(group, {}):
            cost, best = load(options.data, group, name)
            done[group][name] = {k: round(v, 4) for k, v in measure(cost, best, options.seed).items()}
            show(f"{group} {name}" if group != "tsplib" else name, done[group][name])
            save(options.out, done)
    means = save(options.out, done)
    for group in done:
        show(group, means[group])
    for n in options.sizes:
        if f"uniform {n}" in means:
            row = Measured("benchmarks/solve_tours.py", f"uniform {n}")
            place = Place("tsp", "", "solve", str(n), 0, "cpu")
            note(options.out.parent / "runs", row, place, {"gap": means[f"uniform {n}"]["ours"]})


def save(path: Path, done: dict[str, dict[str, dict[str, float]]]) -> dict:
    means = {group: summary(list(rows.values())) for group, rows in done.items() if rows}
    for n, (bar, seconds) in BARS.items():
        if f"uniform {n}" in means:
            means[f"uniform {n}"] |= {"bar": bar, "bar_seconds": seconds}
    if "tsplib" in means:
        means["tsplib"] |= {"bar": 7.0, "bar_polished": 4.0}
    result = {**means, "threads": torch.get_num_threads(), "each": done}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(part, path)
    return result


if __name__ == "__main__":
    main()
