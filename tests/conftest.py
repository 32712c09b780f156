"""Shapes in signatures are checked here, and only here: jaxtyping's import hook with beartype."""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

gc.disable()  # until all files are read: what they load is no garbage, and looking for some takes a fifth of the time

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

if "PYTEST_XDIST_WORKER" in os.environ:  # beside other processes threads of torch only wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import torch  # noqa: E402  (after the hook and the number of threads)

settings.register_profile("unshuffle", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("unshuffle")

LONG = (
    "transforms",  # compiles the kernels that most others need; beside it two that need none of them:
    "types",
    "near",
    "compiled",
    "examples",
    "package",
    "solve",
    "reproduce",
    "golden",
    "learn",
    "train",
    "studio_browser",
    "partial",
    "cli",
    "estimator",
    "relaxations",
    "studio",
    "bad_input",
    "partial_solve",
    "jigsaw",
    "match",
    "strips",
    "path",
    "time",
    "readme",
    "tour",
    "candidates",
    "memory",
    "notebooks",
    "jit",
    "gumbel",
    "grid",
    "ring",
    "sets",
    "many",
    "batch",
    "seriation",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: some tests wait, for a browser, a process or a clock. With two more it takes longer."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest first, so that all processes end together."""
    first = {f"test_{name}.py": rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: first.get(item.path.name, len(first)))


def pytest_collection_finish() -> None:
    """Every process of a run reads every file of tests: what is compiled there, each of them waits for.

    What has been loaded by now stays to the end, and is not looked at for garbage any more.
    """
    gc.freeze()
    gc.enable()
    kernels = sys.modules.get("unshuffle.operators._sinkhorn.one_by_one")
    if kernels is not None and getattr(kernels.forward, "signatures", ()):
        raise pytest.UsageError("A file of tests calls sinkhorn while it is read; let a test or a fixture do it.")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
