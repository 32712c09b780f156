"""Orders with a known answer: Hi-C contacts and genetic markers, by the functions behind ``unshuffle hic`` and ``markers``.

    python benchmarks/solve_orders.py --data FOLDER [--only hic markers] [--seeds 3] [--out results/solve_orders.json]

FOLDER/hic has contacts of yeast chromosomes I-VIII, FOLDER/markers genotypes of 544 mice on chromosomes 1-10. What was chosen (the
reach of paths, windows of `ripple`) was chosen on odd chromosomes; even ones are reported beside all. Markers that no individual
tells apart have no order; those are taken that differ from each other in three individuals or more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import kendalltau

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.readers.contacts import Contacts
from unshuffle.readers.genotypes import Genotypes
from unshuffle.tasks.hic import Scaffolds, scaffold
from unshuffle.tasks.markers import linkage_map

ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")
STOPPED = (1, 5, 20, 100)  # of about 1,400 steps
WRONG, MISSING = 0.05, 0.10  # added to the genotypes


def agreement(order: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Kendall tau to the true places, either way round, and the share of true neighbours among neighbours."""
    rank = np.argsort(np.argsort(truth[order]))
    tau = abs(float(kendalltau(rank, np.arange(len(rank)))[0]))  # pyright: ignore[reportArgumentType]
    return tau, float((np.abs(np.diff(rank)) == 1).mean())


def single(counts: np.ndarray) -> Contacts:
    names = [str(k) for k in range(len(counts))]
    return Contacts(counts, names, np.arange(len(counts)), names, np.full(len(counts), 10_000), 10_000, balanced=True)


def chromosomes(data: Any) -> list[dict[str, Any]]:
    rows = []
    for number, name in enumerate(ROMAN, 1):
        counts, start = data[f"chr{name}"].astype(float), data[f"chr{name}_start"]
        mixed = np.random.default_rng(number).permutation(len(counts))
        began = time.perf_counter()
        found = scaffold(single(counts[np.ix_(mixed, mixed)]))
        tau, right = agreement(found.order, start[mixed])
        rows.append(
            {"chromosome": number, "bins": len(counts), "groups": len(found.groups), "tau": tau, "neighbours": right}
        )
        rows[-1] |= {"seconds": round(time.perf_counter() - began, 1)} | sure_joins(
            found.joins, found.groups, start[mixed]
        )
        print(rows[-1], flush=True)
    return rows


def sure_joins(joins: list[np.ndarray], groups: list[np.ndarray], start: np.ndarray) -> dict[str, int]:
    """How many single-bin joins are sure (above 0.9), and how many of these are right."""
    rank = np.argsort(np.argsort(start))
    sure = np.concatenate([j > 0.9 for j in joins])
    right = np.concatenate([np.abs(np.diff(rank[g])) == 1 for g in groups])
    return {"joins": len(sure), "sure": int(sure.sum()), "sure and right": int((sure & right).sum())}


def all_in_one(data: Any, steps: int | None = None) -> dict[str, Any]:
    """Everything in one matrix; stopped after so many steps, as by Ctrl-C."""
    counts, chromosome, start = data["all"].astype(float), data["all_chrom"], data["all_start"]
    mixed = np.random.default_rng(0).permutation(len(counts))
    began = time.perf_counter()
    made = itertools.count(1)
    found = scaffold(single(counts[np.ix_(mixed, mixed)]), callback=lambda _: steps is None or next(made) <= steps)
    label, start = chromosome[mixed], start[mixed]
    overlap = np.array([[(label[g] == c).sum() for c in np.unique(label)] for g in found.groups])
    share = overlap[linear_sum_assignment(-overlap)].sum() / len(label)
    pure = [agreement(g, start) for g in found.groups if len(set(label[g])) == 1 and len(g) > 2]
    tau, right = np.mean(pure, axis=0)
    told = {"groups": len(found.groups), "right": float(share), "tau": float(tau), "neighbours": float(right)}
    return told | {"seconds": round(time.perf_counter() - began, 1)}


