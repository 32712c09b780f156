"""Where a training run stands, in files that are whole or not there, and safe to open from strangers."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import BadInput, shown
from ..files import write_atomic

VERSION = 1


@dataclass
class RunState:
    """Everything that the rest of a run depends on, besides its settings.

    Noise and data depend on (seed, epoch, step) alone, so no state of a random generator needs to be kept.
    """

    learner: dict[str, Any]
    optimiser: dict[str, Any]
    epoch: int = 0
    step: int = 0  # within the epoch
    total: float = 0.0  # of the losses of this epoch so far
    gradient: float = 0.0  # of the norms
    scale: float = 1.0  # of the learning rate, halved after each rollback
    best: float | None = None
    best_epoch: int | None = None
    best_learner: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)


def save(state: RunState, path: Path, about: dict[str, Any]) -> Path:
    """`about` says what the weights are of: plain values only."""
    buffer = io.BytesIO()
    contents = {name: getattr(state, name) for name in RunState.__dataclass_fields__}
    torch.save({"unshuffle": VERSION, "about": about, "state": contents}, buffer)
    return write_atomic(path, buffer.getvalue())


def load(path: Path) -> tuple[RunState, dict[str, Any]]:
    """The state and what it is of. Tensors and plain values only (`weights_only`): a file cannot run code."""
    path = Path(path)
    data = io.BytesIO(path.read_bytes())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's about other people's pickles: what counts is said below
            contents = torch.load(data, map_location="cpu", weights_only=True)
            version, about = contents["unshuffle"], dict(contents["about"])
        state = RunState(**contents["state"])
    except Exception as error:  # the bytes of strangers: whatever a reader stumbles over
        raise BadInput(f"{path} is not a checkpoint of unshuffle, or is damaged.") from error
    if version != VERSION:
        raise BadInput(f"{path} was written by another version of unshuffle ({shown(version)}).")
    return state, about
