"""One whole training step of the paper's sorting with adaptive temperature, and of its tours: ours against the plain way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..networks import ItemScorer
from ..operators._sinkhorn.in_torch import plain_sinkhorn
from ..operators.permutation import reorder
from ..recipes.tour import Tour
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..structure.losses import monotone
from ..temperature.local import LocalTemperature
from ..temperature.schedules import Constant
from .apart import apart
from .memory import peak_during
from .timing import Spread, Took, turns
from .trained import STEPS, network

SAMPLES, BETA, THRESHOLD, BOOST = 5, 1.0, 0.7, 0.1
CASES = ((256, 50), (256, 100), (64, 300))
TOUR_BETA, TOUR_ITERATIONS = 5.0, 50  # the paper's, at the end of its schedule
TOUR_BATCH = 16  # of the paper's 128: the plain way needs 100 matrices of memory for each of 8 samples


@dataclass(frozen=True)
class StepTime:
    """Milliseconds of a step: ours, the plain way, ours without adaptation, what is left of ours without Sinkhorn, and ours with
    an entropy target; and peak memory."""

    batch: int
    n: int
    ours: float
    plain: float
    ours_global: float
    rest: float  # network, loss and optimiser: what no kernel can be faster than
    entropy: float
    ratio: Spread  # of the plain way to ours
    overhead: Spread  # what the temperature controller adds to a step
    lead: Spread  # what an entropy target adds
    ours_peak: float | None = None  # megabytes that the process grows by in a step
    plain_peak: float | None = None


def measure(batch: int, n: int, seconds: float = 2.0) -> StepTime:
    items = torch.rand(batch, n, 1)
    took = turns({name: training_step(loss, items, n) for name, loss in losses().items()}, seconds)
    return StepTime(batch, n, *_figures(took), *(peak(way, batch, n) for way in ("ours", "plain")))


def measure_middle(batch: int, n: int, seconds: float = 2.0) -> StepTime:
    """The same for numbers from [10, 11], in the middle of a training instead of at its start."""
    items = 10 + torch.rand(batch, n, 1, generator=torch.Generator().manual_seed(n))
    begin = network(n, 10.0, STEPS["late"]).state_dict()
    took = turns({name: training_step(loss, items, n, begin) for name, loss in losses().items()}, seconds)
    return StepTime(batch, n, *_figures(took))


def _figures(took: Took) -> Iterator[Any]:
    """As `StepTime` has them, but for memory."""
    yield from (took.milliseconds(name) for name in took.rounds)
    yield took.times("plain", "ours")
    yield took.more("ours", "ours_global")
    yield took.more("entropy", "ours_global")


@dataclass(frozen=True)
class TourStep:
    """Milliseconds of a step of the paper's tours; of ours, how much is loss and backward."""

    batch: int
    n: int
    ours: float
    loss_and_backward: float
    plain: float
    ratio: Spread


def measure_tours(batch: int = TOUR_BATCH, n: int = 100, seconds: float = 2.0) -> TourStep:
    """Eight samples, T = 50, at the last temperature of the schedule."""
    recipe = Tour.paper(n, batch=batch)
    torch.manual_seed(0)
    scorer, loss, relax = recipe.network(), recipe.loss, recipe.relax
    cities = torch.rand(batch, n, 2, generator=torch.Generator().manual_seed(n))
    soft = relax(scorer(cities), samples=recipe.samples, epoch=recipe.epochs)

    def ours() -> None:
        loss(relax(scorer(cities), samples=recipe.samples, epoch=recipe.epochs), cities).mean().backward()

    def plain() -> None:
        scores = scorer(cities).expand(recipe.samples, batch, n, n)
        noise = -torch.log(-torch.log(torch.rand_like(scores).clamp(1e-20, 1 - 1e-7)))
        loss(plain_sinkhorn(TOUR_BETA * (scores + noise), TOUR_ITERATIONS), cities).mean().backward()

    def end_of_ours() -> None:
        loss(soft, cities).mean().backward(retain_graph=True)

    took = turns({"ours": ours, "end": end_of_ours, "plain": plain}, seconds)
    ours_end_plain = (took.milliseconds(name) for name in took.rounds)
    return TourStep(batch, n, *ours_end_plain, ratio=took.times("plain", "ours"))