def contigs(data: Any, seed: int) -> dict[str, Any]:
    """Chromosomes cut into contigs of 5 to 20 bins, shuffled and turned."""
    counts, chromosome = data["all"].astype(float), data["all_chrom"]
    rng = np.random.default_rng(seed)
    pieces: list[np.ndarray] = []
    for c in np.unique(chromosome):
        bins = np.flatnonzero(chromosome == c)
        ends = np.cumsum(rng.integers(5, 21, len(bins)))
        pieces += [p for p in np.split(bins, ends[ends < len(bins)]) if len(p)]
    turned, shuffle = rng.random(len(pieces)) < 0.5, rng.permutation(len(pieces))
    given = [pieces[k][::-1] if turned[k] else pieces[k] for k in shuffle]
    bins, sizes = np.concatenate(given), np.array([len(p) for p in given])
    names = [str(k) for k in shuffle]
    owner = np.repeat(np.arange(len(given)), sizes)
    began = time.perf_counter()
    found = scaffold(
        Contacts(
            counts[np.ix_(bins, bins)], [str(b) for b in bins], owner, names, sizes * 10_000, 10_000, balanced=True
        )
    )
    true = {(k, k + 1) for k in range(len(pieces) - 1) if chromosome[pieces[k][0]] == chromosome[pieces[k + 1][0]]}
    joins, ways, sure, sure_right = 0, 0, 0, 0
    for placed, chances in zip(found.pieces, found.joins, strict=True):
        walk = [(int(shuffle[k]), bool(turn) != bool(turned[shuffle[k]])) for k, turn in placed]
        right = [
            ((a, b) in true and not (back or again)) or ((b, a) in true and back and again)
            for (a, back), (b, again) in itertools.pairwise(walk)
        ]
        joins += sum(right)
        sure, sure_right = (
            sure + int((chances > 0.9).sum()),
            sure_right + int((np.array(right, bool) & (chances > 0.9)).sum()),
        )
        backward = sum(len(pieces[k]) * (1 if back else -1) for k, back in walk) > 0
        ways += sum(back == backward for _, back in walk)
    told = {
        "contigs": len(pieces),
        "groups": len(found.groups),
        "joins": joins / len(true),
        "directions": ways / len(pieces),
    }
    told |= {"sure": sure, "sure and right": sure_right}
    return told | {"seconds": round(time.perf_counter() - began, 1)}


def scaffold_noisy(counts: np.ndarray, noise: float) -> tuple[np.ndarray, Scaffolds]:
    """One chromosome after noise was added to the logarithms of its contacts: how its bins were mixed, and what was found."""
    rng = np.random.default_rng(int(10 * noise))
    added = np.triu(rng.normal(0, noise, counts.shape), 1)
    mixed = rng.permutation(len(counts))
    noisy = ((counts + np.median(counts) / 2) * np.exp(added + added.T))[np.ix_(mixed, mixed)]
    return mixed, scaffold(single(noisy), chromosomes=1)


def confidence(data: Any) -> dict[str, Any]:
    """Joins of bins after noise was added to the logarithms of contacts, on chromosomes that no scale was chosen on."""
    sure, right = [], []
    for name in ("II", "VI", "VIII"):
        counts = data[f"chr{name}"].astype(float)
        for noise in (0.3, 0.6, 1.0):
            mixed, found = scaffold_noisy(counts, noise)
            sure.append(found.joins[0])
            right.append(np.abs(np.diff(mixed[found.groups[0]])) == 1)
    chance, true = torch.from_numpy(np.concatenate(sure)), torch.from_numpy(np.concatenate(right))
    above = chance > 0.9
    told = {"joins": len(true), "right": float(true.double().mean()), "above 0.9": float(above.double().mean())}
    told |= {"right above 0.9": float(true[above].double().mean())}
    return told | {"expected calibration error": us.metrics.expected_calibration_error(chance, true)}


