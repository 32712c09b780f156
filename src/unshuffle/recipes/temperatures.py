"""The temperatures of the paper's tables and of the command line, by name."""

from __future__ import annotations

from ..errors import BadInput
from ..temperature.local import Controller, LocalTemperature, MatchedScalar
from ..temperature.schedules import Anneal, Constant, Schedule


def tempered(
    name: str, schedule: Anneal, field: LocalTemperature, degree: LocalTemperature | None = None
) -> tuple[Schedule, Controller | None]:
    """Schedule and controller: "fixed" at its first beta, "global", "adaptive", and "matched", a scalar lowered by the field's mean.

    "degree", for tours alone, adapts by another signal.
    """
    ways: dict[str, tuple[Schedule, Controller | None]] = {
        "fixed": (Constant(schedule.start), None),
        "global": (schedule, None),
        "adaptive": (schedule, field),
        "matched": (schedule, MatchedScalar(field)),
    }
    if degree is not None:
        ways["degree"] = (schedule, degree)
    if name not in ways:
        hint = " Degree violation is a signal of tours." if name == "degree" else ""
        raise BadInput(f"The temperature is one of {', '.join(ways)} here, not {name!r}.{hint}")
    return ways[name]
