"""The temperatures of the paper's tables and of the command line, by name."""

from __future__ import annotations

from typing import TypedDict

from ..errors import BadInput
from ..temperature.entropy import STEADY
from ..temperature.local import Controller, LocalTemperature, MatchedScalar
from ..temperature.schedules import Anneal, Constant, Schedule


class Tempered(TypedDict):
    """What a relaxation is told of its temperature."""

    schedule: Schedule
    local: Controller | None
    noise: float | None


def tempered(
    name: str, schedule: Anneal, field: LocalTemperature, degree: LocalTemperature | None = None, noise: float = 1.0
) -> Tempered:
    """Schedule, controller and noise: "fixed" at its first beta, "global", "adaptive", and "matched", a scalar lowered by the
    field's mean.

    "entropy" leads how undecided rows are, as a layer without arguments does, and its noise is in logits; where there is none,
    it has none.
    "degree", for tours alone, adapts by another signal.
    """
    ways: dict[str, Tempered] = {
        "fixed": {"schedule": Constant(schedule.start), "local": None, "noise": noise},
        "global": {"schedule": schedule, "local": None, "noise": noise},
        "adaptive": {"schedule": schedule, "local": field, "noise": noise},
        "matched": {"schedule": schedule, "local": MatchedScalar(field), "noise": noise},
        "entropy": {"schedule": STEADY, "local": None, "noise": None if noise else 0.0},
    }
    if degree is not None:
        ways["degree"] = {"schedule": schedule, "local": degree, "noise": noise}
    if name not in ways:
        hint = " Degree violation is a signal of tours." if name == "degree" else ""
        raise BadInput(f"The temperature is one of {', '.join(ways)} here, not {name!r}.{hint}")
    return ways[name]
