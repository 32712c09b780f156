"""The site builds, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import house
import unshuffle

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.skipif(not PAGES, reason="needs the source tree")
def test_the_site_builds_and_needs_no_network(tmp_path):
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("latex2mathml")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r'(<script[^>]+src|<link[^>]+href|<img[^>]+src)="(https?:)?//', text), page
        assert "arithmatex" not in text, f"{page} has a formula that was not turned into MathML"
    assert (tmp_path / "concepts.html").read_text().count("<math") > 30
    assert "Sinkhorn" in (tmp_path / "api.html").read_text()


@pytest.mark.skipif(not PAGES, reason="needs the source tree")
def test_the_house_is_drawn_as_it_stands():
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert house.page(text) == text, "python tests/house.py draws it again"
    assert (ROOT / "docs" / "images" / "house.svg").read_text() == house.drawing(), (
        "python tests/house.py draws it again"
    )


@pytest.mark.skipif(not PAGES, reason="needs the source tree")
def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text()
    for name in set(unshuffle.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", text), f"{name} is not in docs/api.md"


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="needs the source tree")
def test_the_performance_page_is_filled_from_the_bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from performance_page import BENCH, PAGE, SOLVE, filled, tables  # pyright: ignore

    bench = json.loads(BENCH.read_text())
    bench["speed"][0]["ratio"] = 1234.5
    solve = json.loads(SOLVE.read_text())
    page = filled(PAGE.read_text(), tables(bench, solve))
    assert "1234.5" in page
    assert len(page.splitlines()) == len(PAGE.read_text().splitlines()), "a marker is missing"
    assert filled(page, tables(bench, solve)) == page
