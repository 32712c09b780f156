r"""Any differentiable loss of the reordered items: $\min_P \ell(P^T X)$.

A loss of blended items can be lowered by not deciding. $\sum_a \lVert \hat x_a \rVert^2$ is the same for all permutations and
smaller for every blend, so $-\tfrac{\gamma}{2}\sum_a \lVert\hat x_a\rVert^2$ may be added freely; with gamma as large as the curvature
of the loss the sum is concave and its minima are permutations. (For $\ell = \sum_a \lVert \hat x_{a+1}-\hat x_a\rVert^2$ and $\gamma = 4$ this is
exactly the expected pair energy of the other layouts.) The pull is $X (\nabla\ell(\hat X) - \gamma \hat X)^T$: one gradient of the
user's function per step and run, and no differentiation through Sinkhorn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import BadInput
from ..watch import Watch
from .anneal import Pace, Pull
from .checks import numbers
from .confidence import place_share, same_energy
from .request import Request
from .rounds import Rounds, anneal_rounds
from .solution import Polished, Solution

Loss = Callable[[Tensor], Tensor]

REVERSE, SWAP, MOVE = 0, 1, 2
AT_ONCE = 2_000_000  # numbers in a batch of reordered items: 8 MB, so that it stays in the cache
FLAT = 0.05  # share of the curvature that sets the unit of a run without gamma


@dataclass(frozen=True)
class Losses:
    """Constants of the recipe, relative to the gradient and the curvature that the loss shows on random orders."""

    runs: int = 12
    concave: tuple[float, ...] = (0.5, 0.25, 0.1, 0.0)
    """gamma as a multiple of the largest curvature found, in turn for the runs: 0.5 turns squared differences of neighbours
    into their pair energy; losses that pull towards the order by themselves (monotone at all scales) want none."""
    amplify: float = 0.5
    """A second, growing self-amplification on P itself, as for graphs: items that are nearly alike freeze, too."""
    shake: float = 0.25
    """Runs after the first of each gamma feel a random pull of this size, fading while beta grows."""
    fade: float = 3.0
    rounds: Rounds = Rounds(number=4, warm=(1.0,), fresh=2, pace=Pace(step=0.02, fall=0.02, momentum=0.0, sweeps=8))


def solve_loss(loss: Loss, items: Float[Tensor, "n *d"], asked: Request, recipe: Losses | None = None) -> Solution:
    """The order of ``items`` with the lowest loss among all that the runs decoded."""
    recipe = recipe or Losses()
    runs = recipe.runs if asked.runs is None else asked.runs
    problem = _Problem(loss, items, runs, asked.generator, recipe)
    found = anneal_rounds(
        lambda: problem.pull(runs, asked.generator),
        problem.energies,
        (runs, len(items)),
        math.log(0.9 * problem.critical),
        asked,
        rounds=recipe.rounds,
    )
    best = int(found.energies.argmin())
    if not math.isfinite(float(found.energies[best])):
        raise BadInput("The loss is NaN or infinite for every order that was tried: there is nothing to choose by.")
    order = found.orders[best]
    confidence = place_share(problem.marginal(order, best), order, 1.0)
    return found.solution(confidence, same_energy(found.energies, best))


def polish_loss(
    loss: Loss,
    items: Float[Tensor, "n *d"],
    found: Solution,
    *,
    allowed: Tensor | None = None,
    generator: torch.Generator,
    watch: Watch,
) -> Polished:
    """From the best order alone, since it takes thousands of values of the function: reversals, moves of one item and swaps while the loss of the hard order falls. Knows nothing of the loss but its value.

    Moves come in random order, in batches; the best of a batch is made if it gains. Ends when no move at all does.
    """
    values, n, order = _batched(loss, items), len(items), found.order
    moves = _moves(n)[torch.randperm(2 * n * (n - 1), generator=generator)]
    batch = torch.arange(min(len(moves), max(16, AT_ONCE // max(items.numel(), 1))))  # of which moves: round and round
    best, idle = float(values(items[order].unsqueeze(0))), 0
    enough = 1e-7 * abs(best)
    while idle < len(moves) and watch(stage="polish", energy=best, entropy=0.0):
        some, batch = moves[batch], (batch + len(batch)) % len(moves)
        candidates = order[_moved(some, n)]
        energies = values(items[candidates]).double().nan_to_num(nan=torch.inf)
        if allowed is not None:
            energies[~allowed[candidates, torch.arange(n)].all(1)] = torch.inf
        least = int(energies.argmin())
        idle += len(some)
        if float(energies[least]) < best - enough:
            order, best, idle = candidates[least], float(energies[least]), 0
    return Polished(order, best)


def _moves(n: int) -> Int[Tensor, "moves 3"]:
    """All (kind, first, second): reversals and swaps of first < second, and one item from first to second, both ways."""
    low, high = torch.triu_indices(n, n, 1)
    pairs = ((REVERSE, low, high), (SWAP, low, high), (MOVE, low, high), (MOVE, high, low))
    return torch.cat([torch.stack((torch.full_like(a, kind), a, b), 1) for kind, a, b in pairs])


def _moved(moves: Int[Tensor, "moves 3"], n: int) -> Int[Tensor, "moves n"]:
    """Which position's item comes to each position."""
    kind, first, second = moves.unsqueeze(2).unbind(1)
    at = torch.arange(n)
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    between = (at >= low) & (at <= high)
    swapped = torch.where(at == first, second, torch.where(at == second, first, at))
    onward = torch.where(at == second, first, at + torch.sign(second - first))
    new = torch.where(kind == REVERSE, low + high - at, torch.where(kind == SWAP, swapped, onward))
    return torch.where(between, new, at)


