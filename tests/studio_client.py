"""A studio in a process of its own, and a page without a browser: requests and the stream of events."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 240.0  # seconds: kernels may have to be compiled first


class Server:
    def __init__(self, port: int = 0) -> None:
        command = [sys.executable, "-m", "unshuffle", "studio", "--no-open", "--port", str(port)]
        alone = os.environ | {"OMP_NUM_THREADS": "1"}  # beside other tests threads of torch only wait for each other
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=alone, text=True, **pipes)
        line = self.process.stdout.readline() if self.process.stdout else ""
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"no address in {line!r}: {self.process.communicate()[1]}")
        self.address = found[0]
        parts = urlsplit(self.address)
        assert parts.hostname == "127.0.0.1"
        self.port, self.token = parts.port, parse_qs(parts.query)["token"][0]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        try:
            given = {"x-token": self.token} | {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, data, {k: v for k, v in given.items() if v})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self, how: int = signal.SIGINT) -> None:
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Page:
    def __init__(self, server: Server, name: str = "") -> None:
        self.server, self.name = server, name or str(uuid.uuid4())
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self.connection.request("GET", f"/api/pages/{self.name}/events?token={server.token}")
        self.stream = self.connection.getresponse()
        assert self.stream.status == 200
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            for line in self.stream:
                if line.startswith(b"data: "):
                    self.heard.put(json.loads(line[6:]))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass

    def ask(self, rest: str, body: Any = None, method: str = "POST") -> tuple[int, bytes]:
        return self.server.ask(method, f"/api/pages/{self.name}/{rest}", {} if body is None else body)

    def upload(self, name: str, data: bytes) -> tuple[int, dict[str, Any]]:
        from urllib.parse import quote

        status, answer = self.server.ask("POST", f"/api/pages/{self.name}/uploads?name={quote(name)}", data)
        return status, json.loads(answer)

    def start(self, task: str, **what: Any) -> str:
        status, answer = self.ask("jobs", {"task": task, **what})
        assert status == 200, answer
        return json.loads(answer)["job"]

    def until(self, *events: str, seconds: float = PATIENCE) -> list[dict[str, Any]]:
        """What is heard until one of these events, which is the last."""
        told, end = [], time.monotonic() + seconds
        while True:
            told.append(self.heard.get(timeout=max(0.01, end - time.monotonic())))
            if told[-1]["event"] in events:
                return told

    def say(self, job: str, **what: Any) -> int:
        return self.ask(f"jobs/{job}/say", what)[0]

    def close(self) -> None:
        """As if the browser were gone."""
        import socket

        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def children(process: int) -> set[int]:
    """Processes below this one that run a page's work."""
    found, above = set(), {process}
    while above:
        below = set()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/stat") as file:
                        state, parent = file.read().rsplit(")", 1)[1].split()[:2]
                except OSError:
                    continue
                if int(parent) in above and state != "Z":
                    below.add(int(entry))
        above = below - found
        found |= below
    return found


def eventually(condition: Any, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.15)  # a look into a browser costs three processes some milliseconds
    return False
