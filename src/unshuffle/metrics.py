"""How good is an order? Kendall tau in its variants, what jigsaw papers report, gaps, and what anchors alone give.

And how good is a confidence: reliability, risk against coverage, sets of places that hold the truth as often as they say."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .errors import BadInput, number, shown, whole
from .operators.permutation import inverse, kendall_tau, order_of, square, together, whole_numbers
from .shapes import Order
from .structure.layouts import Grid

PerList = Float[Tensor, "*batch"]


def order_tau(order: Order, truth: Order) -> PerList:
    """Kendall tau of the *places* of the items: 1 for the same order, -1 for the reversed one.

    The orders themselves are lists of labels, and tau of labels changes when the items are renamed; ranks do not. Items that
    have no place in one of the two do not count.
    """
    _right(order, truth)  # of one length
    return kendall_tau(_places(order, truth), _places(truth, order)).float()


def canonical_tour(order: Order) -> Order:
    """The same closed tour, started at item 0 and walked towards the smaller of its two neighbours."""
    n = whole_numbers(order).shape[-1]
    start = (order == 0).int().argmax(-1, keepdim=True)
    steps = torch.arange(n, device=order.device)
    forward = order.gather(-1, (start + steps) % n)
    backward = order.gather(-1, (start - steps) % n)
    if n < 3:
        return forward
    return torch.where((forward[..., 1] <= forward[..., -1]).unsqueeze(-1), forward, backward)


def tour_kendall_tau(order: Order, truth: Order) -> PerList:
    """Kendall tau of two tours, each started at item 0, the better of the two walking directions."""
    n = whole_numbers(order).shape[-1]
    ours, theirs = canonical_tour(order), canonical_tour(truth)
    steps = -torch.arange(n, device=order.device) % n
    return torch.maximum(order_tau(ours, theirs), order_tau(ours[..., steps], theirs))


def direct_accuracy(order: Order, truth: Order) -> PerList:
    """Share of positions with the right item (jigsaws: tiles in place)."""
    return _right(order, truth).float().mean(-1)


def perfect_accuracy(order: Order, truth: Order) -> PerList:
    """1 where every item is in place, else 0; its mean over puzzles is the share of perfect reconstructions."""
    return _right(order, truth).all(-1).float()


class Placements(NamedTuple):
    """How well an order knows which items have a place and where: a placement is an item at a position."""

    precision: PerList
    recall: PerList
    f1: PerList


def placements(order: Order, truth: Order) -> Placements:
    """Precision, recall and F1 of the placements; positions with -1 are empty. Without any placement to find, all are 1."""
    right = (_right(order, truth) & (truth >= 0)).sum(-1).float()
    made, true = (order >= 0).sum(-1), (truth >= 0).sum(-1)
    none = (made + true) == 0
    precision, recall = (torch.where(none, 1.0, right / count.clamp_min(1)) for count in (made, true))
    return Placements(precision, recall, torch.where(none, 1.0, 2 * right / (made + true).clamp_min(1)))


def _right(order: Order, truth: Order) -> Bool[Tensor, "*batch n"]:
    if whole_numbers(order).shape[-1] != whole_numbers(truth).shape[-1]:
        raise BadInput(f"The orders have different lengths, {order.shape[-1]} and {truth.shape[-1]}.")
    if not together(order, truth):
        raise BadInput(f"Orders of {tuple(order.shape)} cannot be compared with orders of {tuple(truth.shape)}.")
    return order == truth


def neighbour_accuracy(order: Order, truth: Order, grid: Grid) -> PerList:
    """Share of the seams of the true picture whose two tiles are neighbours in the same way in the given one.

    A picture that is assembled right but shifted keeps most of this and none of its direct accuracy. Seams at empty positions (-1)
    of the true one do not count, and what has no place in the given one is beside nobody.
    """
    if not isinstance(grid, Grid):
        raise BadInput(f"The grid must be a layout such as us.Grid(3, 4), not {shown(grid)}.")
    if _right(order, truth).shape[-1] != grid.n:
        raise BadInput(f"An order of {grid.n} items is expected, but one of {order.shape[-1]} came.")
    place = _places(order, truth)
    inverse(truth, place.shape[-1])  # each item once
    order, truth = torch.broadcast_tensors(order, truth)
    place = place.expand(*truth.shape[:-1], -1)
    there, right = [], []
    for pairs, (down, across) in zip(grid.relations(), ((0, 1), (1, 0)), strict=True):
        seam = truth[..., pairs[:, 0]], truth[..., pairs[:, 1]]
        first, second = (place.gather(-1, item.clamp_min(0)) for item in seam)
        there.append((seam[0] >= 0) & (seam[1] >= 0))
        rows, columns = second // grid.width - first // grid.width, second % grid.width - first % grid.width
        right.append((first >= 0) & (second >= 0) & (rows == down) & (columns == across))
    seams = torch.cat(there, -1)
    kept = (torch.cat(right, -1) & seams).sum(-1)
    return torch.where(seams.any(-1), kept / seams.sum(-1).clamp_min(1), 1.0)


def _places(order: Order, truth: Order) -> Int[Tensor, "*batch items"]:
    """Of the items of either, in the first."""
    items = max((int(o.max()) + 1 for o in (order, truth) if o.numel()), default=0)
    return inverse(order, None if items == order.shape[-1] else items)


def optimality_gap(energy: PerList, best: PerList) -> PerList:
    """How much longer than the best, as a share: 0.25 is 25 %."""
    return energy / best - 1


def mask_only_tau(n: int, anchors: int) -> float:
    r"""Expected Kendall tau of k random anchors in place and the rest at random: $\frac{k(2n+k+1)}{3n(n-1)}$, at most 1.

    Of the n(n-1)/2 pairs, two anchors agree always and two free items in expectation 0. An anchor and a free item: with
    m = n - k free places, the item is in its own place with probability 1/m and agrees; else its true and its given place
    are two random places among the others, on the same side of the anchor with expectation 1/3 (summed over places). So
    $\binom k2 + km(\frac1m + (1-\frac1m)\frac13)$ over $\binom n2$. The paper's Monte Carlo: 0.029, 0.126, 0.189.
    """
    if whole("anchors", anchors, 0) > whole("n", n, 1):
        raise BadInput(f"There can be 0 to {n} anchors among {n} items, got {anchors}.")
    if n < 2:
        return 1.0
    return min(1.0, anchors * (2 * n + anchors + 1) / (3 * n * (n - 1)))


def mask_only_tau_sampled(n: int, anchors: int, trials: int, generator: torch.Generator) -> Float[Tensor, "trials"]:
    """Kendall tau of `trials` random fills around random anchors: the paper's appendix, step by step."""
    truth = torch.arange(n).expand(trials, n)
    shuffled = torch.rand(trials, n, generator=generator).argsort(-1)
    anchored = torch.zeros(trials, n, dtype=torch.bool).scatter(-1, shuffled[:, :anchors], True)
    free = shuffled[:, anchors:]  # in random order; sorted they are the free places
    order = truth.clone()
    order[~anchored] = free.flatten()
    return order_tau(order, truth)


