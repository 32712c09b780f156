r"""Anneal the entropy, not the temperature: a schedule of how undecided rows are, and the sharpness that makes them so.

In $\mathrm{Sinkhorn}(\beta (S + g))$ one number sets two things, how sharp the rows are and how loud the noise is in logits. A
network can sharpen itself by growing S, but it cannot make the noise quieter. Apart, $P = \mathrm{Sinkhorn}(a S + \sigma g)$, the
noise keeps its size $\sigma$, and $a$ is led so that the mean normalised row entropy of $\mathrm{Sinkhorn}(a S)$ comes to what the
schedule asks for. It begins where rows are all but uniform and goes slowly, $\log a \mathrel{+}= \eta (H - H^*)$ a step, so that the network does
most of the deciding itself: an a that meets the target at once makes rows decide before anything is learned, and the network
is trained on its own accidents. The layer is the same for scores of any scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..compute.transforms import in_transform
from ..errors import BadInput, function, number, whole
from ..operators.assignment import mask_for, masked
from ..operators.entropies import row_and_column_entropies
from ..operators.partial import NOBODY, LeftOut, prices
from ..operators.permutation import entropy, rectangle
from ..operators.precision import HALF
from ..operators.sinkhorn import with_left_out
from ..shapes import Scores
from .parts import Parts
from .schedules import SHAPE, LinearInBeta, Number, share_of
from .signals import Allowed

ROWS = 200  # of a batch that are looked at: the mean entropy of a few matrices tells that of all
QUIET = 1.5  # over the root of the number of places: noise in logits, where none is given
RATE = 0.3  # of log a, per unit of entropy and step
UNDECIDED = 2.0  # over the number of places: the spread of logits to begin with, so that chance weighs next to nothing
STEPS = 10  # of the search at most; it gains a factor of some three a step
CLOSE = 0.003  # of entropy
# what log(a times the spread of the scores) can be: from flat, to telling neighbours apart among thousands of items
FLATTEST, SHARPEST = -5.0, 18.0


@dataclass(frozen=True)
class EntropyTarget:
    """Mean row entropy, from `start` to `end` in `epochs` epochs, counted from 0; constant afterwards. 1 is uniform, 0 decided.

    A Sinkhorn relaxation takes it in place of a schedule of beta; its noise is then in units of logits. With `hold` rows are kept
    there from both sides; without, they are only led down to it, and a network that decides more by itself is let. `each` says
    who follows it by itself, `EachMatrix()` or `EachRow()`; without, it is the mean of the batch.
    """

    start: Number = 0.9
    end: Number = 0.5
    epochs: int = 100
    shape: Callable[[Number, Number, Number], Number] = LinearInBeta()
    hold: bool = True
    each: Parts | None = None

    def __post_init__(self) -> None:
        for name, value in (("first", self.start), ("last", self.end)):
            if number(f"The {name} entropy", value, above=0) > 1:
                raise BadInput(f"The {name} entropy is a share of the largest possible, at most 1, not {value}.")
        whole("The number of epochs to anneal in", self.epochs, 1)
        function("The shape", self.shape, "us.LinearInBeta()", SHAPE)
        if self.each is not None:
            function("each", self.each, "us.EachRow()", "logits, iterations, allowed")

    def __call__(self, epoch: Number = 0) -> Number:
        return self.shape(self.start, self.end, share_of(epoch, self.epochs))

    def entropy(self, now: Number | Tensor, scores: Scores, allowed: Allowed | None = None) -> Number | Tensor:
        """The normalised entropy that `now`, the target of an epoch, asks for."""
        return now


@dataclass(frozen=True)
class OpenPlaces(EntropyTarget):
    """The same in other units: the share of its places between which a row wavers, exp(entropy) of so many.

    Rows of few and of many items know as much then, in nats, where a share of the largest entropy asks more of long rows.
    """

    def entropy(self, now: Number | Tensor, scores: Scores, allowed: Allowed | None = None) -> Tensor:
        most = _places(scores, allowed).clamp_min(2.0).log()
        return (1 + torch.as_tensor(now).to(most).log() / most).clamp_min(0.0)


class LearnedTarget(nn.Module):
    r"""A target that is learned: the share of its places between which a row wavers, a parameter behind a sigmoid.

    The gradient is that of one step of the lead ahead: of the next a, $\partial \log a / \partial H^* = -\eta$. Give the parameters of the
    layer to an optimiser of their own and let it step on a loss of held-out data: on what the network was trained on, sharper is better.
    """

    hold, each = True, None

    def __init__(self, start: float = 0.72) -> None:
        super().__init__()
        number("The share of open places to start with", start, above=0, below=1)
        self.start = start
        self.raw = nn.Parameter(torch.tensor(math.log(start / (1 - start))))

    def forward(self, epoch: Number = 0) -> Tensor:
        return torch.sigmoid(self.raw.detach())

    def entropy(self, now: Number | Tensor, scores: Scores, allowed: Allowed | None = None) -> Tensor:
        """Whatever is scheduled for now: the target as it has been learned."""
        return STEADY.entropy(torch.sigmoid(self.raw), scores, allowed)

    def extra_repr(self) -> str:
        return f"{self():.4f}"


TARGETS = (EntropyTarget, LearnedTarget)  # what stands in place of a schedule of beta

# The lead is slow, so this anneals too, and needs no epochs. Chosen on sorting and faces together, on seeds and pictures that no
# table reports: a target that falls is better for faces and worse for long lists, a share of the entropy is too sharp for those.
# Held there, large puzzles with many anchors stay blurred, whose network knows early enough to decide.
STEADY = OpenPlaces(0.72, 0.72, epochs=1, hold=False)


class Sharpness(nn.Module):
    """The a of a layer: where it stands is the only state of a relaxation, and is saved with the model."""

    log_a: Tensor  # NaN before any training

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_a", torch.tensor(math.nan))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sharpness:
        """What `.to` and its like do, but in half precision small steps would round to none."""
        before = self.log_a
        super()._apply(fn, recurse)
        if self.log_a.dtype in HALF:
            self.log_a = before.to(self.log_a.device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Before any training there is nothing to save; who asks for the tensors themselves, as `torch.export` does, gets it all the same."""
        if keep_vars or not bool(self.log_a.isnan()):
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any, **named: Any) -> None:
        if prefix + "log_a" in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *rest, **named)
        else:
            self.reset()

    def reset(self) -> None:
        """Forget where it stood: the next step begins undecided."""
        self.log_a.fill_(math.nan)

    def forward(
        self,
        scores: Scores,
        target: Number | Tensor,
        iterations: int,
        allowed: Allowed | None = None,
        left_out: LeftOut = NOBODY,
    ) -> Float[Tensor, ""]:
        """a as it stands. Before any training, where that begins; in evaluation, what meets the target."""
        if not self.training or _in_vmap(scores):
            return self.at(scores, target, iterations, allowed, left_out)
        return self._log_a(*some(scores, allowed, left_out)).exp().to(scores.dtype)

    def lead(
        self,
        scores: Scores,
        target: Number | Tensor,
        iterations: int,
        allowed: Allowed | None = None,
        left_out: LeftOut = NOBODY,
        hold: bool = True,
    ) -> None:
        """In training, one step towards the target, for the next call: processes that share a batch have the same a until then,
        and get the next one from the first of them, as all buffers. Only sharper, unless it is to `hold`."""
        if not self.training or _in_vmap(scores):
            return
        few, open_few, left_out = some(scores, allowed, left_out)
        log_a = self._log_a(few, open_few, left_out)
        a = log_a.exp().to(few)
        soft, mask = with_left_out(a * few, iterations, open_few, left_out.times(a))
        entropies, _ = row_and_column_entropies(soft, mask)
        found = entropies[..., : few.shape[-2]].mean()
        excess = found - torch.as_tensor(target).detach().to(found)  # an epoch may be float64
        step = log_a + RATE * (excess if hold else excess.clamp_min(0.0))
        if not _in_vmap(step):  # of a target or a price, if not of the scores
            self.log_a.copy_(step)

    def _log_a(self, few: Scores, allowed: Allowed | None, left_out: LeftOut) -> Tensor:
        if self._stands():
            return self.log_a
        return torch.where(self.log_a.isnan(), undecided(few, allowed, left_out).to(self.log_a), self.log_a)

    def _stands(self) -> bool:
        """Whether training has begun, where that can be known."""
        return is_number(self.log_a) and not math.isnan(self.log_a.item())

    def at(
        self,
        scores: Scores,
        target: Number | Tensor,
        iterations: int,
        allowed: Allowed | None = None,
        left_out: LeftOut = NOBODY,
    ) -> Float[Tensor, ""]:
        """a as it stands; before any training, the one that meets the target."""
        if torch.compiler.is_compiling() or in_transform(self.log_a):
            found = sharpness(scores, target, iterations, allowed, left_out)
            return torch.where(self.log_a.isnan(), found, self.log_a.exp().to(scores.dtype))
        if bool(self.log_a.isnan()):
            return sharpness(scores, target, iterations, allowed, left_out)
        return self.log_a.exp().to(scores.dtype)


