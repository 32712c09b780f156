"""The measured reasons of docs/choosing.md: which loss, which temperature, which relaxation.

Unsupervised sorting of fresh random lists from [10, 11], one short budget for all, paired seeds (same lists, same start, same
noise). `python benchmarks/choosing.py [losses|temperatures|relaxations ...] [--steps 150] [--seeds 5] [--out FILE.json]`
prints a Markdown table per question and saves the numbers. The learning rate was fixed beforehand and nothing was tuned on the
reported seeds, 0 to 4 or 19; seeds from 100 on are for trying things out.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import Tensor, nn

from unshuffle.files import write_atomic
from unshuffle.metrics import order_tau
from unshuffle.networks import ItemScorer, KeyScorer
from unshuffle.operators.permutation import reorder
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn, Sinkhorn
from unshuffle.relaxations.neuralsort import NeuralSort
from unshuffle.relaxations.ot4p import OT4P
from unshuffle.relaxations.protocol import Relaxation
from unshuffle.relaxations.softsort import SoftSort
from unshuffle.relaxations.straight_through import StraightThrough
from unshuffle.structure.losses import monotone, monotone_at_all_scales
from unshuffle.temperature.entropy import STEADY, EntropyTarget
from unshuffle.temperature.learned import LearnedTemperature
from unshuffle.temperature.local import LocalTemperature, MatchedScalar
from unshuffle.temperature.schedules import Anneal, Constant
from unshuffle.temperature.signals import ExcessEntropy

Make = Callable[[], tuple[nn.Module, Relaxation, list[nn.Parameter]]]
EPOCHS = 30  # the schedule moves this often within the steps
BATCH, SAMPLES = 32, 5
BETAS, CONSTANT = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0), "best of six constants:"


@dataclass(frozen=True)
class Row:
    name: str
    taus: list[float]
    seconds: float

    def line(self, reference: Row) -> str:
        """Mean and spread over seeds, and the same of the paired difference to the reference row."""
        differences = [a - b for a, b in zip(self.taus, reference.taus, strict=True)]
        against = "" if self is reference else f"{mean(differences):+.3f}{spread(differences)}"
        return f"| {self.name} | {mean(self.taus):.3f}{spread(self.taus)} | {against} | {self.seconds:.0f} |"


def spread(values: list[float]) -> str:
    return f" ± {stdev(values):.3f}" if len(values) > 1 else ""


def lists(count: int, n: int, generator: torch.Generator) -> Tensor:
    return 10 + torch.rand(count, n, 1, generator=generator)


def train(make: Make, loss: Callable[[Tensor], Tensor], n: int, steps: int, seed: int, rate: float) -> float:
    """Kendall tau on 100 unseen lists after `steps` steps on fresh lists."""
    torch.manual_seed(seed)
    network, relax, extra = make()
    optimiser = torch.optim.Adam([*network.parameters(), *extra], lr=rate)
    data, noise = torch.Generator().manual_seed(1000 + seed), torch.Generator().manual_seed(2000 + seed)
    for step in range(steps):
        items = lists(BATCH, n, data)
        epoch = step * EPOCHS // steps
        P = relax(network(items), epoch=epoch, samples=SAMPLES, generator=noise)
        value = loss(reorder(P, items.expand(P.shape[0], -1, -1, -1))).mean()
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    test = lists(100, n, torch.Generator().manual_seed(5))
    with torch.no_grad():
        return order_tau(relax.decode(network(test)), test.squeeze(-1).argsort(-1)).mean().item()


def scorer(n: int, relax: Relaxation, standardise: bool = True, extra: tuple[nn.Parameter, ...] = ()) -> Make:
    return lambda: (ItemScorer(n, standardise=standardise), copy.deepcopy(relax), list(extra))


def keys(relax: Relaxation) -> Make:
    return lambda: (KeyScorer(standardise=True), relax, [])


def learned(n: int, schedule: Anneal) -> Make:
    def make() -> tuple[nn.Module, Relaxation, list[nn.Parameter]]:
        controller = LearnedTemperature()
        return ItemScorer(n, standardise=True), GumbelSinkhorn(schedule, controller), list(controller.parameters())

    return make


PAPER = Anneal(0.66, 2.0, EPOCHS)


def losses(n: int = 50) -> dict[str, tuple[Make, Callable, int]]:
    global_anneal = GumbelSinkhorn(PAPER)
    return {
        "lag 1 (the paper)": (scorer(n, global_anneal, False), monotone, n),
        "lag 1, items standardised": (scorer(n, global_anneal), monotone, n),
        "lags 1, 2, 4, ...": (scorer(n, global_anneal, False), monotone_at_all_scales, n),
        "lags 1, 2, 4, ..., items standardised": (scorer(n, global_anneal), monotone_at_all_scales, n),
    }


def temperatures(n: int = 40) -> dict[str, tuple[Make, Callable, int]]:
    small, large = (LocalTemperature(ExcessEntropy(0.7), boost) for boost in (0.1, 0.35))
    relaxations = {
        "fixed, beta 0.5": GumbelSinkhorn(Constant(0.5)),
        "fixed, beta 1": GumbelSinkhorn(Constant(1.0)),
        "fixed, beta 2": GumbelSinkhorn(Constant(2.0)),
        "72 % of places open (the default)": GumbelSinkhorn(),
        "entropy, 0.9 to 0.5": GumbelSinkhorn(EntropyTarget(0.9, 0.5, EPOCHS)),
        "global, 0.66 to 2": GumbelSinkhorn(PAPER),
        "adaptive, boost 0.1": GumbelSinkhorn(PAPER, small),
        "matched scalar, boost 0.1": GumbelSinkhorn(PAPER, MatchedScalar(small)),
        "adaptive, boost 0.35": GumbelSinkhorn(PAPER, large),
        "matched scalar, boost 0.35": GumbelSinkhorn(PAPER, MatchedScalar(large)),
    }
    table = {name: (scorer(n, relax), monotone, n) for name, relax in relaxations.items()}
    return {**table, "learned": (learned(n, PAPER), monotone, n)}


def constants(n: int, name: str, relax: Callable[[Constant], Relaxation]) -> dict[str, Make]:
    return {f"{name}, {CONSTANT} {beta:g}": scorer(n, relax(Constant(beta))) for beta in BETAS}


def with_the_best_constants(rows: list[Row]) -> list[Row]:
    """Of every relaxation the constant beta that did best on these very seeds, at the place of the first."""
    kept = {}
    for row in rows:
        group = row.name.split(CONSTANT)[0] if CONSTANT in row.name else row.name
        if group not in kept or mean(row.taus) > mean(kept[group].taus):
            kept[group] = row
    return list(kept.values())


def relaxations(n: int = 20) -> dict[str, tuple[Make, Callable, int]]:
    makes = {
        "GumbelSinkhorn, 0.66 to 2": scorer(n, GumbelSinkhorn(PAPER)),
        "GumbelSinkhorn()": scorer(n, GumbelSinkhorn()),
        **constants(n, "GumbelSinkhorn", GumbelSinkhorn),
        "GumbelSinkhorn, noise 0.1": scorer(n, GumbelSinkhorn(PAPER, noise=0.1)),
        "Sinkhorn (no noise)": scorer(n, Sinkhorn(PAPER)),
        "Sinkhorn, 72 % of places open": scorer(n, Sinkhorn(STEADY)),
        **constants(n, "Sinkhorn", Sinkhorn),
        "StraightThrough(GumbelSinkhorn)": scorer(n, StraightThrough(GumbelSinkhorn(PAPER))),
        "StraightThrough(GumbelSinkhorn())": scorer(n, StraightThrough(GumbelSinkhorn())),
        **constants(n, "StraightThrough", lambda beta: StraightThrough(GumbelSinkhorn(beta))),
        "NeuralSort, beta 1": keys(NeuralSort(Constant(1.0))),
        "NeuralSort as published, beta 1": keys(NeuralSort(Constant(1.0), as_published=True)),
        "SoftSort, beta 10": keys(SoftSort(Constant(10.0))),
        "OT4P, beta 2": scorer(n, OT4P(Constant(2.0))),
    }
    table = {name: (make, monotone_at_all_scales, n) for name, make in makes.items()}
    for name in (
        "GumbelSinkhorn()",
        "GumbelSinkhorn, 0.66 to 2",
        "NeuralSort, beta 1",
        "NeuralSort as published, beta 1",
        "OT4P, beta 2",
    ):
        table[f"{name}; lag 1 only"] = (makes[name], monotone, n)
    return table


QUESTIONS = {"losses": losses, "temperatures": temperatures, "relaxations": relaxations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, []], default=[])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    arguments = parser.parse_args()
    results = {}
    for question in arguments.questions or QUESTIONS:
        cases = QUESTIONS[question]()
        n = next(iter(cases.values()))[2]
        rows = []
        for name, (make, loss, size) in cases.items():
            start = time.perf_counter()
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            taus = [train(make, loss, size, arguments.steps, seed, arguments.rate) for seed in seeds]
            rows.append(Row(name, taus, (time.perf_counter() - start) / arguments.seeds))
            print(f"{question}: {name} {mean(taus):.3f}", file=sys.stderr, flush=True)
        rows = with_the_best_constants(rows)
        reference = next((row for row in rows if row.name.startswith("global")), rows[0])
        print(f"\n**{question}**, n = {n}, {arguments.steps} steps of {BATCH} lists, {arguments.seeds} seeds\n")
        print(f"| | Kendall tau | minus {reference.name}, paired | seconds per run |\n|---|---|---|---|")
        print("\n".join(row.line(reference) for row in rows), flush=True)
        results[question] = [asdict(row) for row in rows]
    if arguments.out:
        before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
        write_atomic(arguments.out, json.dumps(before | results, indent=1) + "\n")


if __name__ == "__main__":
    main()
