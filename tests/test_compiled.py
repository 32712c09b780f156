"""The operators inside torch.compile: the same numbers as outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "compiled_models.py"
NO_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor wants a C++ compiler")


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=NO_COMPILER)])
def test_a_compiled_model_is_one_graph_and_gives_the_same_loss_and_gradient(backend):
    """The relaxations with their noise, all batch sizes and epochs; NaN is told from inside the graph.

    Inductor need not try out which vector instructions the compiler knows, nor start processes to compile in: that takes longer
    than the graphs, and what is around the operators is its own matter.
    """
    sooner = {"TORCHINDUCTOR_VEC_ISA_OK": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(SCRIPT), backend]
    done = subprocess.run(command, env=os.environ | sooner, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
