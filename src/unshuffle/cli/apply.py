"""``unshuffle apply``: order new data with a trained network, in one forward pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import write_together
from .common import png_of, say
from .options import Drop, Json, Out, Quiet

if TYPE_CHECKING:
    from torch import Tensor


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
    """Order new data with a trained network: one forward pass, no search, with a confidence for every item.

    Writes NAME.order.json and, for pictures and cities, the picture put together and the tour.

    Example: unshuffle apply runs/sort100/best.pt lists.csv --json
    """
    from ..learn.predict import predict
    from ..learn.seen import strange
    from ..recipes.trained import trained

    recipe, network, noise, seen = trained(checkpoint)
    items = recipe.read(data, tuple(drop or ()))
    prediction = predict(network, items, recipe.relax, noise=noise)
    outside = [] if seen is None else seen.outside(items)
    orders, confidence = prediction.order, prediction.confidence
    result: dict[str, Any] = {
        "task": recipe.TASK,
        "orders": orders.tolist(),
        "confidence": [[round(c, 4) for c in line] for line in confidence.tolist()],
        "calibrated": noise is not None,
        "outside": outside,
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
