"""Jigsaws learned from a folder of portraits: our recipe, what each part of it does, and then refining.

    python benchmarks/learn_jigsaw.py --data FOLDER [--strong] [--parts] [--refine] [--out results]

FOLDER holds faces/: by name, the last 195 are the test, the 100 before them choose the epoch, the first 800 are learned from.
Runs in the result file are not done again. The paper's protocol: `unshuffle reproduce jigsaw`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import nn

from unshuffle.files import write_atomic
from unshuffle.learn.predict import predict
from unshuffle.metrics import direct_accuracy, order_tau
from unshuffle.networks import count_parameters
from unshuffle.paper.executor import commit_of_source
from unshuffle.paper.run import Outcome, Planned, Training, keep, result_of
from unshuffle.paper.store import Place, Result, Store
from unshuffle.recipes.jigsaw import BlendedSeams, Jigsaw
from unshuffle.recipes.puzzles import puzzles
from unshuffle.recipes.scorers import ByTile
from unshuffle.recipes.training import about, train
from unshuffle.solve import solve
from unshuffle.tasks.jigsaw import reassemble, seam_costs

SEEDS = 3
REFINED = 100  # test pictures
Run = tuple[str, Jigsaw]


def strong_runs(data: Path) -> list[Run]:
    return [
        (f"strong {p}x{p} seed {seed}", Jigsaw.strong(data, p, seed=seed))
        for p in (5, 7)
        for seed in range(SEEDS if p == 5 else 1)
    ]


def part_runs(data: Path) -> list[Run]:
    """The strong recipe with one part taken back to the paper's, each alone; small pictures, as the paper's net is slow."""
    parts = {
        "a change": {},
        "tiles that ask each other (the paper's network)": {"scorer": ByTile()},
        "pair energies (the paper's blended seams)": {"seams": BlendedSeams()},
    }
    whole = replace(Jigsaw.strong(data, 5, epochs=10), pixels=45)
    return [(f"without {name}: seed 0", replace(whole, **changed)) for name, changed in parts.items()]


def refine_runs(data: Path) -> list[Run]:
    """Full resolution, and small pictures whose seams say little: there a solver could need a hint."""
    return [(f"refine {p}x{p} of {q} pixels", replace(Jigsaw.strong(data, p), pixels=q)) for p, q in ((5, 178), (5, 45))]  # fmt: skip


def measured(recipe: Jigsaw) -> tuple[dict, nn.Module]:
    began, cpu = time.perf_counter(), time.process_time()
    fitted = train(recipe)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    settings = about(recipe)["recipe"] | {"data": Path(recipe.data).name}
    numbers = {"test": recipe.test(fitted.network), "held out loss": fitted.best, "best epoch": fitted.best_epoch}
    numbers |= {"seconds": seconds, "core seconds": cpu_seconds, "parameters": count_parameters(fitted.network)}
    return {"settings": settings, **numbers}, fitted.network


def as_run(recipe: Jigsaw, result: dict) -> Result:
    """The same training as `unshuffle reproduce jigsaw` would store it."""
    place = Place("jigsaw", "", "strong recipe", f"{recipe.side} x {recipe.side}", recipe.seed, "cpu")
    outcome = Outcome(result["test"] | {"best_epoch": result["best epoch"], "epochs": recipe.epochs})
    return result_of(Planned(Training(recipe), place), result["seconds"], outcome, commit_of_source(), None)


def refined(recipe: Jigsaw, network: nn.Module) -> dict:
    """The network, the solver, and the solver started from the network's scores, on the same test pictures."""
    test = puzzles(recipe.pictures().test[:REFINED], recipe.side, 0, 10**6)
    grid = recipe.grid
    orders = {"network": list(predict(network, test.items, recipe.relax).order)}
    scores = predict(network, test.items, recipe.relax).scores
    tiles = (255 * test.items).unflatten(-1, recipe.tile).movedim(-3, -1)
    costs = [(seams.right, seams.below) for seams in map(seam_costs, tiles)]
    ways = {
        "solve": lambda k: solve(grid, cost=costs[k]),
        "solve from the network's scores": lambda k: solve(grid, cost=costs[k], init=scores[k]),
        "reassemble (solve, and a border that looks like one)": lambda k: reassemble(tiles[k], grid),
    }
    for name, way in ways.items():
        orders[name] = [way(k).order for k in range(len(tiles))]
    truth = test.truth
    return {
        name: {
            "tau": order_tau(torch.stack(found), truth).mean().item(),
            "direct": direct_accuracy(torch.stack(found), truth).mean().item(),
            "misfit": mean(float(grid.energy(o, c)) for o, c in zip(found, costs, strict=True)),
        }
        for name, found in orders.items()
    } | {"truth": {"misfit": mean(float(grid.energy(o, c)) for o, c in zip(truth, costs, strict=True))}}


def spread(values: list[float]) -> str:
    return f"{mean(values):.3f}" + (f" +- {stdev(values):.3f}" if len(values) > 1 else "")


def show_rows(title: str, prefix: str, done: dict) -> None:
    groups: dict[str, list[dict]] = {}
    for name, run in done.items():
        if name.startswith(prefix):
            groups.setdefault(name.rpartition("seed")[0].strip(" :"), []).append(run)
    print(f"\n{title}\n{'':64}{'tau':>16}{'direct':>16}{'neighbour':>16}{'perfect':>16}{'core seconds':>14}")
    for name, runs in groups.items():
        row = "".join(f"{spread([r['test'][key] for r in runs]):>16}" for key in ("tau", "direct", "neighbour", "perfect"))  # fmt: skip
        print(f"{name:64}{row}{mean(r['core seconds'] for r in runs):>14.0f}")


def show_refined(done: dict) -> None:
    for name, run in done.items():
        for way, numbers in run.get("refined", {}).items():
            print(f"{name:28}{way:56}" + "  ".join(f"{key} {value:.3f}" for key, value in numbers.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    groups = {"strong": strong_runs, "parts": part_runs, "refine": refine_runs}
    for group in groups:
        parser.add_argument(f"--{group}", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    path = options.out / "learn_jigsaw.json"
    done = json.loads(path.read_text()) if path.exists() else {}
    chosen = [group for group in groups if getattr(options, group)] or list(groups)
    for name, recipe in [run for group in chosen for run in groups[group](options.data / "faces")]:
        settings = about(recipe)["recipe"] | {"data": "faces"}
        if done.get(name, {}).get("settings") == settings:
            continue
        result, network = measured(recipe)
        if name.startswith("refine"):
            result["refined"] = refined(recipe, network)
        done = json.loads(path.read_text()) if path.exists() else {}  # another group may have been measured meanwhile
        done[name] = result
        if name.startswith("strong"):
            keep(as_run(recipe, result), Store(options.out / "runs"))
        write_atomic(path, json.dumps(done, indent=1) + "\n")
        print(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in result["test"].items()), flush=True)
    show_rows("ours: no anchors, 195 unseen portraits, one forward pass", "strong", done)
    show_rows("ours at 5x5, 10 epochs of pictures of 45 x 45 pixels, one seed", "without", done)
    show_refined(done)


if __name__ == "__main__":
    main()
