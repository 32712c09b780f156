"""Numbers of the paper that need no training: `python benchmarks/baselines.py`.

Mask-only Kendall tau, in closed form and sampled; parameter counts of UTSP; NeuralSort without training, correct and as published.
"""

from __future__ import annotations

import torch

from unshuffle.metrics import mask_only_tau, mask_only_tau_sampled, order_tau
from unshuffle.networks import TourScorer, count_parameters
from unshuffle.operators.assignment import assign
from unshuffle.relaxations.neuralsort import NeuralSort
from unshuffle.temperature.schedules import Constant

# the paper's NeuralSort rows (train-free), n = 5, 10, 50, 100, 200, 300
PAPER = {"[0, 1]": (1.00, 1.00, 1.00, 1.00, 0.99, 0.73), "[10, 11]": (1.00, 0.33, 0.01, 0.0, 0.0, 0.0)}
SIZES = (5, 10, 50, 100, 200, 300)
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def mask_only() -> None:
    print("| puzzle | anchors | closed form | sampled (100,000) | paper |\n|---|---|---|---|---|")
    for side, anchors, paper in ((5, 1, 0.029), (6, 6, 0.126), (7, 12, 0.189)):
        draws = mask_only_tau_sampled(side * side, anchors, 100_000, torch.Generator().manual_seed(0))
        error = draws.std() / len(draws) ** 0.5
        closed = mask_only_tau(side * side, anchors)
        print(f"| {side} x {side} | {anchors} | {closed:.4f} | {draws.mean():.4f} ± {error:.4f} | {paper} |")


def parameters() -> None:
    print("\n| UTSP | in use | with the two idle batch norms | published |\n|---|---|---|---|")
    for n, hidden, published in ((100, 64, 36_072), (1000, 128, 245_484)):
        count = count_parameters(TourScorer(n, hidden))
        print(f"| n = {n}, hidden {hidden} | {count:,} | {count + 4 + 2 * hidden:,} | {published:,} |")


def mean_tau(n: int, low: float, beta: float, as_published: bool) -> float:
    """Mean Kendall tau of 30 lists, decoded by assignment on log P."""
    values = low + torch.rand(30, n, generator=torch.Generator().manual_seed(0))
    P = NeuralSort(Constant(beta), as_published)(values)
    order = assign(P.clamp_min(torch.finfo(P.dtype).tiny).log())
    return order_tau(order, values.argsort(-1)).mean().item()


def best_tau(n: int, low: float, as_published: bool) -> float:
    return max(mean_tau(n, low, beta, as_published) for beta in BETAS)


def heading(name: str) -> None:
    print(f"\n| {name} | " + " | ".join(f"n = {n}" for n in SIZES) + " |\n|---" + "|---" * len(SIZES) + "|")


def neuralsort() -> None:
    heading("NeuralSort, no training")
    for name, low in (("[0, 1]", 0.0), ("[10, 11]", 10.0)):
        print(f"| {name}, the paper | " + " | ".join(f"{tau:.2f}" for tau in PAPER[name]) + " |")
        for kind, as_published in (("as published", True), ("correct", False)):
            cells = (f"{best_tau(n, low, as_published):.2f}" for n in SIZES)
            print(f"| {name}, {kind} | " + " | ".join(cells) + " |", flush=True)


def published_by_temperature() -> None:
    """A softmax over positions is the same for all items once it is cold: P underflows and says nothing."""
    heading("as published, by beta")
    for name, low in (("[0, 1]", 0.0), ("[10, 11]", 10.0)):
        for beta in (0.01, 0.1, 0.33, 0.58, 1.0, 10.0):
            cells = (f"{mean_tau(n, low, beta, True):.2f}" for n in SIZES)
            print(f"| {name}, {beta:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    mask_only()
    parameters()
    neuralsort()
    published_by_temperature()
