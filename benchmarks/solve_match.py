"""Two sets matched by their structure: cells measured twice, the same with a cell type missing, points that were moved, made views.

    python benchmarks/solve_match.py --data FOLDER
    python benchmarks/solve_match.py --made

``FOLDER/matching/snare_500.npz`` holds 500 cells measured twice (rna, atac) whose pairing is used for scoring only. FOSCTTM (the
share of cells nearer than the true match, 0 is best) and label transfer (5 nearest neighbours) are of the barycentric projection of
rna onto atac by ``soft``, atac scaled to length 1 per cell ("scaled") or as it is ("raw"). Points need no data: 60 points of the
unit square, turned and jittered by a tenth of the mean nearest distance, 30 % removed and 30 % foreign on each side, 20 seeds. "Held" is how
often 90 % sets (`Match.sets`) hold the true partner, or that there is none; "exactly", with the last of each left out by chance.
"Subsets" are draws of 400 of the cells, matched by hops among 20 to 150 neighbours: mean and spread of the FOSCTTM, and in how
many draws the cell types found each other (label transfer above 0.95). Beside them, of all cells, what a guess within the right type gives and
what a regression of atac on rna within the type gives that has learned from the true pairs of all other cells.

``--only subsets`` measures this part again and keeps the others as they are in the file; ``--made`` only two views of 200 items of
one latent structure (`made_pairs`, seeds from 1000 on, on which nothing was chosen): by features; by hops among a
quarter of the items; and by features with a fifth of B's items left away by chance. "Found" is the share of pairs in which more
than 0.8 of A's items have most of their probability in their own group, "labels" the mean of that share; FOSCTTM is of the
barycentric projection in the latent space.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_pairs import CHOOSING, KINDS, Pair, pair
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

import unshuffle as us
from unshuffle.files import write_atomic
from unshuffle.solve.match.checks import correlation


def geodesics(X: np.ndarray, k: int) -> np.ndarray:
    """Hops in the graph of k nearest neighbours by correlation; what cannot be reached is as far as the farthest."""
    D = correlation(torch.as_tensor(X, dtype=torch.float64)).numpy()
    graph = np.zeros_like(D)
    np.put_along_axis(graph, np.argsort(D, 1)[:, :k], 1.0, 1)
    np.fill_diagonal(graph, 0)
    hops = dijkstra(np.maximum(graph, graph.T), directed=False, unweighted=True)
    return np.where(np.isinf(hops), hops[np.isfinite(hops)].max(), hops)


def foscttm(apart: torch.Tensor) -> float:
    own = apart.diag()
    return float((apart < own[:, None]).double().mean() + (apart < own).double().mean()) / 2


def alignment(soft: torch.Tensor, onto: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    share = (soft / soft.sum(1, keepdim=True).clamp_min(1e-12)).double()
    result = {}
    for name, Y in (("scaled", onto / np.linalg.norm(onto, axis=1, keepdims=True)), ("raw", onto)):
        target = torch.as_tensor(Y, dtype=torch.float64)
        apart = torch.cdist(share @ target, target)
        voted = torch.as_tensor(labels)[apart.topk(5, largest=False).indices].mode(1).values
        result[f"FOSCTTM {name}"] = round(foscttm(apart), 4)
        result[f"labels {name}"] = round(float((voted == torch.as_tensor(labels)).double().mean()), 4)
    return result


def held(found: us.Match, partner: np.ndarray) -> dict[str, float]:
    """Whether 90 % sets hold the true partner of each item of A (as many as B has: none), and how large they are."""
    told = {}
    for name, generator in (("partner held", None), ("partner held exactly", torch.Generator().manual_seed(0))):
        some = found.sets(0.9, generator)
        told[name] = round(float(np.mean([p in s.tolist() for p, s in zip(partner, some, strict=True)])), 3)
    return told | {"partners": round(float(np.mean([len(s) for s in found.sets(0.9)])), 2)}


def points(seed: int, n: int = 60, share: float = 0.3, jitter: float = 0.1) -> tuple[np.ndarray, ...]:
    """Two sets and the identity of every point in them; strangers have negative ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    nearest = (np.linalg.norm(X[:, None] - X, axis=-1) + 9 * np.eye(n)).min(1).mean()
    angle, foreign = rng.uniform(0, 2 * np.pi), round(share * n)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    sets = []
    for side in range(2):
        kept = rng.permutation(n)[foreign:]
        noise = jitter * nearest * rng.normal(size=(len(kept), 2)) if side else 0.0
        Y = np.concatenate([X[kept] + noise, rng.uniform(size=(foreign, 2))])
        names = np.concatenate([kept, -1 - np.arange(foreign) - n * side])
        order = rng.permutation(len(Y))
        sets += [Y[order] @ turn.T + 3 if side else Y[order], names[order]]
    return tuple(sets)


