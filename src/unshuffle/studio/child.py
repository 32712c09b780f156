"""The work of one page, in a process of its own with a limit on memory: it runs command lines and tells what they do.

The server is at the other end of a pipe. What comes from outside (pictures, tables) is only ever read here. When the pipe
closes, the process ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compute.compiling import compiling_seconds
from ..errors import BadInput
from ..progress_bar import News
from .examples import cities, example
from .scenes import SCENES, Scene, numbers
from .tasks import PICTURES, TASKS, TEMPERATURES, command_line

if TYPE_CHECKING:
    from ..watch import Step

MEMORY = 6 * 2**30  # bytes that a page's process may take
MOST_PIXELS = 40_000_000  # of an uploaded picture
A_SECOND, AT_ONCE = 25.0, 80.0  # frames that are told: so many in the long run, and so many of a run that is soon over
WEIGHING = 0.1  # of the time may go into energies for the page alone
OFTEN, A_WHILE = 0.1, 0.7  # seconds between two looks at the memory, and between two remarks on what is compiled
RESULTS = "results"


def work(pipe: Connection, folder: str) -> None:
    """The process: one job after the other, as the pipe brings them."""
    limit_memory()
    desk = Desk(pipe)
    threading.Thread(target=desk.listen, daemon=True).start()
    threading.Thread(target=look_after, args=(desk,), daemon=True).start()
    while True:
        asked = desk.next_job()
        try:
            Job(desk, Path(folder), asked).carry_out()
        except BaseException as error:
            desk.tell("failed", job=asked["job"], sentence=sentence(error))


def limit_memory(most: int = MEMORY) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        # of data, not of addresses: on machines with many cores threads reserve far more of these than they use
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def look_after(desk: Desk, most: int = MEMORY) -> None:
    """Beside the jobs. Where the system does not keep the limit of memory itself, as macOS, the process ends that has taken more.
    And nothing else is heard of a job whose kernels are compiled, for up to a minute, once on a machine."""
    compiled, told = compiling_seconds(), time.monotonic()
    while True:
        time.sleep(OFTEN)
        if taken() > most:
            os._exit(1)
        now = compiling_seconds()
        if now > compiled and time.monotonic() - told > A_WHILE:
            desk.remark(f"Compiling, once on this machine: {now:.0f} s so far")
            compiled, told = now, time.monotonic()


def taken() -> int:
    """Bytes of memory that this process has had at most; 0 where that is not known, on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def sentence(error: BaseException) -> str:
    """For the page; what is a mistake of ours stands in full on the terminal of the server."""
    from ..cli.common import sentence as words

    if isinstance(error, (BadInput, OSError, MemoryError)):
        return words(error)
    if "allocate" in str(error) or "memory" in str(error).lower():
        return words(MemoryError())
    if hasattr(error, "format_message"):  # an option that the command refuses
        return str(error.format_message())  # pyright: ignore[reportAttributeAccessIssue]
    traceback.print_exception(error)
    return f"Something went wrong in the studio ({type(error).__name__}); its terminal has the details."


class Desk:
    """Both directions of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.lock, self.news = threading.Lock(), threading.Condition()
        self.jobs: list[dict[str, Any]] = []
        self.job: str | None = None
        """What is worked on."""
        self.points: list[list[float]] | None = None
        self.stopping = self.paused = False

    def tell(self, event: str, **what: Any) -> None:
        with self.lock:
            if event in ("done", "failed"):
                self.job = None
            self._send({"event": event, **what})

    def remark(self, stage: str) -> None:
        """About the job that is worked on, if there is one."""
        with self.lock:
            if self.job is not None:
                self._send({"event": "stage", "job": self.job, "stage": stage})

    def _send(self, what: dict[str, Any]) -> None:
        self.pipe.send_bytes(json.dumps(what, allow_nan=False).encode())

    def listen(self) -> None:
        while True:
            try:
                said = json.loads(self.pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)  # nobody is there any more
            with self.news:
                match said["say"]:
                    case "job":
                        self.jobs.append(said)
                        self.stopping = True  # what runs now is no longer wanted
                    case "stop":
                        self.stopping = True
                    case "pause" | "go on":
                        self.paused = said["say"] == "pause"
                    case "points":
                        self.points = said["points"]
                self.news.notify_all()

    def next_job(self) -> dict[str, Any]:
        with self.news:
            self.news.wait_for(lambda: self.jobs)
            self.jobs, job = [], self.jobs[-1]
            self.stopping = self.paused = False
            self.points = None
            self.job = job["job"]
            return job

    def go_on(self) -> bool:
        """Asked at every step: waits while paused; False if it is to stop."""
        with self.news:
            self.news.wait_for(lambda: not self.paused or self.stopping or self.points is not None)
            return not self.stopping and self.points is None

    def moved(self) -> list[list[float]] | None:
        """New cities, if some came."""
        with self.news:
            self.points, new = None, self.points
            if new is not None:
                self.paused = False
            return new


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
    weighed: float = 0.0
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
        now = time.perf_counter()
        if step.expected is None or self.weighed > WEIGHING * (now - self.began):
            return {}
        energy = step.expected()
        self.weighed += time.perf_counter() - now
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
