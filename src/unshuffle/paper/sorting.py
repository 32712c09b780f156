"""The paper's sorting table: Kendall tau by method, value range and list length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..recipes.draws import DrawnOnce
from ..recipes.scorers import ByKey
from ..recipes.sorting import Sorting
from ..recipes.training import BestHeldOut, LastByTest
from ..relaxations.neuralsort import NeuralSort
from ..relaxations.softsort import SoftSort
from ..temperature.schedules import Anneal
from .budget import Budget
from .keys import PublishedKeys, UntrainedKeys, UntrainedSoftSort
from .run import Planned, Scale, Training
from .store import Place

RANGES = {"[0, 1]": (0.0, 1.0), "[10, 11]": (10.0, 11.0)}
SIZES = (5, 10, 50, 100, 200, 300)
WHOLE = Budget(SIZES, epochs=150, lists=10_000)
EPOCHS = 150
PATIENCE = 25  # as long as the authors' code waits
PAPERS = ("global", "adaptive", "matched")
TEMPERATURES = (*PAPERS, "entropy")
PUBLISHED = tuple(f"{name}, as published" for name in PAPERS)
OTHERS = ("supervised", "trained NeuralSort", "trained NeuralSort, as published", "trained SoftSort")
STRONG = ("strong recipe",)
Rows = tuple[str, ...]

# the most telling first: a queue may be stopped at any time
BUDGETS: dict[Scale, tuple[tuple[Rows, Budget], ...]] = {
    "smoke": (
        (STRONG, Budget((10,), epochs=1)),
        (TEMPERATURES + PUBLISHED + OTHERS, Budget((5,), epochs=2, lists=256)),
    ),
    "cpu": (
        (STRONG, Budget((100, 300), epochs=12)),
        (TEMPERATURES + OTHERS, Budget((5, 10), patience=PATIENCE)),
        (TEMPERATURES, Budget((50,), patience=PATIENCE)),
        (OTHERS, Budget((50,), epochs=20, patience=PATIENCE)),
        (STRONG, Budget((1000,), epochs=12, seeds=1)),
        (TEMPERATURES, Budget((100,), epochs=30, whole_schedule=True)),
        (OTHERS, Budget((100,), epochs=8, whole_schedule=True)),
        (PUBLISHED, Budget((5, 10, 50))),
        (PUBLISHED, Budget((100,), epochs=30, whole_schedule=True)),
    ),
    "sizes": (
        (TEMPERATURES, Budget((50, 100))),
        (PUBLISHED + OTHERS, Budget((50, 100))),
        ((*TEMPERATURES, "supervised"), Budget((200, 300), seeds=1)),
    ),
    "paper": ((TEMPERATURES + PUBLISHED + OTHERS, WHOLE), (STRONG, Budget((*SIZES, 1000)))),
}
KEYS = {"NeuralSort": UntrainedKeys, "NeuralSort, as published": PublishedKeys, "SoftSort": UntrainedSoftSort}
UNTRAINED: dict[Scale, Budget] = {
    "smoke": Budget((5,), lists=10),
    **dict.fromkeys(("cpu", "sizes", "paper"), Budget(SIZES)),
}


def sorting(scale: Scale, seeds: Sequence[int] = (0, 1, 2)) -> list[Planned]:
    """All runs of the table, seed by seed within a budget, so that methods can be compared early, on equal lists."""
    planned = []
    for rows, budget in BUDGETS[scale]:
        cut = "" if rows is STRONG else budget.cut(WHOLE)
        for seed in seeds[: budget.seeds]:
            for n in budget.sizes:
                for section, values in RANGES.items():
                    for row in rows:
                        published = row in PUBLISHED
                        stopping = LastByTest() if published else BestHeldOut(budget.patience)
                        run = Training(recipe(row, n, values, seed, budget), stopping)
                        planned.append(Planned(run, Place("sorting", section, row, str(n), seed, scale, cut)))
    return planned + list(_untrained(scale, seeds))


def recipe(row: str, n: int, values: tuple[float, float], seed: int, budget: Budget) -> Sorting:
    """What a row of the table trains; every method of the paper on the same lists."""
    if row in STRONG:
        return Sorting.strong(n, values, seed=seed, epochs=budget.epochs or 20)
    epochs = budget.epochs or EPOCHS
    annealed = EPOCHS if budget.whole_schedule else epochs
    named, published = row.removesuffix(", as published"), row in PUBLISHED
    named = named if named in TEMPERATURES else "global"
    found = Sorting.paper(n, values, named, seed, epochs, row == "supervised", published, annealed)
    if row.startswith("trained"):
        # a network gives one key per number and the relaxation sorts by key; nothing is random
        schedule = Anneal(0.66, 2.0, annealed)
        relax = NeuralSort(schedule, as_published=row.endswith("as published"))
        found = replace(found, scorer=ByKey(), relax=SoftSort(schedule) if "SoftSort" in row else relax, samples=1)
    return found if budget.lists is None else replace(found, training=DrawnOnce(budget.lists))


def _untrained(scale: Scale, seeds: Sequence[int]) -> Iterator[Planned]:
    budget = UNTRAINED[scale]
    for n in budget.sizes:
        for section, values in RANGES.items():
            for row, kind in KEYS.items():
                for seed in seeds:
                    run = kind(n, values, seed, lists=budget.lists or 100)
                    yield Planned(run, Place("sorting", section, row, str(n), seed, scale))
