"""The one thing that is trained: network, relaxation and structural loss, from items to a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import BadInput, function
from ..operators.partial import NOBODY
from ..operators.permutation import reorder, to_matrix
from ..relaxations.neuralsort import NeuralSort
from ..relaxations.protocol import Relaxation
from ..relaxations.softsort import SoftSort
from ..temperature.entropy import Sharpness
from ..temperature.report import FieldReport


@dataclass(frozen=True)
class OnPermutation:
    """A loss that wants the soft permutation itself: `function(P, items)`, one number per list.

    For expected pair energies, where a loss on the blended items could be lowered by not deciding.
    """

    function: Callable[[Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        function("A loss on permutations", self.function, "lambda P, items: ...")

    def __call__(self, P: Tensor, items: Tensor) -> Tensor:
        return self.function(P, items)


@dataclass(frozen=True)
class OnReordered:
    r"""A loss of the reordered items $P^T X$, such as `losses.monotone`, asked in the same way."""

    loss: Callable[[Tensor], Tensor]

    def __call__(self, P: Tensor, items: Tensor) -> Tensor:
        return self.loss(reorder(P, items.expand(*P.shape[:-2], *items.shape[-2:])))


Loss = Callable[[Tensor], Tensor] | OnPermutation


def placeable(scores: Tensor, relax: Relaxation) -> Tensor:
    """The scores, if there is a place for every item, or the relaxation was told that some have none; keys, if it sorts."""
    sorts = getattr(relax, "soft", relax)
    if scores.ndim == 3 and isinstance(sorts, (NeuralSort, SoftSort)):
        raise BadInput(
            f"{type(sorts).__name__} sorts by one key per item (lists x items), but the network gives scores of shape"
            f" {tuple(scores.shape)}; us.GumbelSinkhorn() takes scores of items x positions."
        )
    leaves_out = any(part is not None for part in getattr(relax, "left_out", NOBODY))
    if scores.ndim == 3 and scores.shape[1] != scores.shape[2] and not leaves_out:
        raise BadInput(
            f"The network scores {scores.shape[-1]} positions, but the lists have {scores.shape[1]} items; a relaxation"
            " with reject= or keep= says that not every item has a place."
        )
    return scores


class Learner(nn.Module):
    """All that has weights in one module, so that it can be saved, moved and distributed as one."""

    def __init__(self, network: nn.Module, relax: Relaxation, loss: Loss) -> None:
        super().__init__()
        self.network = network
        self.relax = relax  # a temperature that is learned has weights too
        if not isinstance(relax, nn.Module):
            self.controllers = nn.ModuleList(modules_in(relax))
        self.loss = loss if isinstance(loss, OnPermutation) else OnReordered(loss)
        for module in self.modules():
            if isinstance(module, Sharpness):
                module.reset()  # a new training, whatever it was led by before

    def forward(self, items: Tensor, allowed: Tensor | None, epoch: float, samples: int, **draw: Any) -> Tensor:
        """Mean loss over lists and noisy samples."""
        items = self._as_weights(items)
        P = self.relax(
            placeable(self.network(items), self.relax), epoch=epoch, samples=samples, allowed=allowed, **draw
        )
        return self.loss(P, items).mean()

    @property
    def learns_temperature(self) -> bool:
        network = sum(1 for _ in self.network.parameters())
        return sum(1 for _ in self.parameters()) > network

    @torch.no_grad()
    def hard(self, items: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The loss of the decoded order, per list: what the network is chosen by, and it needs no true order either."""
        items = self._as_weights(items)
        order = self.relax.decode(self.network(items), allowed=allowed)
        return self.loss(to_matrix(order, items.dtype, items=items.shape[1]), items)

    @torch.no_grad()
    def report(self, items: Tensor, allowed: Tensor | None, epoch: float) -> FieldReport | None:
        """The temperatures and entropies on these items, if the relaxation can tell."""
        tell = getattr(self.relax, "report", None)
        return None if tell is None else tell(self.network(self._as_weights(items)), epoch=epoch, allowed=allowed)

    def _as_weights(self, items: Tensor) -> Tensor:
        """In the precision of the network, as `predict` takes them."""
        weight = next(self.network.parameters(), items)
        return items.to(weight.dtype) if weight.is_floating_point() else items


def modules_in(settings: object) -> list[nn.Module]:
    """The modules with weights among the settings of a relaxation that is none, and of its settings in turn."""
    if isinstance(settings, nn.Module):
        return [settings]
    if not is_dataclass(settings):
        return []
    return [module for setting in fields(settings) for module in modules_in(getattr(settings, setting.name))]
