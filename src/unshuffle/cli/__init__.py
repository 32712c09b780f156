"""The command line: a dict of functions, one file each, loaded only when called."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

__all__ = ["main"]

SHOWN = "\x1b[?25h"  # the cursor, which a progress bar hides
LOADER = "<frozen importlib._bootstrap>"


def main() -> None:
    """The console script."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # in the background of a shell Ctrl-C is of no concern
        signal.signal(signal.SIGINT, interrupt)
    from .common import main as command

    command()


def interrupt(signal_: int, frame: FrameType | None) -> None:
    """Ctrl-C. Modules that are being loaded must not see it: some of torch's abort then, and others raise what they like."""
    while frame is not None:
        if frame.f_code.co_filename == LOADER:
            shown = SHOWN if sys.stderr.isatty() else ""
            os.write(sys.stderr.fileno(), f"{shown}Interrupted.\n".encode())
            os._exit(130)
        frame = frame.f_back
    signal.default_int_handler(signal_, frame)
