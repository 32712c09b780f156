"""Formulas as MathML, which every current browser draws by itself: no script to load, nothing to download."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(page_html: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of every page."""
    return FORMULA.sub(_as_mathml, page_html)


LONG = 60  # letters of LaTeX in a line that do not fit beside each other on a phone


def _as_mathml(found: re.Match[str]) -> str:
    source = html.unescape(found[3]).strip()
    formula = convert(source, display="block" if found[2] == "[" else "inline")
    return f'<span class="formula">{formula}</span>' if found[2] == "[" or len(source) > LONG else formula
