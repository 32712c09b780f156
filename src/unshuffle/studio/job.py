"""One press of the button: the command line behind it is run, and what it does is told."""

from __future__ import annotations

import contextlib
import io
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compute.compiling import compiling_seconds
from ..errors import BadInput
from ..progress_bar import News
from .desk import Desk
from .examples import cities, example
from .scenes import SCENES, Scene
from .shown import numbers
from .tasks import PICTURES, TASKS, TEMPERATURES, command_line

if TYPE_CHECKING:
    from ..watch import Step

MOST_PIXELS = 40_000_000  # of an uploaded picture
A_SECOND, AT_ONCE = 25.0, 80.0  # frames that are told: so many in the long run, and so many of a run that is soon over
WEIGHING = 0.1  # of the time may go into energies for the page alone
RESULTS = "results"


@dataclass
class Job:
    """One press of the button."""

    desk: Desk
    folder: Path
    asked: dict[str, Any]
    scene: Scene | None = None
    last: float = field(default_factory=time.perf_counter)
    may: float = AT_ONCE
    """Frames that may be told now; more with time."""
    which: str | None = None
    """Of several commands that share a page: which one."""
    until_epoch: bool = False
    began: float = field(default_factory=time.perf_counter)
    compiled: float = field(default_factory=compiling_seconds)
    """Seconds of compiling before the solve that is under way, which has taken ``solving``."""
    solving: float = 0.0
    weighed: float | None = None
    """Seconds that went into energies which only the page wants to know."""

    def carry_out(self) -> None:
        task = TASKS[self.asked["task"]]
        root = self.folder / self.asked["job"]
        (root / "shown").mkdir(parents=True, exist_ok=True)
        os.chdir(root)
        names = self.gathered(root)
        words = task.words(self.asked["options"])
        self.tell("begun")
        if self.asked["task"] == "learn":
            self.learn([*task.command, *words], root)
        else:
            self.solve(task, names, words, root)

    def tell(self, event: str, **what: Any) -> None:
        self.desk.tell(event, job=self.asked["job"], **({"which": self.which} if self.which else {}), **what)

    def gathered(self, root: Path) -> list[str]:
        """The names of the input files, relative to the job's folder."""
        task = TASKS[self.asked["task"]]
        if self.asked.get("points"):
            return [path.name for path in write_points(root, self.asked["points"])]
        if self.asked.get("example"):
            paths = example(self.asked["task"], self.asked["example"], root)
            if task.folder and len(paths) > 1:
                (root / "pieces").mkdir()
                paths = [path.rename(root / "pieces" / path.name) for path in paths]
        else:
            paths = [root / name for name in self.asked.get("files", ())]
            for path in paths:
                if path.suffix[1:] in PICTURES:
                    small_enough(path)
        return [str(path.relative_to(root)) for path in paths]

    def solve(self, task: Any, names: list[str], words: list[str], root: Path) -> None:
        again = True
        while again:
            inputs = task.inputs(names, "pieces")
            called = [f"./{name}" if name.startswith("-") else name for name in self.asked.get("called") or inputs]
            spoken = [*task.command, *called, *words]
            self.tell("command", text=command_line(spoken))
            said = self.run([*task.command, *inputs, *words, "--out", RESULTS])
            new = self.desk.moved()
            again = new is not None
            if new is not None:
                for path in (root / RESULTS).glob("*"):
                    path.unlink()
                names = [path.name for path in write_points(root, new)]
                continue
            self.finish(root, said, self.scene.end(root / RESULTS) if self.scene is not None else {})

    def finish(self, root: Path, said: str, found: dict[str, Any]) -> None:
        files = sorted(str(path.relative_to(root)) for path in (root / RESULTS).rglob("*") if path.is_file())
        self.tell("done", said=said, files=files, **found)

    def run(self, words: list[str]) -> str:
        """The command line, as `unshuffle` itself would run it; returns what it says."""
        from ..cli.common import build
        from ..cli.onlooker import looked_on

        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), looked_on(self):
            build(words[0], debug=True)(words, prog_name="unshuffle", standalone_mode=False)
        return said.getvalue()

    def learn(self, words: list[str], root: Path) -> None:
        """The same lists, the same first weights, three temperatures: an epoch of each in turn, by stopping and going on."""
        epochs = int(self.asked["options"].get("epochs", 1))
        lines = [[*words, "--temperature", name, "--out", f"{RESULTS}/{name}"] for name in TEMPERATURES]
        self.tell("command", text="\n".join(command_line(line) for line in lines))
        scenes: dict[str, Scene | None] = {}
        said: dict[str, str] = {}
        for epoch in range(epochs):
            self.until_epoch = epoch + 1 < epochs
            for name, line in zip(TEMPERATURES, lines, strict=True):
                if self.desk.go_on():
                    self.which, self.scene = name, scenes.get(name)
                    said[name] = self.run(line)
                    scenes[name] = self.scene
        self.which = None
        self.finish(root, "\n".join(f"{name}: {text.strip()}" for name, text in said.items()), {})

    # --- what a command tells ----------------------------------------------------------------------------------------

    def given(self, thing: Any) -> None:
        if self.scene is None or self.asked["task"] == "tour":  # a tour may get new cities
            scene: Scene = SCENES[self.asked["task"]](thing)
            self.scene = scene
            self.tell("given", **scene.about(Path("shown")))

    def stage(self, name: str) -> None:
        self.tell("stage", stage=name)

    def __call__(self, news: News) -> bool:
        now, scene = time.perf_counter(), self.scene
        record = getattr(news, "record", None)
        self.may, self.last = min(AT_ONCE, self.may + A_SECOND * (now - self.last)), now
        if scene is not None and (self.may >= 1 or record is not None):
            self.may -= 1
            told = scene.frame(news)
            told = told if self.which else self.numbers(news) | told  # pyright: ignore[reportArgumentType]
            if told:
                self.tell("frame", **told)
        over = record is not None and self.until_epoch
        return self.desk.go_on() and not over

    def numbers(self, step: Step) -> dict[str, Any]:
        """Seconds are those of the work, without what went into compiling."""
        compiled = compiling_seconds()
        if step.seconds < self.solving:  # another solve has begun
            self.compiled = compiled
        self.solving = step.seconds
        return numbers(step) | {"seconds": max(0.0, step.seconds - (compiled - self.compiled))} | self.energy(step)

    def energy(self, step: Step) -> dict[str, float]:
        """What the solver has no need to know itself, as long as it takes a small part of the time."""
        spent = self.weighed or 0.0
        if step.expected is None or spent > WEIGHING * (time.perf_counter() - self.began):
            return {}
        before = time.thread_time()  # on a busy machine the clock runs on while nothing is computed
        energy = step.expected()
        # the first one loads and compiles what the others need, and says nothing of what they take
        self.weighed = 0.0 if self.weighed is None else spent + time.thread_time() - before
        return {"energy": energy} if math.isfinite(energy) else {}


def write_points(root: Path, points: list[list[float]]) -> list[Path]:
    import numpy as np

    return cities(root / "cities.csv", np.array(points))


def small_enough(path: Path) -> None:
    """Refuses a picture of too many pixels before it is unpacked."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            pixels = picture.width * picture.height
    except Image.DecompressionBombError:
        pixels = MOST_PIXELS + 1
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        raise BadInput("This file is not a picture that can be read.") from None
    if pixels > MOST_PIXELS:
        raise BadInput(f"The picture has more than {MOST_PIXELS // 1_000_000} million pixels; scale it down first.")
