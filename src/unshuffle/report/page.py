"""One HTML page with everything in it: no scripts, no fonts, nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from .answers import answer
from .figures import Picture
from .grid import COMPARISON_HEAD, TextTable, comparisons, footnotes, grids
from .pairs import WEAK
from .summary import PaperTable
from .text import LEGEND

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; max-width: 82rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
nav ul { columns: 18rem; padding-left: 1.2rem; } p, li, figcaption { overflow-wrap: anywhere; } p, nav { max-width: 64rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; }
th, td { padding: .18rem .4rem; text-align: right; white-space: nowrap; }
th.words, td.words { text-align: left; } thead th { border-bottom: 2px solid #444; }
tr.first td { border-top: 1px solid #ddd; } tr.ours td { font-weight: 600; }
tr.paper td, tr.difference td { color: #555; } td:first-child { font-weight: 400; }
/* names may wrap, numbers never: so all columns fit a desktop */
td.words:first-child { white-space: normal; min-width: 7rem; max-width: 11rem; }
@media (max-width: 74rem) { table { font-size: .68rem; } th, td { padding: .15rem .25rem; } }
@media (max-width: 40rem) { table { font-size: .75rem; } }
.note { color: #555; font-size: .9rem; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
"""


def page(tables: Sequence[PaperTable], pictures: Sequence[Picture], about: Sequence[str]) -> str:
    shown = [table for table in tables if grids(table)]
    sections = "".join(map(_section, shown))
    figures = "".join(map(_figure, pictures))
    listed = "".join(f'<li><a href="#{table.name}">{escape(table.title)}</a></li>' for table in shown)
    listed += '<li><a href="#figures">Figures</a></li>' if pictures else ""
    said = "".join(f"<p>{escape(line)}</p>" for line in about)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's tables, ours beside them</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>
<body><h1>The paper's tables, ours beside them</h1>{said}<p>{escape(LEGEND)}</p><nav><ul>{listed}</ul></nav>
<main>{sections}{f'<h2 id="figures">Figures</h2>{figures}' if pictures else ""}</main></body></html>
"""


def _section(table: PaperTable) -> str:
    parts = [f'<section><h2 id="{table.name}">{escape(table.title)}</h2>']
    parts += [f"<p>{escape(said)}</p>"] if (said := answer(table)) else []
    parts += [f'<p class="note">{escape(table.note)}</p>'] if table.note else []
    parts += map(_grid, grids(table))
    parts += [f'<p class="note">{escape(note)}</p>' for note in footnotes(table)]
    if lines := comparisons(table):
        parts.append(f'<p class="note">{escape(WEAK)}</p>')
        parts.append(_table(COMPARISON_HEAD, 2, (("first", line) for line in lines)))
    if table.missing:
        parts.append(f'<p class="note">Not run: {escape("; ".join(table.missing))}.</p>')
    return "".join(parts) + "</section>"


def _grid(grid: TextTable) -> str:
    head = (f"{grid.title} {grid.columns_title}".strip(), "", *grid.columns)
    lines = (
        (f"{line.kind}{' first' if line.method else ''}", (line.method, line.kind, *line.cells)) for line in grid.lines
    )
    return _table(head, 2, lines)


def _table(head: Sequence[str], words: int, lines: Iterable[tuple[str, Sequence[str]]]) -> str:
    """`words`: so many columns of text before the numbers."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="words"' if k < words else "" for k in range(len(cells))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))

    body = "".join(f'<tr class="{kind}">{row(cells, "td")}</tr>' for kind, cells in lines)
    return f'<div class="wide"><table><thead><tr>{row(head, "th")}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(picture: Picture) -> str:
    # an image and not inline SVG: identifiers of several figures would meet in one page
    data = base64.b64encode(picture.svg).decode()
    image = f'<img alt="{escape(picture.title)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption><b>{escape(picture.title)}.</b> {escape(picture.words)}</figcaption></figure>"
