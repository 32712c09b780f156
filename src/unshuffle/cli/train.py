"""``unshuffle train``: teach a network to order, from structure alone."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput
from ..files import write_atomic
from .common import errors, harmless, progress, say
from .options import Usual

if TYPE_CHECKING:
    from ..learn.loop import Moment
    from ..recipes.training import Recipe


class TaskName(str, Enum):
    sorting = "sorting"
    jigsaw = "jigsaw"
    tour = "tour"


class RecipeName(str, Enum):
    paper = "paper"
    strong = "strong"


class TemperatureName(str, Enum):
    fixed = "fixed"
    overall = "global"
    adaptive = "adaptive"
    matched = "matched"
    entropy = "entropy"
    degree = "degree"


def train(
    task: Annotated[TaskName, typer.Argument(help="What to learn to order.")],
    recipe: Annotated[
        RecipeName, typer.Option("--recipe", help="The paper's protocol, or what we recommend.")
    ] = RecipeName.strong,
    temperature: Annotated[
        TemperatureName | None,
        typer.Option(
            "--temperature",
            help="adaptive: per row and column; matched: its scalar control; entropy: sharpness led, noise apart; degree: tours.",
        ),
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", "-n", min=2, help="Numbers or cities in a list; tiles a side of a jigsaw.")
    ] = None,
    values: Annotated[
        tuple[float, float] | None, typer.Option("--values", help="Sorting: lowest and highest number.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Jigsaw: folder of pictures to learn from.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Instead of the recipe's.")] = None,
    supervised: Annotated[
        bool, typer.Option("--supervised", help="Sorting, paper: the row that sees the sorted lists.")
    ] = False,
    utsp: Annotated[bool, typer.Option("--utsp", help="Tour, paper: UTSP itself, without Sinkhorn.")] = False,
    band: Annotated[
        int | None, typer.Option("--band", min=1, help="Jigsaw, paper: smooth1 (1) or smooth2k (k).")
    ] = None,
    product: Annotated[
        bool, typer.Option("--product", help="Jigsaw, paper: combine rows and columns by prod, not avg.")
    ] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Paper: as the authors' code has it, where that differs.")
    ] = False,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 ...; cuda if there is one.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log for TensorBoard, in the folder.")
    ] = False,
    usual: Usual = Usual(Path("trained/INPUT")),
) -> None:
    """Teach a network to order lists of numbers, jigsaws or cities, without showing it a single right order.

    Writes best.pt (for `unshuffle apply`), last.pt, log.jsonl and run.json. The same command goes on where a stopped or
    killed one was, and ends with the same weights. Under torchrun (write -n there, not --n) every process takes its share of each batch.

    Examples: unshuffle train sorting --n 100 --values 10 11 --out runs/sort100;
    unshuffle train jigsaw --recipe paper --n 5 --data faces --temperature adaptive;
    unshuffle train tour --n 50 --time-limit 600
    """
    from ..learn.watching import tensorboard as tensorboard_log
    from ..recipes.settings import plain
    from ..recipes.training import train as carry_out

    if os.environ.get("RANK", "0") != "0":  # under torchrun the first process speaks and writes for all
        usual = replace(usual, json_=False, quiet=True)
    given = {
        "n": n,
        "temperature": None if temperature is None else temperature.value,
        "values": values,
        "data": None if data is None else str(data),
        "epochs": epochs,
        "supervised": supervised or None,
        "utsp": utsp or None,
        "band": band,
        "product": product or None,
        "as_published": as_published or None,
    }
    chosen = chosen_recipe(task.value, recipe.value, usual.seed, given)
    if not usual.silent:
        for line in described(chosen, f"{task.value}, {recipe.value} recipe"):
            errors.print(line, markup=False, soft_wrap=True)
    with progress(task.value, usual.silent) as show:
        watchers: list[Callable[[Moment], object]] = [show]
        show.given(chosen)
        if tensorboard:
            watchers.append(tensorboard_log(usual.out / "tensorboard"))
        fitted = carry_out(chosen, usual.out, device=device, time_limit=usual.time_limit, callback=_each(watchers))
    measured = fitted.history and fitted.status != "interrupted"  # Ctrl-C is answered at once
    metrics = chosen.test(fitted.network) if measured else {}
    result = {
        "task": task.value,
        "recipe": plain(chosen),
        "test": metrics,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "held_out": fitted.best,
        "seconds": fitted.history[-1]["seconds"] if fitted.history else 0.0,
        "status": fitted.status,
        "folder": str(usual.out),
    }
    if os.environ.get("RANK", "0") == "0":
        write_atomic(usual.out / "run.json", json.dumps(result, indent=1) + "\n")
    say(result, _lines(result), usual.json_, usual.quiet)


def described(recipe: Recipe, title: str) -> list[str]:
    """A recipe as people read it: one line per part."""
    from ..recipes.settings import in_words

    parts = {field.name: in_words(getattr(recipe, field.name)) for field in fields(recipe)}  # pyright: ignore
    width = max(map(len, parts))
    return [title, *(f"  {name.replace('_', ' '):{width}}  {harmless(words)}" for name, words in parts.items())]


def recipes() -> dict[str, type]:
    """The recipe class of each task."""
    from ..recipes.jigsaw import Jigsaw
    from ..recipes.sorting import Sorting
    from ..recipes.tour import Tour

    return {kind.TASK: kind for kind in (Sorting, Jigsaw, Tour)}


def chosen_recipe(task: str, name: str, seed: int, given: dict[str, Any]) -> Recipe:
    """The recipe that the options ask for; an option that it does not know is an error, not ignored."""
    make = getattr(recipes()[task], name)
    known = inspect.signature(make).parameters
    words = {"n": "side"} if task == "jigsaw" else {}
    asked = {words.get(key, key): value for key, value in given.items() if value is not None}
    for key in asked:
        if key not in known:
            option = next((k for k, v in words.items() if v == key), key).replace("_", "-")
            raise BadInput(f"--{option} does not apply to the {name} recipe of {task}.")
    defaults = {"n": 100} if "n" in known and "n" not in asked else {}
    missing = [k for k, p in known.items() if p.default is p.empty and k not in {**asked, **defaults}]
    if missing:
        raise BadInput(f"The {name} recipe of {task} needs --{missing[0]}.")
    return make(**defaults, **asked, seed=seed)


def _each(watchers: Sequence[Callable[[Moment], object]]) -> Callable[[Moment], bool]:
    def call(moment: Moment) -> bool:
        answers = [watcher(moment) for watcher in watchers]  # every one of them is told
        return False not in answers

    return call


def _lines(result: dict[str, Any]) -> list[str]:
    folder, epochs = result["folder"], result["epochs"]
    done = f"{epochs} epoch{'s' * (epochs != 1)} in {result['seconds']:.0f} s ({result['status']})"
    if not epochs:
        stopped = (
            f"stopped ({result['status']}) before the first epoch was done: nothing can be said of the network yet"
        )
        return [stopped, f"the same command goes on from {folder}/last.pt; give it more time"]
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in result["test"].items())
    return [
        done,
        f"on unseen test lists: {numbers}"
        if numbers
        else f"not measured; best so far: epoch {result['best_epoch'] + 1}",
        f"wrote {folder}/best.pt; use it with: unshuffle apply {folder}/best.pt DATA",
    ]
