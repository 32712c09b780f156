"""The paper's hard sorting study: adaptive against global when the annealing ends early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..recipes.draws import DrawnOnce
from ..recipes.sorting import Sorting
from .budget import Budget
from .run import Planned, Scale, Training
from .sorting import EPOCHS, RANGES, TEMPERATURES, WHOLE
from .store import Place

HORIZONS = (150, 100, 50)  # of 150 epochs
BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget((5,), epochs=3, lists=256),
    "cpu": Budget((100,), epochs=20),
    "sizes": Budget((200,)),
    "paper": Budget((300,)),
}


def hard_sorting_schedules(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """Values in [10, 11]; the schedule ends after all, two thirds or one third of the epochs and stays there."""
    budget, planned = BUDGETS[scale], []
    (n,), epochs = budget.sizes, budget.epochs or EPOCHS
    cut = "" if scale == "paper" else ", ".join(filter(None, (f"n = {n} instead of 300", budget.cut(WHOLE))))
    for horizon in HORIZONS:
        ends = max(1, round(epochs * horizon / EPOCHS))
        for seed in seeds:
            for name in TEMPERATURES:
                recipe = Sorting.paper(n, RANGES["[10, 11]"], name, seed, epochs, annealed=ends)
                recipe = replace(recipe, training=DrawnOnce(budget.lists or 10_000))
                place = Place("hard-sorting-schedules", "", name, str(horizon), seed, scale, cut)
                planned.append(Planned(Training(recipe), place))
    return planned
