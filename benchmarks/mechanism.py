"""The mechanism figure and its numbers: `python benchmarks/mechanism.py [--out FILE.png]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from unshuffle.paper.figures import MechanismCurves
from unshuffle.paper.mechanism import Mechanism
from unshuffle.paper.run import Means, Planned, result_of
from unshuffle.paper.store import Place
from unshuffle.report.mechanism import draw_mechanism


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="mechanism.png", help="where to write the picture")
    out = parser.parse_args().out
    case = Mechanism()
    easy, hard = case.thresholds()
    print(
        f"easy rows reach {1 - case.eps:g} from beta {easy:.3f} on; hard rows stay below {1 - case.eta:g} up to {hard:.3f}"
    )
    plain, field = case.diagonals(case.betas, False), case.diagonals(case.betas, True)
    for beta, *values in zip(case.betas, *plain, *field, strict=True):
        print(
            f"beta0 {beta:4g}: easy / hard diagonal  global {values[0]:.3f} / {values[1]:.3f}"
            f"  adaptive {values[2]:.3f} / {values[3]:.3f}"
        )
    run = MechanismCurves(points=157)
    planned = Planned(run, Place("figures", "", run.task, "", 0, "cpu"))
    figure = draw_mechanism(result_of(planned, 0.0, run.compute(Means(Path())), None, None))
    figure.savefig(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
