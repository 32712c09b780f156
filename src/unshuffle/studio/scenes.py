"""What a page draws: of the input once, of every step of a solver as little as a picture needs, of the results at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .puzzle import PuzzleScene
from .shown import listed, mean_places, packed, seen, soft_of, written

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..learn.loop import Moment
    from ..readers.tables import Table
    from ..recipes.sorting import Sorting
    from ..tasks.strips import Strip
    from ..tasks.tour import Cities
    from ..watch import Step

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
        if P is None:
            return {}
        items = range(len(self.strips)) if step.where is None else step.where.items.tolist()
        if len(P) != len(items):
            return {"soft": seen(P)}
        places = dict(zip(items, listed(mean_places(P)), strict=True))
        return {"soft": seen(P), "x": [places.get(k) for k in range(len(self.strips))]}

    def end(self, results: Path) -> dict[str, Any]:
        """Of every page its strips from left to right, which of them are turned, and where something is missing."""
        said = written(results)
        found = said["pages"] if "pages" in said else [said | said.get("polished", {})]
        pages = [
            {"order": page["order"], "turns": page.get("turns", [0] * len(page["order"])), "gaps": page.get("gaps", [])}
            for page in found
        ]
        names = [f"page-{k}.png" for k in range(1, len(pages) + 1)] if "pages" in said else ["page.png"]
        return {"pages": pages, "confidence": said["confidence"], "names": said["strips"], "pictures": names}


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
            [table.rows.index(name) for name in said["left_out"][who]]
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
                asked = float(relax.schedule.entropy(asked, scores))
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
