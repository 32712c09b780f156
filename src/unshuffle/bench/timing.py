"""Taking turns with a stop-watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def fastest(rivals: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Seconds of the fastest call of each rival, in three rounds of turns; a turn lasts a share of ``seconds`` or one call.

    A turn is several calls, because the threads of the one before go on spinning for a while and would be counted in.
    """
    best = {name: float("inf") for name in rivals}
    for run in rivals.values():
        run()  # compiles, and warms the caches
    for _ in range(3):
        for name, run in rivals.items():
            began = time.perf_counter()
            while True:
                start = time.perf_counter()
                run()
                now = time.perf_counter()
                best[name] = min(best[name], now - start)
                if now - began > seconds / 3:
                    break
    return best
