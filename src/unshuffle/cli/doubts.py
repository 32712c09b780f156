"""What commands tell of what they do not know: sets that hold the truth, and the next best orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .common import unless_pressed

if TYPE_CHECKING:
    from torch import Tensor

    from ..solve.sets import Sets
    from ..solve.solution import Polished, Solution
    from .common import Clock

LEVEL = 0.9
MOST = 20_000  # items whose sets are written: of more they take longer than the order

SOON = 300  # items whose sets take a moment
EACH = 2e-3  # seconds for each of many items


def sets_in(found: Solution, numbers: Tensor | None = None, clock: Clock | None = None) -> dict[str, Any]:
    """For the result file: per item the places and the neighbours that hold the true ones with 90 %; items by these numbers."""
    if not wanted(found.status, len(found.confidence), clock):
        return {}
    return unless_pressed(lambda: {"sets": as_lists(found.sets(LEVEL), numbers)})


def wanted(status: str, items: int, clock: Clock | None = None) -> bool:
    """Whether sets are: not after Ctrl-C, nor of many items that a time limit has stopped or would stop now."""
    most = {"finished": MOST, "interrupted": 0}.get(status, SOON)
    return items <= most and (items <= SOON or clock is None or clock.spare(EACH * items))


def as_lists(sets: Sets, numbers: Tensor | None = None) -> dict[str, Any]:
    """For JSON; items by these numbers."""
    partners = sets.partners if numbers is None else [numbers[some] for some in sets.partners]
    lists = {"places": sets.places, "partners": partners}
    own = {} if numbers is None else {"items": numbers.tolist()}
    return {"level": sets.level} | own | {k: [s.tolist() for s in some] for k, some in lists.items() if some}


def of_these(told: dict[str, Any], items: list[int]) -> dict[str, Any]:
    """The sets of some of the items alone, as ``sets_in`` gave them of all."""
    if "sets" not in told:
        return told
    own = {name: [some[k] for k in items] for name, some in told["sets"].items() if name != "level"}
    return {"sets": {"level": told["sets"]["level"], "items": items, **own}}


def spans(result: dict[str, Any], order: list[int], first: int = 0) -> list[tuple[int, int]]:
    """For a picture: of the items in order the first and the last of their likely places, counted from ``first`` on; none without sets."""
    places = result.get("sets", {}).get("places")
    return [] if places is None else [(first + min(places[k]), first + max(places[k])) for k in order]


def alternatives_in(others: list[Polished], wanted: int, name: str = "energy") -> dict[str, Any]:
    """For the result file, if somebody wanted any: orders with their energies, the best first."""
    return {"alternatives": [{"order": o.order.tolist(), name: o.energy} for o in others]} if wanted else {}


def others_of(
    found: Solution, wanted: int, numbers: Tensor | None = None, turn: int = 1, told: Solution | None = None
) -> dict[str, Any]:
    """The same of a solution, its items by these numbers; where they have states, with the quarter turns of each, ``turn`` a state.

    ``told``: the same solution with other states, those that are told.
    """
    others = found.alternatives(wanted)
    numbered = others if numbers is None else [o._replace(order=numbers[o.order]) for o in others]
    result = alternatives_in(numbered, wanted)
    for one, other in zip(result.get("alternatives", ()), others, strict=True):
        if (states := (told or found).states_in(other.order)) is not None:
            one["turns"] = (turn * states).tolist()
    return result


def of_groups(others: list[list[Polished]], wanted: int, name: str = "energy") -> list[list[dict[str, Any]]]:
    """The same of each of several groups."""
    return [alternatives_in(some, wanted, name)["alternatives"] for some in others]


def next_best(result: dict[str, Any], wanted: int, name: str = "energy") -> list[str]:
    """A line for a person who wanted alternatives."""
    if not wanted:
        return []
    if "alternatives" not in result:
        return ["The next best orders of every one are in the JSON."]
    others = result["alternatives"]
    if not others:
        return ["No other order was found."]
    return [f"{len(others)} other orders are in the JSON, the next best with {name} {others[0][name]:.6g}."]
