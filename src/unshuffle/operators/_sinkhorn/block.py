"""Which part of a square is real: what is left of a problem where not every item has a place, see `operators.partial`."""

from __future__ import annotations

from typing import NamedTuple


class Block(NamedTuple):
    """The first ``items`` rows and ``positions`` columns are real and have noise; 0 stands for all of them.

    The others are dummies. The last row and the last column stand for ``alike`` of these each, and sum to as much.
    """

    items: int = 0
    positions: int = 0
    alike: int = 1


WHOLE = Block()
