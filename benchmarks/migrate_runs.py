"""Bring result files and checkpoints from before recipes held strategies to the present form, so that nothing is computed again.

    python benchmarks/migrate_runs.py results/runs
    python benchmarks/migrate_runs.py trained/best.pt trained/last.pt results/learn_jigsaw.json results/learn_tours.json

    python benchmarks/migrate_runs.py results

A folder of results: settings are written anew, and files renamed by them; checkpoints and the result files of benchmarks: in
place; the folder above: rows that the report read from the files of benchmarks become results. Whatever is in the present form already is left alone.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from unshuffle.files import write_atomic
from unshuffle.learn.checkpoint import load, save
from unshuffle.learn.descent import Cosine, Descent, Steady
from unshuffle.learn.objective import OnPermutation
from unshuffle.paper.checks import MaskOnly, Overhead
from unshuffle.paper.figures import ExampleJigsaw, ExampleTour, MechanismCurves
from unshuffle.paper.keys import UntrainedKeys
from unshuffle.paper.measured import Measured, note
from unshuffle.paper.run import Outcome, Planned, Training, keep, result_of
from unshuffle.paper.store import Place, Result, Store, key_of
from unshuffle.paper.tours import MEAN_OPTIMUM, TourTraining
from unshuffle.recipes.draws import DrawnAnew, DrawnOnce
from unshuffle.recipes.jigsaw import BlendedSeams, Jigsaw, PairedSeams
from unshuffle.recipes.scorers import ByAnnealing, ByItem, ByKey, ByScattering, BySeams, ByTile
from unshuffle.recipes.settings import IS, plain
from unshuffle.recipes.sorting import Sorting, distance_to_sorted
from unshuffle.recipes.tour import UTSP_RATES, SoftLength, Tour
from unshuffle.recipes.trained import recipe_from
from unshuffle.recipes.training import BestHeldOut, about
from unshuffle.relaxations.gumbel_sinkhorn import ColumnSoftmax, GumbelSinkhorn
from unshuffle.relaxations.neuralsort import NeuralSort
from unshuffle.relaxations.ot4p import OT4P
from unshuffle.structure.losses import monotone, monotone_at_all_scales
from unshuffle.temperature.local import Controller, LocalTemperature, MatchedScalar, MeanBeta, MeanTau, Product
from unshuffle.temperature.schedules import Anneal, Constant, Exponential, LinearInBeta, LinearInTau
from unshuffle.temperature.signals import DegreeViolation, ExcessEntropy

Old = dict[str, Any]


def schedule(t: Old) -> Anneal | Constant:
    if t["start"] == t["end"]:
        return Constant(t["start"])
    shape = LinearInTau() if t["linear_in_tau"] else Exponential() if t["exponential"] else LinearInBeta()
    return Anneal(t["start"], t["end"], t["epochs"], shape)


def controller(t: Old) -> Controller | None:
    if not t["boost"]:
        return None
    combine = Product() if t["product"] else MeanTau() if t["mean_of_tau"] else MeanBeta()
    signal = DegreeViolation() if t["degree"] else ExcessEntropy(t["threshold"])
    field = LocalTemperature(signal, t["boost"], combine)
    return MatchedScalar(field) if t["matched"] else field


def sorting(old: Old) -> Sorting:
    t = old["temperature"]
    way = Cosine(warm=0.05) if old["cosine"] else Steady()
    loss = monotone_at_all_scales if old["all_scales"] else monotone
    return Sorting(
        n=old["n"],
        values=tuple(old["values"]),
        scorer=ByItem(old["standardise"]),
        relax=GumbelSinkhorn(schedule(t), controller(t), iterations=10, noise=1.0, adapt_from=t["adapt_from"]),
        loss=OnPermutation(distance_to_sorted) if old["supervised"] else loss,
        descent=Descent(old["rate"], old["clip"], way),
        training=DrawnAnew(old["steps"]) if old["lists"] is None else DrawnOnce(old["lists"]),
        epochs=old["epochs"],
        batch=old["batch"],
        samples=old["samples"],
        held_out_lists=old["held_out_lists"],
        test_lists=old["test_lists"],
        seed=old["seed"],
    )


def by_keys(old: Old) -> Sorting:
    recipe, t = sorting(old["sorting"]), old["sorting"]["temperature"]
    relax = NeuralSort(Anneal(t["start"], t["end"], t["epochs"]), old["as_published"])
    return replace(recipe, scorer=ByKey(old["sorting"]["standardise"]), relax=relax, samples=1)


def by_rotation(old: Old) -> Sorting:
    recipe = sorting(old["sorting"])
    return replace(recipe, relax=OT4P(Anneal(1.0, 5.0, recipe.epochs), seed=recipe.seed), samples=1)


def jigsaw(old: Old) -> Jigsaw:
    t = old["temperature"]
    relax = GumbelSinkhorn(schedule(t), controller(t), iterations=10, noise=old["noise"], adapt_from=t["adapt_from"])
    return Jigsaw(
        side=old["side"],
        data=old["data"],
        most=old["most"],
        pixels=old["pixels"],
        anchors=old["anchors"],
        scorer=ByTile() if old["scorer"] is None else BySeams(*old["scorer"]),
        relax=relax,
        seams=PairedSeams() if old["band"] is None else BlendedSeams(old["band"]),
        descent=Descent(old["rate"], old["clip"], Cosine() if old["cosine"] else Steady()),
        epochs=old["epochs"],
        batch=old["batch"],
        samples=old["samples"],
        seed=old["seed"],
    )


def tour(old: Old) -> Tour:
    t = old["temperature"]
    sinkhorn = GumbelSinkhorn(schedule(t), controller(t), old["iterations"], old["noise"], t["adapt_from"])
    unrolled = old["unrolled"]
    return Tour(
        n=old["n"],
        scorer=ByScattering(old["hidden"], old["scale"]) if unrolled is None else ByAnnealing(tuple(unrolled)),
        relax=ColumnSoftmax() if old["columns_only"] else sinkhorn,
        loss=OnPermutation(SoftLength(old["scale"], old["row_weight"], old["loop_weight"])),
        descent=Descent(old["rate"], 1.0, UTSP_RATES if old["stairs"] else Cosine(warm=0.05)),
        training=DrawnAnew(old["steps"]) if old["instances"] is None else DrawnOnce(old["instances"]),
        epochs=old["epochs"],
        batch=old["batch"],
        samples=old["samples"],
        held_out_instances=old["held_out_instances"],
        test_instances=old["test_instances"],
        scale=old["scale"],
        seed=old["seed"],
    )


RECIPES = {
    "sorting": sorting,
    "sorting-by-keys": by_keys,
    "sorting-by-rotation": by_rotation,
    "jigsaw": jigsaw,
    "tour": tour,
}
TASKS = {"sorting-by-keys": "sorting", "sorting-by-rotation": "sorting"}
OTHERS = {
    "neuralsort": UntrainedKeys,
    "mask-only": MaskOnly,
    "overhead": Overhead,
    "mechanism": MechanismCurves,
    "example-tour": ExampleTour,
    "example-jigsaw": ExampleJigsaw,
}


def run_of(task: str, old: Old) -> Any:
    """The run that has these settings, as it is now."""
    if task in OTHERS:
        given = {name: v for name, v in old.items() if name not in (IS, "as_published")}
        return OTHERS[task](**{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})
    recipe, stopping = RECIPES[task](old["recipe"]), BestHeldOut(old["patience"])
    if task == "tour":
        return TourTraining(recipe, stopping, optimum=MEAN_OPTIMUM[recipe.n])
    return Training(recipe, stopping)


def migrate_result(result: Result, store: Store) -> bool:
    if result.settings.get("as_published") and result.task == "neuralsort":
        # decoded by assignment at a temperature of our choice: not what the authors' code does (`PublishedKeys` is)
        store.path(result.task, result.key).unlink()
        return True
    squared = [p for p in result.places if p.row == "smooth2k" and result.settings["recipe"]["seams"]["power"] == 2]
    if IS in result.settings and "as_published" not in result.settings and not squared:
        return False
    settings = result.settings if squared else plain(run_of(result.task, result.settings).settings())
    task = TASKS.get(result.task, result.task)
    places = tuple(replace(p, row="smooth2k, squared") if p in squared else p for p in result.places)
    new = replace(result, task=task, key=key_of(task, settings), settings=settings, places=places)
    if squared:
        store.write(new)
        return True
    if store.read(new.task, new.key) is not None:
        raise SystemExit(f"{result.task}-{result.key} and another run would both be {new.task}-{new.key}.")
    store.write(new)
    store.path(result.task, result.key).unlink()
    return True


def migrate_checkpoint(path: Path) -> bool:
    state, said = load(path)
    if IS in said["recipe"]:
        return False
    recipe = RECIPES[said["task"]](said["recipe"])
    said |= about(recipe) | {"relax": repr(recipe.relax), "descent": repr(recipe.descent)}
    save(state, path, said)
    return True


def migrate_benchmark(path: Path) -> list[bool]:
    """The recipes that a benchmark noted under "settings"."""
    contents = json.loads(path.read_text())
    done = [_rewrite(entry) for entry in _dicts(contents) if isinstance(entry.get("settings"), dict)]
    write_atomic(path, json.dumps(contents, indent=1) + "\n")
    return done


def _rewrite(entry: dict[str, Any]) -> bool:
    old = entry["settings"]
    if IS in old:
        return False
    task = "jigsaw" if "side" in old else "tour" if "unrolled" in old else "sorting"
    entry["settings"] = plain(RECIPES[task](old))
    return True


def _dicts(contents: Any) -> list[dict[str, Any]]:
    if not isinstance(contents, dict):
        return []
    return [contents, *(found for value in contents.values() for found in _dicts(value))]


def migrate_rows(results: Path) -> list[bool]:
    """Rows of the tables that the report read from the result files of benchmarks, as results in the store."""

    def read(name: str) -> dict[str, Any]:
        path = results / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def row(by: str, problem: str, place: Place, metrics: dict[str, float]) -> None:
        note(results / "runs", Measured(f"benchmarks/{by}.py", problem, place.seed), place, metrics)
        done.append(True)

    done: list[bool] = []
    for line in read("solve_jigsaw").get("table", ()):
        for side in (5, 6, 7):
            if line["problem"] == f"faces {side}x{side}":
                place = Place("jigsaw", "", "solve", f"{side} x {side}", 0, "cpu")
                row("solve_jigsaw", line["problem"], place, {"tau": line["tau"], "direct": line["direct"]})
    for n in (100, 200, 500, 1000):
        if line := read("solve_tours").get(f"uniform {n}"):
            row("solve_tours", f"uniform {n}", Place("tsp", "", "solve", str(n), 0, "cpu"), {"gap": line["ours"]})
        if line := read("reference_tours").get(str(n)):
            place = Place("tsp", "", "nearest neighbour", str(n), 0, "cpu")
            row("reference_tours", f"uniform {n}", place, {"gap": line["nearest_neighbour"]})
    for n in (50, 100):
        judged = read("learn_tours").get("strong", {}).get(f"n = {n}", {}).get("trained", {})
        for seed, run in judged.get("seeds", {}).items():
            place = Place("tsp", "", "strong recipe", str(n), int(seed), "cpu")
            row("learn_tours", f"trained at n = 50, judged at n = {n}", place, {"gap": run["gap"]})
    for name, run in read("learn_jigsaw").items():
        if name.startswith("strong"):
            recipe = recipe_from(run["settings"])
            place = Place("jigsaw", "", "strong recipe", f"{recipe.side} x {recipe.side}", recipe.seed, "cpu")
            outcome = Outcome(run["test"] | {"best_epoch": run["best epoch"], "epochs": recipe.epochs})
            keep(
                result_of(Planned(Training(recipe), place), run["seconds"], outcome, None, None),
                Store(results / "runs"),
            )
            done.append(True)
    return done


def migrated(path: Path) -> list[bool]:
    if (path / "runs").is_dir():
        return migrate_rows(path)
    if path.is_dir():
        return [migrate_result(result, Store(path)) for result in list(Store(path))]
    return migrate_benchmark(path) if path.suffix == ".json" else [migrate_checkpoint(path)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", help="folders of results, checkpoints, results of benchmarks")
    for path in parser.parse_args().paths:
        done = migrated(path)
        print(f"{path}: {sum(done)} of {len(done)} brought to the present form")


if __name__ == "__main__":
    main()