def snare(data: Path) -> dict[str, Any]:
    cells = np.load(data / "matching" / "snare_500.npz")
    rna, atac, kind = cells["rna"], cells["atac"], cells["cell_type"]
    table: dict[str, Any] = {}
    found = us.match(rna, atac)
    table["features"] = {**alignment(found.soft, atac, kind), "seconds": round(found.seconds, 1)}
    table["features"] |= held(found, np.arange(len(rna)))
    show("cells, features", table["features"])
    for k in (30, 60, 110):
        found = us.match(geodesics(rna, k), geodesics(atac, k), distances=True)
        table[f"hops k={k}"] = {**alignment(found.soft, atac, kind), "seconds": round(found.seconds, 1)}
        table[f"hops k={k}"] |= held(found, np.arange(len(rna)))
        show(f"cells, hops, k = {k}", table[f"hops k={k}"])
    for side in ("atac", "rna"):
        for missing in np.unique(kind):
            kept = kind != missing
            found = us.match(rna, atac[kept]) if side == "atac" else us.match(rna[kept], atac)
            out = np.isin(np.arange(len(kind)), found.left_out[0 if side == "atac" else 1].numpy())
            row = {
                "of it left out": round(float(out[~kept].mean()), 3),
                "of the others": round(float(out[kept].mean()), 3),
            }
            table[f"type {missing} missing in {side}"] = row
            show(f"cells, type {missing} missing in {side}", row)
    return table


