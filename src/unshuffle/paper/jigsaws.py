"""The paper's jigsaw tables, on a folder of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import BadInput
from ..recipes.jigsaw import PAPER, PICTURE, BlendedSeams, Jigsaw
from ..relaxations.gumbel_sinkhorn import GumbelSinkhorn
from ..temperature.schedules import Constant
from .budget import Budget
from .checks import mask_only
from .run import Planned, Scale, Training
from .sorting import TEMPERATURES
from .store import Place

# cpu: about a minute of one core a run
BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget((5,), epochs=1, pixels=20),
    "cpu": Budget((5, 6, 7), epochs=25, pixels=45),
    "sizes": Budget((5, 6, 7), epochs=100),
    "paper": Budget((5, 6, 7)),
}
ABLATION: dict[Scale, int] = {"smoke": 5, "cpu": 7, "sizes": 7, "paper": 7}  # tiles a side


def jigsaw(scale: Scale, seeds: Sequence[int], data: Path | None) -> list[Planned]:
    """Anchored puzzles by the paper's protocol, the matched control, an entropy target, and our recipe, which needs no anchors."""
    budget, folder, planned = BUDGETS[scale], folder_of(data), []
    for seed in seeds:
        for side in budget.sizes:
            whole = partial(
                Jigsaw.paper, folder, side, seed=seed, epochs=budget.epochs, pixels=budget.pixels or PICTURE
            )
            rows = {name: whole(temperature=name) for name in TEMPERATURES}
            rows["adaptive, log n"] = whole(temperature="adaptive", log_n=True)
            rows["adaptive, as published"] = whole(temperature="adaptive", as_published=True)
            rows["supervised"] = whole(temperature="global", supervised=True)
            planned += [_planned("jigsaw", recipe, row, scale, cut_of(budget, side)) for row, recipe in rows.items()]
        for side in budget.sizes:
            recipe = Jigsaw.strong(folder, side, seed=seed, epochs=1 if scale == "smoke" else 20)
            planned.append(_planned("jigsaw", recipe, "strong recipe", scale, ""))
    alone = [one for one in mask_only(scale, seeds) if one.place.column in {f"{s} x {s}" for s in budget.sizes}]
    return planned + [replace(one, place=replace(one.place, table="jigsaw")) for one in alone]


def jigsaw_ablation(scale: Scale, seeds: Sequence[int], data: Path | None) -> list[Planned]:
    """Fixed, global and adaptive temperature, entropy led; the product of row and column; a band of 2k pixels (k = 2: not in the paper)."""
    budget, side, folder = BUDGETS[scale], ABLATION[scale], folder_of(data)
    planned = []
    for seed in seeds:
        pixels = budget.pixels or PICTURE
        whole = partial(Jigsaw.paper, folder, side, seed=seed, epochs=budget.epochs, pixels=pixels)
        fixed = whole(temperature="fixed")
        rows = {
            "fixed 2": replace(fixed, relax=GumbelSinkhorn(Constant(2.0), adapt_from=1)),
            "fixed 1": fixed,
            "global": whole(temperature="global"),
            "product": whole(temperature="adaptive", product=True),
            "smooth2k": whole(temperature="adaptive", band=2),
            "smooth2k, squared": replace(whole(temperature="adaptive"), seams=BlendedSeams(2)),
            "adaptive": whole(temperature="adaptive"),
            "entropy": whole(temperature="entropy"),
        }
        planned += [_planned("jigsaw-ablation", r, row, scale, cut_of(budget, side)) for row, r in rows.items()]
    return planned


def cut_of(budget: Budget, side: int) -> str:
    return budget.cut(Budget((side,), epochs=PAPER[side][1], pixels=PICTURE))


def _planned(table: str, recipe: Jigsaw, row: str, scale: Scale, cut: str) -> Planned:
    column = f"{recipe.side} x {recipe.side}"
    return Planned(Training(recipe), Place(table, "", row, column, recipe.seed, scale, cut))


def folder_of(data: Path | None) -> Path:
    if data is None:
        raise BadInput("The jigsaw tables need a folder of pictures: give it with --data.")
    return data
