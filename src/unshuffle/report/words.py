"""Numbers as people read them."""

from __future__ import annotations

from .summary import Cell

CUT = "†"  # the budget was smaller than the paper's


def cell_text(cell: Cell, digits: int = 3) -> str:
    """`mean ± spread (paper)`, with a mark where the budget was cut; a dash for what was not run."""
    if cell.mean is None:
        ours = "failed" if cell.failed else "-"
    else:
        spread = "" if cell.spread is None else f" ± {cell.spread:.{digits}f}"
        ours = f"{cell.mean:.{digits}f}{spread}{CUT if cell.cuts else ''}"
    return ours if cell.paper is None else f"{ours} ({cell.paper[0]:.{digits}f})"
