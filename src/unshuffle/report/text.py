"""The tables in Markdown and in LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .answers import answer
from .grid import COMPARISON_HEAD, comparisons, footnotes, grids
from .pairs import WEAK
from .summary import PaperTable

LEGEND = (
    "Per method: ours (mean ± standard deviation over seeds, [number of seeds]), the paper's, and ours minus the paper's. "
    "† marks cells that had a smaller budget than the paper's or stopped before its end; what that was stands below the table. "
    "‡ marks cells for which a smaller scale was run with more seeds; what they gave stands there too."
)


def markdown(tables: Iterable[PaperTable], about: Sequence[str]) -> str:
    parts = ["# The paper's tables, ours beside them", *about, LEGEND]
    for table in tables:
        if not (found := grids(table)):
            continue
        parts.append(f"## {table.title}")
        parts += [f"**{said}**"] if (said := answer(table)) else []
        parts += [table.note] if table.note else []
        for grid in found:
            head = (f"{grid.title} {grid.columns_title}".strip(), "", *grid.columns)
            parts.append(_markdown(head, [(line.method, line.kind, *line.cells) for line in grid.lines]))
        parts += ["  \n".join(said)] if (said := footnotes(table)) else []
        if lines := comparisons(table):
            parts += [WEAK, _markdown(COMPARISON_HEAD, lines)]
        if table.missing:
            parts.append("Not run: " + "; ".join(table.missing) + ".")
    return escape("\n\n".join(parts), quote=False) + "\n"


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def latex(tables: Iterable[PaperTable], about: Sequence[str]) -> str:
    """A fragment to \\input; needs booktabs."""
    parts = ["\n".join(f"% {line}" for line in about)]
    for table in tables:
        for grid in grids(table):
            title = _latex_text(" ".join(filter(None, (table.title, grid.title))))
            lines = [r"\begin{table}", r"\centering", r"\small", rf"\caption{{{title}. {_latex_text(LEGEND)}}}"]
            lines += [rf"\begin{{tabular}}{{ll{'r' * len(grid.columns)}}}", r"\toprule"]
            lines += [_latex_line((grid.columns_title, "", *grid.columns)), r"\midrule"]
            lines += [_latex_line((line.method, line.kind, *line.cells)) for line in grid.lines]
            lines += [r"\bottomrule", r"\end{tabular}"]
            lines += [rf"\par {_latex_text(note)}" for note in footnotes(table)]
            parts.append("\n".join([*lines, r"\end{table}"]))
    return "\n\n".join(parts) + "\n"


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(map(_latex_text, cells)) + r" \\"


def _latex_text(text: str) -> str:
    for character, command in (
        ("\\", r"\textbackslash "),
        ("%", r"\%"),
        ("&", r"\&"),
        ("_", r"\_"),
        ("#", r"\#"),
        ("±", r"$\pm$"),
        ("†", r"$^\dagger$"),
        ("‡", r"$^\ddagger$"),
    ):
        text = text.replace(character, command)
    if text[:1] in ("-", "+") and text[1:2].isdigit():  # in text mode a minus is a hyphen
        return f"${text[0]}${text[1:]}"
    return "{}" + text if text.startswith("[") else text  # after \\\\ a bracket would be read as its argument
