"""Pages: each has a folder, its uploads, one process and at most one job; when the page goes, all of that goes.

A page is there as long as it listens to its events. Jobs of several pages wait for each other in a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ..errors import BadInput
from .tasks import TASKS

AT_ONCE = max(1, (os.cpu_count() or 2) // 2)  # jobs that compute at the same time
MOST_PAGES = 32
MOST_FILES = 1000  # uploads of a page
MOST_BYTES = 200_000_000  # of all uploads of a page
GRACE = 3.0  # seconds without a listener after which a page is gone
SILENCE = 30.0  # seconds in which nothing was heard of a job that was told to stop: it never will
UNHEARD = 4.0  # seconds in which a process did not begin what was asked of it instead of what it did before
KEPT = 400  # events that wait for a slow page; of more, frames are dropped
ENDED = ("done", "failed")
PREFIX = "unshuffle-studio-"


@dataclass
class Upload:
    path: Path
    ending: str
    called: str
    """What the user calls it: shown, and never part of a path."""


@dataclass
class OpenPage:
    name: str
    folder: Path
    uploads: dict[str, Upload] = field(default_factory=dict)
    bytes: int = 0
    process: BaseProcess | None = None
    pipe: Connection | None = None
    job: str | None = None
    """The job that runs, waits, or was the last."""
    running: bool = False
    begun: bool = False
    """Whether the process has taken up the job."""
    heard: float = 0.0
    """When something was last heard of it, by the clock of the loop."""
    listeners: int = 0
    gone: bool = False
    greeted: bool = False
    """Whether somebody has listened before: to a page that was given up and asks again, this one is another."""
    events: deque[dict[str, Any]] = field(default_factory=deque)
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, event: dict[str, Any]) -> None:
        """For the page to hear."""
        if len(self.events) >= KEPT and event["event"] == "frame":
            return
        self.events.append(event)
        self.awake.set()

    def say(self, what: dict[str, Any]) -> None:
        """To the process."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                self.pipe.send_bytes(json.dumps(what).encode())


