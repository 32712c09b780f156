"""Peak memory of forward + backward beyond input, output and gradient; and what the first call costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..operators._sinkhorn.in_torch import plain_sinkhorn
from ..operators.sinkhorn import sinkhorn
from .apart import apart


@dataclass(frozen=True)
class Peak:
    """In units of one batch of n x n matrices; the vectors are 2T + 1 of length n a matrix."""

    iterations: int
    ours: float
    vectors: float
    plain: float | None


def resident() -> int:
    """Bytes of this process in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_during(run: Callable[[], object]) -> int:
    """The most that the process grew while ``run`` ran."""
    stop = threading.Event()
    most = [before := resident()]

    def look() -> None:
        while not stop.is_set():
            most[0] = max(most[0], resident())
            time.sleep(0.0005)

    watcher = threading.Thread(target=look)
    watcher.start()
    run()
    stop.set()
    watcher.join()
    return most[0] - before


OPERATORS: dict[str, Callable[[Tensor, int], Tensor]] = {"ours": sinkhorn, "plain": plain_sinkhorn}


def growth(operator: str, iterations: int, batch: int, n: int) -> float:
    """In this process: growth during forward + backward, in batches of matrices, less the output and the gradient."""
    scores, weights = torch.randn(batch, n, n).requires_grad_(), torch.randn(batch, n, n)
    run = OPERATORS[operator]
    warm = torch.randn(256, 64, 64).requires_grad_()  # loads the code and starts the threads, some 30 MB
    torch.autograd.grad(run(warm, iterations), warm, torch.ones_like(warm))
    return peak_during(lambda: torch.autograd.grad(run(scores, iterations), scores, weights)) / (batch * n * n * 4) - 2


def measure(iterations: int, batch: int = 24, n: int = 1000, plain: bool = True) -> Peak:
    """Each in a process of its own."""
    ours = apart(growth, "ours", iterations, batch, n)
    theirs = apart(growth, "plain", iterations, batch, n) if plain else None
    return Peak(iterations, ours, (2 * iterations + 1) / n, theirs)


FIRST_CALL = """
import time
start = time.perf_counter()
import torch, unshuffle as us
ready = time.perf_counter()
scores = torch.randn(16, 10, 10, requires_grad=True), torch.randn(4, 64, 64, requires_grad=True)
for s in scores:
    us.sinkhorn(s).sum().backward()
print(ready - start, time.perf_counter() - ready)
"""


def first_calls() -> dict[str, float]:
    """Seconds to import, and of the first forward + backward (small and larger matrices): new, and with the cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        times = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL], env=environment, capture_output=True, text=True, check=True
            )
            times.append([float(x) for x in done.stdout.split()])
    return {"import": times[1][0], "first_process": times[0][1], "second_process": times[1][1]}
