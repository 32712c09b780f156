"""What the report draws beside the tables, as results: curves and orders; drawing needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files

import torch

from ..learn.batches import mixed
from ..operators.permutation import kendall_tau
from ..readers.pictures import read_picture
from ..recipes.tour import nearest_neighbour
from ..solve import solve
from ..structure.energies import pair_distances
from ..structure.layouts import Cycle, Grid
from ..tasks.jigsaw import as_float, cut, reassemble
from .mechanism import Mechanism
from .overview import Overview
from .run import Itself, Means, Outcome, Planned, Scale
from .store import Place

PHOTO = "nagasaki-boats.jpg"  # one of those that are shipped


@dataclass(frozen=True)
class MechanismCurves(Itself):
    """The diagonal of the easy and of the hard block against beta, global and adaptive, and the soft permutations at some."""

    task = "mechanism"

    seed: int = 0
    points: int = 79
    case: Mechanism = Mechanism()

    def compute(self, means: Means) -> Outcome:
        case = self.case
        betas = torch.linspace(0.2, 8, self.points).tolist()
        curves = {"beta": betas}
        for name, adaptive in (("global", False), ("adaptive", True)):
            curves[f"easy {name}"], curves[f"hard {name}"] = case.diagonals(betas, adaptive)
        easy, hard = case.thresholds()
        metrics = {"easy_from": easy, "hard_up_to": hard, "easy_demand": 1 - case.eps, "hard_demand": 1 - case.eta}
        metrics |= {"easy_items": case.easy_size, "hard_items": case.hard_size}
        curves["shown"] = list(case.betas)
        for name, adaptive in (("global", False), ("adaptive", True)):
            for noise, sample in ((0.0, ""), (1.0, ", one sample")):
                curves[f"soft {name}{sample}"] = case.soft(case.betas, adaptive, noise).flatten().tolist()
        return Outcome(metrics, {name: [round(v, 4) for v in values] for name, values in curves.items()})


@dataclass(frozen=True)
class ExampleTour(Itself):
    """Random cities, a tour by `solve`, and nearest neighbour's."""

    task = "example-tour"

    n: int
    seed: int

    def compute(self, means: Means) -> Outcome:
        cities = torch.rand(self.n, 2, generator=torch.Generator().manual_seed(mixed(self.seed, 3)))
        D = pair_distances(cities)
        orders = {"given": torch.arange(self.n), "nearest": nearest_neighbour(cities[None])[0]}
        orders["solved"] = solve(Cycle(self.n), cost=D, seed=self.seed).order
        history = {"x": cities[:, 0].tolist(), "y": cities[:, 1].tolist()}
        lengths = {name: D[order, order.roll(-1)].sum().item() for name, order in orders.items()}
        found = {name: [float(c) for c in order] for name, order in orders.items()}
        return Outcome(lengths, {name: [round(v, 4) for v in values] for name, values in (history | found).items()})


@dataclass(frozen=True)
class ExampleJigsaw(Itself):
    """A shipped photo in shuffled tiles, put back by `reassemble`: orders only, the photo is in the package."""

    task = "example-jigsaw"

    side: int
    seed: int
    photo: str = PHOTO

    def compute(self, means: Means) -> Outcome:
        grid = Grid(self.side, self.side)
        with as_file(files("unshuffle") / "data" / self.photo) as photo:
            tiles, _ = cut(read_picture(photo), grid)
        shuffle = torch.randperm(grid.n, generator=torch.Generator().manual_seed(mixed(self.seed, 3)))
        order = reassemble(as_float(tiles[shuffle.numpy()]), grid, seed=self.seed).order
        placed = shuffle[order]  # the true place of the tile at each place
        metrics = {"tau": kendall_tau(placed, torch.arange(grid.n)).item()}
        metrics["direct"] = (placed == torch.arange(grid.n)).float().mean().item()
        return Outcome(metrics, {"shuffled": shuffle.double().tolist(), "solved": placed.double().tolist()})


def figures(scale: Scale, seeds: Sequence[int]) -> list[Planned]:
    n, side = (12, 3) if scale == "smoke" else (100, 7)
    overview = Overview(steps=20, shown=4) if scale == "smoke" else Overview()
    curves = MechanismCurves(points=5 if scale == "smoke" else 79)
    runs = (overview, curves, ExampleTour(n, 0), ExampleJigsaw(side, 0))
    return [Planned(run, Place("figures", "", run.task, "", 0, scale)) for run in runs]
