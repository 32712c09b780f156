"""Paths and tours without whole matrices: how right or how short, in how many seconds of how many cores and in how much memory.

    python benchmarks/solve_large.py [--data FOLDER] [--only path-20000] [--out results/solve_large.json]

Paths: points along a noisy helix in 3-D, |tau| to the order along the curve; *ideal* is the tau of the true projections of the noisy points on
it, which nobody can know. *sure*: of items of 10 paths of 3,000 with a confidence above 0.9, how many have both of their true neighbours, and the
expected calibration error of all. Tours: uniform points, the gap to 0.7124 sqrt(n A), the limit of the best tours for many cities. *sure-tours*, with FOLDER/tsp: the same
of the confidence of long tours, on 16 instances of 1,000 cities whose best known tours are not ours (they are solved as if they were more). Every case is a process
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
import torch
from scipy.spatial import KDTree
from scipy.stats import kendalltau

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.solve.near.solver import solve_near
from unshuffle.solve.near.space import Large
from unshuffle.solve.request import Request
from unshuffle.watch import Watch

CASES = {
    "path-20000": ("path", 20_000, 0.02),
    "path-20000-thin": ("path", 20_000, 0.001),
    "path-20000-thick": ("path", 20_000, 0.04),
    "path-100000": ("path", 100_000, 0.02),
    "tour-20000": ("tour", 20_000, 0.0),
    "tour-100000": ("tour", 100_000, 0.0),
}
NOISES = (0.0, 0.0003, 0.001, 0.003, 0.01)  # spacing is 0.006
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
    ideal = np.asarray(KDTree(helix(fine)).query(points)[1])
    return told | {"tau": abs(tau(found.order.argsort().numpy(), t)), "ideal": tau(ideal, t)}


def tau(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.asarray(kendalltau(a, b))[0])


def sure() -> dict[str, float]:
    """Whether the confidence of long paths keeps its word."""
    confidences, rights = [], []
    for k in range(2):
        for noise in NOISES:
            rng = np.random.default_rng([SEED, k])
            t = rng.random(3000)
            found = us.solve(us.Path(3000), items=helix(t) + noise * rng.standard_normal((3000, 3)))
            link = np.abs(np.diff(t.argsort().argsort()[found.order.numpy()])) == 1
            rights.append(torch.from_numpy(np.r_[True, link] & np.r_[link, True]))
            confidences.append(found.confidence[found.order])
    confidence, right = torch.cat(confidences), torch.cat(rights)
    return {
        "n": 3000,
        "error": us.metrics.expected_calibration_error(confidence, right),
        "right": float(right[confidence > 0.9].double().mean()),
        "share": float((confidence > 0.9).double().mean()),
    }


def sure_tours(data: Path) -> dict[str, float]:
    """Whether the confidence of long tours keeps its word: both neighbours are those of the best known tour."""
    confidences, rights = [], []
    with np.load(data / "tsp" / "uniform.npz") as known:
        for k in range(16):
            best, points = known["tour_1000"][k].astype(int), known["xy_1000"][k].astype(float)
            asked = Request(torch.Generator().manual_seed(k), Watch(), None, None, None)
            found = solve_near(us.Cycle(len(points)), Large(points), asked)
            true = np.stack((np.roll(best, 1), np.roll(best, -1)))[:, best.argsort()]
            order = found.order.numpy()
            ours = np.stack((np.roll(order, 1), np.roll(order, -1)))[:, order.argsort()]
            rights.append(torch.from_numpy((np.sort(ours, 0) == np.sort(true, 0)).all(0)))
            confidences.append(found.confidence)
    errors = [us.metrics.expected_calibration_error(c, r) for c, r in zip(confidences, rights, strict=True)]
    confidence, right = torch.cat(confidences), torch.cat(rights)
    sure = {"n": 1000, "error": us.metrics.expected_calibration_error(confidence, right), "worst error": max(errors)}
    return sure | {
        "confidence": float(confidence.mean()),
        "right": float(right.double().mean()),
        "right above 0.9": float(right[confidence > 0.9].double().mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--only", choices=[*CASES, "sure", "sure-tours"])
    parser.add_argument("--child", choices=[*CASES, "sure"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("results/solve_large.json"))
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(sure() if arguments.child == "sure" else one(*CASES[arguments.child])))
        return
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.data is not None and arguments.only in (None, "sure-tours"):
        known["sure-tours"] = sure_tours(arguments.data)
        write_atomic(arguments.out, json.dumps(known, indent=1) + "\n")
        print("sure-tours", known["sure-tours"], flush=True)
    for name in [arguments.only] if arguments.only else [*CASES, "sure"]:
        if name == "sure-tours":
            continue
        run = [sys.executable, __file__, "--child", name]
        known[name] = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        write_atomic(arguments.out, json.dumps(known, indent=1) + "\n")
        print(name, known[name], flush=True)
    print(table(known))


def table(known: dict[str, dict[str, float]]) -> str:
    lines = ["| | tau (ideal) or gap | core seconds | peak memory |", "|---|---|---|---|"]
    for name, of in known.items():
        if name.startswith("sure"):
            continue
        kind, n = name.split("-")[0], int(of["n"])
        what = f"path of {n:,}, noise {of['noise']:g}" if kind == "path" else f"tour of {n:,}"
        right = f"{of['tau']:.4f} ({of['ideal']:.4f})" if kind == "path" else f"{100 * of['gap']:.1f} %"
        lines.append(f"| {what} | {right} | {of['core_seconds']:.0f} | {of['peak_gb']:.2f} GB |")
    if "sure" in known:
        told = known["sure"]
        words = f"{100 * told['right']:.1f} % of those above 0.9 have the right neighbours"
        lines.append(f"\nPaths of 3,000: {words}; expected calibration error {told['error']:.3f}.")
    if "sure-tours" in known:
        told = known["sure-tours"]
        words = f"{100 * told['right above 0.9']:.1f} % of those above 0.9 have the neighbours of the best known tour"
        lines.append(f"\nTours of 1,000: {words}; expected calibration error {told['error']:.3f}.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
