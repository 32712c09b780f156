r"""What the scores of a network are worth, found on lists whose order is known: a probability for every place, and sets with a guarantee.

Scores over a temperature, made doubly stochastic, are chances of places; the temperature is the one under which the true places are
likeliest. The confidence of an item is its chance in its own place, read off how often items with such a chance were right. The set of an
item holds its own place and all others whose chance is at least a threshold, which is set so that the sets of the known lists
hold the true place in ``level`` of the cases (split conformal prediction, Vovk et al. 2005): so do those of new lists of the same kind.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import isotonic_regression
from torch import Tensor

from ..errors import BadInput, number
from ..operators.partial import NOBODY, LeftOut
from ..operators.permutation import inverse, whole_numbers
from ..operators.sinkhorn import sinkhorn
from ..relaxations.neuralsort import sort_logits
from ..relaxations.protocol import Relaxation
from .seen import Seen

ITERATIONS = 50
TEMPERATURES = 2.0 ** torch.arange(-12, 4, 0.5)  # tried, of the deviation of the scores
BINS = 30  # of equally many items
LITTLE = 1e-9  # a true place that has no chance at all would decide everything


@dataclass(frozen=True)
class Calibration:
    """What `predict` needs to say how sure it is, and to give sets; from `Calibration.of`."""

    temperature: float
    chance: tuple[float, ...]
    """Of items in the place that the order gives them, ascending, ..."""
    right: tuple[float, ...]
    """... and the share of items with such a chance for which it was the true one."""
    threshold: float
    level: float
    seen: Seen
    """What the lists were like: others of another kind are flagged."""

    def __repr__(self) -> str:
        return f"Calibration(temperature {self.temperature:.3g}, sets at {self.level:.0%} by a threshold of {self.threshold:.3g})"

    @classmethod
    def of(
        cls,
        relax: Relaxation,
        items: Float[Tensor, "lists n features"],
        scores: Float[Tensor, "lists n ..."],
        truth: Int[Tensor, "lists positions"],
        allowed: Bool[Tensor, "#lists n positions"] | None = None,
        level: float = 0.9,
    ) -> Calibration:
        """From lists that were not trained on, their scores and their true orders."""
        number("level", level, above=0, below=1)
        order = relax.decode(scores, allowed=allowed)
        if whole_numbers(truth).shape != order.shape:
            raise BadInput(f"The true orders must be {tuple(order.shape)}, not {tuple(truth.shape)}.")
        own, true = (_places(o, scores) for o in (order, truth))
        warm = min(
            (float(t) * max(scores.std().item(), 1e-30) for t in TEMPERATURES),
            key=lambda t: -_at(chances(relax, scores, t, allowed), true).clamp_min(LITTLE).log().mean().item(),
        )
        soft = chances(relax, scores, warm, allowed)
        said, right = _read_off(_at(soft, own), own == true)
        missing = torch.where(own == true, 0.0, 1 - _at(soft, true)).flatten().sort().values
        rank = math.ceil((len(missing) + 1) * level)
        threshold = 1.0 if rank > len(missing) else float(missing[rank - 1])
        return cls(warm, said, right, threshold, level, Seen.of(items))

    def confidence(
        self, soft: Float[Tensor, "lists n places"], order: Int[Tensor, "lists positions"]
    ) -> Float[Tensor, "lists n"]:
        """How often items with such a chance in their place were right."""
        own = _at(soft, _places(order, soft)).cpu().numpy()
        return torch.from_numpy(np.interp(own, self.chance, self.right)).float()

    def sets(
        self, soft: Float[Tensor, "lists n places"], order: Int[Tensor, "lists positions"]
    ) -> Bool[Tensor, "lists n places"]:
        """Per item the places that cannot be ruled out."""
        return ((1 - soft) <= self.threshold).scatter(-1, _places(order, soft).unsqueeze(-1), True)

    def plain(self) -> dict[str, Any]:
        """In numbers and lists, as a checkpoint keeps it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, told: dict[str, Any]) -> Calibration:
        seen = Seen(*(tuple(told["seen"][name]) for name in ("low", "high")))
        return cls(**{**told, "chance": tuple(told["chance"]), "right": tuple(told["right"]), "seen": seen})


def chances(
    relax: Relaxation, scores: Float[Tensor, "lists n ..."], temperature: float, allowed: Tensor | None = None
) -> Float[Tensor, "lists n places"]:
    """Of each item in each place; where not everybody has one, in a last column that it is left out."""
    logits = (
        scores if scores.ndim == 3 else sort_logits(scores - scores.mean(-1, keepdim=True))
    ).double() / temperature
    alone: LeftOut = getattr(relax, "left_out", NOBODY).times(1 / temperature)
    soft = sinkhorn(logits, ITERATIONS, allowed, reject=alone.reject, keep=alone.keep)
    soft = soft / soft.sum(-1, keepdim=True).clamp_min(1.0)
    if alone == NOBODY and logits.shape[-2] <= logits.shape[-1]:
        return soft
    return torch.cat((soft, 1 - soft.sum(-1, keepdim=True)), -1)


def _places(order: Int[Tensor, "lists positions"], scores: Tensor) -> Int[Tensor, "lists n"]:
    """Of each item; of one that is left out, the last column of `chances`."""
    place = inverse(order, scores.shape[1])
    return torch.where(place < 0, order.shape[-1], place)


def _at(soft: Float[Tensor, "lists n places"], place: Int[Tensor, "lists n"]) -> Float[Tensor, "lists n"]:
    return soft.gather(-1, place.unsqueeze(-1)).squeeze(-1)


def _read_off(chance: Tensor, right: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean chances of bins of equally many items, and how many of them are right: never fewer for a larger chance, and never all."""
    order = chance.flatten().argsort()
    parts = torch.tensor_split(order, min(BINS, len(order)))
    size = np.array([len(part) for part in parts], float)
    said, share = (np.array([float(v.flatten()[p].double().mean()) for p in parts]) for v in (chance, right))
    pooled = isotonic_regression(share, weights=size)
    share, size = np.asarray(pooled.x), np.repeat(pooled.weights, np.diff(pooled.blocks))
    cautious = np.maximum.accumulate((share * size + 0.5) / (size + 1))
    return tuple(said.tolist()), tuple(cautious.tolist())
