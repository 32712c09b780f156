"""The tables by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .anchors import anchors
from .checks import mask_only, runtime
from .figures import figures
from .geometry import ot4p
from .jigsaws import jigsaw, jigsaw_ablation
from .run import Planned, Scale
from .schedules import hard_sorting_schedules
from .sorting import sorting
from .tours import sensitivity, tsp, tsp_ablation


@dataclass(frozen=True)
class Wanted:
    """What a table is asked for."""

    scale: Scale
    seeds: Sequence[int]
    data: Path | None = None  # folder of pictures, for the jigsaws


TABLES: dict[str, Callable[[Wanted], list[Planned]]] = {
    "sorting": lambda wanted: sorting(wanted.scale, wanted.seeds),
    "jigsaw": lambda wanted: jigsaw(wanted.scale, wanted.seeds, wanted.data),
    "jigsaw-ablation": lambda wanted: jigsaw_ablation(wanted.scale, wanted.seeds, wanted.data),
    "anchors": lambda wanted: anchors(wanted.scale, wanted.seeds, wanted.data),
    "tsp": lambda wanted: tsp(wanted.scale, wanted.seeds),
    "tsp-ablation": lambda wanted: tsp_ablation(wanted.scale, wanted.seeds),
    "sensitivity": lambda wanted: sensitivity(wanted.scale, wanted.seeds),
    "ot4p": lambda wanted: ot4p(wanted.scale, wanted.seeds),
    "hard-sorting-schedules": lambda wanted: hard_sorting_schedules(wanted.scale, wanted.seeds),
    "mask-only": lambda wanted: mask_only(wanted.scale, wanted.seeds),
    "runtime": lambda wanted: runtime(wanted.scale, wanted.seeds),
    "figures": lambda wanted: figures(wanted.scale, wanted.seeds),
}
NEED_PICTURES = ("jigsaw", "jigsaw-ablation", "anchors")
