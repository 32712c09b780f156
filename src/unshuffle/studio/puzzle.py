"""The stage of the Puzzle page: a heap of tiles on its way to a picture, or to several."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots import squarest
from .shown import seen, soft_of, written

if TYPE_CHECKING:
    from ..cli.jigsaw import Box
    from ..watch import Step

WIDEST = 1400  # pixels of a picture on the page


class PuzzleScene:
    """Tiles at the mean of the places where they may stand: a heap that spreads out into a picture."""

    def __init__(self, box: Box) -> None:
        from ..tasks.turned import turns_of

        self.tiles = box.tiles
        self.lain = [0] * len(box.tiles) if box.lain is None else box.lain.tolist()
        self.rows, self.columns = squarest(len(box.tiles)) if box.grid is None else (box.grid.height, box.grid.width)
        self.turns = turns_of(box.tiles.shape[1:3])

    def about(self, shown: Path) -> dict[str, Any]:
        """All tiles on one sheet."""
        from ..readers.pictures import png
        from ..readers.pictures import shown as as_shown

        n, height, width = self.tiles.shape[:3]
        finer = max(1, math.ceil(width * self.columns / WIDEST))
        tiles = as_shown(self.tiles.reshape(-1, *self.tiles.shape[2:])).reshape(n, height, width, -1)[
            :, ::finer, ::finer
        ]
        h, w, across = tiles.shape[1], tiles.shape[2], math.ceil(math.sqrt(n))
        sheet = np.zeros((math.ceil(n / across) * h, across * w, tiles.shape[3]), np.uint8)
        for k, tile in enumerate(tiles):
            y, x = divmod(k, across)
            sheet[y * h : (y + 1) * h, x * w : (x + 1) * w] = tile
        (shown / "0.png").write_bytes(png(sheet))
        return {"size": [self.columns, self.rows], "tile": [w, h], "sheet": across, "n": n}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        if P is None:
            return {}
        rows, columns, items = self.rows, self.columns, np.arange(len(self.tiles))
        if step.where is not None:
            rows, columns, items = step.where.layout.height, step.where.layout.width, np.asarray(step.where.items)
        told: dict[str, Any] = {"soft": seen(P)}
        if P.shape != (len(items), rows * columns):
            return told
        weight, places = P / np.maximum(P.sum(1, keepdims=True), 1e-12), np.arange(P.shape[1])
        here = (P.sum(1) > 0).tolist()  # a tile that is left out is not drawn

        def of_all(values: np.ndarray) -> list[Any]:
            known = {int(k): v for k, v, there in zip(items, values.tolist(), here, strict=True) if there}
            return [known.get(k) for k in range(len(self.tiles))]

        x, y = weight @ (places % columns), weight @ (places // columns)
        told |= {"x": of_all(np.round(x, 2)), "y": of_all(np.round(y, 2)), "sure": of_all(np.round(weight.max(1), 2))}
        if step.states is not None:
            told["turn"] = of_all(np.array(self.turns)[np.asarray(step.states())])
        return told | {"size": [columns, rows]}

    def end(self, results: Path) -> dict[str, Any]:
        """Where each tile lies on the stage: one picture, or several side by side, and below what is left out."""
        said = written(results)
        if "pictures" in said:
            found, sure = said["pictures"], {t: c for p in said["pictures"] for t, c in confident(p)}
        else:
            found, sure = [{**said, **said.get("polished", {})}], dict(enumerate(said["confidence"]))
        told = laid_out(found, said["left_out"], len(self.tiles))
        left = set(said["left_out"])
        turns = zip(told["turn"], self.lain, strict=True)  # of tiles as they are drawn here
        told["turn"] = [t if k in left or t is None else (t - lain) % 4 for k, (t, lain) in enumerate(turns)]
        return told | {"confidence": [sure.get(k, 0.0) for k in range(len(self.tiles))], "left": said["left_out"]}


GAP = 0.5  # tiles between two pictures on the stage


def confident(picture: dict[str, Any]) -> list[tuple[int, float]]:
    return [(tile, c) for tile, c in zip(picture["order"], picture["confidence"], strict=True) if tile >= 0]


def laid_out(pictures: list[dict[str, Any]], left: list[int], n: int) -> dict[str, Any]:
    """x, y and quarter turns of every tile, and the size of all in tiles: pictures in rows, the tiles that are left out below."""
    x: list[Any] = [None] * n
    y, turn = x.copy(), x.copy()
    right = top = low = 0.0
    widest, in_a_row = 1.0, math.ceil(math.sqrt(len(pictures)))
    for number, picture in enumerate(pictures):
        across, down = (int(side) for side in picture["grid"].split("x"))
        if number and number % in_a_row == 0:
            right, top = 0.0, low + GAP
        for place, tile in enumerate(picture["order"]):
            if tile >= 0:
                x[tile], y[tile] = right + place % across, top + place // across
                turn[tile] = picture["turns"][place] if "turns" in picture else 0
        widest, low = max(widest, right + across), max(low, top + down)
        right += across + GAP
    if left:
        top, across = low + GAP * bool(pictures), max(1, int(widest))
        for k, tile in enumerate(left):
            x[tile], y[tile], turn[tile] = k % across, top + k // across, 0
        low = top + math.ceil(len(left) / across)
    return {"x": x, "y": y, "turn": turn, "size": [widest, max(low, 1.0)]}
