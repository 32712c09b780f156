"""The overview figure: one jigsaw in the middle of its training, the field of temperatures and the soft permutation."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import torch
from torch import Tensor

from ..learn.batches import mixed
from ..operators.assignment import assign
from ..operators.gumbel import gumbel_sinkhorn
from ..operators.permutation import inverse, reorder
from ..operators.sinkhorn import sinkhorn
from ..readers.pictures import read_picture
from ..recipes.puzzles import anchored, scaled
from ..structure.layouts import Grid
from ..structure.losses import Smoothness
from ..tasks.jigsaw import as_float, cut
from ..temperature.local import LocalTemperature
from ..temperature.schedules import Anneal
from ..temperature.signals import ExcessEntropy
from .run import Itself, Means, Outcome

TILE = 12  # pixels
SAMPLES, ITERATIONS, RATE = 8, 10, 0.1


@dataclass(frozen=True)
class Overview(Itself):
    """A shipped photo in 4 x 4 tiles, by the paper's loss and temperatures; scores are free numbers instead of a network's.

    The same noise with and without the field; stopped at `shown` of `steps`, where some tiles are decided and others are not.
    """

    task = "overview"

    seed: int = 0
    side: int = 4
    anchors: int = 2
    steps: int = 400
    shown: int = 80
    photo: str = "nagasaki-boats.jpg"
    local: LocalTemperature = LocalTemperature(ExcessEntropy(0.6), 0.35)

    def compute(self, means: Means) -> Outcome:
        generator = torch.Generator().manual_seed(mixed(self.seed, 3))
        place = torch.randperm(self.side**2, generator=generator)  # of each item
        known = torch.randperm(self.side**2, generator=generator)[: self.anchors]
        allowed = anchored(inverse(place)[None], known[None])[0]
        items = self._tiles()[place]
        history, metrics = {"place": place.double().tolist()}, {"anchors": float(self.anchors)}
        for name, local in (("global", None), ("adaptive", self.local)):
            scores, beta = self._trained(items, allowed, local)
            Q = sinkhorn(beta * scores, iterations=ITERATIONS, allowed=allowed)
            field = torch.full_like(Q, beta) if local is None else local(Q, beta, allowed)
            P = sinkhorn(field * scores, iterations=ITERATIONS, allowed=allowed)
            order = assign(scores, allowed)
            history |= {f"field {name}": field.flatten().tolist(), f"soft {name}": P.flatten().tolist()}
            history[f"placed {name}"] = place[order].double().tolist()
            metrics |= {
                "beta": beta,
                f"direct {name}": (place[order] == torch.arange(len(place))).float().mean().item(),
            }
        return Outcome(metrics, {name: [round(value, 4) for value in values] for name, values in history.items()})

    def _trained(self, items: Tensor, allowed: Tensor, local: LocalTemperature | None) -> tuple[Tensor, float]:
        """Scores after the steps that are shown, and the base beta there."""
        schedule, loss = Anneal(0.5, 2.0, self.steps), Smoothness(Grid(self.side, self.side), (3, TILE, TILE))
        scores = torch.zeros(len(items), len(items), requires_grad=True)
        optimiser = torch.optim.Adam([scores], RATE)
        generator = torch.Generator().manual_seed(mixed(self.seed, 1))
        beta = schedule(0)
        for step in range(self.shown):
            beta = schedule(step)
            many, mask = (t.expand(SAMPLES, -1, -1) for t in (scores, allowed))
            P = gumbel_sinkhorn(many, beta, local=local, iterations=ITERATIONS, allowed=mask, generator=generator)
            optimiser.zero_grad()
            loss(reorder(P, items.expand(SAMPLES, -1, -1))).mean().backward()
            optimiser.step()
        return scores.detach(), beta

    def _tiles(self) -> Tensor:
        with as_file(files("unshuffle") / "data" / self.photo) as path:
            picture = scaled(read_picture(path), self.side * TILE, self.side * TILE)
        tiles, _ = cut(picture, Grid(self.side, self.side))
        return as_float(tiles).permute(0, 3, 1, 2).flatten(1).float()
