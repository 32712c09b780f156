"""Paths and tours without whole matrices: how right or how short, in how many seconds of how many cores and in how much memory.

    python benchmarks/solve_large.py [--only path-20000] [--out results/solve_large.json]

Paths: points along a noisy helix in 3-D, |tau| to the order along the curve; *ideal* is the tau of the true projections of the noisy points on
it, which nobody can know. Tours: uniform points, the gap to 0.7124 sqrt(n A), the limit of the best tours for many cities. Every case is a process
of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree
from scipy.stats import kendalltau

import unshuffle as us
from unshuffle.files import write_atomic

CASES = {
    "path-20000": ("path", 20_000, 0.02),
    "path-20000-thin": ("path", 20_000, 0.001),
    "path-20000-thick": ("path", 20_000, 0.04),
    "path-100000": ("path", 100_000, 0.02),
    "tour-20000": ("tour", 20_000, 0.0),
    "tour-100000": ("tour", 100_000, 0.0),
}
SEED = 2026  # what was chosen was chosen on others


def helix(t: np.ndarray) -> np.ndarray:
    return np.stack((np.cos(12 * t) * (1 + t), np.sin(12 * t) * (1 + t), 3 * t), axis=1)


def one(kind: str, n: int, noise: float) -> dict[str, float]:
    rng = np.random.default_rng(SEED)
    t = rng.random(n)
    points = helix(t) + noise * rng.standard_normal((n, 3)) if kind == "path" else rng.random((n, 2))
    us.solve(us.Path(2001), items=points[:2001], time_limit=20)  # compiled, or read from the cache
    began, used = time.perf_counter(), time.process_time()
    found = us.solve(us.Path(n) if kind == "path" else us.Cycle(n), items=points)
    told = {
        "n": n,
        "noise": noise,
        "seconds": round(time.perf_counter() - began, 1),
        "core_seconds": round(time.process_time() - used, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "length": found.energy,
    }
    if kind == "tour":
        return told | {"gap": found.energy / (0.7124 * n**0.5) - 1}
    fine = np.linspace(0, 1, 400_001)
    ideal = KDTree(helix(fine)).query(points)[1]
    tau = abs(float(kendalltau(found.order.argsort().numpy(), t).statistic))
    return told | {"tau": tau, "ideal": float(kendalltau(ideal, t).statistic)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--child", choices=list(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("results/solve_large.json"))
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(one(*CASES[arguments.child])))
        return
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in [arguments.only] if arguments.only else CASES:
        run = [sys.executable, __file__, "--child", name]
        known[name] = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        write_atomic(arguments.out, json.dumps(known, indent=1) + "\n")
        print(name, known[name], flush=True)
    print(table(known))


def table(known: dict[str, dict[str, float]]) -> str:
    lines = ["| | tau (ideal) or gap | core seconds | peak memory |", "|---|---|---|---|"]
    for name, of in known.items():
        kind, n = name.split("-")[0], int(of["n"])
        what = f"path of {n:,}, noise {of['noise']:g}" if kind == "path" else f"tour of {n:,}"
        right = f"{of['tau']:.4f} ({of['ideal']:.4f})" if kind == "path" else f"{100 * of['gap']:.1f} %"
        lines.append(f"| {what} | {right} | {of['core_seconds']:.0f} | {of['peak_gb']:.2f} GB |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
