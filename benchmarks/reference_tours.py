"""How good the tours are that the paper's gaps refer to, and nearest neighbour on the same instances.

    python benchmarks/reference_tours.py --data FOLDER [--out results/reference_tours.json]

FOLDER holds tsp/uniform.npz: 64 uniform instances of each size with the best known lengths (`len_n`; n = 100 proved optimal) and
the lengths of the reference tours that came with the instances (`file_len_n`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from unshuffle.files import write_atomic
from unshuffle.paper.measured import Measured, note
from unshuffle.paper.store import Place
from unshuffle.recipes.tour import nearest_neighbour, ordered
from unshuffle.structure.losses import tour_length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/reference_tours.json"))
    options = parser.parse_args()
    file, found = np.load(options.data / "tsp" / "uniform.npz"), {}
    print(
        "| n | reference tours above the best known, % | nearest neighbour above the best known, % | mean best known |"
    )
    print("|---|---|---|---|")
    for n in (100, 200, 500, 1000):
        best, cities = file[f"len_{n}"], torch.from_numpy(file[f"xy_{n}"]).float()
        nearest = tour_length(ordered(cities, nearest_neighbour(cities))).numpy()
        reference = file.get(f"file_len_{n}")
        line = {"nearest_neighbour": 100 * float((nearest / best - 1).mean()), "best_known": float(best.mean())}
        if reference is not None:
            line["reference"] = 100 * float((reference / best - 1).mean())
        found[str(n)] = {name: round(value, 3) for name, value in line.items()}
        said = "-" if reference is None else f"{line['reference']:.2f}"
        print(f"| {n} | {said} | {line['nearest_neighbour']:.1f} | {line['best_known']:.3f} |")
        row = Measured("benchmarks/reference_tours.py", f"uniform {n}")
        place = Place("tsp", "", "nearest neighbour", str(n), 0, "cpu")
        note(options.out.parent / "runs", row, place, {"gap": found[str(n)]["nearest_neighbour"]})
    write_atomic(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
