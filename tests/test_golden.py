"""What is computed and said today is what ``golden.json`` holds, as far as another processor's rounding allows.

``python tests/golden.py --check`` compares every bit; see there when to record again.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from golden import SECTIONS, differences, recorded

NUMBER = re.compile(r"-?(0x[01]\.[0-9a-f]+p[+-]\d+|inf|nan)")


def close(old: Any, new: Any, relative: float = 1e-4, absolute: float = 1e-5) -> bool:
    """Numbers within a tolerance, all else exactly."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(close, old, new))
    if isinstance(old, str) and isinstance(new, str) and NUMBER.fullmatch(old) and NUMBER.fullmatch(new):
        return math.isclose(float.fromhex(old), float.fromhex(new), rel_tol=relative, abs_tol=absolute)
    return old == new


COURSE = {"bytes", "steps", "last step", "agreement", "energies", "soft", "confidence"}
"""Hashes, and what a last bit can change in a long annealing: how it went, not where it ended."""


def portable(case: Any, name: str = "") -> Any:
    """A case without its course. A tour may start anywhere; a solve that is stopped half-way has only been stopped."""
    if not isinstance(case, dict):
        if name.endswith(" / sums"):
            return in_proportion(*case)
        return walked(case, name) if isinstance(case, list) and "order" in name else case
    kept = {"status"} if "stopped" in name else case.keys() - COURSE
    return {key: portable(value, f"{name} / {key}") for key, value in case.items() if not name or key in kept}


def in_proportion(total: str, squares: str) -> list[str]:
    """The sum in units of the root of the sum of squares: gradients that cancel each other leave the rounding of the large ones."""
    unit = math.sqrt(float.fromhex(squares)) or 1.0
    return [(float.fromhex(total) / unit).hex(), squares]


def walked(order: list[int], name: str) -> list[int]:
    """The tour from item 0, and a tour or path in the direction that comes first; as it is where the start or the direction matter."""
    free = not any(word in name for word in ("mask", "askew", "init"))
    if name.startswith(" / path") and free:
        return min(order, order[::-1])
    if not name.startswith(" / cycle") or "mask" in name:
        return order
    start = order.index(0)
    forward = order[start:] + order[:start]
    return forward if "askew" in name else min(forward, forward[:1] + forward[:0:-1])


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "refusals"])  # in test_bad_input.py
def test_as_recorded(section):
    old = recorded()[section]
    assert old
    lines = list(differences(portable(old), portable(SECTIONS[section]()), close))
    assert not lines, "\n".join(lines)


def test_differences_are_seen():
    old = recorded()["operators"]
    name = next(iter(old))
    assert not list(differences(old, old, close))
    assert list(differences(old, {name: old[name]}, close))
    changed = old | {name: old[name] | {"value": old[name]["value"] | {"first": ["0x1.8p+3"] * 3}}}
    (line,) = differences(old, changed, close)
    assert line.startswith(f"{name} / value / first")
    assert list(differences({"test": ["It is so."]}, {"test": ["It is not so."]}, close))


def test_sums_that_cancel_are_compared_by_what_cancels():
    old = {"a": {"sums": [(-1.2e-4).hex(), (3900.0).hex()]}}
    for total, same in ((-1.0e-4, True), (0.1, False)):
        new = {"a": {"sums": [total.hex(), (3900.0).hex()]}}
        assert (not list(differences(portable(old), portable(new), close))) == same
