"""What keeps marker orders from the true one: the search, or what was read? Log likelihoods of the order found and of the true one.

    python benchmarks/marker_limits.py [--data FOLDER] [--crosses 8] [--out results/marker_limits.json]

Where the two orders differ, stretch by stretch (the shortest that hold the same markers in both), the true order is put in and the likelihood
of everything that was read is computed again, with recombination fractions fitted to it. A stretch is *missed* if the truth is likelier by
more than 3 (a factor of 20), *tied* if neither is, and *contradicted* if what was found is likelier by more than 3: then no
method that goes by the data finds the truth. Crosses are made here, of markers unevenly spaced and with the errors that the model knows of; FOLDER/markers
are those of solve_orders.py, whose truth is a physical map.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from solve_orders import agreement, differing

from unshuffle.files import write_atomic
from unshuffle.readers.genotypes import Genotypes
from unshuffle.solve.linkage import cross_of, readings, recombination
from unshuffle.tasks.markers import linkage_map

FIRST = 8500  # seed
INDIVIDUALS = 544
CLEAR = 3.0
FITTED = 15  # rounds of expectation and maximisation


def made_cross(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Genotypes of an intercross along one chromosome, and the places of its markers."""
    rng = np.random.default_rng(seed)
    n, gaps = int(rng.integers(70, 130)), rng.uniform(0.6, 1.1)
    spaced = rng.gamma(0.6, 1.0, n - 1)
    r = 0.5 * (1 - np.exp(-2 * gaps * spaced / spaced.sum()))
    values = np.zeros((INDIVIDUALS, n), int)
    for _ in range(2):
        changes = rng.random((INDIVIDUALS, n - 1)) < r
        values += np.cumsum(np.c_[rng.random(INDIVIDUALS) < 0.5, changes], 1) % 2
    wrong = rng.random(values.shape) < rng.choice([0.0005, 0.002, 0.006])
    values[wrong] = (values[wrong] + rng.integers(1, 3, wrong.sum())) % 3
    values[rng.random(values.shape) < rng.choice([0.005, 0.02, 0.05])] = -1
    kept = differing(values)
    return values[:, kept], np.array(kept, float)


def chromosomes(data: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with np.load(data / "markers" / "mouse_f2_1-10.npz") as known:
        for number in range(1, 11):
            here = known["chromosome"] == number
            values = known["genotype"][:, here].astype(int)
            kept = differing(values)
            yield values[:, kept], known["position_mb"][here][kept]


def stretches(rank: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where an order differs from 0, 1, 2, ...: the shortest stretches that hold the numbers of their own places."""
    first = 0
    for end in range(1, len(rank) + 1):
        if rank[first:end].max() < end:
            if end - first > 1:
                yield first, end
            first = end


def one(values: np.ndarray, place: np.ndarray, seed: int) -> dict[str, Any]:
    mixed = np.random.default_rng(seed).permutation(len(place))
    values, place = values[:, mixed], place[mixed]
    found = linkage_map(Genotypes(values, [str(k) for k in mixed], [], ()))
    order, error = np.concatenate([group.order for group in found.groups]), found.groups[0].error
    rank = np.argsort(np.argsort(place))
    order = order if np.corrcoef(rank[order], np.arange(len(order)))[0, 1] > 0 else order[::-1]
    cross = cross_of(values)

    def likelihood(some: np.ndarray) -> float:
        return recombination(readings(values[:, some], cross, error), cross, 0.01, FITTED)[1]

    own = likelihood(order)
    told: dict[str, Any] = dict(zip(("tau", "neighbours"), agreement(order, place), strict=True))
    told |= {"markers": len(place), "likelier than the truth by": own - likelihood(np.argsort(place))}
    kinds: dict[str, int] = {"missed": 0, "tied": 0, "contradicted": 0}
    but_contradicted = np.argsort(place)
    for low, high in stretches(rank[order]):
        other = order.copy()
        other[low:high] = order[low:high][np.argsort(rank[order[low:high]])]
        gain = own - likelihood(other)
        kind = "missed" if gain < -CLEAR else "tied" if gain <= CLEAR else "contradicted"
        kinds[kind] += 1
        if kind == "contradicted":
            but_contradicted[low:high] = order[low:high]
    best = dict(zip(("tau", "neighbours"), agreement(but_contradicted, place), strict=True))
    told |= kinds | {"if every tie were guessed right": best}
    print({k: round(v, 4) if isinstance(v, float) else v for k, v in told.items()}, flush=True)
    return told


def summed_up(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def mean(of: list[dict[str, Any]]) -> dict[str, float]:
        return {name: round(float(np.mean([row[name] for row in of])), 4) for name in ("tau", "neighbours")}

    told: dict[str, Any] = mean(rows) | {name: sum(row[name] for row in rows) for name in ("missed", "tied", "contradicted")}  # fmt: skip
    told["if every tie were guessed right"] = mean([row["if every tie were guessed right"] for row in rows])
    gains = [row["likelier than the truth by"] for row in rows]
    return told | {"likelier than the truth by": [round(gain, 2) for gain in gains]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--crosses", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("results/marker_limits.json"))
    options = parser.parse_args()
    made = [made_cross(FIRST + k) for k in range(options.crosses)]
    result = {"made crosses": summed_up([one(*cross, FIRST + k) for k, cross in enumerate(made)])}
    if options.data is not None:
        rows = [one(*some, number) for number, some in enumerate(chromosomes(options.data), 1)]
        result["mouse, chromosomes 1 to 10"] = summed_up(rows)
    print(json.dumps(result, indent=1))
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
