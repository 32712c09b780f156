"""Seriation beside spectral seriation and optimal leaf ordering, on the same criterion, with rank correlation to the known order.

    python benchmarks/solve_seriation.py --data FOLDER [--seeds 3] [--out results/seriation.json]
    python benchmarks/solve_seriation.py --data FOLDER --events [--out results/seriation_events.json]
    python benchmarks/solve_seriation.py --data FOLDER --made [--seeds 3] [--out results/seriation_made.json]

FOLDER/seriation holds Munsingen, Bornholm, merzbach and Nelson as CSV; curves are made here. Rows are shuffled first. ``--events`` counts
anti-Robinson events instead, on these tables and on Irish, Psych24, Wood and Townships: of what `unshuffle seriate` does by default, of
the standard orders, and of one energy for every table, a path over half of all lags. ``--made``: Kendall tau of the default beside path
length and 2-SUM on made tables with a known order, and on FOLDER/single_cell (Guo et al. 2010), whose cells have a stage; what the default
goes by was chosen on others of these kinds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kendalltau

import unshuffle as us
from unshuffle.readers.tables import read_table
from unshuffle.tasks import seriation
from unshuffle.tasks.choosing import criterion_for
from unshuffle.tasks.criteria import Criterion
from unshuffle.tasks.standard import anti_robinson

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


def events_of(name: str, D: np.ndarray, truth: np.ndarray | None) -> dict[str, object]:
    """Anti-Robinson events of our order, the standard ones and one over many lags; and tau to the known order, if it is."""
    mixed = np.random.default_rng(0).permutation(len(D))
    D = D[np.ix_(mixed, mixed)]
    found = seriation.seriate(D, seed=0)
    lags = us.solve(us.Path(len(D), reach=max(1, len(D) // 2)), cost=torch.from_numpy(D), seed=0)
    orders = {f"default ({found.criterion.value})": found.order} | {k: o for k, (_, o) in found.others.items()}
    orders["half of all lags"] = lags.order.numpy()
    row: dict[str, object] = {"name": name, "n": len(D)}
    for method, order in orders.items():
        row[method] = {"events": anti_robinson(D, order)}
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
        D = seriation.dissimilarity(table, seriation.kind_of(table))
        truth = known(name, path, len(D)) if name in TABLES else None
        rows.append(events_of(name, D, truth))
    for kind in ("spiral", "sine", "helix"):
        rows.append(events_of(f"{kind} 0.02", curve(kind, 100, 0.02, 0), np.arange(100)))
    return rows


def tables(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Made tables: kind, dissimilarities, true rank (the same for rows of one block)."""
    rng = np.random.default_rng(seed)
    n, d = 60, 20
    t, rank = np.sort(rng.random(n)), np.arange(n)
    bumps = np.exp(-(((t[:, None] - rng.uniform(-0.2, 1.2, d)) / 0.3) ** 2))
    for noise in (0.2, 0.6):
        yield (
            f"gradient in {d} columns, noise {noise}",
            squareform(pdist(bumps + noise * rng.normal(size=(n, d)))),
            rank,
        )
    angle = np.linspace(np.pi, 5 * np.pi, n)
    turn, height = np.linspace(0, 1.8 * np.pi, n), np.linspace(0, 2, n)
    curves = {
        "spiral": np.stack((angle * np.cos(angle), angle * np.sin(angle)), 1) / angle[-1],
        "helix": np.stack((np.cos(3 * turn), np.sin(3 * turn), height), 1),
        "open ring": np.stack((np.cos(turn), np.sin(turn)), 1),
        "sine": np.stack((height, np.sin(2 * np.pi * height) / 2), 1),
    }
    for name, points in curves.items():
        for wide, noise in ((points.shape[1], 0.05), (d, 0.05)):
            turned = points @ np.linalg.qr(rng.normal(size=(wide, points.shape[1])))[0].T
            yield f"{name} in {wide} columns", squareform(pdist(turned + noise * rng.normal(size=(n, wide)))), rank
    block = np.sort(rng.integers(0, 6, n))
    centres = np.cumsum(rng.normal(size=(6, d)), 0)
    yield "six blocks", squareform(pdist(centres[block] + rng.normal(size=(n, d)))), block
    sheet = np.stack((t, rng.random(n) / 3), 1) @ rng.normal(size=(2, d))
    yield "two gradients", squareform(pdist(sheet + 0.1 * rng.normal(size=(n, d)))), rank
    for rate, width in ((20, 0.5), (3, 0.1)):
        finds = rng.poisson(rate * np.exp(-(((t[:, None] - rng.uniform(-0.1, 1.1, 2 * d)) / width) ** 2)))
        kept = finds.any(1)
        shares = finds[kept] / finds[kept].sum(1, keepdims=True)
        yield f"counts, {'dense' if rate > 3 else 'sparse'}", squareform(pdist(shares, "cityblock")), rank[kept]


def made(data: Path, seeds: int) -> list[dict[str, object]]:
    """Per kind of table the mean tau of each criterion and of the default, and how often that is which."""
    taus: dict[str, list[list[float]]] = {}
    for seed in range(7000, 7000 + seeds):
        for name, D, truth in tables(seed):
            taus.setdefault(name, []).append(compared(D, truth, seed))
    cells = np.genfromtxt(data / "single_cell" / "guo2010_norm.csv", delimiter=",", skip_header=1)
    standardised = (cells[:, 1:] - cells[:, 1:].mean(0)) / cells[:, 1:].std(0)
    taus["428 single cells, by stage"] = [compared(squareform(pdist(standardised)), cells[:, 0], 0)]
    rows: list[dict[str, object]] = []
    for name, some in taus.items():
        means = np.mean(some, 0).round(3).tolist()
        rows.append({"name": name, "tables": len(some)} | dict(zip(METHODS, means, strict=True)))
        rows[-1]["default, standard error"] = round(float(np.std(some, 0)[2] / len(some) ** 0.5), 3)
        print(rows[-1], flush=True)
    return rows


METHODS = ("path", "two-sum", "default", "optimal leaf order", "share by 2-SUM")


def compared(D: np.ndarray, truth: np.ndarray, seed: int) -> list[float]:
    """Tau by each of METHODS, and whether the default went by 2-SUM."""
    mixed = np.random.default_rng(seed).permutation(len(D))
    D, truth = D[np.ix_(mixed, mixed)], truth[mixed]
    by = {c: seriation.seriate(D, c, seed=seed) for c in (Criterion.path, Criterion.two_sum)}
    asked = criterion_for(D)
    orders = [by[Criterion.path].order, by[Criterion.two_sum].order, by[asked].order]
    orders.append(by[Criterion.path].others["optimal leaf order"][1])
    taus = [abs(float(kendalltau(truth[order], np.arange(len(order)))[0])) for order in orders]  # pyright: ignore[reportArgumentType]
    return [*taus, float(asked is Criterion.two_sum)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    which = "_events" if arguments.events else "_made" if arguments.made else ""
    arguments.out = arguments.out or Path("results", f"seriation{which}.json")
    if which:
        rows = events(arguments.data) if arguments.events else made(arguments.data, arguments.seeds)
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
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