def is_number(value: Tensor) -> bool:
    """Whether it can be read as a number without a gradient getting lost, waiting for a GPU, or inside a graph."""
    known = not torch.compiler.is_compiling() and value.ndim == 0 and value.is_cpu
    return known and not value.requires_grad and not in_transform(value)


def quiet(scores: Scores) -> float:
    r"""The noise in logits that means the same at every n.

    A blend of n items fluctuates by sigma / sqrt(n) of their spread from draw to draw, and what stands at neighbouring places differs by
    1 / n of it: the draws of a matrix agree on which is larger as long as sigma sqrt(n) stays the same.
    """
    return QUIET / rectangle(scores).shape[-1] ** 0.5


def ahead(a: Float[Tensor, ""], target: Number | Tensor) -> Float[Tensor, ""]:
    """a, with the gradient that the next step of the lead has for a target that is learned."""
    if not isinstance(target, Tensor) or not target.requires_grad:
        return a
    return a * (RATE * (target.detach() - target)).exp().to(a)


def _in_vmap(scores: Tensor) -> bool:
    """Where nothing outside can be changed."""
    return not torch.compiler.is_compiling() and in_transform(scores)


def undecided(
    scores: Float[Tensor, "batch m n"], allowed: Allowed | None = None, left_out: LeftOut = NOBODY
) -> Float[Tensor, ""]:
    """log a at which rows are all but uniform, the more so the more places there are."""
    return (UNDECIDED / _places(scores, allowed)).log() - _spread(scores, allowed, left_out).log()


