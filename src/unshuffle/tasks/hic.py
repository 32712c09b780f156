r"""Genomes from contacts (Hi-C): which bins or contigs are of one chromosome, in which order, and which way round.

Contacts fall with the distance along a chromosome. The cost of a pair is minus the logarithm of its contacts, and an order is
right if *all* pairs that it puts near each other have many: a path over several lags. Neighbours alone are not enough: the ends
of yeast chromosomes meet so often that a fold is cheaper than the truth.

Chromosomes are told apart along one such path through everything (`chromosomes`), and each is ordered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int

from ..errors import BadInput
from ..readers.contacts import Contacts
from ..solve import solve
from ..solve.alternatives import different
from ..solve.path.lags import link_chances, nearest
from ..solve.path.pieces import Arrangement, arrange_pieces
from ..solve.path.walk import nearby_orders
from ..solve.sets import Sets, near_orders, usual_temperature
from ..solve.solution import Polished
from ..structure.layouts import Path
from ..watch import Step, Watch
from .chromosomes import REACH, told_apart

BALANCING = 40  # sweeps
HEATS = (1, 10, 100)
"""Times the temperature of sets: there alternatives are looked for, since a sure order has none nearby."""


@dataclass(frozen=True, eq=False)
class Scaffolds:
    """Groups of bins in order: one group is one chromosome, as far as contacts can tell."""

    groups: list[Int[np.ndarray, "bins"]]
    """The bins of each, in order; groups stand as on the one path through everything."""
    pieces: list[list[tuple[int, bool]]]
    """The contigs of each group in order, and whether they were turned round."""
    joins: list[Float[np.ndarray, "joints"]]
    """How sure the join between each two adjacent contigs is."""
    left_out: Int[np.ndarray, "bins"]
    """Bins without contacts: nothing says where they belong."""
    status: str
    contacts: Contacts = field(repr=False)
    logs: Float[np.ndarray, "n n"] = field(repr=False)
    """Logarithms of balanced contacts."""

    @property
    def order(self) -> Int[np.ndarray, "bins"]:
        return np.concatenate(self.groups)

    def sets(self, level: float = 0.9, generator: torch.Generator | None = None) -> Sets:
        """Per bin the places in its group, and the bins beside it, that hold the true ones with this probability, as `Solution.sets` has
        them; none of bins left out."""
        nowhere = torch.empty(0, dtype=torch.int64)
        places, partners = [nowhere] * len(self.contacts.bins), [nowhere] * len(self.contacts.bins)
        for group in self.groups:
            cost, _, cuts = joined(self.contacts, self.logs, group)
            shares = near_orders(Path(len(group), reach=REACH), cost, np.arange(len(group)), cuts=cuts)
            found = Sets.of(shares, level, generator)
            for k, bin in enumerate(group.tolist()):
                places[bin] = found.places[k]
                partners[bin] = torch.from_numpy(group[found.partners[k].numpy()])
        return Sets(level, places, partners)

    def alternatives(self, count: int = 3) -> list[list[Polished]]:
        """Of each group the next best orders of its bins, with their energies; contigs stay whole."""
        found = []
        for group in self.groups:
            cost, _, cuts = joined(self.contacts, self.logs, group)
            n, path = len(group), Path(len(group), reach=REACH)
            rng, order = np.random.default_rng(0), np.arange(n)
            warm = usual_temperature(path, cost, order[None])
            walks = [nearby_orders(order, cost, weights(), warm * heat, rng, cuts=cuts) for heat in HEATS]
            tried = torch.from_numpy(np.concatenate((order[None], *walks)))
            others = different(path, True, tried, path.energy(tried, torch.from_numpy(cost)), count)
            found.append([Polished(torch.from_numpy(group[o.order.numpy()]), o.energy) for o in others])
        return found

    @property
    def confidence(self) -> Float[np.ndarray, "n"]:
        """Per bin, that of the weaker of the joins on either side of its contig; 0 for what was left out."""
        sure = np.zeros(len(self.contacts.bins))
        for pieces, joins in zip(self.pieces, self.joins, strict=True):
            weaker = np.minimum(np.r_[1.0, joins], np.r_[joins, 1.0])
            for (contig, _), c in zip(pieces, weaker, strict=True):
                sure[self.contacts.contig == contig] = c
        sure[self.left_out] = 0.0
        return sure


def balanced(counts: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Every bin with as many contacts as every other, those with itself apart (iterative correction, Imakaev et al. 2012).

    It lifts the ends of chromosomes, which have neighbours on one side only: of few bins the last two may then change places.
    """
    counts = counts.copy()
    np.fill_diagonal(counts, 0.0)
    for _ in range(BALANCING):
        size = counts.sum(1)
        size = np.sqrt(np.where(size > 0, size / size[size > 0].mean(), 1.0))
        counts /= np.outer(size, size)
    return counts


