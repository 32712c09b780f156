"""What a table says, in one sentence from its own numbers."""

from __future__ import annotations

from statistics import mean

from .pairs import Pair, pairs, where
from .summary import Cell, PaperTable


def answer(table: PaperTable) -> str:
    """What the table is for; else the comparisons seed by seed; else how far ours is from the paper's; else nothing."""
    if table.name in ITS_OWN:
        return ITS_OWN[table.name](table)
    found = [pair for pair in pairs(table) if len(pair.differences) > 1]
    said = [_compared(table, [p for p in found if (p.first, p.second) == pair]) for pair in table.pairs]
    return " ".join(filter(None, said)) or _beside_the_paper(table)


def _compared(table: PaperTable, found: list[Pair]) -> str:
    """First against second over all cells."""
    if not found:
        return ""
    first, second = table.names[found[0].first], table.names[found[0].second]
    always = sum(pair.better == len(pair.differences) for pair in found)
    never = sum(pair.worse == len(pair.differences) for pair in found)
    largest = max(found, key=lambda pair: abs(pair.mean))
    return (
        f"{first} against {second}: better with every seed in {always} of {len(found)} cells, worse with every seed in {never};"
        f" the largest mean difference is {largest.mean:+.{table.digits}f} ({where(largest, table)}, {len(largest.differences)} seeds)."
    )


def _cells(table: PaperTable) -> list[Cell]:
    return [cell for rows in table.sections.values() for row in rows.values() for cell in row.values()]


def _sensitivity(table: PaperTable) -> str:
    """How flat the grid is, and how many runs failed."""
    means = [cell.mean for cell in _cells(table) if cell.mean is not None]
    if not means:
        return ""
    runs, failed = (sum(of(cell) for cell in _cells(table)) for of in (lambda c: len(c.ours), lambda c: c.failed))
    spread = 100 * (max(means) / min(means) - 1)
    return (
        f"From {min(means):.{table.digits}f} to {max(means):.{table.digits}f}, the longest {spread:.0f} % above the shortest;"
        f" {failed} of {runs} runs failed (not finite, or no shorter than before training)."
    )


def _anchors(table: PaperTable) -> str:
    """What is learned without anchors."""
    said = []
    for section, rows in table.sections.items():
        none = [value for cells in rows.values() if "0" in cells for value in cells["0"].ours.values()]
        if none:
            said.append(f"{section} {min(none):+.3f} to {max(none):+.3f} ({len(none)} runs)")
    return f"Without anchors, beyond random places: {'; '.join(said)}." if said else ""


def _ambiguity(table: PaperTable) -> str:
    """All cells of a row together."""
    said = []
    for row, name in table.names.items():
        values = [v for rows in table.sections.values() for c in rows.get(row, {}).values() for v in c.ours.values()]
        if values:
            said.append(
                f"{name} {mean(values):+.3f} (above 0 in {sum(v > 0 for v in values)} of {len(values)} pairs of runs)"
            )
    return f"At equal entropy, on average over all cells: {'; '.join(said)}." if said else ""


ITS_OWN = {"sensitivity": _sensitivity, "anchors": _anchors, "ambiguity": _ambiguity}


def _beside_the_paper(table: PaperTable) -> str:
    cells = _cells(table)
    differences = [cell.difference for cell in cells if cell.difference is not None]
    if not differences:
        return ""
    low, high = (f"{value:+.{table.digits}f}" for value in (min(differences), max(differences)))
    if len(differences) == 1:
        return f"Ours minus the paper's, in the one cell that both have: {low}."
    return f"Ours minus the paper's, in the {len(differences)} cells that both have: from {low} to {high}."
