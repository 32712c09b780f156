"""Two sentences of the paper as a study: no method converges without anchors, and its budgets are the smallest that work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..recipes.jigsaw import PICTURE, Jigsaw
from .jigsaws import BUDGETS, cut_of, folder_of
from .run import Planned, Scale, Training
from .store import Place

NUMBERS = {5: (0, 1), 6: (0, 3, 6), 7: (0, 6, 12)}  # tiles a side: from none to the paper's
METHODS = ("global", "adaptive")


def anchors(scale: Scale, seeds: Sequence[int], data: Path | None) -> list[Planned]:
    """Kendall tau beyond what the anchors alone give, by their number; those without any first."""
    budget, folder = BUDGETS[scale], folder_of(data)
    cells = [(k, side) for side in budget.sizes for k in NUMBERS[side]]
    planned = []
    for number, side in sorted(cells):
        for seed in seeds:
            for row in METHODS:
                recipe = Jigsaw.paper(folder, side, row, seed, budget.epochs, pixels=budget.pixels or PICTURE)
                place = Place("anchors", f"{side} x {side}", row, str(number), seed, scale, cut_of(budget, side))
                planned.append(Planned(Training(replace(recipe, anchors=number)), place))
    return planned
