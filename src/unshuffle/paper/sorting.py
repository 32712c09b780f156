"""The paper's sorting table: Kendall tau by method, value range and list length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..recipes.sorting import Sorting
from .keys import SortingByKeys, UntrainedKeys
from .run import Planned, Scale, Training
from .store import Place

RANGES = {"[0, 1]": (0.0, 1.0), "[10, 11]": (10.0, 11.0)}
EPOCHS = 150  # the paper's
# the authors' code stops after 5 evaluations, one every 5 epochs, without a better one
PATIENCE = 25


@dataclass(frozen=True)
class Block:
    """List lengths that are run alike: for so many epochs, with so many training lists and seeds (None: all asked for)."""

    sizes: tuple[int, ...]
    epochs: int = EPOCHS
    lists: int = 10_000
    patience: int | None = None
    strong: bool = False  # our recipe; else the paper's protocol, all methods
    seeds: int | None = None
    whole_schedule: bool = (
        False  # of the temperature, broken off; else it is pressed into fewer epochs, and sorts worse
    )
    others: int | None = None  # epochs of the rows beside the comparison of temperatures; None: as many

    def cut(self, epochs: int) -> str:
        if self.strong:
            return ""
        which = "the first " if self.whole_schedule else ""
        short = [f"{which}{epochs} of {EPOCHS} epochs"] * (epochs < EPOCHS)
        short += [f"{self.lists:,} of 10,000 training lists"] * (self.lists < 10_000)
        return ", ".join(short)


# the most telling first: a queue may be stopped at any time
BLOCKS: dict[Scale, tuple[Block, ...]] = {
    "smoke": (Block((10,), epochs=1, strong=True), Block((5,), epochs=2, lists=256)),
    "cpu": (
        Block((100, 300), epochs=12, strong=True),
        Block((5, 10), patience=PATIENCE),
        Block((50,), patience=PATIENCE, others=20),
        Block((1000,), epochs=12, strong=True, seeds=1),
        Block((100,), epochs=30, whole_schedule=True, others=8),
    ),
    "paper": (
        Block((5, 10, 50, 100, 200, 300)),
        Block((5, 10, 50, 100, 200, 300, 1000), epochs=20, strong=True),
    ),
}
UNTRAINED: dict[Scale, tuple[int, ...]] = {
    "smoke": (5,),
    "cpu": (5, 10, 50, 100, 200, 300),
    "paper": (5, 10, 50, 100, 200, 300),
}


def sorting(scale: Scale, seeds: Sequence[int] = (0, 1, 2)) -> list[Planned]:
    """All runs of the table, seed by seed within a block, so that methods can be compared early, on equal lists."""
    planned = []
    for block in BLOCKS[scale]:
        for seed in seeds[: block.seeds]:
            for n in block.sizes:
                for section, values in RANGES.items():
                    methods = _strong(n, values, seed, block) if block.strong else _paper(n, values, seed, block)
                    for row, run in methods:
                        cut = block.cut(run.recipe.epochs)
                        place = Place("sorting", section, row, str(n), seed, scale, cut)
                        planned.append(Planned(run, place))
    for n in UNTRAINED[scale]:
        for section, values in RANGES.items():
            for row, as_published in (("NeuralSort", False), ("NeuralSort, as published", True)):
                for seed in seeds:
                    run = UntrainedKeys(n, values, as_published, seed, lists=10 if scale == "smoke" else 100)
                    planned.append(Planned(run, Place("sorting", section, row, str(n), seed, scale)))
    return planned


def _strong(n: int, values: tuple[float, float], seed: int, block: Block) -> Iterator[tuple[str, Training]]:
    yield "strong recipe", Training(Sorting.strong(n, values, seed=seed, epochs=block.epochs))


def _paper(n: int, values: tuple[float, float], seed: int, block: Block) -> Iterator[tuple[str, Training]]:
    """Every method of the table on the same lists, and the control: a scalar lowered by the field's mean."""

    def recipe(epochs: int, temperature: str = "global", supervised: bool = False) -> Sorting:
        whole = Sorting.paper(n, values, temperature, seed, epochs, supervised)
        schedule = EPOCHS if block.whole_schedule else epochs
        return replace(whole, lists=block.lists, temperature=replace(whole.temperature, epochs=schedule))

    for name in ("global", "adaptive", "matched"):
        yield name, Training(recipe(block.epochs, name), block.patience)
    epochs = block.others or block.epochs
    yield "supervised", Training(recipe(epochs, supervised=True), block.patience)
    for name, as_published in (("trained NeuralSort", False), ("trained NeuralSort, as published", True)):
        yield name, Training(SortingByKeys(recipe(epochs), as_published), block.patience)
