"""The one error for users; apart from ``shapes`` so that the command line can name it without loading torch."""

from __future__ import annotations

from typing import Any


class BadInput(ValueError):
    """What a user gave cannot be used; the message is one sentence that says what to do about it."""


def whole(name: str, value: Any, least: int) -> int:
    """The value, if it is a whole number of at least ``least``; otherwise one sentence."""
    try:
        fits = int(value) == value and value >= least
    except (TypeError, ValueError, OverflowError):  # text, None, NaN, infinity
        fits = False
    if not fits:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)
