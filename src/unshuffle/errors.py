"""The one error for users; apart from ``shapes`` so that the command line can name it without loading torch."""

from __future__ import annotations


class BadInput(ValueError):
    """What a user gave cannot be used; the message is one sentence that says what to do about it."""
