"""The one error for users; apart from ``shapes`` so that the command line can name it without loading torch."""

from __future__ import annotations

import inspect
import math
from operator import index
from typing import Any


class BadInput(ValueError):
    """What a user gave cannot be used; the message is one sentence that says what to do about it."""


MOST = 2**63 - 1  # what torch and numpy can count; also the largest seed


def whole(name: str, value: Any, least: int) -> int:
    """The value, if it is a whole number of at least ``least``; otherwise one sentence."""
    try:  # by its type: 3.0 counts nothing
        fits = not isinstance(value, bool) and least <= index(value) <= MOST
    except (TypeError, ValueError, OverflowError, RuntimeError):  # text, None, a real number, several numbers
        fits = False
    if not fits:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {shown(value)}.")
    return index(value)


def number(
    name: str, value: Any, *, least: float | None = None, above: float | None = None, below: float | None = None
) -> float:
    """The value, if it is a finite number within these bounds; otherwise one sentence."""
    try:
        # text has a float too, but whoever writes "0.5" has mixed up something
        real = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        real = math.nan
    low = least is None or real >= least
    finite = -math.inf < real < math.inf  # compared: a graph with symbolic numbers knows no math.isfinite
    if not (finite and low and (above is None or real > above) and (below is None or real < below)):
        bounds = {"of at least": least, "above": above, "below": below}
        words = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        raise BadInput(f"{name} must be a finite number{words and ' '}{words}, not {shown(value)}.")
    return real


def function(name: str, value: Any, example: str, takes: str = "") -> None:
    """Nothing, if the value can be called and is no class, of which somebody forgot to make one; otherwise one sentence.

    With ``takes``, names of arguments ("start, end, t"), also only if it can be called with so many.
    """
    if not callable(value) or isinstance(value, type):
        raise BadInput(f"{name} must be a function such as {example}, not {shown(value)}.")
    if takes and not called_with(value, takes):
        raise BadInput(f"{name} must be a function of ({takes}) such as {example}, not {shown(value)}.")


def called_with(value: Any, takes: str) -> bool:
    """Whether it can be called with these arguments by their places; if it is of this package, they are called so as well.

    Schedules, signals and controllers are all functions, and one in place of another would be found out in the middle of a training.
    """
    try:
        found = inspect.signature(getattr(value, "forward", value))  # a torch module says how it is called by `forward`
    except (TypeError, ValueError):  # written in C: it does not say
        return True
    asked = takes.split(", ")
    try:
        found.bind(*asked)
    except TypeError:
        return False
    module = getattr(value, "__module__", None) or ""
    return not module.startswith("unshuffle.") or list(found.parameters)[: len(asked)] == asked


def dense(name: str, value: Any) -> None:
    """Nothing, unless the value is a sparse tensor; then one sentence. What is not stored there would count as 0."""
    layout = str(getattr(value, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise BadInput(f"{name} must be dense, not {layout.removeprefix('torch.')}; call .to_dense() first.")


def shown(value: Any) -> str:
    """A value in one line of an error."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
