"""The examples run as they stand and write a picture each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path):
    command = [sys.executable, "-W", "error", str(example), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example says what it found"
    with Image.open(tmp_path / f"{example.stem}.png") as picture:
        assert min(picture.size) > 100
        assert len(picture.convert("L").getcolors(256) or []) > 20, "an empty picture"


@pytest.mark.skipif(not EXAMPLES, reason="needs the source tree")
def test_examples_are_short():
    for example in EXAMPLES:
        assert len(example.read_text().splitlines()) <= 80, example.name
