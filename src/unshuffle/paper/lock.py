"""One process at a time for one run, also between machines that share a folder: a file that is there while somebody works."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BEAT = 5.0  # seconds between signs of life
STALE = 60.0  # seconds without one: whoever held it was killed


@contextmanager
def held(path: Path, beat: float = BEAT, stale: float = STALE) -> Iterator[bool]:
    """True if the lock is ours until the end of the block; False if somebody else has it and is alive."""
    _break_if_stale(path, stale)
    if not _taken(path):
        yield False
        return
    done = threading.Event()
    alive = threading.Thread(target=_beat, args=(path, beat, done), daemon=True)
    alive.start()
    try:
        yield True
    finally:
        done.set()
        alive.join()
        path.unlink(missing_ok=True)
        with suppress(OSError):  # if it was the last one
            path.parent.rmdir()


def _taken(path: Path) -> bool:
    for _ in range(10):  # between the two lines somebody else may remove the empty folder
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            try:
                with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "w") as file:
                    file.write(f"{platform.node()} {os.getpid()}")
                return True
            except FileExistsError:
                return False
    return False


def _break_if_stale(path: Path, stale: float) -> None:
    """Renamed before it is removed: of several that see it, one succeeds."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > stale or _ended(path.read_text()):
            path.rename(aside)
            aside.unlink()


def _ended(holder: str) -> bool:
    """Whether the holder was a process of this machine that is no more: then there is nothing to wait for."""
    machine, _, process = holder.rpartition(" ")
    if machine != platform.node() or not process.isdigit() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)  # asks, and sends nothing
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _beat(path: Path, beat: float, done: threading.Event) -> None:
    while not done.wait(beat):
        with suppress(FileNotFoundError):
            os.utime(path)
