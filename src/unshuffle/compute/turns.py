"""Processes that start together compile a kernel once: one does it, and the others wait and load it from the disk.

A turn is a lock on one byte of a file beside the stored code. The system takes it back when a process ends, in whatever way.
A kernel waits for those that it calls and they never for it, so nobody waits in a circle.
"""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: each process compiles for itself
    fcntl = None

PATIENCE = 30.0  # seconds; then a process goes on by itself: the one whose turn it is may be stopped
LOOK = 0.05  # seconds between two looks


@contextmanager
def turn(folder: str, kernel: str) -> Iterator[None]:
    """The only process that is here for this kernel of this folder, unless others keep it waiting for too long."""
    file, byte = _file(folder), zlib.crc32(kernel.encode())
    if fcntl is None or file is None:
        yield
        return
    until = time.monotonic() + PATIENCE
    while not _taken(file, byte) and time.monotonic() < until:
        time.sleep(LOOK)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)  # of this process alone, and nothing if it has none


def _taken(file: int, byte: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)  # pyright: ignore[reportOptionalMemberAccess]
    except (BlockingIOError, PermissionError):  # another process has it
        return False
    except OSError:  # a file system without locks: nothing to wait for
        return True
    return True


@functools.cache
def _file(folder: str) -> int | None:
    """Open as long as the process lives: to close it anywhere would give back all turns at once."""
    if fcntl is None:
        return None
    try:
        return os.open(Path(folder) / "turns.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
