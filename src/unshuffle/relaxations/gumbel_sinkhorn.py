r"""Sinkhorn and Gumbel-Sinkhorn with a global or a local inverse temperature (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..compute.transforms import in_transform
from ..errors import BadInput, whole
from ..operators.assignment import alongside, assign, masked
from ..operators.gumbel import controller, loudness, soft_square
from ..operators.partial import NOBODY, LeftOut, Padded, Reject, as_told
from ..operators.permutation import square
from ..operators.precision import widened
from ..operators.sinkhorn import with_left_out
from ..shapes import Scores
from ..temperature.entropy import STEADY, TARGETS, Sharpness, ahead, is_number, quiet
from ..temperature.local import Controller
from ..temperature.report import FieldReport, diagnose
from ..temperature.schedules import UNIT, Schedule
from .layer import Draw, Scheduled
from .protocol import MaskOrNone, Number, Orders, SoftPermutations, hardened, partial_one_hot, with_samples

PAIR = ("reject_items", "reject_positions")  # the prices of a pair that are learned


@dataclass(eq=False)
class GumbelSinkhorn(Scheduled):
    r"""Soft permutations with Gumbel noise g, one fresh draw per sample.

    By default, or with another `EntropyTarget`: $P = \mathrm{Sinkhorn}(a S + \sigma g)$. The sharpness a is led by the entropy of the rows,
    a step a call in training, so the scale of the scores does not matter; no gradient goes through a. The noise $\sigma$ is in
    units of logits, $1.5/\sqrt{n}$ of n places unless given. The default target is the same at every epoch: a loop need not tell which one it is.

    With a schedule of inverse temperatures: $P = \mathrm{Sinkhorn}(\beta \odot (S + g))$, the paper's Algorithm 1. The schedule gives the
    base $\beta_0$ by epoch; `local` (from epoch `adapt_from` on) makes it a field; the noise is 1 unless given. Without noise
    (`noise=0`, `Sinkhorn`, or in evaluation) the temperature still applies; in the paper's code it silently does not.

    `reject` and `keep` are those of `sinkhorn`: not every item has a place, and the order has -1 for empty positions. A `reject` that is
    an `nn.Parameter` is learned. Without them scores may still be m x n, and as many are placed as fit.
    """

    takes_entropy: ClassVar[bool] = True

    schedule: Schedule = STEADY
    local: Controller | None = None
    iterations: int = 10
    noise: Number | None = None
    adapt_from: int = 0
    reject: Reject | None = field(default_factory=lambda: None)  # on the class, a default would hide a parameter
    keep: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reject is not None:
            self._price(as_told(self.reject))
        if self.keep is not None:
            whole("keep", self.keep, 0)
        if self.local is not None:
            controller(self.local)
        whole("iterations", self.iterations, 1)
        whole("adapt_from", self.adapt_from, 0)
        if self.noise is None:
            self.__dict__["noise"] = self.usual["noise"]
        if self.noise is not None:
            loudness(self.noise)
        if isinstance(self.schedule, TARGETS):
            self.sharpness = Sharpness()

    @property
    def usual(self) -> dict[str, float | None]:
        """Defaults that the signature does not show; a noise of None is by the size of what comes."""
        return {"noise": None if isinstance(self.schedule, TARGETS) else 1.0, "reject": None}

    def _price(self, told: Reject) -> None:
        """Keep the prices; those that are learned are parameters of this module, two of them by names of their own."""
        if isinstance(told, nn.Parameter):
            return
        self.__dict__["reject"] = told
        for name, price in zip(PAIR, told if isinstance(told, tuple) else (), strict=False):
            if isinstance(price, nn.Parameter):
                self.register_parameter(name, price)

    @property
    def left_out(self) -> LeftOut:
        reject = self.reject
        if isinstance(reject, tuple):  # as torch has them now: it may have exchanged a parameter
            reject = tuple(self._parameters.get(name, price) for name, price in zip(PAIR, reject, strict=True))
        return LeftOut(reject, self.keep)  # pyright: ignore[reportArgumentType]

    def relaxed(self, scores: Scores, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        soft, padded = self._square(scores, allowed, draw)
        return soft if padded is None else self._real(soft, padded)

    def _real(self, soft: Tensor, padded: Padded) -> SoftPermutations:
        real = padded.real(soft)
        return real * 0.0 if self.keep == 0 else real  # to which the padded problem comes only after many iterations

    def hard(self, scores: Scores, allowed: MaskOrNone, draw: Draw) -> tuple[SoftPermutations, SoftPermutations]:
        """The soft permutations of a draw, and what each of them leans to."""
        soft, padded = self._square(scores, allowed, draw)
        if padded is None:
            return soft, hardened(soft, allowed)
        reject, keep = padded.choice
        order = assign(padded.gain(soft.detach()), allowed, reject=reject, keep=keep)
        return self._real(soft, padded), partial_one_hot(order, padded.real(soft))

    def _square(self, scores: Scores, allowed: MaskOrNone, draw: Draw) -> tuple[Tensor, Padded | None]:
        noise = (quiet(scores) if self.noise is None else self.noise) if self.training else 0.0
        if not isinstance(self.schedule, TARGETS):
            return self._soft(scores, draw.beta, noise, self.left_out, allowed, draw)
        if scores.numel() == 0:  # a batch of none has no entropy
            return self._soft(scores, 1.0, noise, self.left_out, allowed, draw)
        scores = alongside(scores, allowed)
        target = self.schedule.entropy(draw.beta, scores, allowed)
        a = ahead(self.sharpness(scores, target, self.iterations, allowed, self.left_out), target)
        if self.schedule.each is not None:
            if self.left_out != NOBODY or scores.shape[-2] != scores.shape[-1]:
                raise BadInput(
                    "each is for matrices in which every item has a place: without reject, keep or empty positions."
                )
            a = a * self.schedule.each(a * scores, self.iterations, allowed)
        if is_number(a) and 1e-20 < a.item() < 1e20:  # a (S + sigma / a g), where nothing has to be multiplied
            soft = self._soft(scores, a.item(), noise / a.item(), self.left_out, allowed, draw)
        else:  # sigma (S a / sigma + g) is the same
            scale, beta, noise = (a / noise, noise, 1.0) if noise else (a, 1.0, 0.0)
            soft = self._soft(scores * scale, beta, noise, self.left_out.times(scale), allowed, draw)
        self.sharpness.lead(scores, target, self.iterations, allowed, self.left_out, self.schedule.hold)
        return soft

    def _soft(
        self,
        scores: Scores,
        beta: Number | Tensor,
        noise: Number,
        left_out: LeftOut,
        allowed: MaskOrNone,
        draw: Draw,
    ) -> tuple[Tensor, Padded | None]:
        return soft_square(
            scores,
            beta=beta,
            samples=draw.samples if noise or draw.samples is None else 1,  # without noise all samples are one
            local=self.local if draw.adapts else None,
            iterations=self.iterations,
            generator=draw.generator,
            noise=noise,
            allowed=allowed,
            share=draw.share,
            reject=left_out.reject,
            keep=left_out.keep,
        )

    def decode(self, scores: Scores, *, allowed: MaskOrNone = None) -> Orders:
        return assign(scores, allowed, **self.left_out._asdict())

    def report(self, scores: Scores, *, epoch: Number | None = None, allowed: MaskOrNone = None) -> FieldReport:
        """The realised temperature field and entropies at these scores; one Sinkhorn, meant for once an epoch."""
        epoch = self.epoch if epoch is None else epoch
        beta, given = self.schedule(epoch), widened(scores.detach())
        if isinstance(self.schedule, TARGETS):
            target = self.schedule.entropy(beta, given, allowed)
            beta = self.sharpness.at(given, target, self.iterations, allowed, self.left_out)
            each = self.schedule.each
            beta = float(beta) if each is None else beta * each(beta * given, self.iterations, allowed)
        with torch.no_grad():
            Q, allowed = with_left_out(beta * given, self.iterations, allowed, self.left_out.times(beta))
        found = diagnose(self.local if epoch >= self.adapt_from else None, Q, beta, allowed)
        return replace(found, row_entropy=found.row_entropy[..., : scores.shape[-2]])


@dataclass(eq=False)
class Sinkhorn(GumbelSinkhorn):
    r"""$P = \mathrm{Sinkhorn}(\beta \odot S)$: Gumbel-Sinkhorn that draws nothing."""

    schedule: Schedule = UNIT
    noise: Number | None = field(default=0.0, init=False, repr=False)


@dataclass(eq=False)
class ColumnSoftmax(Scheduled):
    r"""$T_{ip} = \mathrm{softmax}_i(\beta S_{ip})$: UTSP's relaxation; only the positions sum to one."""

    def relaxed(self, scores: Scores, allowed: MaskOrNone, draw: Draw) -> SoftPermutations:
        return with_samples(softmax_over_items(draw.beta * square(scores), allowed), draw.samples)

    def decode(self, scores: Scores, *, allowed: MaskOrNone = None) -> Orders:
        return assign(scores, allowed)  # the same as on log T: they differ by one constant per position


def softmax_over_items(logits: Tensor, allowed: MaskOrNone = None) -> SoftPermutations:
    """Softmax down each column (position), over the allowed items."""
    # the lowest finite number, not -inf: its gradient is 0, never NaN
    soft = torch.softmax(masked(logits, allowed, torch.finfo(logits.dtype).min), dim=-2)
    if not (torch.compiler.is_compiling() or in_transform(soft)) and bool(soft.detach().sum().isnan()):
        raise BadInput("The soft permutation came out as NaN: scores and keys must be finite, and times beta still so.")
    return soft
