"""Learned tours, one forward pass and no search: the paper's four methods, and our unrolled annealer.

    python benchmarks/learn_tours.py --data FOLDER [--paper] [--strong] [--runs FOLDER]

FOLDER holds ``tsp/uniform.npz`` (xy_n, len_n): test instances that nothing was trained, selected or tuned on. Gaps are to the best
known lengths, in percent. Runs that the result file has are not done again; interrupted ones go on from ``--runs``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from unshuffle.files import write_atomic
from unshuffle.structure.losses import tour_length
from unshuffle.tasks.tour_training import Tour, nearest_neighbour, ordered
from unshuffle.tasks.training import about, train

SEEDS = (0, 1, 2)
PAPER = {  # gap in percent at n = 100, and how our recipe names the method
    "UTSP": (45.1, {"utsp": True}),
    "GS UTSP": (31.2, {"temperature": "fixed"}),
    "GS UTSP + TA": (31.1, {"temperature": "global"}),
    "GS UTSP + DV-TA": (30.1, {"temperature": "degree"}),
}
# what a share of two cores can do: 1,250 instead of 4,500 steps, on batches of 8 with 2 noisy samples instead of 128 with 8
CUT = {"epochs": 5, "batch": 8, "samples": 2}


class Instances:
    """Test instances with their best known lengths."""

    def __init__(self, data: Path, n: int) -> None:
        file = np.load(data / "tsp" / "uniform.npz")
        self.cities = torch.from_numpy(file[f"xy_{n}"]).float()
        self.best = torch.from_numpy(file[f"len_{n}"]).float()

    def gap(self, order: torch.Tensor) -> float:
        return 100 * (tour_length(ordered(self.cities, order)) / self.best - 1).mean().item()

    def judge(self, recipe: Tour, network: nn.Module) -> dict[str, float]:
        network.eval()
        recipe.order(network, self.cities[:1])  # the first call compiles
        began = time.perf_counter()
        order = recipe.order(network, self.cities)
        seconds = (time.perf_counter() - began) / len(self.cities)
        return {"gap": round(self.gap(order), 3), "milliseconds": round(1000 * seconds, 2)}


def run(recipe: Tour, instances: Instances, done: dict, folder: Path) -> dict:
    """Train and judge, unless that was done before with the same settings."""
    settings = about(recipe)["recipe"]
    if done.get("settings") == settings:
        return done
    fitted = train(recipe, folder)
    return {
        **instances.judge(recipe, fitted.network),
        "seconds": round(fitted.history[-1]["seconds"], 1),
        "best_epoch": fitted.best_epoch,
        "held_out": round(fitted.best or 0.0, 4),
        "settings": settings,
    }


def paper(data: Path, result: dict, runs: Path, out: Path) -> None:
    instances = Instances(data, 100)
    table = result.setdefault("paper", {})
    table["nearest neighbour"] = {"gap": round(instances.gap(nearest_neighbour(instances.cities)), 3)}
    for seed in SEEDS:
        for name, (_, method) in PAPER.items():
            seeds = table.setdefault(name, {}).setdefault("seeds", {})
            recipe = Tour.paper(100, seed=seed, **{**CUT, **method})
            seeds[str(seed)] = run(
                recipe, instances, seeds.get(str(seed), {}), runs / f"{name} {seed}".replace(" ", "_")
            )
            print(f"{name:>16}  seed {seed}  gap {seeds[str(seed)]['gap']:6.2f} %", flush=True)
            save(out, result)
    show_paper(table)


def show_paper(table: dict) -> None:
    print(f"\nn = 100, {CUT}\n{'':>16}   ours, {len(SEEDS)} seeds     paper")
    for name, (published, _) in PAPER.items():
        gaps = [row["gap"] for row in table[name]["seeds"].values()]
        table[name] |= {
            "gap": round(statistics.mean(gaps), 2),
            "sd": round(statistics.pstdev(gaps), 2),
            "paper": published,
        }
        print(f"{name:>16}  {table[name]['gap']:6.2f} +- {table[name]['sd']:5.2f} %  {published:6.1f} %")
    print(f"{'nearest neighbour':>16} {table['nearest neighbour']['gap']:6.2f} %", flush=True)


def save(path: Path, result: dict) -> None:
    write_atomic(path, json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--paper", action="store_true", help="the paper's methods only")
    parser.add_argument("--strong", action="store_true", help="ours only")
    parser.add_argument("--runs", type=Path, default=Path("runs/learn_tours"), help="where runs are kept")
    parser.add_argument("--out", type=Path, default=Path("results/learn_tours.json"))
    options = parser.parse_args()
    result = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.paper or not options.strong:
        paper(options.data, result, options.runs, options.out)
        save(options.out, result)


if __name__ == "__main__":
    main()
