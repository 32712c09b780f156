"""The paper's tables of tours, and its grid of the controller's two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..recipes.draws import DrawnOnce
from ..recipes.tour import Tour
from ..temperature.local import LocalTemperature
from ..temperature.signals import DegreeViolation, ExcessEntropy
from .budget import Budget
from .run import Means, Outcome, Planned, Scale, Training
from .store import Place

# mean length of optimal tours through uniform cities in the unit square: up to 100 as the literature has them, beyond that of
# the best known tours of 64 instances each (benchmarks/reference_tours.py)
MEAN_OPTIMUM = {20: 3.84, 50: 5.70, 100: 7.765, 200: 10.73, 500: 16.53, 1000: 23.12}
THRESHOLDS, BOOSTS = (0.55, 0.65, 0.75, 0.85), (0.05, 0.10, 0.20, 0.35)
WHOLE = Budget((100, 200, 500, 1000), epochs=300, batch=128, samples=8, instances=2000)

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
    """A training, and its gap to the mean optimal length (in the unit square) in percent."""

    optimum: float = field(kw_only=True)

    def compute(self, means: Means) -> Outcome:
        outcome = super().compute(means)
        metrics, optimum = outcome.metrics, self.recipe.scale * self.optimum  # pyright: ignore[reportAttributeAccessIssue]
        for name, length in (("gap", "length"), ("nearest_neighbour_gap", "nearest_neighbour")):
            metrics[name] = 100 * (metrics[length] / optimum - 1)
        return outcome


def tsp(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """UTSP, GS UTSP and with degree violation; the control is a scalar lowered by that field's mean."""
    rows = ("UTSP", "GS UTSP", "GS UTSP + DV-TA", "matched", "entropy")
    return [one for n in BUDGETS[scale].sizes for seed in seeds for one in _methods("tsp", rows, n, seed, scale)]


def tsp_ablation(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    rows, sizes = (
        ("GS UTSP", "GS UTSP + TA", "GS UTSP + DV-TA", "entropy"),
        [n for n in BUDGETS[scale].sizes if n < 1000],
    )
    return [one for n in sizes for seed in seeds for one in _methods("tsp-ablation", rows, n, seed, scale)]


def _methods(table: str, rows: Sequence[str], n: int, seed: int, scale: Scale) -> list[Planned]:
    budget, degree = BUDGETS[scale], LocalTemperature(DegreeViolation(), 0.1)
    whole = partial(Tour.paper, n, seed=seed, epochs=budget.epochs, batch=budget.batch, samples=budget.samples or 8)
    recipes = {
        "UTSP": whole(temperature="fixed", utsp=True),
        "GS UTSP": whole(temperature="fixed"),
        "GS UTSP + TA": whole(temperature="global"),
        "GS UTSP + DV-TA": whole(temperature="degree"),
        "matched": whole(temperature="matched", field=degree),
        "entropy": whole(temperature="entropy"),
    }
    cut = budget.cut(WHOLE)
    return [_planned(recipes[row], budget, Place(table, "", row, str(n), seed, scale, cut)) for row in rows]


def _planned(recipe: Tour, budget: Budget, place: Place) -> Planned:
    recipe = replace(recipe, training=DrawnOnce(budget.instances or 2000))
    return Planned(TourTraining(recipe, optimum=MEAN_OPTIMUM[recipe.n]), place)


def sensitivity(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """Tour length over threshold (rows) and boost (columns) of the entropy controller.

    Short runs adapt from the start: at n = 20 held-out tours were best after 2 of 20 epochs, before adaptation would begin, and
    then every cell of the grid would hold the same network.
    """
    budget, planned = GRID[scale], []
    thresholds, boosts = (THRESHOLDS[:2], BOOSTS[:2]) if scale == "smoke" else (THRESHOLDS, BOOSTS)
    (n,), whole = budget.sizes, scale == "paper"
    cut = "" if whole else f"n = {n} instead of 500, {budget.cut(WHOLE)}, adaptation from the start"
    for seed in seeds:
        for threshold in thresholds:
            for boost in boosts:
                recipe = Tour.paper(
                    n,
                    "adaptive",
                    seed,
                    budget.epochs,
                    batch=budget.batch,
                    samples=budget.samples or 8,
                    field=LocalTemperature(ExcessEntropy(threshold), boost),
                    adapt_from=None if whole else 0,
                )
                place = Place("sensitivity", "", f"{threshold:.2f}", f"{boost:.2f}", seed, scale, cut)
                planned.append(_planned(recipe, budget, place))
    return planned
