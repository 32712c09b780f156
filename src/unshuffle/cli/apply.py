"""``unshuffle apply``: order new data with a trained network, in one forward pass."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import png_of, say
from .options import Drop, Json, Out, Quiet

if TYPE_CHECKING:
    from torch import Tensor

    from ..learn.calibration import Calibration
    from ..learn.predict import Prediction


def apply(
    checkpoint: Annotated[Path, typer.Argument(help="best.pt of `unshuffle train`, or the folder of the run.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Numbers: a CSV, one list a line. Tiles: a folder or a shuffled picture. Cities: CSV, .tsp."
        ),
    ],
    drop: Drop = None,
    out: Out = Path("unshuffled/INPUT-apply"),
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Order new data with a trained network: one forward pass, no search, with a confidence and likely places for every item.

    Writes NAME.order.json and, for pictures and cities, the picture put together and the tour.

    Example: unshuffle apply runs/sort100/best.pt lists.csv --json
    """
    from ..learn.predict import predict
    from ..learn.seen import strange
    from ..recipes.trained import trained

    recipe, network, calibration = trained(checkpoint)
    items = recipe.read(data, tuple(drop or ()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is unlike is said below
        prediction = predict(network, items, recipe.relax, calibration=calibration)
    outside = list(prediction.outside)
    orders, confidence = prediction.order, prediction.confidence
    result: dict[str, Any] = {
        "task": recipe.TASK,
        "orders": orders.tolist(),
        "confidence": [[round(c, 4) for c in line] for line in confidence.tolist()],
        "calibrated": calibration is not None,
        "outside": outside,
        **_sets(calibration, prediction),
    }
    files = write_together(
        {out / f"{data.stem}.order.json": json.dumps(result) + "\n", **_pictures(recipe, data, orders, out, drop or ())}
    )
    result["files"] = [str(file) for file in files]
    summary = f"ordered {len(orders)} list{'s' if len(orders) > 1 else ''} of {orders.shape[-1]}, mean confidence"
    told = [
        f"{summary} {confidence.mean():.2f}",
        *filter(None, [strange(outside)]),
        *(f"wrote {file}" for file in files),
    ]
    say(result, told, json_, quiet)


def _sets(calibration: Calibration | None, found: Prediction) -> dict[str, Any]:
    """Per list and item the places that hold the true one with the level."""
    if calibration is None or found.sets is None:
        return {}
    places = [[item.nonzero().flatten().tolist() for item in items] for items in found.sets]
    return {"sets": {"level": calibration.level, "places": places}}


def _pictures(recipe: Any, data: Path, orders: Tensor, out: Path, drop: Sequence[str]) -> dict[Path, str | bytes]:
    """What a person would rather look at."""
    if recipe.TASK == "jigsaw":
        from ..readers.pictures import png, read_picture, read_tiles
        from ..tasks.jigsaw import cut, join

        tiles = read_tiles(data)[0] if data.is_dir() else cut(read_picture(data), recipe.grid)[0]
        return {out / f"{data.stem}.png": png(join(tiles, orders[0], recipe.grid))}
    if recipe.TASK == "tour":
        from ..tasks.tour import read_cities, tour_length, tour_text
        from .tour import draw

        cities = read_cities(data, (), drop)
        title = f"{cities.name}: {cities.n} cities, length {tour_length(cities, orders[0]):.6g}, one forward pass"
        return {
            out / f"{data.stem}.tour": tour_text(cities, orders[0]),
            out / f"{data.stem}.png": png_of(draw(cities, orders[0], title)),
        }
    return {}
