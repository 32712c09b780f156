"""The paper's tables of tours, and its grid of the controller's two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..recipes.tour import Tour
from .run import Means, Outcome, Planned, Scale, Training
from .store import Place

# mean length of optimal tours through uniform cities in the unit square: up to 100 as the literature has them, beyond that of
# the best known tours of 64 instances each (benchmarks/reference_tours.py)
MEAN_OPTIMUM = {20: 3.84, 50: 5.70, 100: 7.765, 200: 10.73, 500: 16.53, 1000: 23.12}
METHODS = {"UTSP": "fixed", "GS UTSP": "fixed", "GS UTSP + TA": "global", "GS UTSP + DV-TA": "degree"}
THRESHOLDS, BOOSTS = (0.55, 0.65, 0.75, 0.85), (0.05, 0.10, 0.20, 0.35)


@dataclass(frozen=True)
class Budget:
    """None: as in the paper."""

    sizes: tuple[int, ...]
    epochs: int | None = None
    batch: int | None = None
    samples: int = 8
    instances: int = 2000

    @property
    def cut(self) -> str:
        short = [] if self.epochs is None else [f"{self.epochs} of 300 epochs"]
        short += [] if self.batch is None else [f"batches of {self.batch} instead of 128"]
        short += [f"{self.samples} of 8 samples"] * (self.samples < 8)
        return ", ".join(short + [f"{self.instances:,} of 2,000 instances"] * (self.instances < 2000))

    def recipe(self, n: int, row: str, seed: int) -> Tour:
        utsp = row == "UTSP"
        recipe = Tour.paper(n, METHODS[row], seed, self.epochs, utsp, batch=self.batch, samples=self.samples)
        return replace(recipe, instances=self.instances)


BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget((20,), epochs=1, batch=16, samples=1, instances=32),
    # as many steps as the paper's 300 epochs of 2,000 instances
    "cpu": Budget((100,), epochs=36, batch=4, samples=2, instances=500),
    "paper": Budget((100, 200, 500, 1000)),
}
GRID: dict[Scale, Budget] = {
    "smoke": Budget((20,), epochs=1, batch=16, samples=1, instances=32),
    "cpu": Budget((20,), epochs=6, batch=32, samples=2, instances=1000),
    "paper": Budget((500,)),
}


@dataclass(frozen=True)
class TourTraining(Training):
    """A training, and its gap to the mean optimal length in percent."""

    def compute(self, means: Means) -> Outcome:
        outcome = super().compute(means)
        n, scale = self.recipe.n, self.recipe.scale  # pyright: ignore[reportAttributeAccessIssue]
        metrics = outcome.metrics
        for name, length in (("gap", "length"), ("nearest_neighbour_gap", "nearest_neighbour")):
            metrics[name] = 100 * (metrics[length] / (scale * MEAN_OPTIMUM[n]) - 1)
        return outcome


def tsp(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """UTSP, GS UTSP and with degree violation; the control is a scalar lowered by that field's mean."""
    return _methods("tsp", ("UTSP", "GS UTSP", "GS UTSP + DV-TA"), scale, seeds, matched=True)


def tsp_ablation(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    return _methods("tsp-ablation", ("GS UTSP", "GS UTSP + TA", "GS UTSP + DV-TA"), scale, seeds, matched=False)


def _methods(table: str, rows: Sequence[str], scale: Scale, seeds: Sequence[int], matched: bool) -> list[Planned]:
    budget, planned = BUDGETS[scale], []
    for n in budget.sizes:
        if table == "tsp-ablation" and n == 1000:
            continue  # not in the paper's ablation
        for seed in seeds:
            recipes = {row: budget.recipe(n, row, seed) for row in rows}
            if matched:
                degree = recipes["GS UTSP + DV-TA"]
                recipes["matched"] = replace(degree, temperature=replace(degree.temperature, matched=True))
            for row, recipe in recipes.items():
                place = Place(table, "", row, str(n), seed, scale, budget.cut)
                planned.append(Planned(TourTraining(recipe), place))
    return planned


def sensitivity(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """Tour length over threshold (rows) and boost (columns) of the entropy controller.

    Short runs adapt from the start: at n = 20 held-out tours were best after 2 of 20 epochs, before adaptation would begin, and
    then every cell of the grid would hold the same network.
    """
    budget, planned = GRID[scale], []
    thresholds, boosts = (THRESHOLDS[:2], BOOSTS[:2]) if scale == "smoke" else (THRESHOLDS, BOOSTS)
    for n in budget.sizes:
        cut = budget.cut if scale == "paper" else f"n = {n} instead of 500, {budget.cut}, adaptation from the start"
        for seed in seeds:
            for threshold in thresholds:
                for boost in boosts:
                    recipe = Tour.paper(n, "adaptive", seed, budget.epochs, batch=budget.batch, samples=budget.samples)
                    warm = replace(recipe.temperature, threshold=threshold, boost=boost)
                    if scale != "paper":
                        warm = replace(warm, adapt_from=0)
                    recipe = replace(recipe, temperature=warm, instances=budget.instances)
                    place = Place("sensitivity", "", f"{threshold:.2f}", f"{boost:.2f}", seed, scale, cut)
                    planned.append(Planned(TourTraining(recipe), place))
    return planned