def blurred(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    values = values.copy()
    wrong = (rng.random(values.shape) < WRONG) & (values >= 0)
    values[wrong] = (values[wrong] + rng.integers(1, 3, wrong.sum())) % 3
    values[rng.random(values.shape) < MISSING] = -1
    return values


def differing(values: np.ndarray) -> list[int]:
    """Markers that differ from every earlier one of these in three individuals or more."""
    kept: list[int] = []
    for k in range(values.shape[1]):
        both = (values[:, [k]] >= 0) & (values[:, kept] >= 0)
        if (((values[:, [k]] != values[:, kept]) & both).sum(0) >= 3).all():
            kept.append(k)
    return kept


def markers(data: Any, noisy: bool, some: Sequence[int]) -> list[dict[str, Any]]:
    rows = []
    for number in some:
        here = data["chromosome"] == number
        values, place = data["genotype"][:, here].astype(int), data["position_mb"][here]
        rng = np.random.default_rng(number)
        apart = differing(values)
        values, place = values[:, apart], place[apart]
        values = blurred(values, rng) if noisy else values
        mixed = rng.permutation(len(place))
        began = time.perf_counter()
        found = linkage_map(Genotypes(values[:, mixed], [str(k) for k in mixed], [], ()))
        order = np.concatenate([group.order for group in found.groups])
        tau, right = agreement(order, place[mixed])
        row = {
            "chromosome": number,
            "markers": len(place),
            "groups": len(found.groups),
            "tau": tau,
            "neighbours": right,
        }
        row["error"] = found.groups[0].error
        row |= sure_joins([g.joins for g in found.groups], [g.order for g in found.groups], place[mixed])
        rows.append(row | {"seconds": round(time.perf_counter() - began, 1)})
        print(rows[-1], flush=True)
    return rows


def means(rows: list[dict[str, Any]], *names: str) -> dict[str, Any]:
    def of(some: list[dict[str, Any]]) -> dict[str, float]:
        return {name: round(float(np.mean([row[name] for row in some])), 4) for name in names}

    told = of(rows) | {"worst tau": round(min(row["tau"] for row in rows), 4)}
    told |= {"sure": sum(row["sure"] for row in rows), "sure and right": sum(row["sure and right"] for row in rows)}
    even = [row for row in rows if row["chromosome"] % 2 == 0]
    return told | ({"even alone": of(even)} if even else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--only", nargs="+", choices=("chromosomes", "all", "confidence", "contigs", "markers", "noisy"), default=None
    )
    parser.add_argument("--markers", type=int, nargs="+", default=list(range(1, 11)), help="chromosomes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/solve_orders.json"))
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    wanted = options.only or ("chromosomes", "all", "confidence", "contigs", "markers", "noisy")
    with np.load(options.data / "hic" / "yeast_10kb_I-VIII.npz") as contacts:
        if "chromosomes" in wanted:
            result["chromosomes"] = means(chromosomes(contacts), "tau", "neighbours")
        if "all" in wanted:
            result["eight chromosomes in one matrix"] = all_in_one(contacts)
            result["the same, stopped after so many steps"] = {k: all_in_one(contacts, k) for k in STOPPED}
        if "confidence" in wanted:
            result["confidence of bins with noise added"] = confidence(contacts)
        if "contigs" in wanted:
            result["contigs"] = [contigs(contacts, seed) for seed in range(options.seeds)]
    with np.load(options.data / "markers" / "mouse_f2_1-10.npz") as genotypes:
        for name, noisy in (("markers", False), ("noisy", True)):
            if name in wanted:
                result[name] = means(markers(genotypes, noisy, options.markers), "tau", "neighbours")
    print(json.dumps(result, indent=1))
    write_atomic(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
