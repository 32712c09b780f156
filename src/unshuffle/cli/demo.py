"""``unshuffle demo``: the shortest way to see it work."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from .jigsaw import jigsaw
from .options import Json, Out, Quiet, Seed, Usual


def demo(out: Out = Path("unshuffle-demo"), seed: Seed = 0, json_: Json = False, quiet: Quiet = False) -> None:
    """Shuffle a shipped photo, put it back together, show before and after.

    192 tiles (16x12), no training, no hints; a few seconds, most of them to compile the kernels the first time.
    Writes before-after.png and the rest of what `unshuffle jigsaw` writes.

    Example: unshuffle demo --seed 3
    """
    with as_file(files("unshuffle") / "data" / "coffee.jpg") as photo:
        jigsaw(photo, grid="16x12", shuffle=True, usual=Usual(out, seed, json_=json_, quiet=quiet))
