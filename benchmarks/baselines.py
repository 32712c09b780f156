"""Numbers of the paper that need no training: `python benchmarks/baselines.py`.

Mask-only Kendall tau, in closed form and sampled; parameter counts of UTSP; NeuralSort without training, correct and as published.
"""

from __future__ import annotations

from pathlib import Path

import torch

from unshuffle.metrics import mask_only_tau, mask_only_tau_sampled
from unshuffle.networks import TourScorer, count_parameters
from unshuffle.paper.keys import PublishedKeys, UntrainedKeys
from unshuffle.paper.run import Means

# the paper's NeuralSort rows (train-free), n = 5, 10, 50, 100, 200, 300
PAPER = {"[0, 1]": (1.00, 1.00, 1.00, 1.00, 0.99, 0.73), "[10, 11]": (1.00, 0.33, 0.01, 0.0, 0.0, 0.0)}
SIZES = (5, 10, 50, 100, 200, 300)


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


def heading(name: str) -> None:
    print(f"\n| {name} | " + " | ".join(f"n = {n}" for n in SIZES) + " |\n|---" + "|---" * len(SIZES) + "|")


def neuralsort() -> None:
    heading("NeuralSort, no training")
    for name, low in (("[0, 1]", 0.0), ("[10, 11]", 10.0)):
        print(f"| {name}, the paper | " + " | ".join(f"{tau:.2f}" for tau in PAPER[name]) + " |")
        for kind, run in (("as published", PublishedKeys), ("correct", UntrainedKeys)):
            taus = (run(n, (low, low + 1.0), seed=0).compute(Means(Path())).metrics["tau"] for n in SIZES)
            print(f"| {name}, {kind} | " + " | ".join(f"{tau:.2f}" for tau in taus) + " |", flush=True)


if __name__ == "__main__":
    mask_only()
    parameters()
    neuralsort()
