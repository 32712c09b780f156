"""Adaptive temperature per row against one scalar in the tour solver: same costs, same seeds, dense levels of bins.

    python benchmarks/solve_temperature.py [--count 6] [--n 60] [--out results/solve_temperature.json]

Uniform points, one descent through all levels, no rounds, 4 runs each. ``boost`` b: a position whose row of P has entropy share h is
annealed at beta (1 + b h); the matched scalar starts higher by the mean factor that the adaptive run realised. Gaps are to the best tour that any
of the settings found with local search, so they say which setting is better and not how good it is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path

import numpy as np
import torch

from unshuffle.solve.anneal import cool, decode, scattered
from unshuffle.solve.cycle.levels import Level, dense_pull
from unshuffle.solve.cycle.solver import Scaled, Tours, _Ring
from unshuffle.solve.local_search import improve_tour
from unshuffle.solve.warm import WarmState, warm_step
from unshuffle.structure.bins import rebin, widths
from unshuffle.structure.layouts import Cycle
from unshuffle.watch import Watch

RUNS = 4
SETTINGS = (
    ("scalar", 0.0),
    ("adaptive 0.1", 0.1),
    ("adaptive 0.35", 0.35),
    ("adaptive 1", 1.0),
    ("adaptive -0.35", -0.35),
)


def anneal_level(
    level: Level, soft: torch.Tensor, log_beta: float, boost: float, factors: list[float]
) -> tuple[torch.Tensor, float]:
    """As in the solver, with the pull of each position times 1 + boost * (its entropy share)."""
    state = WarmState(soft, row_mass=level.s)
    pull = dense_pull(level, torch.empty_like(state.soft))
    n, pace = soft.shape[2], level.pace

    def advance(betas: np.ndarray) -> float:
        for beta in betas.tolist():
            share = state.soft / level.s
            entropy = -torch.xlogy(share, share).sum(2, keepdim=True) / math.log(n)
            factor = 1 + boost * entropy
            factors.append(float(factor.mean()))
            pulled = pull(state.ahead, beta) * factor
            warm_step(state, pulled, beta, damping=pace.damping, momentum=pace.momentum, sweeps=pace.sweeps)
        return float(state.purity.mean())

    return state.soft, cool(advance, lambda beta: True, log_beta, pace, level.enough)


def descend(cost: torch.Tensor, boost: float, seed: int, shift: float = 0.0) -> tuple[torch.Tensor, float]:
    """Orders of all runs, and the mean factor on beta; ``shift`` is added to the first log beta."""
    n, recipe = len(cost), Tours()
    costs = Scaled(cost, recipe)
    generator = torch.Generator().manual_seed(seed)
    ring = _Ring(Cycle(n), cost, costs, None, Watch(), recipe)
    levels = widths(n, recipe.coarsest)
    log_beta, factors = math.log(recipe.soon * costs.critical) + shift, []
    soft = scattered(RUNS, levels[0], n, n / levels[0], generator)
    coarse = costs.shaken(RUNS, recipe, generator, plain=False)
    for m in levels:
        soft = rebin(soft, m) if soft.shape[1] != m else soft
        soft, log_beta = anneal_level(ring._level(m, coarse, log_beta), soft, log_beta, boost, factors)
    return decode(soft.mT.contiguous()), float(np.mean(factors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("results/solve_temperature.json"))
    options = parser.parse_args()
    lengths: dict[str, list[list[float]]] = {}
    best, means = [], {name: [] for name, _ in SETTINGS}
    for instance in range(options.count):
        points = torch.rand(options.n, 2, generator=torch.Generator().manual_seed(1000 + instance)).double()
        cost, ring, found = torch.cdist(points, points), Cycle(options.n), []
        for name, boost in SETTINGS:
            orders, factor = descend(cost, boost, instance)
            means[name].append(factor)
            cases = {name: orders}
            if boost == 0.35:
                cases["scalar, matched to 0.35"] = descend(cost, 0.0, instance, math.log(factor))[0]
            for case, tours in cases.items():
                lengths.setdefault(case, []).append(ring.energy(tours, cost).tolist())
                found.append(float(ring.energy(improve_tour(tours, cost), cost).min()))
        best.append(min(found))
    table = {}
    for name, rows in lengths.items():
        gaps = 100 * (np.array(rows) / np.array(best)[:, None] - 1)
        error = float(gaps.mean(1).std() / math.sqrt(len(gaps)))
        table[name] = {
            "single": round(float(gaps.mean()), 3),
            "error": round(error, 3),
            "best of 4": round(float(gaps.min(1).mean()), 3),
        }
        print(f"{name:>24}  " + "  ".join(f"{k} {v:6.2f}" for k, v in table[name].items()), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    part = options.out.with_suffix(".part")
    factors = {name: round(float(np.mean(values)), 4) for name, values in means.items()}
    part.write_text(
        json.dumps({"n": options.n, "instances": options.count, "mean factor": factors, "gaps": table}, indent=1) + "\n"
    )
    os.replace(part, options.out)


if __name__ == "__main__":
    main()
