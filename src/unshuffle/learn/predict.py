"""Order new data with a trained network: one forward pass."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .. import plots
from ..errors import BadInput, number, shown, whole
from ..operators.permutation import inverse
from ..relaxations.gumbel_sinkhorn import Sinkhorn
from ..relaxations.protocol import Relaxation
from .batches import as_items, items_and_mask
from .calibration import Calibration, chances
from .modes import modes_kept
from .objective import placeable
from .seen import Seen, strange

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNCALIBRATED = 0.1  # of the deviation of the scores


@dataclass(frozen=True, repr=False)
class Prediction:
    """Orders of a batch of lists, and how sure the network is."""

    order: Int[Tensor, "lists positions"]  # item at each position, -1 at an empty one
    confidence: Float[
        Tensor, "lists n"
    ]  # per item, in the order of the input: how surely it is in its place, or left out
    scores: Float[Tensor, "lists n ..."]  # what `solve(init=...)` takes
    outside: tuple[str, ...] = ()
    """Per list in words what of it lies outside of all that calibration saw, empty if nothing; no words at all without ``seen``."""
    sets: Bool[Tensor, "lists n places"] | None = None
    """Per item the places that hold the true one as often as the calibration's ``level`` says; one more than the positions, where not
    everybody has a place, stands for being left out. None without a calibration."""

    def __repr__(self) -> str:
        lists, n = self.confidence.shape
        sure = float(self.confidence.mean()) if self.confidence.numel() else 1.0
        return f"Prediction({lists} list{'s' * (lists != 1)} of {n} items, mean confidence {sure:.2f})"

    def plot(self, ax: Axes | None = None, *, index: int = 0, pictures: Any = None) -> Axes:
        """Of one list of the batch: its scores, rows as ordered; or ``pictures`` (items x height x width) in a grid in that order."""
        order, scores = self.order[index], self.scores[index]
        if pictures is not None:
            return plots.draw_pictures(plots.new_axes(ax), pictures, order, plots.squarest(len(order)))
        rows = order[order >= 0]
        ax = plots.draw_matrix(plots.new_axes(ax), scores[rows].reshape(len(rows), -1), label="score")
        ax.set(xlabel="position", ylabel="item, as ordered")
        return ax

    def _repr_html_(self) -> str:
        lists, n = self.order.shape
        title = f"Prediction, {lists} list{'s' * (lists != 1)} of {n} items"
        return plots.card(title, [plots.how_sure(self.confidence), "shown: scores of the first list"], self.plot)


def predict(
    network: nn.Module,
    items: Float[Tensor, "lists n features"] | Any,
    relax: Relaxation | None = None,
    *,
    allowed: Bool[Tensor, "#lists n positions"] | None = None,
    noise: float | None = None,
    draws: int = 16,
    batch: int = 64,
    seed: int = 0,
    seen: Seen | Tensor | None = None,
    calibration: Calibration | None = None,
) -> Prediction:
    """Order each list by the network's scores: one forward pass, no noise.

    ``items`` are a tensor or an array (lists, items, features), or a frame with a list of numbers in every row. With a ``calibration``
    (from `us.calibrate`, on lists whose order is known) the confidence of an item is how often it is right, and there are ``sets`` of places
    that hold the true one. Without, it is the share of `draws` in which the item keeps its place when Gumbel noise of this size is
    added to the scores, or stays left out as it is: that tells sure items from unsure ones but is no probability.

    ``seen``, lists or what `Seen.of` makes of them (those of the calibration if there is one), flags lists of another kind (other units, another
    resolution): `Prediction.outside` says of each what is unlike, and a warning that their confidence need not mean anything.
    """
    items = as_items(items)
    items_and_mask(items)
    if not len(items):
        raise BadInput("There is no list to order: the items have shape (0, ...).")
    if not isinstance(network, nn.Module):
        raise BadInput(f"The network must be a torch module, not {shown(network)}.")
    for name, count, least in (("draws", draws, 1), ("batch", batch, 1), ("seed", seed, 0)):
        whole(name, count, least)
    if noise is not None:
        number("noise", noise, least=0)
    if calibration is not None and not isinstance(calibration, Calibration):
        raise BadInput(f"calibration must be what us.calibrate gives, not {shown(calibration)}.")
    if not bool(torch.isfinite(items).all()):
        raise BadInput("The items hold a NaN or an infinity; a network cannot order those.")
    relax = Sinkhorn() if relax is None else relax
    if isinstance(relax, type) or not isinstance(relax, Relaxation):
        raise BadInput(f"relax must be a relaxation such as us.GumbelSinkhorn(), not {shown(relax)}.")
    if isinstance(allowed, Tensor) and allowed.ndim == 2:
        allowed = allowed.unsqueeze(0)
    if allowed is not None and not (
        isinstance(allowed, Tensor) and allowed.ndim == 3 and len(allowed) in (1, len(items))
    ):
        raise BadInput("allowed must be a bool mask (items, positions), or one for each list in front of it.")
    weight = next(network.parameters(), torch.zeros((), dtype=items.dtype))
    device, items = weight.device, items.to(weight.dtype)
    generator = torch.Generator().manual_seed(seed)
    parts = []
    with torch.no_grad(), modes_kept(network):
        network.eval()
        for start in range(0, len(items), batch):
            scores = placeable(network(items[start : start + batch].to(device)), relax)
            mask = allowed if allowed is None or len(allowed) == 1 else allowed[start : start + batch]
            mask = None if mask is None else mask.to(device)
            order = relax.decode(scores, allowed=mask)
            if calibration is not None:
                soft = chances(relax, scores, calibration.temperature, mask)
                parts.append((order, calibration.confidence(soft, order), scores, calibration.sets(soft, order)))
                continue
            size = UNCALIBRATED * scores.std().item() if noise is None else noise
            parts.append((order, kept(relax, scores, order, mask, size, draws, generator), scores))
    order, confidence, scores, *sets = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
    seen = calibration.seen if seen is None and calibration is not None else seen
    known = seen if seen is None or isinstance(seen, Seen) else Seen.of(as_items(seen))
    outside = () if known is None else tuple(known.outside(items))
    if warning := strange(outside):
        warnings.warn(warning, stacklevel=2)
    return Prediction(order, confidence, scores, outside, *sets)


def kept(
    relax: Relaxation,
    scores: Tensor,
    order: Tensor,
    allowed: Tensor | None,
    noise: float,
    draws: int,
    generator: torch.Generator,
) -> Float[Tensor, "lists n"]:
    """Per item, the share of noisy draws in which it is where `order` has it, or left out as there."""
    m = scores.shape[1]
    place, count = inverse(order, m), torch.zeros((len(scores), m), device=order.device)
    for _ in range(draws):
        uniform = torch.rand(scores.shape, generator=generator).clamp(1e-12, 1 - 1e-7)
        gumbel = -torch.log(-torch.log(uniform)).to(scores)
        count += inverse(relax.decode(scores + noise * gumbel, allowed=allowed), m) == place
    return count / draws


def calibrate(
    network: nn.Module,
    items: Float[Tensor, "lists n features"] | Any,
    truth: Int[Tensor, "lists positions"],
    relax: Relaxation | None = None,
    *,
    allowed: Bool[Tensor, "#lists n positions"] | None = None,
    level: float = 0.9,
) -> Calibration:
    """What the scores of a network are worth, for `predict`: from lists that it was not trained on, and their true orders.

    Examples:
        >>> known = us.calibrate(network, lists, true_orders)
        >>> us.predict(network, new_lists, calibration=known).sets
    """
    scores = predict(network, items, relax, allowed=allowed, draws=1).scores
    return Calibration.of(relax or Sinkhorn(), as_items(items), scores, truth, allowed, level)
