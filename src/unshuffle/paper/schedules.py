"""The paper's hard sorting study: adaptive against global when the annealing ends early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..recipes.sorting import Sorting
from .run import Planned, Scale, Training
from .sorting import EPOCHS, RANGES
from .store import Place

HORIZONS = (150, 100, 50)  # of 150 epochs


@dataclass(frozen=True)
class Budget:
    n: int
    epochs: int
    lists: int = 10_000


BUDGETS: dict[Scale, Budget] = {"smoke": Budget(5, 3, 256), "cpu": Budget(100, 20), "paper": Budget(300, EPOCHS)}


def hard_sorting_schedules(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """Values in [10, 11]; the schedule ends after all, two thirds or one third of the epochs and stays there."""
    budget, planned = BUDGETS[scale], []
    cut = "" if scale == "paper" else f"n = {budget.n} instead of 300, {budget.epochs} of {EPOCHS} epochs"
    for horizon in HORIZONS:
        ends = max(1, round(budget.epochs * horizon / EPOCHS))
        for seed in seeds:
            for name in ("global", "adaptive", "matched"):
                recipe = Sorting.paper(budget.n, RANGES["[10, 11]"], name, seed, budget.epochs)
                recipe = replace(recipe, lists=budget.lists, temperature=replace(recipe.temperature, epochs=ends))
                place = Place("hard-sorting-schedules", "", name, str(horizon), seed, scale, cut)
                planned.append(Planned(Training(recipe), place))
    return planned
