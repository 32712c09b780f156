"""The tables by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .run import Planned, Scale
from .sorting import sorting


@dataclass(frozen=True)
class Wanted:
    """What a table is asked for."""

    scale: Scale
    seeds: Sequence[int]
    data: Path | None = None  # folder of pictures, for the jigsaws


TABLES: dict[str, Callable[[Wanted], list[Planned]]] = {
    "sorting": lambda wanted: sorting(wanted.scale, wanted.seeds),
}
