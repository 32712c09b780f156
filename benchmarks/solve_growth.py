"""How the cost of solving grows: seconds and peak memory on paths and cycles of n = 100 to 4000 points, each in a process of its own.

    python benchmarks/solve_growth.py [--sizes 100 ...] [--out results/solve_growth.json]

Paths follow a noisy spiral, cycles visit uniform points. Memory is what the process had at its peak above what it had before
solving (package and cost matrix loaded, kernels compiled); the cost matrix in double precision is printed beside it. ``load`` is how many
processes wanted a core when it began: where it is above 1 only the seconds of a core mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

import unshuffle as us

SIZES = (100, 200, 500, 1000, 2000, 4000)
LAYOUTS = {"path": us.Path, "cycle": us.Cycle}
UNIFORM = 0.7124  # length of the best tour through n uniform points in the unit square, over sqrt(n), for large n


def points(layout: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if layout == "cycle":
        return rng.random((n, 2))
    t = np.sort(rng.random(n))
    curve = np.stack((t * np.cos(12 * t), t * np.sin(12 * t)), 1) + 0.1 / n * rng.standard_normal((n, 2))
    return curve[rng.permutation(n)]


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def one(layout: str, n: int) -> dict[str, float]:
    small = torch.rand(70, 70).double()
    us.solve(LAYOUTS[layout](70), cost=small + small.T)  # compile
    xy = torch.from_numpy(points(layout, n))
    cost = torch.cdist(xy, xy, compute_mode="donot_use_mm_for_euclid_dist")
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    before, began, worked = peak(), time.perf_counter(), time.process_time()
    found = us.solve(LAYOUTS[layout](n), cost=cost)
    return {
        "load": round(busy, 1),
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - worked, 2),
        "peak_mb": round(peak() - before, 1),
        "cost_mb": round(8 * n * n / 2**20, 1),
        "length_over_sqrt_n": round(found.energy / n**0.5, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--one", nargs=2, metavar=("LAYOUT", "N"), help="measure in this process and print JSON")
    parser.add_argument("--out", type=Path, default=Path("results/solve_growth.json"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], int(options.one[1]))))
        return
    table = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    for n in options.sizes:
        for layout in LAYOUTS:
            call = [sys.executable, __file__, "--one", layout, str(n)]
            row = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
            table[f"{layout} {n}"] = row
            print(f"{layout:>6} {n:>5}  " + "  ".join(f"{k} {v:8.2f}" for k, v in row.items()), flush=True)
            save(options.out, table)


def save(path: Path, table: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(
        json.dumps({"threads": torch.get_num_threads(), "cores": os.cpu_count(), "rows": table}, indent=1) + "\n"
    )
    os.replace(part, path)


if __name__ == "__main__":
    main()
