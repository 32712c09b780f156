"""What the machine code of a kernel depends on: its file and every file of ours that it imports, by content.

numba's disk cache looks at the file of the function alone, so that a kernel which uses another file's constant or kernel would stay
as it was when that one changes. Content, not time: a copied or freshly checked out tree keeps its compiled code.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

# from ..compute.jit import njit  |  from . import scaling, packed
IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@functools.cache
def stamp(file: str) -> str:
    """A hash of the file and of all that it imports by relative imports, directly or not."""
    found = {Path(file): b""}
    waiting = list(found)
    while waiting:
        here = waiting.pop()
        found[here], imports = _read(here)
        for path in imports:
            if path not in found:
                found[path] = b""
                waiting.append(path)
    together = hashlib.sha256()
    for content in sorted(found.values()):  # where they lie does not matter
        together.update(content)
    return together.hexdigest()


@functools.cache
def _read(file: Path) -> tuple[bytes, tuple[Path, ...]]:
    text = file.read_bytes()
    return hashlib.sha256(text).digest(), tuple(_imported(file, text))


def _imported(file: Path, text: bytes) -> Iterator[Path]:
    for dots, module, names in IMPORT.findall(text):
        place = file.parents[len(dots) - 1].joinpath(*filter(None, module.decode().split(".")))
        if module and (single := place.with_suffix(".py")).is_file():
            yield single
            continue
        for name in ("__init__", *re.findall(r"\w+", names.decode())):
            if (candidate := place / f"{name}.py").is_file():
                yield candidate
