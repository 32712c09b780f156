"""What a table says, in one sentence from its own numbers."""

from __future__ import annotations

from .pairs import Pair, pairs
from .summary import PaperTable


def answer(table: PaperTable) -> str:
    """The comparisons seed by seed, where the table has them; else how far ours is from the paper's; else nothing."""
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
    where = " ".join(filter(None, (largest.section, table.columns_title, largest.column)))
    return (
        f"{first} against {second}: better with every seed in {always} of {len(found)} cells, worse with every seed in {never};"
        f" the largest mean difference is {largest.mean:+.{table.digits}f} ({where}, {len(largest.differences)} seeds)."
    )


def _beside_the_paper(table: PaperTable) -> str:
    cells = [cell for rows in table.sections.values() for row in rows.values() for cell in row.values()]
    differences = [cell.difference for cell in cells if cell.difference is not None]
    if not differences:
        return ""
    low, high = (f"{value:+.{table.digits}f}" for value in (min(differences), max(differences)))
    if len(differences) == 1:
        return f"Ours minus the paper's, in the one cell that both have: {low}."
    return f"Ours minus the paper's, in the {len(differences)} cells that both have: from {low} to {high}."
