"""Code in the README and the docs: Python runs as it stands there, commands exist with the options they are given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command

from unshuffle.cli.common import COMMANDS, build

ROOT = Path(__file__).parent.parent
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if p.exists()]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.S | re.M)
FENCED = [(page, k, *found) for page in PAGES for k, found in enumerate(FENCE.findall(page.read_text()))]
BLOCKS = [pytest.param(code, id=f"{page.name}-{k}") for page, k, language, code in FENCED if language == "python"]
LINES = [
    pytest.param(line.split("#")[0].strip(), id=f"{page.name}-{line[:40]}")
    for page, _, language, code in FENCED
    if language in ("bash", "sh")
    for line in code.splitlines()
]


@pytest.mark.skipif(not PAGES, reason="needs the source tree")
def test_nothing_fenced_is_left_out():
    assert len(BLOCKS) >= 12
    assert {language for _, _, language, _ in FENCED} == {"python", "bash", "sh"}
    for page in PAGES:
        assert page.read_text().count("```") == 2 * sum(where == page for where, *_ in FENCED), page.name


@pytest.mark.parametrize("code", BLOCKS)
def test_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("line", LINES)
def test_commands_exist(line):
    program, *words = shlex.split(line)
    if program == "source":  # right after the commands that make it
        assert words == [".venv/bin/activate"]
        assert re.search(r"^VENV := \.venv$", (ROOT / "Makefile").read_text(), re.M)
        return
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.M)
        return
    assert program == "unshuffle"
    name, *given = words
    assert name in COMMANDS
    command = get_command(build(name)).commands[name]  # pyright: ignore[reportAttributeAccessIssue]
    command.make_context(name, [word for word in given if word != "--debug"], resilient_parsing=False)


def test_the_first_screen():
    """What it does for each of three users, how to get the command, a moving picture that loads quickly; numbers come later."""
    first = (ROOT / "README.md").read_text().split("\n## ")[0]
    for word in ("unshuffle jigsaw", "us.gumbel_sinkhorn", "us.fit", "source .venv/bin/activate", "pip install -e ."):
        assert word in first
    assert first.index("make demo") < first.index("source .venv/bin/activate")
    assert len(first.splitlines()) < 40
    (picture,) = re.findall(r"\]\((\S+\.webp)\)", first)
    with Image.open(ROOT / picture) as frames:
        assert getattr(frames, "n_frames", 1) > 20
        still = np.asarray(frames.convert("RGB"), dtype=float)
    assert (ROOT / picture).stat().st_size < 400_000
    assert np.abs(still[..., 0] - still[..., 2]).mean() > 20, "no colours"


def test_quick_starts_are_short():
    readme = [code for page, _, _, code in FENCED if page.name == "README.md"]
    assert readme or not PAGES
    for code in readme:
        assert len(code.splitlines()) < 15


def test_links_and_pictures_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which does not exist"
            if target.endswith(".png"):
                assert (page.parent / target).stat().st_size < 300_000, f"{target} is too large to load quickly"


def test_five_minutes_to_read():
    """At some 280 words a minute, half of them commands and names."""
    assert len((ROOT / "README.md").read_text().split()) < 1450
