"""Does it help that every matrix, or every row and column, follows the entropy target by itself?

    python benchmarks/entropy_local.py [--sizes 40 100] [--seeds 10] [--limit-minutes M] [--print]

Sorting as in benchmarks/entropy_target.py ([10, 11], lag 1, the paper's network), target 0.9 to 0.5, noise 0.25, paired seeds. On
top of the scalar a, which is led from step to step, matrices or rows and columns get factors of their own, found anew at every
call by four steps of log f += 1.5 (H - H*), within [1/5, 5]: rows are other items in every list, so there is nothing to remember.
The control has one factor for the whole batch, the mean of the field: what both gain is sharpness, not where it is.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import torch
from entropy_target import RANGES, STEPS, tau_of
from torch import Tensor

from unshuffle.files import write_atomic
from unshuffle.operators.entropies import row_and_column_entropies
from unshuffle.operators.gumbel import gumbel_sinkhorn
from unshuffle.operators.sinkhorn import sinkhorn
from unshuffle.relaxations.gumbel_sinkhorn import GumbelSinkhorn
from unshuffle.relaxations.layer import Draw
from unshuffle.temperature.entropy import EntropyTarget

OUT = Path("results/entropy_local.json")
SIZES = (40, 100)
INNER, RATE, BOUND = 4, 1.5, 5.0
WAYS = ("scalar", "per matrix", "per row", "per row and column", "matched scalar")


@dataclass(eq=False)
class LocalTarget(GumbelSinkhorn):
    """An entropy target for every part by itself: `way` is one of WAYS."""

    way: str = "scalar"

    def relaxed(self, scores: Tensor, allowed: Tensor | None, draw: Draw) -> Tensor:
        a = self.sharpness(scores, draw.beta, self.iterations, allowed)
        field = self.field(a * scores.detach(), float(draw.beta))
        sigma = self.noise or 1.0
        P = gumbel_sinkhorn(scores * (field * (a / sigma)), sigma, draw.samples, None, self.iterations, draw.generator)
        self.sharpness.lead(scores, draw.beta, self.iterations, allowed)
        return P

    @torch.no_grad()
    def field(self, logits: Tensor, target: float) -> Tensor:
        """Factors of the logits, (lists, n, n) or what broadcasts to it."""
        rows = columns = logits.new_zeros(logits.shape[:-1])  # logarithms
        for _ in range(0 if self.way == "scalar" else INNER):
            soft = sinkhorn((rows.unsqueeze(-1) + columns.unsqueeze(-2)).exp() * logits, self.iterations)
            of_rows, of_columns = row_and_column_entropies(soft)
            if self.way == "per matrix":
                of_rows = of_rows.mean(-1, keepdim=True).expand_as(of_rows)
            both = self.way in ("per row and column", "matched scalar")
            rows = _bounded(rows + RATE * (of_rows - target) / (2 if both else 1))
            columns = _bounded(columns + RATE * (of_columns - target) / 2) if both else columns
        field = (rows.unsqueeze(-1) + columns.unsqueeze(-2)).exp()
        return field.mean() if self.way == "matched scalar" else field


def _bounded(log_factor: Tensor) -> Tensor:
    return log_factor.clamp(-torch.tensor(BOUND).log().item(), torch.tensor(BOUND).log().item())


def shown(done: dict[str, float]) -> None:
    for n in SIZES:
        taus = {
            way: {int(key.split()[-1]): tau for key, tau in done.items() if key.startswith(f"{n} {way} seed")}
            for way in WAYS
        }
        if not taus["scalar"]:
            continue
        print(f"\nn = {n}, {STEPS[n]} steps\n\n| | tau, mean ± spread | worst seed | minus scalar, paired | seeds |")
        print("|---|---|---|---|---|")
        for way, found in taus.items():
            common = [tau - taus["scalar"][seed] for seed, tau in found.items() if seed in taus["scalar"]]
            if len(common) > 1:
                own = list(found.values())
                print(
                    f"| {way} | {mean(own):.4f} ± {stdev(own):.4f} | {min(own):.4f} | "
                    f"{mean(common):+.4f} ± {stdev(common):.4f} | {len(own)} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, choices=SIZES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit-minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--print", action="store_true", help="only what is there")
    arguments = parser.parse_args()
    began = time.monotonic()
    done = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for n in () if arguments.print else arguments.sizes:
        for seed in range(arguments.seeds):
            for way in WAYS:
                key = f"{n} {way} seed {seed}"
                if key in done or time.monotonic() - began > 60 * arguments.limit_minutes:
                    continue
                relax = LocalTarget(EntropyTarget(0.9, 0.5, STEPS[n]), way=way)
                done[key] = tau_of(relax, n, RANGES["[10, 11]"], 1.0, seed)
                write_atomic(arguments.out, json.dumps(done, indent=0) + "\n")
                print(f"{key}: {done[key]:.4f}", flush=True)
    shown(done)


if __name__ == "__main__":
    main()
