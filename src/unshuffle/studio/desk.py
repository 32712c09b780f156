"""The child's end of the pipe: what the page asks for comes in, what happens goes out."""

from __future__ import annotations

import json
import os
import threading
from multiprocessing.connection import Connection
from typing import Any


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
