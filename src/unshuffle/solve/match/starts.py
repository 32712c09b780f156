"""Where to begin: both sets in few groups of equal size, and random rotations of one set's leading directions onto the other's.

From nothing an annealing takes the first alignment that becomes favourable, and with clusters that is often a wrong one. In 64 groups
hundreds of alignments cost no more than one at full size, and the free energy tells them apart.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

GROUPS = 64
RUNS = 256
DIRECTIONS = 3


def double_centred(S: Float[Tensor, "*runs m n"]) -> Float[Tensor, "*runs m n"]:
    return S - S.mean(-1, keepdim=True) - S.mean(-2, keepdim=True) + S.mean((-1, -2), keepdim=True)


def directions(S: Float[Tensor, "n n"], count: int) -> tuple[Float[Tensor, "n q"], Float[Tensor, "q"]]:
    """Leading eigenvectors of a similarity, each as long as its eigenvalue says (classical scaling), largest last."""
    values, vectors = torch.linalg.eigh(double_centred(S).double())
    values, vectors = values[-count:].clamp_min(0), vectors[:, -count:]
    return (vectors * values.sqrt()).float(), values.float()


def rotations(
    S1: Float[Tensor, "m m"], S2: Float[Tensor, "n n"], runs: int, generator: torch.Generator
) -> Float[Tensor, "runs m n"]:
    """Scores of ``runs`` random alignments: items that come to lie near each other when the leading directions are rotated."""
    most = min(DIRECTIONS, len(S1), len(S2))
    (U, lengths), (V, others) = directions(S1, most), directions(S2, most)
    # a direction that one of the sets does not have would only shrink the others
    q = max(1, int(((lengths > 0.1 * lengths[-1]) & (others > 0.1 * others[-1])).sum()))
    U, V = U[:, -q:] / (lengths[-1:].sqrt() + 1e-9), V[:, -q:] / (others[-1:].sqrt() + 1e-9)
    turn = torch.linalg.qr(torch.randn(runs, q, q, generator=generator))[0]
    mirror = torch.sign(torch.randn(runs, 1, q, generator=generator))
    apart = torch.cdist(U @ (turn * mirror), V.expand(runs, -1, -1)) ** 2
    return -2 * math.log(len(U)) * apart / apart.mean((-1, -2), keepdim=True).clamp_min(1e-12)


def groups(S: Float[Tensor, "n n"], count: int) -> Float[Tensor, "count n"]:
    """Means over ``count`` groups of equal size: halves of halves, each along its own widest direction."""
    n = len(S)
    if count >= n:
        return torch.eye(n)
    X, _ = directions(S, 8)
    parts, todo = [], [(torch.arange(n), count)]
    while todo:
        members, pieces = todo.pop()
        if pieces == 1:
            parts.append(members)
            continue
        centred = X[members] - X[members].mean(0)
        along = centred @ torch.linalg.svd(centred, full_matrices=False)[2][0]
        members, cut = members[along.argsort()], round(len(members) * (pieces // 2) / pieces)
        todo += [(members[:cut], pieces // 2), (members[cut:], pieces - pieces // 2)]
    means = torch.zeros(len(parts), n)
    for k, members in enumerate(parts):
        means[k, members] = 1 / len(members)
    return means


def coarse(S1: Tensor, S2: Tensor) -> tuple[Float[Tensor, "a m"], Float[Tensor, "b n"], float]:
    """The groups of both sets and how many items there are in one."""
    size = max(max(len(S1), len(S2)) / GROUPS, 1.0)
    return groups(S1, max(2, round(len(S1) / size))), groups(S2, max(2, round(len(S2) / size))), size


def distinct(P: Float[Tensor, "runs m n"], value: Float[Tensor, "runs"], count: int) -> Tensor:
    """The ``count`` best runs that differ from each other."""
    flat = P.flatten(1) / P.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-12)
    chosen: list[int] = []
    for k in value.argsort(descending=True).tolist():
        if all(float(flat[k] @ flat[c]) < 0.8 for c in chosen):
            chosen.append(k)
        if len(chosen) == count:
            break
    return torch.tensor(chosen)
