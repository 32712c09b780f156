"""The types hold: pyright has nothing to say of the source and of the benchmarks. A test, so that it runs beside the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")
def test_pyright_finds_nothing():
    pytest.importorskip("pyright")
    done = subprocess.run([sys.executable, "-m", "pyright"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
