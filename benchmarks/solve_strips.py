"""Shredded pages: neighbour accuracy, weights fixed on one half of the pages and reported on the other, both ways.

python benchmarks/solve_strips.py --data FOLDER [--out results/strips.json]

FOLDER/shredded holds one folder per page, whose files are numbered in true order. The strips are shuffled before solving.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
import torch

import unshuffle as us
from unshuffle.tasks.strips import StripCost, StripEvidence, read_strips

GRID = [
    StripCost(print_weight=p, shift_price=s)
    for p, s in product((0.0, 0.06, 0.12, 0.18, 0.24, 0.37, 0.55), (0.25, 0.5, 1.0))
]


def score(evidence: StripEvidence, weights: StripCost, seed: int) -> dict[str, float]:
    cost = torch.from_numpy(evidence.cost(weights))
    n = len(cost)
    mixed = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    found = us.solve(us.Path(n), cost=cost[mixed][:, mixed], seed=seed)
    order = mixed[found.order]
    truth = float(us.Path(n).energy(torch.arange(n), cost))
    return {
        "neighbour": float((order.diff() == 1).double().mean()),
        "truth is lower": found.energy > truth + 1e-6,
        "truth is higher": found.energy < truth - 1e-6,
        "seconds": found.seconds,
    }


def separation(evidence: StripEvidence, weights: StripCost) -> float:
    """What weights are chosen by: the share of strips whose cheapest neighbour is the true one, both ways; no solver in it."""
    cost = evidence.cost(weights)
    np.fill_diagonal(cost, np.inf)
    k = np.arange(len(cost) - 1)
    return float(((cost[:-1].argmin(1) == k + 1).mean() + (cost[:, 1:].argmin(0) == k).mean()) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/strips.json"))
    arguments = parser.parse_args()
    pages = sorted(p for p in (arguments.data / "shredded").iterdir() if p.is_dir())
    began = time.perf_counter()
    evidence = {page.name: StripEvidence.of(read_strips(page), StripCost()) for page in pages}
    print(f"{len(pages)} pages read and compared in {time.perf_counter() - began:.1f} s")
    names = list(evidence)
    halves = (names[::2], names[1::2])
    result: dict[str, object] = {"pages": {}}
    accuracies = []
    print(f"{'page':8}{'strips':>7}{'neighbour, weights from the other half':>40}{'default weights':>17}")
    for chosen_on, reported_on in (halves, halves[::-1]):
        best = max(GRID, key=lambda w: np.mean([separation(evidence[name], w) for name in chosen_on]))
        for name in reported_on:
            crossed, default = score(evidence[name], best, 0), score(evidence[name], StripCost(), 0)
            result["pages"][name] = {  # pyright: ignore[reportIndexIssue]
                "weights": [best.print_weight, best.shift_price],
                "crossed": crossed,
                "default": default,
            }
            accuracies.append((crossed["neighbour"], default["neighbour"]))
            print(f"{name:8}{evidence[name].shape.shape[1]:7}{crossed['neighbour']:40.3f}{default['neighbour']:17.3f}")
    crossed, default = np.mean(accuracies, axis=0)
    every = [np.mean([score(evidence[name], weights, 0)["neighbour"] for name in names]) for weights in GRID[1::3]]
    result |= {
        "crossed": crossed,
        "default": default,
        "print weights": [w.print_weight for w in GRID[1::3]],
        "neighbour by print weight": every,
    }
    print(f"{'mean':15}{crossed:40.3f}{default:17.3f}   (to reach: 0.95)")
    print(
        "all pages, by weight of print:",
        " ".join(f"{w.print_weight:g}: {a:.3f}" for w, a in zip(GRID[1::3], every, strict=True)),
    )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
