"""What a page draws: of the input once, of every step of a solver as little as a picture needs, of the results at the end."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..plots import coarser, squarest

if TYPE_CHECKING:
    from ..cli.jigsaw import Box
    from ..learn.loop import Moment
    from ..readers.tables import Table
    from ..recipes.sorting import Sorting
    from ..tasks.strips import Strip
    from ..tasks.tour import Cities
    from ..watch import Step

FINEST = 64  # rows and columns of a soft permutation on the page
WIDEST = 1400  # pixels of a picture on the page
TALLEST = 480  # of a strip
MOST_CELLS = (400, 240)  # rows and columns of a table


class Scene(Protocol):
    def about(self, shown: Path) -> dict[str, Any]:
        """What the page needs to draw the input; pictures go into the folder ``shown``."""
        ...

    def frame(self, step: Any) -> dict[str, Any]:
        """What has changed."""
        ...

    def end(self, results: Path) -> dict[str, Any]:
        """What was found, from the files that the command wrote."""
        ...


def packed(values: np.ndarray, top: float | None = None) -> dict[str, Any]:
    """A matrix of numbers of 0 and more as bytes, 255 for the largest."""
    top = max(float(values.max(initial=0)) if top is None else top, 1e-12)
    data = (np.clip(values / top, 0, 1) * 255).astype(np.uint8)
    return {
        "rows": data.shape[0],
        "columns": data.shape[1],
        "data": base64.b64encode(data.tobytes()).decode(),
        "top": top,
    }


def mean_places(P: np.ndarray) -> np.ndarray:
    """Of each item the mean of its positions, 0 to 1."""
    weight = P / np.maximum(P.sum(1, keepdims=True), 1e-12)
    return weight @ np.linspace(0, 1, P.shape[1])


def seen(P: np.ndarray) -> dict[str, Any]:
    """A soft permutation, its rows by where their items are: the surer, the nearer to the diagonal."""
    rows = P[np.argsort(mean_places(P), kind="stable")]
    return packed(coarser(rows, FINEST))


def numbers(step: Step) -> dict[str, Any]:
    known = {"energy": step.energy, "entropy": step.entropy, "beta": step.beta, "done": step.overall}
    told: dict[str, Any] = {name: value for name, value in known.items() if math.isfinite(value)}
    return {"seconds": step.seconds, "stage": step.stage, **told}


def soft_of(step: Step) -> np.ndarray | None:
    return None if step.soft is None else np.asarray(step.soft(), dtype=np.float32)


def listed(values: np.ndarray, digits: int = 4) -> list[Any]:
    return np.round(np.asarray(values, dtype=float), digits).tolist()


def written(results: Path, name: str = "result.json") -> dict[str, Any]:
    return json.loads((results / name).read_text())


class Puzzle:
    """Tiles at the mean of the places where they may stand: a heap that spreads out into a picture."""

    def __init__(self, box: Box) -> None:
        self.tiles = box.tiles
        self.rows, self.columns = squarest(len(box.tiles)) if box.grid is None else (box.grid.height, box.grid.width)

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
        return {"grid": [self.columns, self.rows], "tile": [w, h], "sheet": across, "n": n}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        if P is None:
            return {}
        told: dict[str, Any] = {"soft": seen(P)}
        if P.shape == (len(self.tiles), self.rows * self.columns):
            weight, places = P / np.maximum(P.sum(1, keepdims=True), 1e-12), np.arange(P.shape[1])
            x, y = weight @ (places % self.columns), weight @ (places // self.columns)
            told |= {"x": listed(x, 2), "y": listed(y, 2), "sure": listed(weight.max(1), 2)}
        return told

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results)
        best = said.get("polished", said)
        grid = [int(side) for side in said["grid"].split("x")]
        return {"order": best["order"], "turns": best.get("turns"), "grid": grid, "confidence": said["confidence"]}


class Strips:
    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips

    def about(self, shown: Path) -> dict[str, Any]:
        from PIL import Image

        sizes = []
        for k, strip in enumerate(self.strips):
            ground = Image.fromarray((255 * strip.paper.clip(0, 1)).astype(np.uint8)).resize(strip.picture.size)
            picture = strip.picture.convert("RGB")
            picture.putalpha(ground)
            picture = picture.crop(picture.getbbox() or (0, 0, *picture.size))
            scale = min(1.0, TALLEST / picture.height)
            size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
            picture.resize(size).save(shown / f"{k}.png")
            sizes.append(size)
        return {"n": len(self.strips), "sizes": sizes, "names": [strip.name for strip in self.strips]}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        return {} if P is None else {"soft": seen(P), "x": listed(mean_places(P))}

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results)
        order = said.get("polished", said)["order"]
        return {"order": order, "confidence": said["confidence"], "names": said["strips"], "picture": "page.png"}


class Tour:
    """The ring of mean positions: a loop that stretches until it goes through all cities."""

    def __init__(self, cities: Cities) -> None:
        self.cities = cities
        self.points = None if cities.points is None else cities.points.numpy()

    def about(self, shown: Path) -> dict[str, Any]:
        points = None if self.points is None else listed(self.points, 6)
        return {"n": self.cities.n, "points": points, "names": self.cities.labels[:2000]}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        if P is None:
            return {}
        told: dict[str, Any] = {"soft": seen(P)}
        if self.points is not None:
            ring = (P / np.maximum(P.sum(0, keepdims=True), 1e-12)).T @ self.points
            told["ring"] = listed(ring, 5)
        return told

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results, next(path.name for path in results.glob("*.json")))
        length = said["length"] if said["polished_length"] is None else said["polished_length"]
        return {"order": said["order"], "confidence": said["confidence"], "length": length}


class Heat:
    """The table with its rows where they are on the mean, and the dissimilarities beside it."""

    def __init__(self, given: tuple[Table, np.ndarray]) -> None:
        self.table, self.apart = given

    def about(self, shown: Path) -> dict[str, Any]:
        X = self.table.values
        low, high = X.min(0), X.max(0)
        scaled = (X - low) / np.where(high > low, high - low, 1)
        rows, columns = MOST_CELLS
        few = len(self.apart) <= rows
        return {
            "n": len(X),
            "table": packed(scaled[:rows, :columns], 1.0),
            "apart": packed(self.apart) if few else None,
            "rows": self.table.rows[:rows],
            "columns": self.table.columns[:columns],
            "cut": X.shape[0] > rows or X.shape[1] > columns,
        }

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        if P is None or len(P) != len(self.apart):
            return {}
        return {"soft": seen(P), "x": listed(mean_places(P))}

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results)
        told = {"order": said["order"], "confidence": said["confidence"]}
        return told | ({"across": said["column order"]} if "column order" in said else {})


class Sets:
    """Two sets side by side; each item of A is tied to the item of B that it most likely is."""

    def __init__(self, given: tuple[Table, Table]) -> None:
        self.tables = given

    def about(self, shown: Path) -> dict[str, Any]:
        from ..cli.match import flat

        A, B = (flat(table.values, table.values.shape[0] == table.values.shape[1]) for table in self.tables)
        return {"a": listed(A), "b": listed(B), "names": [table.rows[:2000] for table in self.tables]}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        if P is None:
            return {}
        told: dict[str, Any] = {"soft": seen(P)}
        if P.shape == tuple(len(table.rows) for table in self.tables):  # not while it is groups that are compared
            told |= {"to": P.argmax(1).tolist(), "sure": listed(P.max(1), 3)}
        return told

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results)
        out = [
            [table.rows.index(name) for name in said["left out"][who]]
            for who, table in zip("AB", self.tables, strict=True)
        ]
        return {"pairs": said["pairs"], "confidence": said["confidence"], "left": out}


class Lesson:
    """One list that was never trained on: its soft permutation and the temperatures, rows in their true order."""

    def __init__(self, recipe: Sorting) -> None:
        self.list = recipe.test_set()[:1]
        self.truth = self.list[0, :, 0].argsort().numpy()

    def about(self, shown: Path) -> dict[str, Any]:
        return {"n": len(self.truth), "list": listed(self.list[0, :, 0].numpy())}

    def frame(self, moment: Moment) -> dict[str, Any]:
        import torch

        from ..operators.permutation import entropy
        from ..operators.sinkhorn import sinkhorn
        from ..temperature.entropy import EntropyTarget

        if moment.record is None or moment.learner is None:
            return {}
        relax: Any = moment.learner.relax
        record = moment.record
        with torch.no_grad():
            scores = moment.learner.network(self.list)
            beta = asked = float(relax.schedule(moment.epoch))
            led = isinstance(relax.schedule, EntropyTarget)
            if led:
                beta = float(relax.sharpness.at(scores, asked, relax.iterations))
            Q = sinkhorn(beta * scores, relax.iterations)
            field = torch.full_like(Q, beta)
            if relax.local is not None and moment.epoch >= relax.adapt_from:
                field = relax.local(Q, beta).expand_as(Q)
            P = sinkhorn(field * scores, relax.iterations)[0]
        low, high = float(field.min()), float(field.max())
        told = {"epoch": moment.epoch + 1, "epochs": moment.epochs, "loss": record["loss"], "tau": record.get("tau")}
        told |= {"entropy": float(entropy(P, -1).mean()), "target": asked if led else None, "beta": beta}
        return told | {
            "soft": packed(P.numpy()[self.truth], 1.0),
            "field": packed(
                ((field[0] - low) / (high - low) if high - low > 1e-6 else 0.5 * field[0] / high).numpy()[self.truth],
                1.0,
            ),
            "field_range": [low, high],
        }

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results, "run.json")
        return {"test": said["test"], "epochs": said["epochs"]}


SCENES: dict[str, type[Any]] = {
    "puzzle": Puzzle,
    "strips": Strips,
    "tour": Tour,
    "table": Heat,
    "match": Sets,
    "learn": Lesson,
}
