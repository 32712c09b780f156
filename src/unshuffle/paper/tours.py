"""The paper's tables of tours, and its grid of the controller's two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ..metrics import tour_kendall_tau
from ..recipes.draws import DrawnOnce
from ..recipes.tour import Tour, nearest_neighbour
from ..recipes.training import untrained
from ..solve import solve
from ..structure.energies import pair_distances
from ..structure.layouts import Cycle
from ..temperature.local import LocalTemperature
from ..temperature.signals import DegreeViolation, ExcessEntropy
from .budget import Budget
from .run import Planned, Scale, Training
from .store import Place

# mean length of optimal tours through uniform cities in the unit square: up to 100 as the literature has them, beyond that of
# the best known tours of 64 instances each (benchmarks/reference_tours.py)
MEAN_OPTIMUM = {20: 3.84, 50: 5.70, 100: 7.765, 200: 10.73, 500: 16.53, 1000: 23.12}
THRESHOLDS, BOOSTS = (0.55, 0.65, 0.75, 0.85), (0.05, 0.10, 0.20, 0.35)
WITH_REFERENCE = 16  # of the test instances: to solve one takes longer than to order it
WHOLE = Budget((100, 200, 500, 1000), epochs=300, batch=128, samples=8, instances=2000)

BUDGETS: dict[Scale, tuple[Budget, ...]] = {
    "smoke": (Budget((20,), epochs=1, batch=16, samples=1, instances=32),),
    # as many steps as the paper's 300 epochs of 2,000 instances
    "cpu": (Budget((100,), epochs=36, batch=4, samples=2, instances=500),),
    "sizes": (
        Budget((100,), epochs=100, whole_schedule=True, seeds=2),
        Budget((200,), epochs=25, whole_schedule=True, seeds=1),
    ),
    "paper": (Budget((100, 200, 500, 1000)),),
}
GRID: dict[Scale, Budget] = {
    "smoke": Budget((20,), epochs=1, batch=16, samples=1, instances=32),
    "cpu": Budget((100,), epochs=6, batch=32, samples=2, instances=1000, seeds=1),
    "sizes": Budget((100,), epochs=30, instances=1000, whole_schedule=True, seeds=1),
    "paper": Budget((500,)),
}


@dataclass(frozen=True)
class TourTraining(Training):
    """A training, its gap to the mean optimal length (in the unit square) in percent, and what else the paper speaks of.

    Kendall tau is to tours of `solve`, about 2 % above the best; a run has failed if it is not shorter than untrained.
    """

    optimum: float = field(kw_only=True)

    def measured(self, network: nn.Module) -> dict[str, float]:
        recipe: Tour = self.recipe  # pyright: ignore[reportAssignmentType]
        metrics, before = recipe.test(network), recipe.test(untrained(recipe))["length"]
        for name, length in (("gap", "length"), ("nearest_neighbour_gap", "nearest_neighbour")):
            metrics[name] = 100 * (metrics[length] / (recipe.scale * self.optimum) - 1)
        metrics |= {"untrained_length": before, "failed": float(not metrics["length"] < before)}
        cities = recipe.test_set()[:WITH_REFERENCE]
        for name, order in (
            ("tau", recipe.order(network, cities)),
            ("nearest_neighbour_tau", nearest_neighbour(cities)),
        ):
            metrics[name] = tour_kendall_tau(order, reference_tours(recipe)).mean().item()
        return metrics


@lru_cache(maxsize=4)  # methods with one seed share their instances
def _solved(n: int, seed: int, instances: int) -> Tensor:
    cities = replace(Tour.paper(n, seed=seed), test_instances=instances).test_set()[:WITH_REFERENCE]
    return torch.stack([solve(Cycle(n), cost=D, seed=seed).order for D in pair_distances(cities.double())])


def reference_tours(recipe: Tour) -> Int[Tensor, "instances n"]:
    """Tours of the first test instances by `solve`."""
    return _solved(recipe.n, recipe.seed, recipe.test_instances)


def tsp(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """UTSP, GS UTSP and with degree violation; the control is a scalar lowered by that field's mean."""
    return _table("tsp", ("UTSP", "GS UTSP", "GS UTSP + DV-TA", "matched", "entropy"), scale, seeds)


def tsp_ablation(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    rows = ("GS UTSP", "GS UTSP + TA", "GS UTSP + DV-TA", "entropy")
    return [one for one in _table("tsp-ablation", rows, scale, seeds) if one.place.column != "1000"]


def _table(table: str, rows: Sequence[str], scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    return [
        one
        for budget in BUDGETS[scale]
        for n in budget.sizes
        for seed in seeds[: budget.seeds]
        for one in _methods(budget, rows, Place(table, "", "", str(n), seed, scale, budget.cut(WHOLE)))
    ]


def _methods(budget: Budget, rows: Sequence[str], place: Place) -> list[Planned]:
    degree = LocalTemperature(DegreeViolation(), 0.1)
    whole = partial(_paper, int(place.column), budget, place.seed)
    recipes = {
        "UTSP": whole(temperature="fixed", utsp=True),
        "GS UTSP": whole(temperature="fixed"),
        "GS UTSP + TA": whole(temperature="global"),
        "GS UTSP + DV-TA": whole(temperature="degree"),
        "matched": whole(temperature="matched", field=degree),
        "entropy": whole(temperature="entropy"),
    }
    return [_planned(recipes[row], budget, replace(place, row=row)) for row in rows]


def _paper(n: int, budget: Budget, seed: int, **settings: Any) -> Tour:
    """The protocol with this budget; of a schedule that is kept whole only the first epochs are run."""
    epochs = None if budget.whole_schedule else budget.epochs
    recipe = Tour.paper(n, seed=seed, epochs=epochs, batch=budget.batch, samples=budget.samples or 8, **settings)
    return replace(recipe, epochs=budget.epochs or recipe.epochs)


def _planned(recipe: Tour, budget: Budget, place: Place) -> Planned:
    recipe = replace(recipe, training=DrawnOnce(budget.instances or 2000))
    return Planned(TourTraining(recipe, optimum=MEAN_OPTIMUM[recipe.n]), place)


def sensitivity(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    """Tour length over threshold (rows) and boost (columns) of the entropy controller.

    Short runs adapt from the start: held-out tours are best before adaptation would begin, and then every cell of the grid
    would hold the same network.
    """
    budget, planned = GRID[scale], []
    thresholds, boosts = (THRESHOLDS[:2], BOOSTS[:2]) if scale == "smoke" else (THRESHOLDS, BOOSTS)
    (n,), whole = budget.sizes, scale == "paper"
    cut = "" if whole else f"n = {n} instead of 500, {budget.cut(WHOLE)}, adaptation from the start"
    for seed in seeds[: budget.seeds]:
        for threshold in thresholds:
            for boost in boosts:
                field = LocalTemperature(ExcessEntropy(threshold), boost)
                adapt_from = None if whole else 0
                recipe = _paper(n, budget, seed, temperature="adaptive", field=field, adapt_from=adapt_from)
                place = Place("sensitivity", "", f"{threshold:.2f}", f"{boost:.2f}", seed, scale, cut)
                planned.append(_planned(recipe, budget, place))
    return planned
