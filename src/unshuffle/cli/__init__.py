"""The command line: a dict of functions, one file each, loaded only when called."""

from __future__ import annotations

from .common import main

__all__ = ["main"]
