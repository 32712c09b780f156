"""Forward and backward of ``sinkhorn`` against the plain loop and the peers; how time grows with n, and against a roofline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import torch
from torch import Tensor

from ..operators._sinkhorn.in_torch import plain_sinkhorn
from ..operators.sinkhorn import sinkhorn
from .timing import Spread, fastest, turns
from .trained import STEPS
from .trained import scores as trained_scores

CASES = ((256, 10, 10), (256, 50, 10), (256, 100, 10), (64, 300, 10), (8, 500, 50), (4, 1000, 50))
TINY_MATRICES = ((65_536, 4, 20), (16_384, 8, 20))
# batch, n, T, lowest number to sort, steps of training
TRAINED = tuple(
    (batch, n, 10, low, steps)
    for batch, n in ((128, 50), (32, 100), (8, 300))
    for low in (0.0, 10.0)
    for steps in STEPS.values()
)


@dataclass(frozen=True)
class Speed:
    """One row: milliseconds of forward + backward."""

    batch: int
    n: int
    iterations: int
    ours: float
    plain: float
    ratio: Spread  # plain to ours
    pot: float | None
    pygmtools: float | None
    scores: str = "random"
    spread: float = 0.0  # from the lowest score to the highest
    hard: Spread | None = None  # ours to ours for random scores of the same shape


def there_and_back(operator: Callable[[Tensor], Tensor], scores: Tensor, weights: Tensor) -> Callable[[], object]:
    """Forward, then the gradient for given weights."""
    return lambda: torch.autograd.grad(operator(scores), scores, weights)


def peers(iterations: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """What else is installed that does the same, batched and differentiable."""
    found: dict[str, Callable[[Tensor], Tensor]] = {}
    try:
        solve_batch = import_module("ot.batch").solve_batch
        found["pot"] = lambda s: (
            solve_batch(-s, reg=1.0, max_iter=iterations, tol=0.0, method="log_sinkhorn", grad="autodiff").plan
        )
    except ImportError:
        pass
    try:
        peer = import_module("pygmtools").sinkhorn
        # its max_iter counts row and column steps together
        found["pygmtools"] = lambda s: peer(
            s, max_iter=2 * iterations, tau=1.0, batched_operation=True, backend="pytorch"
        )
    except ImportError:
        pass
    return found


def measure(batch: int, n: int, iterations: int, seconds: float = 1.0) -> Speed:
    """Random scores, against the plain loop and the peers."""
    generator = torch.Generator().manual_seed(n)
    scores = torch.randn(batch, n, n, generator=generator).requires_grad_()
    weights = torch.randn(batch, n, n, generator=generator)
    rivals = {
        "ours": lambda s: sinkhorn(s, iterations),
        "plain": lambda s: plain_sinkhorn(s, iterations),
        **peers(iterations),
    }
    took = turns({name: there_and_back(f, scores, weights) for name, f in rivals.items()}, seconds)
    ms = {name: took.milliseconds(name) for name in rivals}
    ratio = took.times("plain", "ours")
    return Speed(batch, n, iterations, ms["ours"], ms["plain"], ratio, ms.get("pot"), ms.get("pygmtools"))


def measure_tiny(batch: int, n: int, iterations: int, seconds: float = 1.0) -> Speed:
    """Tens of thousands of tiny random matrices, against the plain loop."""
    scores = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(n))
    return _against_the_loop(scores, iterations, seconds, "random")


def measure_trained(batch: int, n: int, iterations: int, low: float, steps: int, seconds: float = 1.0) -> Speed:
    """Scores of a network after ``steps`` of learning to sort numbers from [low, low + 1], see `trained`."""
    name = f"[{low:.0f}, {low + 1:.0f}], {steps} steps"
    return _against_the_loop(trained_scores(batch, n, low, steps), iterations, seconds, name, easy=True)


def _against_the_loop(scores: Tensor, iterations: int, seconds: float, name: str, easy: bool = False) -> Speed:
    batch, n, _ = scores.shape
    generator = torch.Generator().manual_seed(n)
    weights, random = torch.randn(2, batch, n, n, generator=generator)
    ours, plain = (lambda s: sinkhorn(s, iterations)), (lambda s: plain_sinkhorn(s, iterations))
    runs = {name: there_and_back(f, scores.requires_grad_(), weights) for name, f in (("ours", ours), ("plain", plain))}
    if easy:
        runs["easy"] = there_and_back(ours, random.requires_grad_(), weights)
    took = turns(runs, seconds)
    ours_and_plain = took.milliseconds("ours"), took.milliseconds("plain")
    spread = float(scores.detach().max() - scores.detach().min())
    hard = took.times("ours", "easy") if easy else None
    return Speed(batch, n, iterations, *ours_and_plain, took.times("plain", "ours"), None, None, name, spread, hard)


@dataclass(frozen=True)
class Growth:
    """Time of one forward + backward of one size, and the share of what the machine could do at best."""

    n: int
    batch: int
    milliseconds: float
    nanoseconds_per_entry_and_iteration: float
    share_of_roofline: float
    limited_by: str


def growth(n: int, iterations: int = 10) -> Growth:
    """A batch of about 4 million entries, at least one matrix per thread.

    Per entry, an iteration takes 2 multiply-adds forward, 2 backward and 2 in the gradient; the matrix is read once forward and
    once backward from wherever it fits, and scores, P, its gradient and the result go through main memory once.
    """
    threads = torch.get_num_threads()
    batch = max(threads, 4_000_000 // (n * n))
    generator = torch.Generator().manual_seed(n)
    scores = torch.randn(batch, n, n, generator=generator).requires_grad_()
    weights = torch.randn(batch, n, n, generator=generator)
    run = there_and_back(lambda s: sinkhorn(s, iterations), scores, weights)
    seconds = fastest(run, 0.5)
    bound, limit = roofline(batch, n, iterations)
    return Growth(n, batch, 1e3 * seconds, 1e9 * seconds / (batch * n * n * iterations), bound / seconds, limit)


def roofline(batch: int, n: int, iterations: int) -> tuple[float, str]:
    """Seconds that forward + backward take at best, and what limits them."""
    threads, entries = torch.get_num_threads(), batch * n * n
    by_flops = entries * iterations * 12 / peak_flops()
    by_cache = entries * iterations * 2 * 4 / (threads * read_rate(n * n))
    by_memory = entries * 5 * 4 / (threads * read_rate(64_000_000 // 4))
    return max(by_flops, by_cache + by_memory), "multiply-adds" if by_flops > by_cache + by_memory else "reading"


def peak_flops() -> float:
    """Floating-point operations a second, by a matrix product with all threads."""
    a = torch.randn(1024, 1024)
    return 2 * 1024**3 / fastest(lambda: a @ a, 0.2)


def read_rate(numbers: int) -> float:
    """Bytes a second that one thread reads from an array of that many float32, again and again (BLAS's dot product)."""
    array = np.random.default_rng(0).random(max(numbers, 4096), np.float32)
    half = array.size // 2
    repeats = max(1, 2_000_000 // array.size)
    took = fastest(lambda: [array[:half].dot(array[half : 2 * half]) for _ in range(repeats)], 0.1)
    return 4 * 2 * half * repeats / took