class Pages:
    """All pages of a server."""

    def __init__(self) -> None:
        tidy()
        self.root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.pages: dict[str, OpenPage] = {}
        self.queue: list[tuple[OpenPage, dict[str, Any]]] = []
        self._context = _processes()

    # --- coming and going --------------------------------------------------------------------------------------------

    def of(self, name: str) -> OpenPage:
        """The page of this name, new if it was not known."""
        if not re.fullmatch(r"[0-9a-f-]{8,40}", name):
            raise BadInput("A page is named by hexadecimal digits.")
        if name not in self.pages:
            if len(self.pages) >= MOST_PAGES:
                raise BadInput(f"There are {MOST_PAGES} pages open already; close one.")
            folder = Path(tempfile.mkdtemp(dir=self.root))
            self.pages[name] = OpenPage(name, folder)
            asyncio.get_running_loop().call_later(GRACE, self.drop_if_left, name)
        return self.pages[name]

    async def events(self, page: OpenPage) -> AsyncIterator[dict[str, Any] | None]:
        """What happens, as it happens; None now and then, so that a connection that is gone is noticed."""
        page.listeners += 1
        try:
            yield {"event": "here", "anew": not page.greeted}
            page.greeted = True
            while not page.gone:
                while page.events:
                    yield page.events.popleft()
                page.awake.clear()
                try:
                    await asyncio.wait_for(page.awake.wait(), 2.0)
                except asyncio.TimeoutError:
                    yield None
        finally:
            page.listeners -= 1
            asyncio.get_running_loop().call_later(GRACE, self.drop_if_left, page.name)

    def drop_if_left(self, name: str) -> None:
        page = self.pages.get(name)
        if page is not None and page.listeners == 0:
            self.drop(page)

    def drop(self, page: OpenPage) -> None:
        """The page went away: its job ends, its files are removed."""
        self.pages.pop(page.name, None)
        page.gone = True
        page.awake.set()  # who still listens may ask again, and gets another page
        self._end_process(page)
        self.queue = [(other, job) for other, job in self.queue if other is not page]
        shutil.rmtree(page.folder, ignore_errors=True)
        self._next()

    def close(self) -> None:
        for page in list(self.pages.values()):
            self.drop(page)
        shutil.rmtree(self.root, ignore_errors=True)

    # --- uploads -----------------------------------------------------------------------------------------------------

    def room(self, page: OpenPage, called: str) -> tuple[str, Path, str]:
        """Number, place and ending of a new upload, under a name of our own."""
        ending = called.rsplit(".", 1)[-1].lower() if "." in called else ""
        if not any(ending in task.takes for task in TASKS.values()):
            kinds = sorted(set().union(*(task.takes for task in TASKS.values())))
            raise BadInput(f"Files may be {', '.join(kinds)}; this one ends in {ending[:20] or 'nothing'!r}.")
        if len(page.uploads) >= MOST_FILES:
            raise BadInput(f"A page holds at most {MOST_FILES} files; reload it.")
        number = secrets.token_hex(8)
        folder = page.folder / "uploads"
        folder.mkdir(exist_ok=True)
        return number, folder / f"{number}.{ending}", ending

    # --- jobs --------------------------------------------------------------------------------------------------------

    def start(self, page: OpenPage, asked: dict[str, Any]) -> str:
        """A new job of this page instead of the one it has; runs when its turn comes."""
        job = self._checked(page, asked)
        self.queue = [(other, waiting) for other, waiting in self.queue if other is not page]
        page.job, page.begun = job["job"], False
        if page.running:  # its process stops and takes the new job; it keeps its turn
            page.say(job)
            asyncio.get_running_loop().call_later(UNHEARD, self._insist, page, job)
        else:
            self.queue.append((page, job))
            self._next()
        self._tell_queue()
        return job["job"]

    def _checked(self, page: OpenPage, asked: dict[str, Any]) -> dict[str, Any]:
        name = asked.get("task")
        if name not in TASKS:
            raise BadInput("There is no such page.")
        task = TASKS[name]
        options = asked.get("options", {})
        if not isinstance(options, dict):
            raise BadInput("Options come as names and values.")
        task.words(options)  # refused here, before anything starts
        job = secrets.token_hex(8)
        root = page.folder / job
        root.mkdir()
        told: dict[str, Any] = {"say": "job", "job": job, "task": name, "options": options}
        if name == "learn":
            return told
        if asked.get("points") is not None and name == "tour":
            return told | {"points": points(asked["points"])}
        if asked.get("example") is not None:
            if asked["example"] not in task.examples:
                raise BadInput("There is no such example.")
            return told | {"example": asked["example"]}
        return told | self._files(page, name, asked.get("files"), root)

    def _files(self, page: OpenPage, name: str, given: Any, root: Path) -> dict[str, Any]:
        task = TASKS[name]
        if not isinstance(given, list) or not all(isinstance(one, str) and one in page.uploads for one in given):
            raise BadInput("These files were not uploaded.")
        task.check(len(given))
        uploads = [page.uploads[one] for one in given]
        wrong = next((one for one in uploads if one.ending not in task.takes), None)
        if wrong is not None:
            raise BadInput(f"This page takes {', '.join(sorted(task.takes))}, not {wrong.ending}.")
        several = task.folder and len(uploads) > 1
        places = [
            f"pieces/{k + 1:04d}.{one.ending}" if several else f"{'ab'[k] if task.most == 2 else 'input'}.{one.ending}"
            for k, one in enumerate(uploads)
        ]
        for one, place in zip(uploads, places, strict=True):
            (root / place).parent.mkdir(exist_ok=True)
            os.link(one.path, root / place)
        called = ["pieces"] if several else [one.called for one in uploads]
        if several:
            rows = [
                f"{place.removeprefix('pieces/')}\t{one.called}\n" for place, one in zip(places, uploads, strict=True)
            ]
            (root / "names.txt").write_text("".join(rows))
        return {"files": places, "called": called}

    def say(self, page: OpenPage, job: str, what: dict[str, Any]) -> None:
        if page.job != job:
            raise BadInput("This job is over.")
        match what.get("say"):
            case "stop" if not page.running:
                self.queue = [(other, waiting) for other, waiting in self.queue if other is not page]
                page.note({"event": "failed", "job": job, "sentence": "Stopped before its turn came."})
            case "stop" | "pause" | "go on":
                page.say({"say": what["say"]})
                if what["say"] == "stop":
                    page.heard = asyncio.get_running_loop().time()
                    self._end_if_silent(page, job)
            case "points":
                page.say({"say": "points", "points": points(what.get("points"))})
            case _:
                raise BadInput("A job can be told to stop, to pause, to go on, or of new points.")

    def _insist(self, page: OpenPage, job: dict[str, Any]) -> None:
        """A process that cannot be interrupted where it is (reading a table of a million rows) is ended for the sake of the new job."""
        if page.running and page.job == job["job"] and not page.begun:
            self._end_process(page)
            page.running = True
            self._new_process(page)
            page.say(job)

    def _end_if_silent(self, page: OpenPage, job: str) -> None:
        if not page.running or page.job != job:
            return
        loop = asyncio.get_running_loop()
        left = page.heard + SILENCE - loop.time()
        if left > 0:
            loop.call_later(left + 0.01, self._end_if_silent, page, job)
            return
        words = "It could not be stopped in an orderly way and was ended; nothing is left of it."
        page.note({"event": "failed", "job": job, "sentence": words})
        self._end_process(page)
        self._next()

    def _next(self) -> None:
        while self.queue and sum(page.running for page in self.pages.values()) < AT_ONCE:
            page, job = self.queue.pop(0)
            page.running = True
            if page.process is None or not page.process.is_alive():
                self._new_process(page)
            page.say(job)
        self._tell_queue()

    def _tell_queue(self) -> None:
        for place, (page, job) in enumerate(self.queue):
            page.note({"event": "waiting", "job": job["job"], "before": place + 1})

    # --- the process of a page ---------------------------------------------------------------------------------------

    def _new_process(self, page: OpenPage) -> None:
        from .child import work

        page.pipe, other = self._context.Pipe()
        process = self._context.Process(target=work, args=(other, str(page.folder)), daemon=True)
        process.start()
        page.process = process
        other.close()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(page, page.pipe, loop), daemon=True).start()

    def _listen(self, page: OpenPage, pipe: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: from the pipe to the page."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            while True:
                try:
                    event = json.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    loop.call_soon_threadsafe(self._gone, page, pipe)
                    return
                loop.call_soon_threadsafe(self._heard, page, event)

    def _heard(self, page: OpenPage, event: dict[str, Any]) -> None:
        if event["job"] != page.job:  # of a job that was replaced
            return
        page.heard, page.begun = asyncio.get_running_loop().time(), True
        page.note(event)
        if event["event"] in ENDED:
            page.running = False
            self._next()

    def _gone(self, page: OpenPage, pipe: Connection) -> None:
        """The process ended by itself: out of memory, most likely."""
        if page.pipe is pipe:
            if page.running:
                words = "The work on this ended unexpectedly, most likely for want of memory; try something smaller."
                page.note({"event": "failed", "job": page.job, "sentence": words})
            self._end_process(page)
            self._next()

    def _end_process(self, page: OpenPage) -> None:
        process, pipe = page.process, page.pipe
        page.process = page.pipe = None
        page.running = False
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
        if process is not None:
            process.kill()
            process.join(5)
            process.close()


def points(given: Any) -> list[list[float]]:
    """Cities that were placed by hand."""
    good = isinstance(given, list) and 1 <= len(given) <= 2000
    if not good or not all(isinstance(p, list) and len(p) == 2 and all(_finite(v) for v in p) for p in given):
        raise BadInput("Cities are 1 to 2000 pairs of numbers.")
    return [[float(x), float(y)] for x, y in given]


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e9


def _processes() -> Any:
    """Forked from a clean process that has torch loaded already, where that exists; else started anew."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unshuffle.studio.warm"])
    forkserver.ensure_running()  # it loads while the page is looked at
    return context


def tidy() -> None:
    """Removes what servers left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number = folder.name.removeprefix(PREFIX).split("-")[0]
        if number.isdigit() and not _alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
