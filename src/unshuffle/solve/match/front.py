"""``match``: the front door for two sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from ... import plots
from ...compute.threads import small_steps
from ...errors import number, whole
from ...operators.assignment import assign
from ...watch import Status, Step, Watch
from ..sets import likeliest
from . import checks
from .exact import match_distances
from .found import Asked, Found
from .local import match_neighbourhoods

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 1000  # items: below, a step is too little work to share among threads
PULL = 1e3
"""Logarithm of how much likelier a known pair is than any other."""


@dataclass(frozen=True, eq=False)
class Match:
    """Which item of A is which item of B, how sure, and who is left out."""

    pairs: Int[Tensor, "k 2"]
    """(item of A, item of B), by the item of A."""
    soft: Float[Tensor, "m n"]
    """Probability of each pair; what a row or a column lacks to one is the probability of being left out."""
    confidence: Float[Tensor, "k"]
    """One number in [0, 1] per pair, ``soft`` at the pair: the probability that just these two belong together."""
    left_out: tuple[Int[Tensor, "a"], Int[Tensor, "b"]]
    """Items of A and items of B that are in no pair."""
    energy: float
    """Mean squared difference between the structure of A and of B over all pairs of pairs; NaN with less than two pairs."""
    structure: Literal["distances", "neighbourhoods"]
    """What was compared: the distances themselves, or who shares neighbours with whom."""
    seconds: float
    status: Status
    history: list[Step] = field(repr=False)

    def __repr__(self) -> str:
        m, n = self.soft.shape
        out = " and ".join(str(len(who)) for who in self.left_out)
        sure = f", median confidence {float(self.confidence.median()):.3f}" if len(self.pairs) else ": all left out"
        return f"Match({len(self.pairs)} pairs of {m} and {n} items by {self.structure}, {out} left out{sure}, {self.status})"

    def sets(self, level: float = 0.9, generator: torch.Generator | None = None) -> list[Int[Tensor, "some"]]:
        """Per item of A the items of B of which one is its partner with this probability, the likeliest first; n, one more than the
        last item of B, stands for none of them."""
        number("level", level, above=0, below=1)
        alone = (1 - self.soft.sum(1, keepdim=True)).clamp_min(0)
        return likeliest(csr_array(torch.cat((self.soft, alone), 1).double().numpy()), level, generator)

    def plot(self, ax: Axes | None = None, *, history: bool = False) -> Axes:
        """The soft correspondence, items of A in order by items of B, each beside its partner; or energy and entropy against time."""
        if history:
            return plots.draw_history(plots.new_axes(ax, (5.6, 3.2)), self.history)
        rows, columns = (torch.cat((self.pairs[:, k], self.left_out[k])) for k in (0, 1))
        ax = plots.draw_soft(plots.new_axes(ax), self.soft[rows][:, columns])
        ax.set(xlabel="item of B, pairs first", ylabel="item of A, pairs first")
        return ax

    def _repr_html_(self) -> str:
        m, n = self.soft.shape
        out = " and ".join(str(len(who)) for who in self.left_out)
        lines = [f"by {self.structure}, {self.status} in {self.seconds:.1f} s", f"left out: {out} of {m} and {n}"]
        return plots.card(f"Match, {len(self.pairs)} pairs", [*lines, plots.how_sure(self.confidence)], self.plot)


def match(
    A: Tensor | Any,
    B: Tensor | Any,
    *,
    distances: bool = False,
    metric: Callable[[Tensor], Tensor] | None = None,
    reject: float | None = None,
    prior: Tensor | Any = None,
    anchors: Tensor | Any = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Match:
    """The correspondence between two sets that keeps their inner structure; nothing is known across them.

    ``A`` (m x d) and ``B`` (n x e) are features, of any two numbers of columns; with ``distances`` they are distance matrices.
    Features of up to three columns are coordinates, compared by Euclidean distance; of more, by correlation; ``metric`` is a
    function from features to distances if neither fits. Where distances of both sets can be in the same units (coordinates,
    ``distances``, a ``metric``) it is tried whether they agree up to noise; if less than half of them do, and for other features,
    shared neighbours are compared instead.

    ``reject`` in (0, 1) is the share of structure that must agree for a pair to be made. By default points that were moved are
    left out where two strangers are likelier, by the noise and the strangers there are; of other agreeing distances, what
    disagrees by more than three standard deviations of the noise; with neighbourhoods only the surplus of the larger set, as a
    whole part of it or evenly, as fits better. ``prior`` (m x n) are scores across the sets, 1 weighs as much as a pair whose
    whole structure agrees. ``anchors`` (k x 2) are known pairs.

    Examples:
        >>> m = us.match(points, moved_points)
        >>> m.pairs, m.confidence, m.left_out
    """
    D1, D2, comparable = checks.structures(A, B, distances, metric)
    m, n = len(D1), len(D2)
    known = checks.anchors(anchors, m, n)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    side = checks.prior(prior, m, n), _pull(known, m, n), checks.share(reject)
    with Watch(time_limit, callback) as watch, torch.no_grad(), small_steps(max(m, n) <= SMALL):
        exact = comparable and not (checks.counted(D1) or checks.counted(D2))
        asked = Asked(*side, generator, watch)
        found = match_distances(D1, D2, asked) if exact else None
        if found is None or not (found.convincing or watch.stopped):
            exact, found = False, match_neighbourhoods(D1, D2, asked)
        found = replace(found, soft=_shared(found.soft, D1, D2, asked))
    return _told(found, asked.pull, exact, watch)


def _shared(soft: Tensor, D1: Tensor, D2: Tensor, asked: Asked) -> Tensor:
    """Twins, whom nothing tells apart, are as likely each other's partners: a search has to take some side."""
    known = [scores for scores in (asked.prior, asked.pull) if scores is not None]
    soft = checks.twins(D1, known) @ soft @ checks.twins(D2, [scores.T for scores in known])
    return soft / soft.sum(1, keepdim=True).clamp_min(1)  # columns were normalised last, so that rows may sum to more


def _pull(known: Tensor | None, m: int, n: int) -> Tensor | None:
    if known is None:
        return None
    pull = torch.zeros(m, n)
    pull[known[:, 0], known[:, 1]] = PULL
    return pull


def _told(found: Found, pull: Tensor | None, exact: bool, watch: Watch) -> Match:
    scores = found.support if pull is None else found.support + pull
    order = assign(scores, reject=found.reject)
    places = (order >= 0).nonzero()[:, 0]
    pairs = torch.stack([order[places], places], 1)
    pairs = pairs[pairs[:, 0].argsort()]
    outside = [torch.ones(count, dtype=torch.bool) for count in found.soft.shape]
    outside[0][pairs[:, 0]] = False
    outside[1][pairs[:, 1]] = False
    (i, k), (SA, SB) = pairs.T, found.compared
    squared = (SA[i][:, i] - SB[k][:, k]) ** 2
    return Match(
        pairs=pairs,
        soft=found.soft,
        confidence=found.soft[i, k].clamp(0, 1),
        left_out=(outside[0].nonzero()[:, 0], outside[1].nonzero()[:, 0]),
        energy=float(squared.mean()) if len(pairs) > 1 else float("nan"),
        structure="distances" if exact else "neighbourhoods",
        seconds=watch.seconds,
        status=watch.status,
        history=watch.history,
    )