def log_contacts(counts: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Logarithms, from half of the median contact on: rarer ones are all the same."""
    used = counts.any(1)
    usual = float(np.median(counts[np.ix_(used, used)]))
    return np.log(counts + (usual if usual > 0 else float(counts[counts > 0].min())) / 2)


def scaffold(
    contacts: Contacts,
    *,
    chromosomes: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Scaffolds:
    """Order everything, cut between chromosomes (``chromosomes`` says how many there are, if known), order each again."""
    counts = np.nan_to_num(contacts.counts, nan=0.0)
    np.fill_diagonal(counts, 0.0)
    usable = counts.any(1)
    if usable.sum() < 3:
        raise BadInput("Fewer than three bins have contacts with others, so there is nothing to order.")
    logs = log_contacts(counts if contacts.balanced else balanced(counts))
    if chromosomes is not None and not 1 <= chromosomes <= len(np.unique(contacts.contig[usable])):
        raise BadInput(f"There can be 1 to {len(np.unique(contacts.contig[usable]))} chromosomes, not {chromosomes}.")
    search = _Search(contacts, logs, torch.Generator().manual_seed(seed), seed)
    with Watch(time_limit, callback) as watch:
        whole = search.order(np.flatnonzero(usable), watch)
        watch(stage="tell the chromosomes apart")
        if chromosomes == 1:
            groups = [whole]
        else:
            groups = told_apart(logs, whole, contacts.contig[whole], chromosomes)
        if len(groups) > 1:
            groups = [search.again(group, watch) for group in groups]
        told = [search.told(group) for group in groups]
    status = "time limit" if search.late and watch.status == "finished" else watch.status
    return Scaffolds(
        groups, [t[0] for t in told], [t[1] for t in told], np.flatnonzero(~usable), status, contacts, logs
    )


@dataclass(frozen=True, eq=False)
class _Search:
    contacts: Contacts
    logs: np.ndarray
    generator: torch.Generator
    seed: int
    late: list[str] = field(default_factory=list)
    """What a time limit stopped."""

    def order(self, bins: Int[np.ndarray, "some"], watch: Watch) -> Int[np.ndarray, "some"]:
        """Single bins by annealing, contigs as pieces that stay whole. ``bins`` in the order of the input."""
        cost = _cost(self.logs[np.ix_(bins, bins)])
        contig = self.contacts.contig[bins]
        starts = np.flatnonzero(np.r_[True, contig[1:] != contig[:-1]])
        if len(starts) == 1 or len(bins) < 3:
            return bins
        if len(starts) == len(bins):
            left = None if watch.time_limit is None else max(0.0, watch.time_limit - watch.seconds) / 2
            found = solve(
                Path(len(bins), reach=REACH), cost=cost, seed=self.seed, time_limit=left, callback=watch.callback
            )
            if found.status == "interrupted":
                watch.status = "interrupted"
            elif found.status != "finished":
                self.late.append(found.status)
            return bins[found.order.numpy()]
        pieces = np.split(np.arange(len(bins)), starts[1:])
        arranged: Arrangement = arrange_pieces(cost, pieces, weights(), generator=self.generator, watch=watch)
        return bins[arranged.order]

    def again(self, group: Int[np.ndarray, "some"], watch: Watch) -> Int[np.ndarray, "some"]:
        """A group on its own, in the direction that it had."""
        if not watch.spare():
            return group
        found = self.order(np.sort(group), watch)
        before, after = np.argsort(group), np.argsort(found)  # places of the bins, in the order of the input
        return found if len(group) < 2 or np.corrcoef(before, after)[0, 1] >= 0 else found[::-1]

    def told(self, group: Int[np.ndarray, "bins"]) -> tuple[list[tuple[int, bool]], Float[np.ndarray, "joints"]]:
        """The contigs of a group, which way round, and how sure the joins between them are."""
        contig = self.contacts.contig[group]
        cost, near, cuts = joined(self.contacts, self.logs, group)
        starts = np.flatnonzero(cuts[:-1])
        ends = np.r_[starts[1:], len(group)]
        pieces = [(int(contig[a]), bool(group[b - 1] < group[a])) for a, b in zip(starts, ends, strict=True)]
        return pieces, link_chances(np.arange(len(group)), cost, weights(), near=near, cuts=cuts)[starts[1:] - 1]


def joined(
    contacts: Contacts, logs: Float[np.ndarray, "n n"], group: Int[np.ndarray, "some"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs of a group in its order, every bin's nearest ones on other contigs, and where contigs end."""
    contig = contacts.contig[group]
    cuts = np.r_[True, contig[1:] != contig[:-1], True]
    cost = _cost(logs[np.ix_(group, group)])
    near = nearest(np.where(contig[:, None] == contig[None, :], cost.max() + 1, cost)) if len(group) > 1 else cost
    return cost, near, cuts


def _cost(logs: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    cost = logs.max() - logs
    np.fill_diagonal(cost, 0.0)
    return cost


def weights() -> Float[np.ndarray, "reach"]:
    return np.array(Path(REACH + 1, reach=REACH).weights)
