"""The files of a command: never over what it was given to read, nor beside those that an earlier run has left in the folder."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..files import write_together

JSON = "result.json"
PUZZLE = (JSON, "order.csv", "before-after.png", "reassembled.png", "left-out.png", "pictures.png", "picture-*.png")
WRITES = {  # command -> the files it may write, so that it can be told beforehand; NAME is that of the input
    "demo": PUZZLE,
    "jigsaw": PUZZLE,
    "strips": (JSON, "order.csv", "page.png", "page-*.png"),
    "tour": ("NAME.json", "NAME.tour", "NAME.csv", "NAME.png"),
    "seriate": (JSON, "rows.csv", "columns.csv", "table.csv", "before-after.png"),
    "hic": (JSON, "order.csv", "scaffolds.agp", "before-after.png"),
    "markers": (JSON, "map.csv", "map.png"),
    "slices": (JSON, "order.csv", "contact-sheet.png"),
    "match": (JSON, "pairs.csv", "left-out.csv", "pairs.png"),
    "apply": ("NAME.order.json", "NAME.tour", "NAME.png"),
}


def json_text(result: dict[str, Any]) -> str:
    return json.dumps(result, indent=1) + "\n"


def keep_inputs(command: str, inputs: Iterable[Path], out: Path) -> None:
    """Nothing, if no file that the command may write into ``out`` is an input or lies among inputs; otherwise an error."""
    for path in inputs:
        if not path.exists() or not out.is_dir():
            continue
        names = [name.replace("NAME", glob.escape(path.stem)) for name in WRITES.get(command, ())]
        if names and path.is_dir() and path.samefile(out) and command != "apply":  # a run's folder may have its results
            raise BadInput(f"The results would lie among what is read from {path}: give another folder with --out.")
        if path.is_file() and any(there.samefile(path) for name in names for there in out.glob(name)):
            raise BadInput(f"The results would overwrite {path}: give another folder with --out.")


def write_results(out: Path, files: Mapping[str, bytes | str], result: dict[str, Any]) -> None:
    """These files and result.json, which lists them; what the result.json of an earlier run lists, and this one does not, is removed."""
    before = _listed(out / JSON)
    result["files"] = [*files, JSON]
    write_together({out / name: data for name, data in files.items()} | {out / JSON: json_text(result)})
    for name in before - {*result["files"]}:
        (out / name).unlink(missing_ok=True)


def _listed(path: Path) -> set[str]:
    """The files beside it that an earlier run has written."""
    try:
        files = json.loads(path.read_text()).get("files", ())
        return {name for name in files if Path(name).name == name}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()
