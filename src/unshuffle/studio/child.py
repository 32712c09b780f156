"""The work of one page, in a process of its own with a limit on memory: it runs command lines and tells what they do.

The server is at the other end of a pipe. What comes from outside (pictures, tables) is only ever read here. When the pipe
closes, the process ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from ..compute.compiling import compiling_seconds
from ..errors import BadInput
from .desk import Desk
from .job import Job

MEMORY = 6 * 2**30  # bytes that a page's process may take
OFTEN, A_WHILE = 0.1, 0.7  # seconds between two looks at the memory, and between two remarks on what is compiled


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
