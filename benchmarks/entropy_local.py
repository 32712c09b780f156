"""Does it help that every matrix, or every row and column, follows the entropy target by itself, or that the target is learned?

    python benchmarks/entropy_local.py [sorting|jigsaw ...] [--data FOLDER] [--seeds 10] [--limit-minutes M] [--print]

Tasks, networks and losses of benchmarks/entropy_target.py, paired seeds: lists of 100 in a third of the usual steps, where all are on
their way, and faces in 5 x 5 (--data). "together" is the layer without arguments, but for
the noise, which is 0.25 in all ways. The control of rows and columns has one factor per
matrix, the mean of the field. "the paper's field" lowers beta where rows are open, by at most a tenth. A learned target is held, as
"held" is, and steps on lists or pictures that the network is not trained on: after every step, and for faces 20 times an epoch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import mean, stdev

import torch
from entropy_target import EPOCHS, LISTS, RATE, SAMPLES, short_jigsaw

from unshuffle.files import write_atomic
from unshuffle.learn.loop import Moment
from unshuffle.metrics import order_tau
from unshuffle.networks import ItemScorer
from unshuffle.operators.assignment import assign
from unshuffle.operators.permutation import reorder
from unshuffle.recipes.training import train
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn
from unshuffle.structure.losses import monotone
from unshuffle.temperature.entropy import STEADY, LearnedTarget
from unshuffle.temperature.local import LocalTemperature
from unshuffle.temperature.parts import EachMatrix, EachRow
from unshuffle.temperature.signals import ExcessEntropy

OUT = Path("results/entropy_local.json")
N, STEPS = 100, 100
RATE_OF_TARGET = 0.02
WAYS: dict[str, Callable[[], GumbelSinkhorn]] = {
    "together": lambda: GumbelSinkhorn(noise=0.25),
    "each matrix": lambda: GumbelSinkhorn(replace(STEADY, each=EachMatrix()), noise=0.25),
    "each row and column": lambda: GumbelSinkhorn(replace(STEADY, each=EachRow()), noise=0.25),
    "its matched scalar": lambda: GumbelSinkhorn(replace(STEADY, each=EachRow(matched=True)), noise=0.25),
    "the paper's field": lambda: GumbelSinkhorn(STEADY, LocalTemperature(ExcessEntropy(0.7), 0.1), noise=0.25),
    "held": lambda: GumbelSinkhorn(replace(STEADY, hold=True), noise=0.25),
    "held, learned": lambda: GumbelSinkhorn(LearnedTarget(STEADY.start), noise=0.25),
}


def sorting(way: str, seed: int, data: Path | None) -> float:
    """Kendall tau on 100 unseen lists."""
    torch.manual_seed(seed)
    network, relax = ItemScorer(N), WAYS[way]()
    adam = torch.optim.Adam(network.parameters(), RATE)
    learns = [torch.optim.Adam(relax.parameters(), RATE_OF_TARGET)] if list(relax.parameters()) else []
    noise = torch.Generator().manual_seed(20_000 + seed)
    trained, held_out, unseen = (torch.Generator().manual_seed(k + seed) for k in (10_000, 40_000, 30_000))

    def step(optimiser: torch.optim.Optimizer, source: torch.Generator) -> None:
        items = torch.rand(LISTS, N, 1, generator=source)
        P = relax(network(items), samples=SAMPLES, generator=noise)
        loss = monotone(reorder(P, items.expand(len(P), -1, -1, -1))).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for _ in range(STEPS):
        step(adam, trained)
        relax.eval()  # neither noise nor lead
        for optimiser in learns:
            step(optimiser, held_out)
        relax.train()
    test = torch.rand(100, N, 1, generator=unseen)
    with torch.no_grad():
        return order_tau(assign(network(test)), test.squeeze(-1).argsort(-1)).mean().item()


def jigsaw(way: str, seed: int, data: Path | None) -> float:
    """Kendall tau on the test pictures."""
    if data is None:
        raise SystemExit("Faces are needed: --data FOLDER.")
    recipe = replace(short_jigsaw(5, seed, data), relax=WAYS[way]())
    parameters = list(recipe.relax.parameters())  # pyright: ignore[reportAttributeAccessIssue]
    adam = torch.optim.Adam(parameters, RATE_OF_TARGET) if parameters else None

    def learned(moment: Moment) -> None:
        if adam is None or moment.record is None or moment.learner is None:
            return
        learner = moment.learner.eval()
        for items, allowed in islice(cycle(recipe.held_out()), 20):  # pyright: ignore
            adam.zero_grad()
            learner(items, allowed, moment.epoch, recipe.samples).backward()
            adam.step()
        learner.train().zero_grad()

    return recipe.test(train(recipe, callback=learned).network)["tau"]


TASKS = {"sorting": sorting, "jigsaw": jigsaw}
TITLES = {"sorting": f"lists of {N}, {STEPS} steps", "jigsaw": f"faces 5 x 5, 45 pixels, {EPOCHS} epochs"}


def shown(done: dict[str, float]) -> None:
    for task, title in TITLES.items():
        taus = {
            way: {int(key.split()[-1]): tau for key, tau in done.items() if key.startswith(f"{task} | {way} | seed")}
            for way in WAYS
        }
        if not taus["together"]:
            continue
        print(f"\n{title}\n\n| | tau, mean ± spread | worst seed | minus together, paired | higher in | seeds |")
        print("|---|---|---|---|---|---|")
        for way, found in taus.items():
            common = [tau - taus["together"][seed] for seed, tau in found.items() if seed in taus["together"]]
            if len(common) > 1:
                own = list(found.values())
                print(
                    f"| {way} | {mean(own):.3f} ± {stdev(own):.3f} | {min(own):.3f} | "
                    f"{mean(common):+.3f} ± {stdev(common):.3f} | {sum(d > 0 for d in common)} | {len(own)} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], default=[])
    parser.add_argument("--data", type=Path, help="folder that holds faces/; without it no jigsaws")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit-minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--print", action="store_true", help="only what is there")
    arguments = parser.parse_args()
    began = time.monotonic()
    done = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    tasks = arguments.tasks or (TASKS if arguments.data else ["sorting"])
    for task in () if arguments.print else tasks:
        for seed in range(arguments.seeds):
            for way in WAYS:
                key = f"{task} | {way} | seed {seed}"
                if key in done or time.monotonic() - began > 60 * arguments.limit_minutes:
                    continue
                done[key] = TASKS[task](way, seed, arguments.data)
                write_atomic(arguments.out, json.dumps(done, indent=0) + "\n")
                print(f"{key}: {done[key]:.4f}", flush=True)
    shown(done)


if __name__ == "__main__":
    main()
