"""The paper's jigsaw tables, on a folder of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import BadInput
from ..recipes.jigsaw import PAPER, Jigsaw
from .checks import mask_only
from .run import Planned, Scale, Training
from .store import Place


@dataclass(frozen=True)
class Budget:
    """None: as in the paper."""

    sides: tuple[int, ...] = (5, 6, 7)
    epochs: int | None = None
    pixels: int = 178
    strong_epochs: int = 20

    def cut(self, side: int) -> str:
        short = [] if self.epochs is None else [f"{self.epochs} of {PAPER[side][1]} epochs"]
        return ", ".join(short + [f"{self.pixels} of 178 pixels"] * (self.pixels < 178))


# cpu: about a minute of one core a run
BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget((5,), epochs=1, pixels=20, strong_epochs=1),
    "cpu": Budget(epochs=25, pixels=45),
    "paper": Budget(),
}
ABLATION: dict[Scale, int] = {"smoke": 5, "cpu": 7, "paper": 7}  # tiles a side


def jigsaw(scale: Scale, seeds: Sequence[int], data: Path | None) -> list[Planned]:
    """Anchored puzzles by the paper's protocol, the matched control, and our recipe, which needs no anchors."""
    budget, folder, planned = BUDGETS[scale], _folder(data), []
    for seed in seeds:
        for side in budget.sides:
            for row in ("global", "adaptive", "matched"):
                recipe = Jigsaw.paper(folder, side, row, seed, budget.epochs, pixels=budget.pixels)
                planned.append(_planned("jigsaw", recipe, row, scale, budget.cut(side)))
        for side in budget.sides:
            recipe = Jigsaw.strong(folder, side, seed=seed, epochs=budget.strong_epochs)
            planned.append(_planned("jigsaw", recipe, "strong recipe", scale, ""))
    alone = [one for one in mask_only(scale, seeds) if one.place.column in {f"{s} x {s}" for s in budget.sides}]
    return planned + [replace(one, place=replace(one.place, table="jigsaw")) for one in alone]


def jigsaw_ablation(scale: Scale, seeds: Sequence[int], data: Path | None) -> list[Planned]:
    """Fixed, global and adaptive temperature; the product of row and column; a band of 2k pixels (k = 2: not in the paper)."""
    budget, side, folder = BUDGETS[scale], ABLATION[scale], _folder(data)
    planned = []
    for seed in seeds:

        def recipe(temperature: str, seed: int = seed, **changed: int | bool) -> Jigsaw:
            return Jigsaw.paper(folder, side, temperature, seed, budget.epochs, pixels=budget.pixels, **changed)  # pyright: ignore

        fixed = recipe("fixed")
        twice = replace(fixed, temperature=replace(fixed.temperature, start=2.0, end=2.0))
        rows = {"fixed 2": twice, "fixed 1": fixed, "global": recipe("global")}
        rows |= {"product": recipe("adaptive", product=True), "smooth2k": recipe("adaptive", band=2)}
        rows |= {"adaptive": recipe("adaptive")}
        planned += [_planned("jigsaw-ablation", r, row, scale, budget.cut(side)) for row, r in rows.items()]
    return planned


def _planned(table: str, recipe: Jigsaw, row: str, scale: Scale, cut: str) -> Planned:
    column = f"{recipe.side} x {recipe.side}"
    return Planned(Training(recipe), Place(table, "", row, column, recipe.seed, scale, cut))


def _folder(data: Path | None) -> Path:
    if data is None:
        raise BadInput("The jigsaw tables need a folder of pictures: give it with --data.")
    return data