def _places(scores: Tensor, allowed: Allowed | None) -> Tensor:
    """How many places a row may choose between, on the mean."""
    mask_for(rectangle(scores), allowed)
    choices = scores.shape[-1] if allowed is None else allowed.sum(-1).to(scores.dtype).mean()
    return torch.as_tensor(choices).to(scores)


def sharpness(
    scores: Float[Tensor, "*batch m n"],
    target: Number | Tensor,
    iterations: int,
    allowed: Allowed | None = None,
    left_out: LeftOut = NOBODY,
) -> Float[Tensor, ""]:
    r"""The $a$ for which the mean row entropy of $\mathrm{Sinkhorn}(a S)$ is the target; found on a few matrices of the batch.

    The entropy falls as a grows, so the root is bracketed and searched by regula falsi (Illinois) in log a. Where no a
    reaches the target (ties that stay undecided, or nothing to decide), the nearest end of the bracket is taken.
    """
    few, open_few, left_out = some(scores, allowed, left_out)
    target = target.detach() if isinstance(target, Tensor) else target
    unit = _spread(few, open_few, left_out)
    low, high = few.new_tensor(FLATTEST), few.new_tensor(SHARPEST)
    over = few.new_tensor(1.0) - target  # excess of the entropy at the ends: at the flat one it is 1
    under = -torch.as_tensor(target).to(few) * torch.ones_like(over)
    middle, close = low, torch.zeros_like(low, dtype=torch.bool)
    for _ in range(STEPS):
        between = (low * -under + high * over) / (over - under).clamp_min(1e-12)
        between = between.clamp(low + 0.05 * (high - low), high - 0.05 * (high - low))
        middle = torch.where(close, middle, between)  # a graph cannot stop early: it stays where it would have
        a = middle.exp() / unit
        soft, mask = with_left_out(a * few, iterations, open_few, left_out.times(a))
        excess = entropy(soft, -1, mask)[..., : few.shape[-2]].mean() - target
        close = excess.abs() < CLOSE
        if not (torch.compiler.is_compiling() or in_transform(few)) and bool(close):
            break
        flat = excess > 0
        # an end that stays for a second time counts half from then on
        over, under = torch.where(flat, excess, over / 2), torch.where(flat, under / 2, excess)
        low, high = torch.where(flat, middle, low), torch.where(flat, high, middle)
    return (middle.exp() / unit).to(scores.dtype)


def some(scores: Tensor, allowed: Allowed | None, left_out: LeftOut) -> tuple[Tensor, Allowed | None, LeftOut]:
    """A few matrices, spread over the batch, their masks and prices; no gradient goes through what is found on them."""
    mask_for(rectangle(scores), allowed)
    m, n = scores.shape[-2:]
    flat = scores.detach().reshape(-1, m, n)
    batch = flat.shape[0]
    # an exported graph for any batch has no number here, and takes all
    step = max(1, batch // math.ceil(ROWS / m)) if isinstance(batch, int) else 1
    few = None if allowed is None else allowed.expand(scores.shape).reshape(-1, m, n)[::step]
    return flat[::step], few, left_out.some(scores, step)


def _spread(scores: Tensor, allowed: Allowed | None, left_out: LeftOut) -> Tensor:
    """The root mean square of the allowed scores, without what Sinkhorn forgets: a term per row, if all items have a place, and one
    per column, if all positions are filled. Prices are there to be compared with, and then nothing is forgotten."""
    there = masked(scores, allowed) > -torch.inf
    m, n = scores.shape[-2:]
    if left_out.reject is not None:
        of_items, of_positions = prices(left_out.reject, scores)
        scores = scores - (of_items.unsqueeze(-1) + of_positions.unsqueeze(-2))
    values = scores.masked_fill(~there, 0.0)
    rounding = torch.finfo(scores.dtype).eps * values.abs().amax() + torch.finfo(scores.dtype).tiny ** 0.5
    some_wait = left_out.keep is not None and left_out.keep < min(m, n)
    forgotten = [(-2, -1)] if some_wait else [side for side, whole in ((-1, m <= n), (-2, m >= n)) if whole]
    for side in () if left_out.reject is not None else forgotten:
        count = there.sum(side, keepdim=True).clamp_min(1)
        values = (values - values.sum(side, keepdim=True) / count).masked_fill(~there, 0.0)
    return (values.square().sum() / there.sum().clamp_min(1)).sqrt().maximum(rounding)
