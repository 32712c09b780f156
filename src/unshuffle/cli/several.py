"""What ``unshuffle jigsaw`` writes of a pile with the tiles of several pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .common import Clock, counted, png_of, table_text
from .doubts import of_these, others_of, sets_in
from .options import Usual
from .results import write_results

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from ..tasks.piles import Reassembled
    from .jigsaw import Box


def write_several(
    folder: Path, box: Box, found: list[Reassembled], gap: int, others: int, clock: Clock, usual: Usual
) -> dict[str, Any]:
    """picture-1.png, picture-2.png, ..., pictures.png with all of them, left-out.png, order.csv and result.json; what that says."""
    from ..plots import squarest
    from ..readers.pictures import png
    from ..tasks.jigsaw import join
    from .jigsaw import side_by_side

    files: dict[str, bytes | str] = {
        f"picture-{k}.png": png(join(box.tiles, one.solution.order, one.grid, one.solution.state))
        for k, one in enumerate(found, 1)
    }
    files["pictures.png"] = png_of(overview(box.tiles, found))
    result: dict[str, Any] = summary(folder, box, found, usual.seed, others) | {"gap": gap, **clock.times()}
    if alone := result["left_out"]:
        files["left-out.png"] = png(side_by_side(box.tiles[alone], squarest(len(alone))[1]))
    files["order.csv"] = table_text(places(found, box, alone))
    write_results(usual.out, files, result)
    return result


def summary(folder: Path, box: Box, found: list[Reassembled], seed: int, others: int) -> dict[str, Any]:
    came = [box.as_they_came(one.solution) for one in found]
    used = {tile for one in found for tile in one.solution.order.tolist()}
    pictures = [
        {
            "grid": f"{one.grid.width}x{one.grid.height}",
            "order": one.solution.order.tolist(),
            **({} if told.state is None else {"turns": told.state.tolist()}),
            "confidence": [round(float(one.solution.confidence[t]), 4) if t >= 0 else None for t in one.solution.order],
            **of_these(sets_in(one.solution), sorted(set(one.solution.order.tolist()) - {-1})),
            **others_of(one.solution, others, told=told),
        }
        for one, told in zip(found, came, strict=True)
    ]
    ended = [one.solution.status for one in found if one.solution.status != "finished"]
    left = sorted(set(range(len(box.tiles))) - used)
    status = (ended or ["finished"])[0]
    return {"input": str(folder), "seed": seed, "pictures": pictures, "left_out": left, "status": status}


def places(found: list[Reassembled], box: Box, alone: list[int]) -> Iterator[tuple[object, ...]]:
    """One line per tile that stands somewhere, counted from 1 as it came, and how sure that is; then one per tile that is in no picture."""
    yield "picture", "row", "column", "number in the input", "name", "confidence", "turns"
    for k, one in enumerate(found, 1):
        turns = box.as_they_came(one.solution).state
        for place, tile in enumerate(one.solution.order.tolist()):
            if tile >= 0:
                row, column = divmod(place, one.grid.width)
                sure = f"{float(one.solution.confidence[tile]):.4f}"
                turn = 0 if turns is None else int(turns[place])
                yield k, row + 1, column + 1, tile + 1, box.names[tile], sure, turn
    yield from (("", "", "", tile + 1, box.names[tile], "", "") for tile in alone)


GUESSED = "Which way up the whole picture is was guessed: as most tiles came, or light, blue and plain above."


def first_few(tiles: list[int]) -> str:
    """Numbers of tiles, counted from 1, if they are not too many to read."""
    return ", ".join(str(tile + 1) for tile in tiles[:8]) + (", ..." if len(tiles) > 8 else "")


def lines(result: dict[str, Any], took: str, out: Path) -> list[str]:
    """What a person wants to know."""
    grids = ", ".join(picture["grid"] for picture in result["pictures"]) or "none"
    holes = sum(picture["order"].count(-1) for picture in result["pictures"])
    told = [
        f"{counted(len(result['pictures']), 'picture')} ({grids}) in {took}; {counted(holes, 'place')} {'stays' if holes == 1 else 'stay'} empty."
    ]
    if alone := result["left_out"]:
        told.append(
            f"{counted(len(alone), 'tile')} {'is' if len(alone) == 1 else 'are'} in none of them ({first_few(alone)}), see {out / 'left-out.png'}."
        )
    if result["gap"]:
        told.append(f"Taken to lack {counted(result['gap'], 'pixel')} at each edge.")
    if any("turns" in picture for picture in result["pictures"]):
        told.append(GUESSED)
    if result["status"] != "finished":
        told.append(f"Stopped early ({result['status']}): this is the best so far.")
    return [*told, f"Look at {out / 'pictures.png'}."]


def overview(tiles: np.ndarray, found: list[Reassembled]) -> Figure:
    """All pictures side by side."""
    from matplotlib.figure import Figure

    from ..readers.pictures import shown
    from ..tasks.jigsaw import join

    across = max(1, min(3, len(found)))
    down = max(1, -(-len(found) // across))
    figure = Figure(figsize=(4 * across, 3.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).reshape(-1)
    for axes in panels:
        axes.set_axis_off()
    for k, (axes, one) in enumerate(zip(panels, found, strict=False), 1):
        axes.imshow(shown(join(tiles, one.solution.order, one.grid, one.solution.state)))
        axes.set_title(f"picture {k}: {one.grid.width}x{one.grid.height}")
    return figure