class Reliability(NamedTuple):
    """Bins of confidence, the empty ones left out: how sure, how often right, how many."""

    confidence: Float[Tensor, "bins"]
    right: Float[Tensor, "bins"]
    cases: Int[Tensor, "bins"]


def reliability(confidence: Float[Tensor, "..."], right: Bool[Tensor, "..."], bins: int = 10) -> Reliability:
    """Is a confidence of 0.8 right in 80 % of the cases? Mean confidence and share of right ones in bins of equal width."""
    sure, true = _judged(confidence, right)
    bin = (sure * whole("bins", bins, 1)).long().clamp(max=bins - 1)
    count = torch.bincount(bin, minlength=bins)
    some = count > 0
    means = [torch.bincount(bin, weights=w, minlength=bins)[some] / count[some] for w in (sure, true)]
    return Reliability(means[0], means[1], count[some])


def expected_calibration_error(confidence: Float[Tensor, "..."], right: Bool[Tensor, "..."], bins: int = 10) -> float:
    """How far confidence and truth are apart, on average over all cases (Naeini et al. 2015)."""
    sure, true, count = reliability(confidence, right, bins)
    return float(((sure - true).abs() * count).sum() / count.sum().clamp_min(1))


class RiskCoverage(NamedTuple):
    """The share of wrong ones among the surest, as more and more are answered."""

    coverage: Float[Tensor, "cases"]
    risk: Float[Tensor, "cases"]

    @property
    def area(self) -> float:
        """Mean risk over all coverages: lower is better, 0 if nothing is wrong."""
        return float(self.risk.mean())


def risk_coverage(confidence: Float[Tensor, "..."], right: Bool[Tensor, "..."]) -> RiskCoverage:
    """If only the surest were answered, how many would be wrong? Cases that are equally sure are answered together."""
    sure, true = _judged(confidence, right)
    order = sure.argsort(descending=True, stable=True)
    answered = torch.arange(1, len(sure) + 1, dtype=torch.float64)
    risk = (1 - true[order]).cumsum(0) / answered
    last = torch.searchsorted(-sure[order].contiguous(), -sure[order].contiguous(), right=True) - 1
    return RiskCoverage(answered / len(sure), risk[last])


def _judged(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(confidence, Tensor) or not isinstance(right, Tensor) or confidence.shape != right.shape:
        raise BadInput(
            f"Confidence and truth must be tensors of one shape, not {shown(confidence)} and {shown(right)}."
        )
    sure, true = confidence.detach().double().flatten(), right.double().flatten()
    if not len(sure) or not bool(((sure >= 0) & (sure <= 1)).all()):
        raise BadInput("A confidence must be between 0 and 1, and there must be at least one.")
    if not bool(((true == 0) | (true == 1)).all()):
        raise BadInput("Whether each one is right must be told by True and False (1 and 0), not by other numbers.")
    return sure, true


def conformal_threshold(soft: Float[Tensor, "*cases n n"], truth: Int[Tensor, "*cases n"], level: float = 0.9) -> float:
    r"""The threshold of `place_sets` under which the sets of new items hold the true place with probability ``level``.

    From examples with known orders: the $\lceil (m+1)\,\text{level} \rceil$-th smallest of the m values $1 - P_{i, r_i}$, r the true
    places (split conformal prediction, Vovk et al. 2005). It holds for new cases that are drawn like the examples, whatever
    the soft permutation is worth; 1, that is all places, if there are too few examples.
    """
    number("level", level, above=0, below=1)
    if square(soft, "A soft permutation").shape[:-1] != whole_numbers(truth).shape:
        raise BadInput(f"{tuple(soft.shape)} soft permutations and orders of {tuple(truth.shape)} do not fit together.")
    missing = (
        (1 - soft.gather(-1, inverse(order_of(soft.shape[-1], truth)).unsqueeze(-1))).double().flatten().sort().values
    )
    rank = math.ceil((len(missing) + 1) * level)
    return 1.0 if rank > len(missing) else float(missing[rank - 1])


def place_sets(soft: Float[Tensor, "*cases n n"], threshold: float) -> Bool[Tensor, "*cases n n"]:
    """Per item the places that cannot be ruled out: those with $1 - P$ at most the threshold."""
    return (1 - square(soft, "A soft permutation")).double() <= number("threshold", threshold)
