"""What happens to the confidence of a trained network when the data are of another kind, and whether that is noticed.

    python benchmarks/shift.py [--data FOLDER] [--out results/shift.json]

Sorting: learned and calibrated on numbers from [0, 1], asked about [0, 1], [0, 2] and [10, 11]. Jigsaws, with FOLDER/faces: 3 x 3 tiles of
pictures of 178 pixels, asked about the same pictures at 45 pixels, scaled up. Trainings are short: it is the calibration that is
looked at. "Noticed" is the share of lists that `predict(..., calibration=...)` says are unlike what calibration saw.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from unshuffle.files import write_atomic
from unshuffle.learn.predict import calibrate, predict
from unshuffle.metrics import expected_calibration_error
from unshuffle.operators.permutation import inverse
from unshuffle.recipes.jigsaw import Jigsaw
from unshuffle.recipes.puzzles import puzzles
from unshuffle.recipes.sorting import Sorting
from unshuffle.recipes.training import train

COARSE = 45 / 178


def trained(recipe: Any) -> Callable[[Tensor, Tensor], dict[str, float]]:
    """A function that judges lists with known orders by a network trained and calibrated here."""
    network: nn.Module = train(recipe, None, calibrated=False).network
    items, allowed, truth = recipe.known()
    known = calibrate(network, items, truth, recipe.relax, allowed=allowed)

    def judged(items: Tensor, truth: Tensor) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = predict(network, items, recipe.relax, calibration=known)
        right = inverse(found.order) == inverse(truth)
        sets: Any = found.sets
        held = sets.gather(-1, inverse(truth).unsqueeze(-1)).double().mean()
        told = {
            "in place": float(right.double().mean()),
            "confidence": float(found.confidence.mean()),
            "expected calibration error": expected_calibration_error(found.confidence, right),
            "90 % sets hold the place": float(held),
            "places in a set": float(sets.sum(-1).double().mean()),
            "noticed": sum(map(bool, found.outside)) / len(items),
        }
        return {name: round(value, 3) for name, value in told.items()}

    return judged


def sorting(recipe: Sorting) -> dict[str, Any]:
    judged = trained(recipe)
    unit = torch.rand(200, recipe.n, 1, generator=torch.Generator().manual_seed(8400))
    told = {"[0, 1]": unit, "[0, 2]": 2 * unit, "[10, 11]": 10 + unit}
    return {name: judged(items, items.squeeze(-1).argsort(-1)) for name, items in told.items()}


def jigsaws(data: Path) -> dict[str, Any]:
    recipe = replace(Jigsaw.strong(data / "faces", 3, epochs=3), most=400)
    judged = trained(recipe)
    test: Any = recipe.pictures().test
    given = puzzles(test, 3, 0, 8400)
    channels, height, width = recipe.tile
    tiles = given.items.reshape(-1, channels, height, width)
    small = interpolate(tiles, scale_factor=COARSE, mode="area")
    blurred = interpolate(small, size=(height, width), mode="bilinear").reshape(given.items.shape)
    return {"178 pixels": judged(given.items, given.truth), "45 pixels": judged(blurred, given.truth)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("results/shift.json"))
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    result["sorting, our network"] = sorting(Sorting.strong(20, epochs=2))
    result["sorting, the paper's network"] = sorting(Sorting.paper(10, epochs=10))
    print(json.dumps(result, indent=1), flush=True)
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")
    if options.data is not None:
        result["jigsaws"] = jigsaws(options.data)
        print(json.dumps(result["jigsaws"], indent=1))
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
