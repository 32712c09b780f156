"""What a table of numbers is and what makes an order of its rows good, by name; apart, so that help answers without torch."""

from __future__ import annotations

from enum import Enum


class Kind(str, Enum):
    """What the numbers of a table are."""

    features = "features"
    counts = "counts"
    dissimilarity = "dissimilarity"


class Criterion(str, Enum):
    path = "path"
    two_sum = "two-sum"
    lags = "lags"
