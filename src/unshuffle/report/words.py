"""Numbers as people read them."""

from __future__ import annotations

from .pairs import Pair
from .summary import Cell

CUT = "†"  # the budget was smaller than the paper's
FEWER = "‡"  # there are more seeds at a smaller scale


def cell_text(cell: Cell, digits: int, paper_digits: int) -> str:
    """`mean ± spread (paper)`, with a mark where the budget was cut; a dash for what was not run."""
    ours = ours_text(cell, digits) or "-"
    return ours if cell.paper is None else f"{ours} ({cell.paper[0]:.{paper_digits}f})"


def ours_text(cell: Cell, digits: int) -> str:
    if cell.mean is None:
        return "failed" if cell.failed else ""
    seeds = f" [{len(cell.ours)}]" if len(cell.ours) > 1 else ""
    failed = f" ({cell.failed} failed)" if cell.failed else ""
    marks = (CUT if cell.cuts else "") + (FEWER if cell.with_more_seeds else "")
    return _with_spread(cell.mean, cell.spread, digits) + seeds + marks + failed


def elsewhere_text(cell: Cell, digits: int) -> str:
    """What the smaller scale with more seeds gave, if there is one."""
    if (scale := cell.with_more_seeds) is None:
        return ""
    other = Cell(cell.scales[scale])
    return f"{_with_spread(other.mean or 0.0, other.spread, digits)} with {len(other.ours)} seeds at the smaller scale {scale}"


def paper_text(cell: Cell, digits: int) -> str:
    return "" if cell.paper is None else _with_spread(*cell.paper, digits)


def difference_text(cell: Cell, digits: int) -> str:
    return "" if cell.difference is None else f"{cell.difference:+.{digits}f}"


def _with_spread(mean: float, spread: float | None, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def pair_text(pair: Pair, digits: int) -> tuple[str, str, str, str]:
    """Difference, its interval, seeds with the sign of the better, and the test's p."""
    difference = f"{pair.mean:+.{digits}f}" + ("" if pair.spread is None else f" ± {pair.spread:.{digits}f}")
    p = "-" if pair.p is None else f"{pair.p:.2g}"
    interval = "-" if pair.interval is None else "{:+.{d}f} to {:+.{d}f}".format(*pair.interval, d=digits)
    return difference, interval, f"{pair.better} of {len(pair.differences)}", p
