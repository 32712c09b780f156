"""The paper's OT4P table: sorting by a relaxation on the orthogonal group, same lists, network and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ..recipes.sorting import Sorting
from ..relaxations.ot4p import OT4P
from ..temperature.schedules import Anneal
from .run import Planned, Scale, Training
from .sorting import EPOCHS, RANGES
from .store import Place
from .variant import SortingVariant

# tau 1 to 0.2: from the rotation itself to near a permutation. The paper swept the schedule and does not give it.
SCHEDULE = (1.0, 5.0)
# list length: epochs, training lists. A power of a 50 x 50 rotation takes about a millisecond, one matrix at a time.
BUDGETS: dict[Scale, dict[int, tuple[int, int]]] = {
    "smoke": {5: (1, 64)},
    "cpu": {5: (30, 2_560), 10: (30, 2_560), 50: (10, 512)},
    "paper": dict.fromkeys((5, 10, 50, 100, 200), (EPOCHS, 10000)),
}


@dataclass(frozen=True)
class SortingByRotation(SortingVariant):
    """`Sorting` with OT4P in the place of Gumbel-Sinkhorn."""

    TASK: ClassVar[str] = "sorting-by-rotation"

    def relax(self) -> OT4P:
        return OT4P(Anneal(*SCHEDULE, self.epochs), seed=self.seed)


def ot4p(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """OT4P, and Gumbel-Sinkhorn with the same small budget: a cut must not look like a failure of the geometry."""
    planned = []
    for n, (epochs, lists) in BUDGETS[scale].items():
        short = [f"{epochs} of {EPOCHS} epochs"] * (epochs < EPOCHS)
        short += [f"{lists:,} of 10,000 training lists"] * (lists < 10_000)
        for seed in seeds:
            for section, values in RANGES.items():
                whole = replace(
                    Sorting.paper(n, values, "global", seed, epochs), lists=lists, batch=min(256, lists // 8)
                )
                for row, recipe in (("OT4P", SortingByRotation(whole)), ("global", whole)):
                    place = Place("ot4p", section, row, str(n), seed, scale, ", ".join(short))
                    planned.append(Planned(Training(recipe), place))
    return planned
