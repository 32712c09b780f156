"""What needs no training: the mask-only baseline of anchored jigsaws, and what the controller costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..bench.step import BETA, our_loss, training_step
from ..bench.timing import turns
from ..learn.batches import mixed
from ..metrics import mask_only_tau, mask_only_tau_sampled
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..temperature.local import LocalTemperature
from ..temperature.schedules import Constant
from .run import Itself, Means, Outcome, Planned, Scale
from .store import Place

ANCHORS = {5: 1, 6: 6, 7: 12}  # tiles a side: anchors
DRAWS: dict[Scale, int] = {"smoke": 1_000, **dict.fromkeys(("cpu", "sizes", "paper"), 100_000)}
STEPS: dict[Scale, tuple[tuple[int, int], ...]] = {  # batch, n
    "smoke": ((8, 10),),
    "cpu": ((256, 10), (256, 50), (256, 100), (64, 300)),
    **dict.fromkeys(("sizes", "paper"), ((256, 10), (256, 50), (256, 100), (256, 300))),
}


@dataclass(frozen=True)
class MaskOnly(Itself):
    """Anchors in place, the other tiles anywhere: mean Kendall tau of `draws` random fills, and the closed form."""

    task = "mask-only"

    side: int
    anchors: int
    draws: int
    seed: int

    def compute(self, means: Means) -> Outcome:
        n = self.side * self.side
        generator = torch.Generator().manual_seed(mixed(self.seed, 3))
        sampled = mask_only_tau_sampled(n, self.anchors, self.draws, generator).mean().item()
        return Outcome({"tau": sampled, "closed_form": mask_only_tau(n, self.anchors)})


@dataclass(frozen=True)
class Overhead(Itself):
    """Milliseconds of a training step with and without the controller; depends on the machine, so not on a seed."""

    task = "overhead"

    batch: int
    n: int
    seconds: float  # of measuring
    seed: int

    def compute(self, means: Means) -> Outcome:
        items = torch.rand(self.batch, self.n, 1)
        ways = {
            "adaptive": GumbelSinkhorn(Constant(BETA), LocalTemperature()),
            "global": GumbelSinkhorn(Constant(BETA)),
        }
        steps = {name: training_step(our_loss(relax), items, self.n) for name, relax in ways.items()}
        took = turns(steps, self.seconds)
        each = {name: took.milliseconds(name) for name in ways}
        return Outcome({"overhead": 100 * took.more("adaptive", "global").middle, **each})


def mask_only(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    return [
        Planned(
            MaskOnly(side, anchors, DRAWS[scale], seed),
            Place("mask-only", "", "mask-only", f"{side} x {side}", seed, scale),
        )
        for side, anchors in ANCHORS.items()
        for seed in seeds
    ]


def runtime(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """The share by which adaptation lengthens a step; repeated, since other programs disturb it."""
    seconds = 0.1 if scale == "smoke" else 1.0
    return [
        Planned(Overhead(batch, n, seconds, seed), Place("runtime", "", "controller", f"{batch} x {n}", seed, scale))
        for batch, n in STEPS[scale]
        for seed in seeds
    ]
