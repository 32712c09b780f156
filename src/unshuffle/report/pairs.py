"""Two methods compared seed by seed: same lists, same first weights, same noise."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, stdev

from ..paper.store import SCALES
from .summary import Cell, PaperTable

WEAK = (
    "Paired by seed: mean and standard deviation of the differences, the 95 % interval of the mean and p of the two-sided t test. Three seeds "
    "are few: t has two degrees of freedom, p below 0.05 takes a difference of 2.5 times its spread, and with a sign test p cannot be "
    "smaller than 0.25. A large p is no evidence of equality."
)


@dataclass(frozen=True)
class Pair:
    """First minus second, per seed."""

    section: str
    column: str
    first: str
    second: str
    differences: tuple[float, ...]
    lower_is_better: bool
    scale: str

    @property
    def mean(self) -> float:
        return mean(self.differences)

    @property
    def spread(self) -> float | None:
        return stdev(self.differences) if len(self.differences) > 1 else None

    @property
    def better(self) -> int:
        """Seeds on which the first is better."""
        return sum((d < 0) if self.lower_is_better else (d > 0) for d in self.differences)

    @property
    def worse(self) -> int:
        """Seeds on which the second is better."""
        return sum((d > 0) if self.lower_is_better else (d < 0) for d in self.differences)

    @property
    def interval(self) -> tuple[float, float] | None:
        """In which the mean difference lies, with 95 % confidence."""
        from scipy.stats import t

        if self.spread is None:
            return None
        count = len(self.differences)
        half = float(t.ppf(0.975, count - 1)) * self.spread / count**0.5
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float | None:
        """Of the paired t test; None if there is one seed or the differences do not vary."""
        from scipy.stats import ttest_1samp  # the paired test is the test of the differences; a second to import

        if self.spread is None or self.spread < 1e-12:
            return None
        return float(ttest_1samp(self.differences, 0.0)[1])  # pyright: ignore[reportArgumentType]


def pairs(table: PaperTable) -> list[Pair]:
    """All comparisons of a table for which both methods have a seed in common at one scale."""
    found = []
    for section, rows in table.sections.items():
        for first, second in table.pairs:
            for column in table.columns:
                a, b = (rows.get(row, {}).get(column, Cell()).scales for row in (first, second))
                for scale in _worth_telling(set(a) & set(b)):
                    if common := sorted(set(a[scale]) & set(b[scale])):
                        differences = tuple(a[scale][seed] - b[scale][seed] for seed in common)
                        found.append(Pair(section, column, first, second, differences, table.lower_is_better, scale))
    return found


def _worth_telling(scales: set[str]) -> list[str]:
    """From the smallest to the largest; a trial run only where there is nothing else."""
    return sorted(scales - {SCALES[0]} or scales, key=SCALES.index)


def where(pair: Pair, table: PaperTable) -> str:
    """The cell in words, with the scale if the table has cells of several."""
    cells = (cell for rows in table.sections.values() for row in rows.values() for cell in row.values())
    several = len(set().union(*(_worth_telling(set(cell.scales)) for cell in cells))) > 1
    named = " ".join(filter(None, (pair.section, table.columns_title, pair.column)))
    return f"{named}, scale {pair.scale}" if several else named
