"""Seriation beside spectral seriation and optimal leaf ordering, on the same criterion, with rank correlation to the known order.

    python benchmarks/solve_seriation.py --data FOLDER [--seeds 3] [--out results/seriation.json]
    python benchmarks/solve_seriation.py --data FOLDER --events [--out results/seriation_events.json]

FOLDER/seriation holds Munsingen, Bornholm, merzbach and Nelson as CSV; curves are made here. Rows are shuffled first. ``--events`` counts
anti-Robinson events instead, on these tables and on Irish, Psych24, Wood and Townships: of what `unshuffle seriate` does by default, of
the standard orders, and of one energy for every table, a path over half of all lags.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kendalltau

import unshuffle as us
from unshuffle.readers.tables import read_table
from unshuffle.tasks import seriation
from unshuffle.tasks.seriation import Criterion

OTHERS: dict[str, tuple[str, ...]] = {"Irish": ("Right to Information",), "Psych24": (), "Wood": (), "Townships": ()}
"""Whose order is not known. One county of Ireland lacks a number."""
TABLES = {"Munsingen": (), "Bornholm": ("Number", "Site", "Period"), "merzbach": (), "Nelson": ("Depth",)}


def curve(kind: str, n: int, noise: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, n)
    angle = np.pi * (1 + 4 * t)
    points = {
        "spiral": np.stack([angle * np.cos(angle), angle * np.sin(angle)], 1) / angle.max(),
        "sine": np.stack([2 * t, np.sin(4 * np.pi * t) / 2], 1),
        "helix": np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t), 2 * t], 1),
    }[kind]
    return squareform(pdist(points + noise * rng.standard_normal(points.shape)))


def known(name: str, path: Path, n: int) -> np.ndarray:
    """The rows' known rank: as published, or the label of the period."""
    if name != "Bornholm":
        return np.arange(n)
    lines = path.read_text().splitlines()
    periods = [line.split(",")[3] for line in lines[1:]]
    return np.array([sorted(set(periods)).index(p) for p in periods])


def one(name: str, D: np.ndarray, truth: np.ndarray, criterion: Criterion, seed: int) -> dict[str, object]:
    mixed = np.random.default_rng(seed).permutation(len(D))
    D, truth = D[np.ix_(mixed, mixed)], truth[mixed]
    found = seriation.seriate(D, criterion, seed=seed)

    def tau(order: np.ndarray) -> float:
        return abs(float(kendalltau(truth[order], np.arange(len(order)))[0]))  # pyright: ignore[reportArgumentType]

    others = {k: {"value": v, "tau": tau(o)} for k, (v, o) in found.others.items()}
    row = {"name": name, "n": len(D), "criterion": criterion.value, "value": found.value, "tau": tau(found.order)}
    known_value = seriation.CRITERIA[criterion](D, np.argsort(truth, kind="stable"))
    row |= {"from": found.winner, "known order": known_value, "others": others, "seconds": found.solution.seconds}
    row["never above"] = found.value <= min(o["value"] for o in others.values()) * (1 + 1e-9)
    print(
        f"{name:22}{len(D):5} {criterion.value:8}{found.value:11.5g} ({row['tau']:.3f}) {found.winner:28}"
        + "".join(f"{k}: {o['value']:.5g} ({o['tau']:.3f})  " for k, o in others.items())
        + f"known order: {known_value:.5g}  {found.solution.seconds:.1f} s",
        flush=True,
    )
    return row


def events_of(name: str, D: np.ndarray, criterion: Criterion, truth: np.ndarray | None) -> dict[str, object]:
    """Anti-Robinson events of our order, the standard ones and one over many lags; and tau to the known order, if it is."""
    mixed = np.random.default_rng(0).permutation(len(D))
    D = D[np.ix_(mixed, mixed)]
    found = seriation.seriate(D, criterion, seed=0)
    lags = us.solve(us.Path(len(D), reach=max(1, len(D) // 2)), cost=torch.from_numpy(D), seed=0)
    orders = {f"default ({criterion.value})": found.order} | {k: o for k, (_, o) in found.others.items()}
    orders["half of all lags"] = lags.order.numpy()
    row: dict[str, object] = {"name": name, "n": len(D)}
    for method, order in orders.items():
        row[method] = {"events": seriation.anti_robinson(D, order)}
        if truth is not None:
            tau = abs(float(kendalltau(truth[mixed][order], np.arange(len(order)))[0]))  # pyright: ignore[reportArgumentType]
            row[method] |= {"tau": round(tau, 3)}  # pyright: ignore[reportOperatorIssue]
    print(row, flush=True)
    return row


def events(data: Path) -> list[dict[str, object]]:
    rows = []
    for name, drop in (TABLES | OTHERS).items():
        path = data / "seriation" / f"{name}.csv"
        table = read_table(path, drop)
        kind = seriation.kind_of(table)
        D = seriation.dissimilarity(table, kind)
        truth = known(name, path, len(D)) if name in TABLES else None
        rows.append(events_of(name, D, seriation.criterion_for(table, kind), truth))
    for kind in ("spiral", "sine", "helix"):
        rows.append(events_of(f"{kind} 0.02", curve(kind, 100, 0.02, 0), Criterion.path, np.arange(100)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    arguments.out = arguments.out or Path("results", "seriation_events.json" if arguments.events else "seriation.json")
    if arguments.events:
        arguments.out.write_text(json.dumps(events(arguments.data), indent=1) + "\n")
        return
    print("value (Kendall tau to the known order) and where ours comes from")
    rows = []
    for name, drop in TABLES.items():
        path = arguments.data / "seriation" / f"{name}.csv"
        table = read_table(path, drop)
        D = seriation.dissimilarity(table, seriation.Kind.counts)
        for criterion in Criterion:
            rows.append(one(name, D, known(name, path, len(D)), criterion, 0))
    for kind in ("spiral", "sine", "helix"):
        for n in (100, 300):
            for noise in (0.005, 0.02):
                for seed in range(arguments.seeds):
                    label = f"{kind} {noise} #{seed}"
                    rows.append(one(label, curve(kind, n, noise, seed), np.arange(n), Criterion.path, seed))
    above = [row["name"] for row in rows if not row["never above"]]
    alone = sum(row["from"] == "annealed" for row in rows)
    folded = [row["name"] for row in rows[2 * len(TABLES) :] if row["tau"] < 0.9]  # pyright: ignore[reportOperatorIssue]
    print(
        f"{len(rows)} problems; above the better standard method: {above or 'none'}; annealing alone was lowest or equal in {alone}"
    )
    print(f"folded curves (tau below 0.9): {folded or 'none'}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
