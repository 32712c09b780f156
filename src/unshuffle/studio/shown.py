"""What frames are made of: matrices as bytes, soft permutations, places and numbers, as little as a picture needs."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots import coarser

if TYPE_CHECKING:
    from ..watch import Step

FINEST = 128  # rows and columns of a soft permutation on the page


def packed(values: np.ndarray, top: float | None = None) -> dict[str, Any]:
    """A matrix of numbers of 0 and more as bytes, 255 for the largest."""
    top = max(float(values.max(initial=0)) if top is None else top, 1e-12)
    data = (np.clip(values / top, 0, 1) * 255).astype(np.uint8)
    return {
        "rows": data.shape[0],
        "columns": data.shape[1],
        "data": base64.b64encode(data.tobytes()).decode(),
        "top": top,
    }


def mean_places(P: np.ndarray) -> np.ndarray:
    """Of each item the mean of its positions, 0 to 1."""
    weight = P / np.maximum(P.sum(1, keepdims=True), 1e-12)
    return weight @ np.linspace(0, 1, P.shape[1])


def seen(P: np.ndarray) -> dict[str, Any]:
    """A soft permutation, its rows by where their items are: the surer, the nearer to the diagonal."""
    rows = P[np.argsort(mean_places(P), kind="stable")]
    return packed(coarser(rows, FINEST))


def numbers(step: Step) -> dict[str, Any]:
    known = {"energy": step.energy, "entropy": step.entropy, "beta": step.beta, "done": step.overall}
    told: dict[str, Any] = {name: value for name, value in known.items() if math.isfinite(value)}
    return {"seconds": step.seconds, "stage": step.stage, **told}


def soft_of(step: Step) -> np.ndarray | None:
    return None if step.soft is None else np.asarray(step.soft(), dtype=np.float32)


def listed(values: np.ndarray, digits: int = 4) -> list[Any]:
    return np.round(np.asarray(values, dtype=float), digits).tolist()


def written(results: Path, name: str = "result.json") -> dict[str, Any]:
    return json.loads((results / name).read_text())
