"""The paper's diagnostic as a number: Kendall tau of two methods at equal entropy, not at equal epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..paper.store import Place, Result

TABLE, METRIC = "ambiguity", "difference"
PAIRS = (("adaptive", "global"), ("adaptive", "matched"), ("matched", "global"))
LEVELS = 50  # of entropy, at which two curves are compared
LEAST = 0.02  # of entropy that both must have passed through

Curve = dict[str, list[float]]


def at_equal_entropy(results: Iterable[Result]) -> list[Result]:
    """For every pair of sorting runs with one seed: a result that holds the mean difference of their curves."""
    runs: dict[Place, dict[str, Result]] = defaultdict(dict)
    for result in results:
        for place in result.places:
            if place.table == "sorting" and {"tau", "row_entropy_mean"} <= set(result.history):
                runs[replace(place, row="", table=TABLE)][place.row] = result
    found = []
    for place, rows in runs.items():
        for first, second in PAIRS:
            if first in rows and second in rows:
                apart = difference(rows[first].history, rows[second].history)
                where = (replace(place, row=f"{first} - {second}"),)
                if apart is not None:
                    found.append(replace(rows[first], places=where, metrics={METRIC: apart}))
    return found


def difference(first: Curve, second: Curve) -> float | None:
    """Mean difference of Kendall tau over the entropies that both curves pass; None if there are none."""
    ours, theirs = _falling(first), _falling(second)
    low, high = max(ours[0][0], theirs[0][0]), min(ours[0][-1], theirs[0][-1])
    if high - low < LEAST:
        return None
    levels = np.linspace(low, high, LEVELS)
    return float((np.interp(levels, *ours) - np.interp(levels, *theirs)).mean())


def _falling(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Entropies and taus, by rising entropy. Training lowers the entropy; where it rises again for a while, that is left out."""
    entropy, tau = np.array(curve["row_entropy_mean"]), np.array(curve["tau"])
    lower = entropy < np.minimum.accumulate(np.concatenate(([np.inf], entropy[:-1])))
    return entropy[lower][::-1], tau[lower][::-1]
