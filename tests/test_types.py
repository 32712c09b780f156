"""The types hold: pyright has nothing to say of the source and of the benchmarks. A test, so that it runs beside the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")
def test_pyright_finds_nothing():
    pytest.importorskip("pyright")
    # room for what is thrown away at once: node then collects it less often, a fifth of the time
    roomy = os.environ | {"NODE_OPTIONS": f"{os.environ.get('NODE_OPTIONS', '')} --max-semi-space-size=128"}
    done = subprocess.run([sys.executable, "-m", "pyright"], cwd=ROOT, env=roomy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
