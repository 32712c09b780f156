"""What a solver gives back, from the solver of a layout to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .. import plots
from ..structure.layouts import Cycle, Grid
from ..watch import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .sets import Sets


class Polished(NamedTuple):
    """What local search made of the annealed orders."""

    order: Int[Tensor, "n"]
    energy: float

    def __repr__(self) -> str:
        return f"Polished({len(self.order)} items, energy {self.energy:.6g})"


@dataclass(frozen=True, repr=False, eq=False)
class Solution:
    """The order that was found, how good it is and how sure."""

    order: Int[Tensor, "n"]
    """Item at each position, as annealed; -1 where a position stays empty."""
    energy: float
    soft: Float[Tensor, "n n"]
    """Soft permutation (items x positions) of the winning run, before decoding; of thousands of items the order itself, sparse."""
    confidence: Float[Tensor, "n"]
    """One number in [0, 1] per *item*: how sure its place is, given the places of the others; of graphs, whatever the others do."""
    energies: Float[Tensor, "runs"]
    """The energy that each of the runs ended with that `agreement` counts; the winner may come from before them."""
    agreement: float = 1.0
    """Share of these runs that ended with the winner's order, up to the layout's symmetry."""
    tried: Int[Tensor, "tries n"] | None = None
    """Every order that annealing ended in on the way, where there were several: all are starts for local search."""
    polished: Polished | None = None
    """What local search found; None unless it was asked for."""
    state: Int[Tensor, "n"] | None = None
    """State of the item at each position of `order` (a tile's quarter turns), -1 where that is empty; None without states."""
    seconds: float = 0.0
    status: Literal["finished", "time limit", "interrupted"] = "finished"
    history: Sequence[Step] = ()
    layout: Any = None
    """What was solved: a layout, or the user's own loss."""
    given: Any = field(default=None, repr=False)
    """What the items cost, as it was checked; None once they were numbered or turned anew."""
    allowed: Bool[Tensor, "m n"] | None = field(default=None, repr=False)
    """Which items may stand where, if not all everywhere."""
    weigh: Callable[[Solution], Any] | None = None
    """How often items are elsewhere in orders that are nearly as good, as `sets` asks; None: by the soft permutation."""

    @property
    def best_order(self) -> Int[Tensor, "n"]:
        """The polished order where that was asked for, otherwise the annealed one."""
        return self.order if self.polished is None else self.polished.order

    @property
    def best_state(self) -> Int[Tensor, "n"] | None:
        """The states that go with `best_order`."""
        return self.state if self.polished is None else self.states_in(self.best_order)

    def states_in(self, order: Int[Tensor, "n"]) -> Int[Tensor, "n"] | None:
        """The states that go with another order of the same items: local search moves them as they stand."""
        if self.state is None:
            return None
        placed = self.order >= 0
        of_item = self.state.new_full((int(max(self.order.max(), order.max())) + 1,), -1)
        of_item[self.order[placed]] = self.state[placed]
        return torch.where(order >= 0, of_item[order], -1)

    @property
    def left_out(self) -> Int[Tensor, "left"]:
        """Items that have no place in `best_order`."""
        used = torch.zeros(len(self.confidence), dtype=torch.bool)
        used[self.best_order[self.best_order >= 0]] = True
        return (~used).nonzero().squeeze(1)

    @property
    def best_energy(self) -> float:
        return self.energy if self.polished is None else self.polished.energy

    @property
    def starts(self) -> Int[Tensor, "starts n"]:
        """Where local search begins."""
        return self.order.unsqueeze(0) if self.tried is None else self.tried

    def sets(self, level: float = 0.9, generator: torch.Generator | None = None) -> Sets:
        """For each item the places, and the neighbours, that hold the true ones with at least this probability.

        From orders that are nearly as good as the best; no answers are needed. They are as small as they can be at that level, so an
        item that is sure has one place, which holds the truth more often than the level says. With a ``generator`` the last of each
        set is left out as often as makes the probability just the level; sets may then be empty.

        Examples:
            >>> us.solve(us.Path(n), cost=D).sets(0.9).places[0]
        """
        from .sets import sets_of

        return sets_of(self, level, generator)

    def alternatives(self, count: int = 3) -> list[Polished]:
        """The ``count`` best orders that differ from the best, with their energies, the best of them first.

        Of what was found on the way and of what one change makes of the best (of graphs any number of exchanges that each lead to one of
        the best): that an order is missing does not say that it is worse. What is
        not ``allowed`` is in none of them. Where items are left out, they may stand in these instead of others; grids of two costs with a price in numbers have none.
        """
        from .alternatives import alternatives

        return alternatives(self, count)

    def __repr__(self) -> str:
        polished = "" if self.polished is None else f", polished {self.best_energy:.6g}"
        return (
            f"Solution({len(self.confidence)} items{self._partial()}, energy {self.energy:.6g}{polished}, {self.status} in {self.seconds:.1f} s, "
            f"mean confidence {float(self.confidence.mean()):.2f})"
        )

    def _partial(self) -> str:
        out, empty = len(self.left_out), int((self.best_order < 0).sum())
        return (f", {out} left out" if out else "") + (f", {empty} positions empty" if empty else "")

    def plot(
        self,
        ax: Axes | None = None,
        *,
        points: Any = None,
        table: Any = None,
        pictures: Any = None,
        history: bool = False,
    ) -> Axes:
        """A picture of the solution, on ``ax`` or on new axes, which are returned.

        ``points`` (items x 2): the way through them. ``table`` (items x anything; square: dissimilarities, both sides are ordered):
        a heat map with its rows in order. ``pictures`` (items x height x width): a grid of them. ``history``: energy and entropy
        against time. Without any of these: the soft permutation, its rows in order (the history, where it is sparse).
        """
        order = self.best_order[self.best_order >= 0].numpy()
        if points is not None:
            ax = plots.new_axes(ax)
            closed = isinstance(self.layout, Cycle)
            return plots.draw_tour(ax, points, order, closed=closed, confidence=self.confidence)
        if table is not None:
            return plots.draw_matrix(plots.new_axes(ax), _ordered(table, order))
        if pictures is not None:
            shape = (self.layout.height, self.layout.width) if isinstance(self.layout, Grid) else (1, len(self.order))
            return plots.draw_pictures(plots.new_axes(ax), pictures, self.best_order, shape)
        if history or self.soft.is_sparse:
            return plots.draw_history(plots.new_axes(ax, (5.6, 3.2)), self.history)
        rows = torch.cat((self.best_order[self.best_order >= 0], self.left_out)).numpy()
        return plots.draw_soft(plots.new_axes(ax), self.soft, rows)

    def _repr_html_(self) -> str:
        lines = [f"energy {self.energy:.6g}, {self.status} in {self.seconds:.1f} s"]
        if self.polished is not None:
            lines.append(f"polished: {self.best_energy:.6g}")
        lines.append(plots.how_sure(self.confidence))
        return plots.card(f"Solution, {len(self.confidence)} items{self._partial()}", lines, self.plot)


def _ordered(table: Any, order: Any) -> Any:
    """Rows in order; of a square table the columns too."""
    import numpy as np

    values = np.asarray(table, dtype=float)
    return values[np.ix_(order, order)] if values.shape[0] == values.shape[-1] else values[order]
