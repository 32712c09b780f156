"""Pairs of sets with a known correspondence: two views of one latent structure, each through a random nonlinear map of its own.

A view is $X = \\tanh(Z W + b) V$ with random W, b and V, in 8 to 15 or 12 to 30 columns, and noise of 0.1 to 0.4 of its spread: it
bends, stretches and thins the structure elsewhere than the other view does. The kinds are those of simulations in the literature
on aligning single cells (branching tree, rolled sheet, frustum of a cone) and clusters as cell types are: of unequal size, apart,
joined by cells in between, in clusters of clusters. None has a symmetry in the latent space; views may come near to one.

``CHOOSING`` are the kinds, with seeds below 100, to choose on; the others and seeds from 1000 on are kept for reporting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

Random = np.random.Generator
CHOOSING = ("clusters apart", "clusters joined", "tree", "circle with a tail")


class Pair(NamedTuple):
    A: np.ndarray
    B: np.ndarray
    latent: np.ndarray
    """The true place of each item; row i of A and row i of B are views of it."""
    group: np.ndarray


def pair(kind: str, seed: int, count: int = 200) -> Pair:
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    Z, group = KINDS[kind](rng, count)
    order = rng.permutation(count)
    Z, group = Z[order], group[order]
    A = view(rng, Z, int(rng.integers(8, 16)), rng.uniform(0.1, 0.4))
    B = view(rng, Z, int(rng.integers(12, 31)), rng.uniform(0.1, 0.4))
    return Pair(A, B, Z, group)


def view(rng: Random, Z: np.ndarray, columns: int, noise: float, hidden: int = 60) -> np.ndarray:
    Z = (Z - Z.mean(0)) / Z.std()
    W, b = rng.uniform(0.3, 0.8) * rng.normal(size=(Z.shape[1], hidden)), rng.normal(size=hidden)
    X = np.tanh(Z @ W + b) @ rng.normal(size=(hidden, columns))
    X = X - X.mean(0)
    return X / np.sqrt((X**2).mean()) + noise * rng.normal(size=X.shape)


def clusters_apart(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    Z, group, _ = _clusters(rng, count)
    return Z, group


def clusters_joined(rng: Random, count: int, between: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """A quarter of the items lies between clusters that are next to each other."""
    Z, group, centres = _clusters(rng, count)
    bridges = np.argwhere(minimum_spanning_tree(cdist(centres, centres)).toarray())
    moved = rng.permutation(count)[: int(between * count)]
    ends, along = bridges[rng.integers(len(bridges), size=len(moved))], rng.uniform(size=(len(moved), 1))
    Z[moved] = (1 - along) * centres[ends[:, 0]] + along * centres[ends[:, 1]] + 0.15 * rng.normal(size=(len(moved), 3))
    group[moved] = np.where(along[:, 0] < 0.5, ends[:, 0], ends[:, 1])
    return Z, group


def tree(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Three to five bent branches of unequal length and size, that leave the root or another branch."""
    branches = int(rng.integers(3, 6))
    group, along = _sizes(rng, count, branches, least=0.1), rng.uniform(size=(count, 1))
    way = _apart(lambda: _unit(rng.normal(size=(branches, 3))), lambda W: (W @ W.T - 2 * np.eye(branches)).max() < 0.6)
    length, start = rng.uniform(1.5, 4.0, branches), np.zeros((branches, 3))
    for b in range(2, branches):
        parent = int(rng.integers(b))
        start[b] = start[parent] + (rng.random() < 0.6) * rng.uniform(0.3, 1.0) * length[parent] * way[parent]
    bend = 0.5 * rng.normal(size=(branches, 3))
    Z = start[group] + along * length[group, None] * way[group] + along**2 * bend[group]
    return Z + 0.12 * rng.normal(size=Z.shape), group


def circle_with_a_tail(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Denser on one side, so that it cannot be turned over."""
    angle, along, tail = rng.beta(1.2, 2.2, count), rng.uniform(0, 2, count), rng.random(count) < 0.25
    Z = 1.5 * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle), 0 * angle], 1)
    Z[tail] = np.stack([1.5 + along, 0 * along, 0.5 * along**1.5], 1)[tail]
    return Z + 0.1 * rng.normal(size=Z.shape), np.where(tail, 4, np.minimum((4 * angle).astype(int), 3))


def roll(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A rolled sheet, denser at its inner end and at one edge."""
    along, height = rng.beta(1.0, 1.7, count), rng.uniform(size=count) ** 1.5
    angle = 1.5 * np.pi * (1 + 2 * along)
    Z = np.stack([angle * np.cos(angle) / 5, 2 * height, angle * np.sin(angle) / 5], 1)
    return Z + 0.03 * rng.normal(size=Z.shape), np.minimum((4 * along).astype(int), 3)


def clusters_of_clusters(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    of = np.repeat(np.arange(kinds := int(rng.integers(2, 4))), rng.integers(1, 4, kinds))
    group = _sizes(rng, count, len(of), least=0.05)
    centres = 3.0 * _unit(rng.normal(size=(kinds, 3)))[of] + 1.1 * rng.normal(size=(len(of), 3))
    return centres[group] + rng.uniform(0.2, 0.5, len(of))[group, None] * rng.normal(size=(count, 3)), group


def frustum(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The surface of a cone that is cut off, denser at its wide end and on one side."""
    angle, height = rng.beta(1.3, 2.0, count), rng.beta(1.0, 1.6, count)
    radius = 1.5 - 0.9 * height
    Z = np.stack([radius * np.cos(2 * np.pi * angle), radius * np.sin(2 * np.pi * angle), 3 * height], 1)
    group = 2 * np.minimum((3 * height).astype(int), 2) + (angle < 0.5)
    return Z + 0.05 * rng.normal(size=Z.shape), group


KINDS: dict[str, Callable[[Random, int], tuple[np.ndarray, np.ndarray]]] = {
    "clusters apart": clusters_apart,
    "clusters joined": clusters_joined,
    "tree": tree,
    "circle with a tail": circle_with_a_tail,
    "roll": roll,
    "clusters of clusters": clusters_of_clusters,
    "frustum": frustum,
}


def _clusters(rng: Random, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three to six clusters of unequal size and spread, none within another; and their centres."""
    groups = int(rng.integers(3, 7))
    group = _sizes(rng, count, groups, least=0.06)
    centres = _apart(
        lambda: 2.0 * rng.normal(size=(groups, 3)), lambda C: (cdist(C, C) + 9 * np.eye(groups)).min() >= 1.8
    )
    spread = rng.uniform(0.25, 0.6, (groups, 1)) * rng.uniform(0.4, 1.2, (groups, 3))
    return centres[group] + spread[group] * rng.normal(size=(count, 3)), group, centres


def _sizes(rng: Random, count: int, groups: int, least: float) -> np.ndarray:
    """The group of each item; none has less than this share."""
    share = least + (1 - groups * least) * rng.dirichlet(np.full(groups, 2.0))
    return np.repeat(np.arange(groups), np.diff(np.round(np.r_[0, share.cumsum()] * count).astype(int)))


def _apart(draw: Callable[[], np.ndarray], good: Callable[[np.ndarray], bool]) -> np.ndarray:
    while not good(drawn := draw()):
        pass
    return drawn


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)
