"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_atomic(path: Path, data: bytes | str) -> Path:
    """Write next to the target, then rename: a reader sees the old file or the new one, never half of one."""
    return write_together({path: data})[0]


def write_together(files: Mapping[Path, bytes | str]) -> list[Path]:
    """All of them or none: each is written next to its target, and only when all are whole are they renamed."""
    waiting: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            path = Path(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():  # found out now: a rename would only fail after others have been done
                raise IsADirectoryError(21, "Is a directory", str(path))
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            waiting[path] = Path(temporary)
            with os.fdopen(handle, "wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())  # else a crash of the machine can leave a renamed, empty file
        umask = os.umask(0)
        os.umask(umask)
        for path, temporary in waiting.items():
            os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes it private
            os.replace(temporary, path)
    except BaseException:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
        raise
    return list(waiting)
