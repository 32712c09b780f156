"""A batch of tours against a loop of ``us.solve``: instances per second, and the gap to the best that is known.

    python benchmarks/solve_batch.py [--n 50] [--count 1000] [--loop 30] [--out results/solve_batch.json]

Uniform points. The loop does the first ``--loop`` instances only, by default settings; the best known tour of each is the shortest of both and of
a batch with twenty times the kicks.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.solve import batch

SEED = 2026


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("n", 50), ("count", 1000), ("loop", 30)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--out", type=Path, default=Path("results/solve_batch.json"))
    given = parser.parse_args()
    points = torch.rand(given.count, given.n, 2, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    cost, layout = torch.cdist(points, points), us.Cycle(given.n)
    us.solve_all(layout, cost=cost[:2])  # compiled, or read from the cache
    us.solve(layout, cost=cost[0])
    together = measured(lambda: us.solve_all(layout, cost=cost).energy, given.count)
    one_by_one = measured(
        lambda: torch.tensor([us.solve(layout, cost=c).energy for c in cost[: given.loop]]), given.loop
    )
    kicks, batch.KICKS = batch.KICKS, 20 * batch.KICKS
    best = torch.minimum(
        us.solve_all(layout, cost=cost[: given.loop], seed=1).energy, together.pop("energy")[: given.loop]
    )
    loop_energy = one_by_one.pop("energy")
    best = torch.minimum(best, loop_energy)
    batch.KICKS = kicks
    mine = us.solve_all(layout, cost=cost[: given.loop]).energy
    together["gap"] = float((mine / best - 1).mean())
    one_by_one["gap"] = float((loop_energy / best - 1).mean())
    faster = {k: one_by_one[k] / together[k] for k in ("seconds", "core_seconds")}
    told = {
        "n": given.n,
        "count": given.count,
        "loop": given.loop,
        "batch": together,
        "one by one": one_by_one,
        "times": faster,
    }
    write_atomic(given.out, json.dumps(told, indent=1) + "\n")
    for name in ("batch", "one by one"):
        of = told[name]
        print(
            f"{name}: {1e3 * of['seconds']:.1f} ms, {1e3 * of['core_seconds']:.1f} core ms an instance, gap {100 * of['gap']:.2f} %"
        )
    print(f"{faster['seconds']:.0f} times the throughput, {faster['core_seconds']:.0f} times by core seconds")


def measured(solve, count: int) -> dict:
    began, used = time.perf_counter(), time.process_time()
    energy = solve().double()
    return {
        "seconds": (time.perf_counter() - began) / count,
        "core_seconds": (time.process_time() - used) / count,
        "energy": energy,
    }


if __name__ == "__main__":
    main()
