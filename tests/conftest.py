"""Shapes in signatures are checked here, and only here: jaxtyping's import hook with beartype."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# modules without numba kernels: the hook wraps every function, and numba cannot compile a wrapper
CHECKED = (
    "operators.assignment",
    "operators.gumbel",
    "operators.permutation",
    "operators.sinkhorn",
    "structure",
    "temperature",
    "metrics",
    "relaxations",
    "networks",
)
install_import_hook(
    [f"unshuffle.{module}" for module in CHECKED],
    "beartype.beartype",
)

import torch  # noqa: E402  (after the hook)

settings.register_profile("unshuffle", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("unshuffle")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
