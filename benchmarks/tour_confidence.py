"""Does the confidence of a tour mean something? How often an item that is so sure has both neighbours of the best known tour.

    python benchmarks/tour_confidence.py [--n 100] [--count 12] [--out results/tour_confidence.json]

Uniform points; the best known tour is the shortest that local search finds from every nearest-neighbour tour and all of ours, and then
from thousands of its own perturbations. Which confidence to use was chosen on other seeds than these (7000 to 7009, n = 60 and 100).
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import torch
from rich.progress import track
from solve_tours import nearest_neighbour

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.solve.local_search import improve_tour

FIRST = 8000  # seed
EDGES = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0001)
KICKS, AT_ONCE, REACH = 80, 40, 50  # perturbations of the best tour: rounds, per round, and within so many positions


def best_known(cost: torch.Tensor, ours: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    n = len(cost)
    starts = torch.tensor([nearest_neighbour(cost.numpy(), k) for k in range(n)])
    tours = improve_tour(torch.cat((ours[None], starts)), cost)
    for _ in range(KICKS):
        best = tours[us.Cycle(n).energy(tours, cost).argmin()]
        kicked = torch.stack([_double_bridge(best, rng) for _ in range(AT_ONCE)])
        tours = torch.cat((best[None], improve_tour(kicked, cost)))
    return tours[us.Cycle(n).energy(tours, cost).argmin()]


def _double_bridge(tour: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    tour = tour.roll(int(rng.integers(len(tour))))
    a, b, c = np.sort(rng.choice(np.arange(1, min(len(tour), REACH)), 3, replace=False)).tolist()
    return torch.cat((tour[:a], tour[b:c], tour[a:b], tour[c:]))


def links(tour: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in zip(tour.tolist(), tour.roll(-1).tolist(), strict=True)}


def one(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Confidence and truth per item, and the gap in percent."""
    points = torch.rand(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    cost = torch.cdist(points, points)
    found = us.solve(us.Cycle(n), cost=cost, seed=seed, polish=True)
    best = best_known(cost, found.best_order, np.random.default_rng(seed))
    known, own = links(best), found.order.tolist()
    right = np.zeros(n, dtype=bool)
    for k, item in enumerate(own):
        right[item] = {frozenset((own[k - 1], item)), frozenset((item, own[(k + 1) % n]))} <= known
    return found.confidence.numpy(), right, 100 * (found.energy / float(us.Cycle(n).energy(best, cost)) - 1)


def reliability(sure: np.ndarray, right: np.ndarray) -> tuple[list[dict[str, float]], float]:
    """Per bin of confidence how many items, how sure, how many right; and how far the two are apart on average. Printed."""
    table = []
    for low, high in itertools.pairwise(EDGES):
        inside = (sure >= low) & (sure < high)
        if inside.any():
            bin = {"from": low, "to": min(high, 1.0), "share": inside.mean(), "confidence": sure[inside].mean()}
            table.append({k: round(float(v), 3) for k, v in (bin | {"right": right[inside].mean()}).items()})
            print("  ".join(f"{name} {value:5.3f}" for name, value in table[-1].items()))
    return table, sum(row["share"] * abs(row["confidence"] - row["right"]) for row in table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("results/tour_confidence.json"))
    options = parser.parse_args()
    seen = [one(options.n, FIRST + k) for k in track(range(options.count), "tours")]
    table, off = reliability(*(np.concatenate([row[k] for row in seen]) for k in (0, 1)))
    gap = float(np.mean([row[2] for row in seen]))
    print(
        f"n = {options.n}, {options.count} tours, gap {gap:.2f} %; mean of |confidence - right| over the bins {off:.3f}"
    )
    result = {"n": options.n, "tours": options.count, "gap": round(gap, 2), "off": round(off, 3), "bins": table}
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