def as_items(items: Any) -> Tensor:
    """Items as a floating-point tensor with the items in its first dimension."""
    tensor = numbers("items", items).detach()
    if tensor.ndim < 1 or len(tensor) < 1:
        raise BadInput(f"items must have at least one item in the first dimension, not shape {tuple(tensor.shape)}.")
    tensor = tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())
    if not torch.isfinite(tensor).all():
        raise BadInput("items must be finite numbers, but some are NaN or infinite.")
    return tensor


class _Problem:
    """The loss in units of its own curvature: pulls are pure numbers, one gamma per run."""

    def __init__(self, loss: Loss, items: Tensor, runs: int, generator: torch.Generator, recipe: Losses) -> None:
        self.items, self.recipe = items, recipe
        self.values = _batched(loss, items)
        flat = items.reshape(len(items), -1).float()
        self.flat = flat - flat.mean(0)  # the mean is the same in every order
        orders = [torch.randperm(len(items), generator=generator) for _ in range(3)]
        curvature = max(self._curvature(order, generator) for order in orders)
        share = torch.tensor([recipe.concave[r % len(recipe.concave)] for r in range(runs)])
        self.gamma = curvature * share.reshape(-1, 1, 1)
        # the pull of an item in its place is about gamma |x|^2; as for graphs beta is 1 / that when the uniform P breaks up
        size = float(torch.linalg.matrix_norm(self.flat, 2)) ** 2 / len(items)
        self.unit = (self.gamma + FLAT * curvature).mul(size).clamp_min(1e-30)
        self.critical = 1 / (1 + recipe.amplify)

    def gradient(self, reordered: Tensor) -> Tensor:
        """d loss / d reordered items of all runs; the user's function need not know batches."""
        with torch.enable_grad():
            leaf = reordered.detach().requires_grad_()
            total = self.values(leaf).sum()
            if not total.requires_grad:
                raise BadInput("The loss must be differentiable: its value does not depend on the items through torch.")
            (gradient,) = torch.autograd.grad(total, leaf)
        return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)

    def _curvature(self, order: Tensor, generator: torch.Generator) -> float:
        """Largest curvature of the loss at a hard order, by power iteration on differences of gradients."""
        at = self.items[order].unsqueeze(0)
        here, size = self.gradient(at), float(self.flat.norm()) / math.sqrt(len(at[0]))
        direction = torch.randn(at.shape, generator=generator).to(at)
        curvature = 0.0
        for _ in range(8):
            direction = direction / direction.norm().clamp_min(1e-30)
            step = 0.1 * size * math.sqrt(len(at[0]))  # a tenth of an item's size per position
            change = (self.gradient(at + step * direction) - here) / max(step, 1e-30)
            curvature, direction = float(change.norm()), change
            if curvature < 1e-30:
                break
        return curvature

    def _pull(self, reordered: Tensor) -> Tensor:
        gradient = self.gradient(reordered).reshape(*reordered.shape[:2], -1).float()
        middle = reordered.reshape(*reordered.shape[:2], -1).float()
        pull = gradient - self.gamma * (middle - middle.mean(1, keepdim=True))
        return (self.flat @ pull.mT) / self.unit

    def pull(self, runs: int, generator: torch.Generator) -> Pull:
        n = len(self.items)
        noise = self.recipe.shake * torch.randn(runs, n, n, generator=generator)
        noise[: len(self.recipe.concave)] = 0

        def pull(soft: Tensor, beta: float) -> Tensor:
            mixed = torch.einsum("rij,i...->rj...", soft.to(self.items), self.items)
            cooled = math.log(beta / self.critical)
            fade = max(0.0, 1 - cooled / self.recipe.fade)
            return self._pull(mixed) + fade * noise - self.recipe.amplify * math.exp(cooled / 2) * soft

        return pull

    def energies(self, orders: Int[Tensor, "runs n"]) -> Float[Tensor, "runs"]:
        return torch.nan_to_num(self.values(self.items[orders]).detach().double(), nan=torch.inf)

    def marginal(self, order: Tensor, run: int) -> Tensor:
        """Field of a hard order: what an item pays in each position, to first order."""
        return self._pull(self.items[order].expand(len(self.gamma), *self.items.shape))[run]


def _batched(loss: Loss, items: Tensor) -> Loss:
    """The loss of a batch: by ``vmap``, or one after the other if the function branches on values or the like."""

    def loop(batch: Tensor) -> Tensor:
        return torch.stack([_number(loss(one)) for one in batch])

    pair = torch.stack((items, items.flip(0)))
    expected = loop(pair)
    try:
        mapped = torch.vmap(lambda one: _number(loss(one)))
        same = torch.allclose(mapped(pair), expected, equal_nan=True)
    except Exception:  # whatever vmap cannot do; the loop has just shown that the loss itself works
        return loop
    return mapped if same else loop


def _number(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise BadInput(f"The loss must return one number as a tensor, not {got}; sum or average it.")
    return value.reshape(())
