"""The examples run as they stand and write a picture each."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out, "an example says what it found"
    with Image.open(tmp_path / f"{example.stem}.png") as picture:
        assert min(picture.size) > 100
        assert len(picture.convert("L").getcolors(256) or []) > 20, "an empty picture"


@pytest.mark.skipif(not EXAMPLES, reason="needs the source tree")
def test_examples_are_short():
    for example in EXAMPLES:
        assert len(example.read_text().splitlines()) <= 80, example.name


@pytest.mark.skipif(not EXAMPLES, reason="needs the source tree")
def test_an_example_in_a_process_of_its_own(tmp_path):
    """As a stranger calls it; the others run in here, which spares them the start."""
    shortest = min(EXAMPLES, key=lambda example: len(example.read_text()))
    command = [sys.executable, "-W", "error", str(shortest), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert (tmp_path / f"{shortest.stem}.png").exists()
