"""The paper's OT4P table: sorting by a relaxation on the orthogonal group, same lists, network and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..recipes.draws import DrawnOnce
from ..recipes.sorting import Sorting
from ..relaxations.ot4p import OT4P
from ..temperature.schedules import Anneal, Constant, Exponential
from .budget import Budget
from .run import Planned, Scale, Training
from .sorting import EPOCHS, RANGES, WHOLE
from .store import Place

# a power of a 50 x 50 rotation takes about a millisecond, one matrix at a time
BUDGETS: dict[Scale, tuple[Budget, ...]] = {
    "smoke": (Budget((5,), epochs=1, lists=64),),
    "cpu": (Budget((5, 10), epochs=30, lists=2_560), Budget((50,), epochs=10, lists=512)),
    "sizes": (Budget((5, 10)), Budget((50,), epochs=30, lists=2_560)),
    "paper": (Budget((5, 10, 50, 100, 200)),),
}


def ot4p(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """A sweep of OT4P, and Gumbel-Sinkhorn with the same small budget: a cut must not look like a failure of the geometry."""
    planned = []
    for budget in BUDGETS[scale]:
        epochs, lists = budget.epochs or EPOCHS, budget.lists or 10_000
        for n in budget.sizes:
            for seed in seeds:
                for section, values in RANGES.items():
                    whole = Sorting.paper(n, values, "global", seed, epochs)
                    whole = replace(whole, training=DrawnOnce(lists), batch=min(256, lists // 8))
                    for row, recipe in (*swept(whole).items(), ("global", whole)):
                        place = Place("ot4p", section, row, str(n), seed, scale, budget.cut(WHOLE))
                        planned.append(Planned(Training(recipe), place))
    return planned


def swept(whole: Sorting) -> dict[str, Sorting]:
    """What the paper varied, by the names of the rows: rate, form of the schedule, range of tau.

    From tau = 1, the rotation itself, to 0.2, near a permutation; "to 0.5" stays away from the small powers.
    """
    rotation = partial(OT4P, seed=whole.seed)
    first = replace(whole, relax=rotation(Anneal(1.0, 5.0, whole.epochs)), samples=1)
    return {
        "OT4P": first,
        "OT4P, rate 5e-3": replace(first, descent=replace(first.descent, rate=5e-3)),
        "OT4P, tau to 0.5": replace(first, relax=rotation(Anneal(1.0, 2.0, whole.epochs))),
        "OT4P, exponential": replace(first, relax=rotation(Anneal(1.0, 5.0, whole.epochs, Exponential()))),
        "OT4P, tau 0.5": replace(first, relax=rotation(Constant(2.0))),
    }
