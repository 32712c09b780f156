"""Shredded pages: from scanned strips, or from cross-cut shreds, to the page, or to several."""

from .evidence import strip_cost, turned_cost
from .page import paste
from .paper import Strip, find_paper, read_strips
from .pile import Page, reassemble_page, reassemble_pages
from .rough import StripCost, StripEvidence
from .shreds import reassemble_shreds

__all__ = [
    "Page",
    "Strip",
    "StripCost",
    "StripEvidence",
    "find_paper",
    "paste",
    "read_strips",
    "reassemble_page",
    "reassemble_pages",
    "reassemble_shreds",
    "strip_cost",
    "turned_cost",
]
