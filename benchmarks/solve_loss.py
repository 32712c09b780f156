"""Losses of one's own that compare only neighbours: what annealing finds, what its polish finds, and the value of the true order.

    python benchmarks/solve_loss.py [--out results]

The rows of the two shipped photos by their total variation, and random colours by the rise of one projection.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import unshuffle as us

GREY = torch.tensor([0.3, 0.59, 0.11])


def total_variation(x: Tensor) -> Tensor:
    return (x[1:] - x[:-1]).abs().sum()


def rising(x: Tensor) -> Tensor:
    return us.losses.monotone((x @ GREY).unsqueeze(-1))


def rows(photo: str, n: int) -> Tensor:
    """A photo shrunk to n rows of 32 pixels."""
    picture = Image.open(str(files("unshuffle") / "data" / photo)).convert("RGB").resize((32, n))
    return torch.tensor(np.array(picture), dtype=torch.float32).reshape(n, -1) / 255


def problems() -> list[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
    """(name, loss, items in their true order)"""
    photos = [
        (f"total variation, {n} rows of {photo}", total_variation, rows(photo, n))
        for photo in ("french-alpine-landscape.jpg", "nagasaki-boats.jpg")
        for n in (40, 80)
    ]
    colours = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    return [*photos, ("rise of 60 colours' grey", rising, colours[(colours @ GREY).argsort()])]


def one(loss: Callable[[Tensor], Tensor], items: Tensor, seed: int) -> dict:
    shuffle = torch.randperm(len(items), generator=torch.Generator().manual_seed(seed))
    truth, worked = us.inverse(shuffle), time.process_time()
    found = us.solve(loss, items=items[shuffle], seed=seed, polish=True)
    polished = found.best_order
    return {
        "seed": seed,
        "loss of the true order": float(loss(items)),
        "loss": found.energy,
        "polished loss": found.best_energy,
        "tau": abs(float(us.kendall_tau(found.order, truth))),
        "polished tau": abs(float(us.kendall_tau(polished, truth))),
        "core seconds": time.process_time() - worked,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    table = []
    for name, loss, items in problems():
        for seed in range(options.seeds):
            row = {"problem": name, **one(loss, items, seed)}
            print("  ".join(f"{k} {v:.3f}" if isinstance(v, float) else str(v) for k, v in row.items()), flush=True)
            table.append(row)
    options.out.mkdir(parents=True, exist_ok=True)
    fresh = options.out / "solve_loss.new"
    fresh.write_text(json.dumps(table, indent=1) + "\n")
    fresh.replace(options.out / "solve_loss.json")


if __name__ == "__main__":
    main()
