r"""OT4P (Guo et al., 2024): permutations as corners of the orthogonal group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import schur
from torch import Tensor

from ..compute.transforms import operator
from ..errors import BadInput, whole
from ..operators.assignment import assign
from ..operators.permutation import square
from ..operators.precision import widened
from ..shapes import Scores
from .layer import Draw, Scheduled
from .protocol import MaskOrNone, Orders, SoftPermutations, one_hot, with_samples

Rotation = Float[Tensor, "*batch n n"]


@dataclass(eq=False)
class OT4P(Scheduled):
    r"""$O = B \exp(A)$ with $A$ skew from the scores, moved towards its nearest permutation: $R = \Pi (\Pi^T O)^\tau$.

    $\tau = 1/\beta$ lies in (0, 1]: $\beta = 1$ gives O, $\beta \to \infty$ the permutation. (No rotation
    leads to an odd permutation, so for one of these the last column is turned round on the way in and out; it then lies on
    the border between n regions, and descent with a moving base passes it but does not settle there.) Entries can be negative, and rows and
    columns have norm one instead of sum one. Forward gives $T O$ with $T = R O^T$ held constant, so the gradient
    never goes through the matrix power. Powers use real arithmetic: see `fractional_power`.

    `base` is fixed by default (the paper's amortised use, decoded by the row maximum at tau = 0). Its authors optimise one
    matrix and move the base after every step: `relax, scores = relax.moved(scores)`. Masks make no sense here.
    """

    base: Float[Tensor, "n n"] | None = None
    seed: int = 0

    example: ClassVar[str] = "us.Constant(2.0)"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("seed", self.seed, 0)
        if self.base is not None:
            square(self.base, "The base")

    def relaxed(self, scores: Scores, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        _refuse_mask(allowed)
        rotation = self.rotation(scores)
        with torch.no_grad():
            tau = (1 / torch.as_tensor(draw.beta, dtype=torch.float64)).clamp(max=1.0)
            T = towards_permutation(rotation, tau) @ rotation.mT
        return with_samples(T @ rotation, draw.samples)

    def __eq__(self, other: object) -> bool:
        return self is other  # a base is a matrix, and has no equality that is one truth

    __hash__ = Scheduled.__hash__

    def rotation(self, scores: Scores) -> Rotation:
        r"""$O = B \exp(A)$, $A = \mathrm{triu}(S, 1) - \mathrm{triu}(S, 1)^T$: the lower triangle of the scores is unused."""
        upper = square(scores).triu(1)
        base = rotated_base(scores.shape[-1], self.seed) if self.base is None else self.base
        if base.shape[-1] != scores.shape[-1]:
            raise BadInput(f"The base is for {base.shape[-1]} items, but the scores are of {scores.shape[-1]}.")
        return base.to(scores) @ torch.matrix_exp(upper - upper.mT)

    def moved(self, scores: Float[Tensor, "n n"]) -> tuple[OT4P, Float[Tensor, "n n"]]:
        """The same rotation, seen from itself: the base moves to it and the scores start again at zero."""
        return replace(self, base=self.rotation(scores.detach())), torch.zeros_like(scores)

    def decode(self, scores: Scores, *, allowed: MaskOrNone = None) -> Orders:
        """The permutation nearest to O: the row maximum at tau = 0."""
        _refuse_mask(allowed)
        return assign(self.rotation(widened(scores.detach())))


def _refuse_mask(allowed: MaskOrNone) -> None:
    if allowed is not None:
        raise BadInput("OT4P has no place for forbidden pairs: leave out `allowed`, or use GumbelSinkhorn.")


def rotated_base(n: int, seed: int) -> Float[Tensor, "n n"]:
    """2x2 rotations along the diagonal, angles from U(pi/8, 3 pi/8): halfway between permutations, where none is near."""
    return _rotated_base(torch.empty(n, n, dtype=torch.float64), int(seed))


@operator("(Tensor like, int seed) -> Tensor", lambda like, seed: torch.empty_like(like))
def _rotated_base(like: Tensor, seed: int) -> Tensor:
    n, generator = len(like), torch.Generator().manual_seed(seed)  # which a graph cannot hold
    angles = (torch.rand(n // 2, generator=generator, dtype=torch.float64) + 0.5) * torch.pi / 4
    turns = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).reshape(-1, 2, 2)
    return torch.block_diag(*turns, *[torch.ones(1, 1, dtype=torch.float64)] * (n % 2))


def towards_permutation(rotation: Rotation, tau: float | Tensor) -> Rotation:
    r"""$\Pi (\Pi^T O)^\tau$, $\Pi = \arg\max \langle \Pi, O \rangle$; an odd $\Pi$ has its last column flipped, and back."""
    nearest = one_hot(assign(rotation), rotation)
    flip = torch.ones_like(rotation[..., :1, :])
    flip[..., -1] = torch.linalg.det(nearest).sign().unsqueeze(-1)
    turned = nearest * flip
    return turned @ fractional_power(turned.mT @ rotation, tau) * flip


def fractional_power(X: Rotation, tau: float | Tensor) -> Rotation:
    """The power of rotations, in real arithmetic, one matrix at a time in float64.

    A real Schur form of a rotation is 2x2 turns along the diagonal, and +1s and an even number of -1s: every angle is
    multiplied by tau, two -1s being a turn by pi. Complex eigenvectors, which the original uses, leave an imaginary part
    at eigenvalue -1, and dropping it leaves a matrix that is not orthogonal.
    """
    return _powers(X.detach(), torch.as_tensor(tau, dtype=torch.float64).expand(X.shape[:-2]))


@operator("(Tensor X, Tensor tau) -> Tensor", lambda X, tau: torch.empty_like(X))
def _powers(X: Tensor, tau: Tensor) -> Tensor:
    matrices = X.reshape(-1, *X.shape[-2:]).double().cpu().numpy()
    powers = [_power(matrix, power) for matrix, power in zip(matrices, tau.reshape(-1).tolist(), strict=True)]
    stacked = np.stack(powers) if powers else matrices
    return torch.from_numpy(stacked).to(X).reshape(X.shape)


def _power(matrix: np.ndarray, tau: float) -> np.ndarray:
    form, basis = schur(matrix, output="real")[:2]
    n = len(form)
    result = np.eye(n)
    reflected: list[int] = []  # axes with eigenvalue -1, waiting for a partner
    k = 0
    while k < n:
        # in a Schur form the entry below the diagonal is exactly 0 between blocks
        if k + 1 < n and form[k + 1, k] != 0:
            _turn(result, k, k + 1, tau * np.arctan2(form[k + 1, k], form[k, k]))
            k += 2
            continue
        if form[k, k] < 0:
            reflected.append(k)
        k += 1
    for first, second in zip(reflected[::2], reflected[1::2], strict=False):
        _turn(result, first, second, tau * np.pi)
    return basis @ result @ basis.T


def _turn(result: np.ndarray, i: int, j: int, angle: float) -> None:
    result[i, i] = result[j, j] = np.cos(angle)
    result[j, i], result[i, j] = np.sin(angle), -np.sin(angle)
