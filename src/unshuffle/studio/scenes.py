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
    from PIL.Image import Image

    from ..cli.jigsaw import Box
    from ..learn.loop import Moment
    from ..readers.tables import Table
    from ..recipes.sorting import Sorting
    from ..tasks.strips import Strip
    from ..tasks.tour import Cities
    from ..watch import Step

FINEST = 128  # rows and columns of a soft permutation on the page
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


class PuzzleScene:
    """Tiles at the mean of the places where they may stand: a heap that spreads out into a picture."""

    def __init__(self, box: Box) -> None:
        from ..tasks.turned import turns_of

        self.tiles = box.tiles
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


class Strips:
    """Each strip cut out of its scan; side by side they touch where their edges are on the mean."""

    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips

    def about(self, shown: Path) -> dict[str, Any]:
        sizes, edges = [], []
        for k, strip in enumerate(self.strips):
            picture, left, right = cut_out(strip)
            scale = min(1.0, TALLEST / picture.height)
            size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
            picture.resize(size).save(shown / f"{k}.png")
            sizes.append(size)
            edges.append([round(left * scale, 2), round(right * scale, 2)])
        names = [strip.name for strip in self.strips]
        return {"n": len(self.strips), "sizes": sizes, "edges": edges, "names": names}

    def frame(self, step: Step) -> dict[str, Any]:
        P = soft_of(step)
        return {} if P is None else {"soft": seen(P), "x": listed(mean_places(P))}

    def end(self, results: Path) -> dict[str, Any]:
        said = written(results)
        order = said.get("polished", said)["order"]
        return {"order": order, "confidence": said["confidence"], "names": said["strips"], "picture": "page.png"}


def cut_out(strip: Strip) -> tuple[Image, float, float]:
    """The strip without what lies behind it, and where its left and right edges are on the mean, in pixels."""
    from PIL.Image import fromarray

    columns = strip.paper.shape[1]
    x = np.arange(columns)
    inside = (x + 1 - strip.left[:, None]).clip(0, 1) * (strip.right[:, None] - x).clip(0, 1)
    inside[: strip.top], inside[strip.bottom :] = 0, 0
    picture = strip.picture.convert("RGB")
    picture.putalpha(fromarray((255 * inside).astype(np.uint8)).resize(picture.size))
    box = picture.getbbox() or (0, 0, *picture.size)
    left, right = (
        float(edge[strip.top : strip.bottom].mean()) * picture.width / columns for edge in (strip.left, strip.right)
    )
    return picture.crop(box), max(left - box[0], 0.0), min(right, box[2]) - box[0]


class TourScene:
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


class TableScene:
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
            "soft": packed(
                np.sqrt(P.numpy()[self.truth]), 1.0
            ),  # so that what is spread out is seen beside what is sure
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
    "puzzle": PuzzleScene,
    "strips": Strips,
    "tour": TourScene,
    "table": TableScene,
    "match": Sets,
    "learn": Lesson,
}