def references(rna: np.ndarray, atac: np.ndarray, kind: np.ndarray) -> dict[str, float]:
    """FOSCTTM of the centre of the right type with a trace of noise (ten draws), and of a ridge regression that knows all other pairs."""
    Y = atac / np.linalg.norm(atac, axis=1, keepdims=True)
    X = rna - rna.mean(1, keepdims=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    of_type = (kind[:, None] == np.unique(kind)).astype(float)
    rng, centres = np.random.default_rng(0), of_type @ np.linalg.lstsq(of_type, Y, rcond=None)[0]
    guesses = [centres + 1e-6 * rng.normal(size=Y.shape) for _ in range(10)]
    features = np.concatenate([of_type, *(X * member[:, None] for member in of_type.T)], 1)
    hat = features @ np.linalg.solve(features.T @ features + 0.1 * np.eye(features.shape[1]), features.T)
    learned = Y - (Y - hat @ Y) / (1 - np.diag(hat))[:, None]  # what it says of a cell without having seen it
    guess, regression = (
        np.mean([foscttm(torch.cdist(torch.as_tensor(Z), torch.as_tensor(Y))) for Z in Zs])
        for Zs in (guesses, [learned])
    )
    return {"guess within the type": round(float(guess), 4), "regression on true pairs": round(float(regression), 4)}


def subsets(data: Path, draws: int = 12, count: int = 400) -> dict[str, Any]:
    cells = np.load(data / "matching" / "snare_500.npz")
    rna, atac, kind = (cells[name] for name in ("rna", "atac", "cell_type"))
    table: dict[str, Any] = references(rna, atac, kind)
    show("cells, what is to be had", table)
    for k in (20, 30, 60, 90, 110, 150):
        rows = []
        for draw in range(draws):
            some = np.sort(np.random.default_rng(1000 + draw).permutation(len(kind))[:count])
            found = us.match(geodesics(rna[some], k), geodesics(atac[some], k), distances=True)
            rows.append(alignment(found.soft, atac[some], kind[some]))
        values, labels = (np.array([row[f"{name} scaled"] for row in rows]) for name in ("FOSCTTM", "labels"))
        table[f"hops k={k}"] = {
            "FOSCTTM": round(float(values.mean()), 4),
            "deviation": round(float(values.std(ddof=1)), 4),
            "types found": f"{(labels > 0.95).sum()} of {draws}",
        }
        show(f"{count} of the cells, hops, k = {k}", table[f"hops k={k}"])
    return table


def moved(seeds: int) -> dict[str, Any]:
    rows, sure, sets = [], [], []
    for seed in range(seeds):
        A, a, B, b = points(seed)
        found = us.match(A, B)
        right = a[found.pairs[:, 0]] == b[found.pairs[:, 1]]
        common = len(set(a.tolist()) & set(b.tolist()))
        rows.append([2 * right.sum() / (len(right) + common), right.mean(), right.sum() / common, found.seconds])
        where = {name: k for k, name in enumerate(b.tolist())}
        sets.append(held(found, np.array([where.get(name, len(b)) for name in a.tolist()])))
        sure += list(zip(found.confidence.tolist(), right.tolist(), strict=True))
        print(f"points, seed {seed:2d}: F1 {rows[-1][0]:.3f}", flush=True)
    values = np.array(sure)
    parts = np.array_split(values[values[:, 0].argsort()], 5)
    means = dict(zip(("F1", "precision", "recall", "seconds"), np.mean(rows, 0).round(3).tolist(), strict=True))
    fifths = [{"confidence": round(float(p[:, 0].mean()), 3), "right": round(float(p[:, 1].mean()), 3)} for p in parts]
    return {
        **means,
        "seeds": seeds,
        **{key: round(float(np.mean([row[key] for row in sets])), 3) for key in sets[0]},
        "F1 of each": [round(float(r[0]), 3) for r in rows],
        "fifths by confidence": fifths,
    }


MADE: dict[str, Callable[[Pair], tuple[us.Match, np.ndarray]]] = {
    "features": lambda two: (us.match(two.A, two.B), np.arange(len(two.B))),
    "hops, k = n / 4": lambda two: _by_hops(two, len(two.A) // 4),
    "a fifth missing": lambda two: (us.match(two.A, two.B[: 4 * len(two.B) // 5]), np.arange(4 * len(two.B) // 5)),
}
"""The match of a made pair, and which items of it are in B (their order is by chance)."""


def _by_hops(two: Pair, k: int) -> tuple[us.Match, np.ndarray]:
    return us.match(geodesics(two.A, k), geodesics(two.B, k), distances=True), np.arange(len(two.B))


def made(seeds: int) -> dict[str, Any]:
    table: dict[str, Any] = {"seeds": seeds}
    for way, match in MADE.items():
        rows = {kind: np.array([carried(match, pair(kind, 1000 + seed)) for seed in range(seeds)]) for kind in KINDS}
        seen, unseen = ([rows[kind] for kind in KINDS if (kind in CHOOSING) == chosen] for chosen in (True, False))
        rows |= {"kinds chosen on": np.concatenate(seen), "other kinds": np.concatenate(unseen)}
        for kind, values in rows.items():
            labels, fraction, seconds = values.T
            row = {"found": (labels > 0.8).mean(), "labels": labels.mean(), "FOSCTTM": fraction.mean()}
            table[f"{way}: {kind}"] = {key: round(float(value), 3) for key, value in row.items()}
            show(f"{way}: {kind}", table[f"{way}: {kind}"] | {"core seconds": round(float(seconds.mean()), 2)})
    return table


def carried(match: Callable[[Pair], tuple[us.Match, np.ndarray]], two: Pair) -> tuple[float, float, float]:
    """Share of A's items that most of their probability puts into their own group, FOSCTTM in the latent space, core seconds."""
    began = time.process_time()
    found, members = match(two)
    seconds, soft = time.process_time() - began, found.soft.double().numpy()
    names = np.unique(two.group)
    of_group = soft @ (two.group[members, None] == names)
    onto = soft @ two.latent[members] / soft.sum(1, keepdims=True).clip(1e-12)
    apart = cdist(onto[members], two.latent[members])
    return (
        float((names[of_group.argmax(1)] == two.group).mean()),
        float((apart < np.diag(apart)[:, None]).mean()),
        seconds,
    )


def show(name: str, row: dict[str, Any]) -> None:
    print(f"{name:>32}: " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="without it only the points are measured")
    parser.add_argument("--made", action="store_true", help="only made pairs, which need no data")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results", "solve_match.json"))
    parser.add_argument(
        "--only", nargs="+", choices=("points", "cells", "subsets"), default=["points", "cells", "subsets"]
    )
    options = parser.parse_args()
    table: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.made:
        table["made"], options.only = made(options.seeds), []
    if "points" in options.only:
        table["points"] = moved(options.seeds)
        show("points", table["points"])
    for name, measure in (("cells", snare), ("subsets", subsets)):
        if name in options.only and options.data is not None:
            table[name] = measure(options.data)
    write_atomic(options.out, json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