def losses() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    return {
        "ours": our_loss(GumbelSinkhorn(Constant(BETA), LocalTemperature())),
        "plain": plain_loss,
        "ours_global": our_loss(GumbelSinkhorn(Constant(BETA))),
        "rest": loss_of_given(),
        "entropy": our_loss(GumbelSinkhorn()),
    }


def peak(way: str, batch: int, n: int) -> float | None:
    """Megabytes, in a process of its own (Linux only)."""
    return apart(growth, way, batch, n) if sys.platform == "linux" else None


def growth(way: str, batch: int, n: int) -> float:
    """In this process: what a step adds, after a small one has loaded the code and started the threads."""
    loss = losses()[way]
    training_step(loss, torch.rand(8, n, 1), n)()  # few lists: what it frees must not hide what the real step needs
    return peak_during(training_step(loss, torch.rand(batch, n, 1), n)) / 1e6


def training_step(
    loss: Callable[[Tensor, Tensor], Tensor], items: Tensor, n: int, begin: dict[str, Tensor] | None = None
) -> Callable[[], object]:
    """Network, loss, backward, clipping, Adam: what the paper does to one batch; from the weights ``begin``, else fresh ones."""
    torch.manual_seed(0)
    scorer = ItemScorer(n)
    if begin is not None:
        scorer.load_state_dict(begin)
    optimiser = torch.optim.Adam(scorer.parameters(), 5e-4)

    def step() -> None:
        optimiser.zero_grad()
        loss(scorer(items), items).backward()
        nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
        optimiser.step()

    return step


def our_loss(relax: GumbelSinkhorn) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, items: monotone(reorder(relax(scores, samples=SAMPLES), items)).mean()


class _Given(torch.autograd.Function):
    """A soft permutation and a gradient by scores that nobody had to compute."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, soft: Tensor, to_scores: Tensor) -> Tensor:
        ctx.to_scores = to_scores
        return soft.view_as(soft)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.to_scores, None, None


def loss_of_given() -> Callable[[Tensor, Tensor], Tensor]:
    given: list[Tensor] = []

    def loss(scores: Tensor, items: Tensor) -> Tensor:
        if not given:
            given.extend((torch.rand(SAMPLES, *scores.shape), torch.zeros_like(scores)))
        return monotone(reorder(_Given.apply(scores, *given), items)).mean()  # pyright: ignore[reportArgumentType]

    return loss


def plain_loss(scores: Tensor, items: Tensor) -> Tensor:
    """As one would write it from the paper: a Python loop over samples, rand and two logs, log-space autograd."""
    n = scores.shape[-1]
    with torch.no_grad():
        Q = plain_sinkhorn(BETA * scores, 10).clamp_min(1e-8)
        terms = -Q * Q.log() / torch.log(torch.tensor(float(n)))
        row, column = (1 + BOOST * ((terms.sum(d) - THRESHOLD) / (1 - THRESHOLD)).clamp(0, 1) for d in (-1, -2))
        field = BETA * (1 / row.unsqueeze(-1) + 1 / column.unsqueeze(-2)) / 2
    total = scores.new_zeros(())
    for _ in range(SAMPLES):
        noise = -torch.log(-torch.log(torch.rand_like(scores).clamp(1e-20, 1 - 1e-7)))
        soft = plain_sinkhorn(field * (scores + noise), 10)
        sorted_items = (soft.mT @ items).squeeze(-1)
        total = total + torch.relu(sorted_items[:, :-1] - sorted_items[:, 1:]).square().sum(-1).mean()
    return total / SAMPLES
