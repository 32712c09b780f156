"""What the temperature controller costs in a training step: `python benchmarks/controller.py [--threads 1]`.

The paper's sorting network and loss, 5 samples, 10 iterations; processor time, kinds in turn, the median of the
ratios to the global step of the same round.
The paper says that adaptation adds 10-15 % to training time.
"""

from __future__ import annotations

import argparse
import copy
import time
from statistics import median

import torch

from unshuffle.networks import ItemScorer
from unshuffle.operators.permutation import reorder
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn
from unshuffle.structure.losses import monotone
from unshuffle.temperature.learned import LearnedTemperature
from unshuffle.temperature.local import LocalTemperature
from unshuffle.temperature.schedules import Constant
from unshuffle.temperature.signals import DegreeViolation

BETA = Constant(1.5)
RELAXATIONS = {
    "global": GumbelSinkhorn(BETA),
    "EntropyTarget": GumbelSinkhorn(),
    "ExcessEntropy": GumbelSinkhorn(BETA, LocalTemperature()),
    "DegreeViolation": GumbelSinkhorn(BETA, LocalTemperature(DegreeViolation())),
    "learned": GumbelSinkhorn(BETA, LearnedTemperature()),
}


def step(network: ItemScorer, optimiser: torch.optim.Optimizer, relax: GumbelSinkhorn, items: torch.Tensor) -> float:
    start = time.process_time()
    P = relax(network(items), samples=5)
    loss = monotone(reorder(P, items.expand(5, -1, -1, -1))).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=41)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print("| batch x n | " + " | ".join(RELAXATIONS) + " |\n|---" + "|---" * len(RELAXATIONS) + "|")
    for batch, n in ((256, 10), (128, 25), (64, 100), (16, 300)):
        items = torch.rand(batch, n, 1)
        network = ItemScorer(n)
        optimiser = torch.optim.Adam(network.parameters())
        relaxations = copy.deepcopy(RELAXATIONS)
        times: dict[str, list[float]] = {name: [] for name in relaxations}
        for repeat in range(arguments.repeats + 1):  # the first compiles
            for name, relax in relaxations.items():
                seconds = step(network, optimiser, relax, items)
                times[name] += [seconds] if repeat else []
        extra = (
            median(a / b - 1 for a, b in zip(times[name], times["global"], strict=True)) for name in list(times)[1:]
        )
        cells = [f"{1e3 * median(times['global']):.1f} ms", *(f"{100 * share:+.0f} %" for share in extra)]
        print(f"| {batch} x {n} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
