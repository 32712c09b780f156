"""What `compute.jit` promises: the flags that were asked for, and machine code on disk that is never out of date."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unshuffle import compute
from unshuffle.compute import turns
from unshuffle.compute.jit import have_numba, njit

pytestmark = pytest.mark.skipif(not have_numba, reason="nothing is compiled")


def compensated_sum(x):
    """Kahan's; with reassociation the compiler may see that the compensation is zero."""
    total = lost = x.dtype.type(0)
    for k in range(x.size):
        y = x[k] - lost
        t = total + y
        lost = (t - total) - y
        total = t
    return total


def test_a_set_of_flags_is_that_set():
    x = np.full(100_001, 1e-8, np.float32)
    x[0] = 1
    assert njit(compensated_sum, fastmath={"nsz"})(x) == pytest.approx(1.001, abs=1e-6)
    assert njit(compensated_sum, fastmath=True)(x) != pytest.approx(1.001, abs=1e-6)


def test_a_kernel_that_counts_nothing_may_not_hand_out_arrays():
    row = njit(lambda x: x[1:], counts=False)
    with pytest.raises(Exception, match="returning of array"):
        njit(lambda x: row(x)[0])(np.ones(3))


CONSTANTS = "STEP = 1\n"
OTHER = (
    "from .constants import STEP\nfrom unshuffle.compute.jit import njit\n@njit\ndef other(x):\n    return x + STEP\n"
)
KERNEL = "from .other import other\nfrom unshuffle.compute.jit import njit\n@njit\ndef kernel(x):\n    return 10 * other(x)\n"
ASK = "from rooms.kernel import kernel; print(kernel(1), len(kernel.stats.cache_hits))"
OF_A_TUPLE = """from typing import NamedTuple
from unshuffle.compute.jit import njit
class Pair(NamedTuple):
    left: int
    right: int
@njit
def add(pair):
    return pair.left + pair.right
def kernel(x):
    return add(Pair(x, 1))
kernel.stats = add.stats
"""


def answer(folder) -> tuple[int, int]:
    """What the kernel says in a process of its own, and how often it came from the disk."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    clean = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", ASK], env=clean, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    value, hits = map(int, done.stdout.split())
    return value, hits


def test_compiled_code_follows_the_files_that_it_imports_and_moves_with_them(tmp_path):
    rooms = tmp_path / "here" / "rooms"
    rooms.mkdir(parents=True)
    for name, text in (("__init__", ""), ("constants", CONSTANTS), ("other", OTHER), ("kernel", KERNEL)):
        (rooms / f"{name}.py").write_text(text)
    assert answer(tmp_path / "here") == (20, 0)
    assert answer(tmp_path / "here") == (20, 1)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert answer(tmp_path / "there") == (20, 1)
    (rooms / "constants.py").write_text("STEP = 2\n")  # two imports away from the kernel
    assert answer(tmp_path / "here") == (30, 0)
    assert answer(tmp_path / "here") == (30, 1)
    assert len(list(rooms.glob("__pycache__/kernel*.nbc"))) == 1  # what is out of date is overwritten


COMPILES = """import sys, time
from pathlib import Path
import numba.core.event as event
from rooms.kernel import kernel
class Slow(event.Listener):
    def on_start(self, _):
        print("compiling", flush=True)
        while not Path(sys.argv[1]).exists():
            time.sleep(0.05)
        time.sleep(1.0)
    def on_end(self, _):
        pass
event.register("numba:compile", Slow())
kernel(1)
"""
LOADS = "import sys; from pathlib import Path; from rooms.kernel import kernel; Path(sys.argv[1]).touch(); kernel(1); print(len(kernel.stats.cache_hits))"


def test_what_another_process_compiles_is_waited_for_and_loaded(tmp_path):
    (tmp_path / "rooms").mkdir()
    (tmp_path / "rooms" / "__init__.py").touch()
    (tmp_path / "rooms" / "kernel.py").write_text(
        "from unshuffle.compute.jit import njit\n@njit\ndef kernel(x):\n    return x + 1\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    clean = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": path}
    wanted = str(tmp_path / "wanted")
    with subprocess.Popen([sys.executable, "-c", COMPILES, wanted], env=clean, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"compiling\n"
        second = subprocess.run([sys.executable, "-c", LOADS, wanted], env=clean, capture_output=True, text=True)
    assert first.returncode == 0
    assert second.stdout == "1\n", second.stderr


HOLDS = "import sys; from unshuffle.compute.turns import turn\nwith turn(sys.argv[1], 'kernel'):\n    print(flush=True); sys.stdin.read()"


def test_nobody_waits_for_ever_for_a_process_that_was_stopped(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.setattr(turns, "PATIENCE", 0.2)
    run = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        looks = []
        monkeypatch.setattr(
            turns.time, "sleep", lambda seconds, real=time.sleep: looks.append(seconds) or real(seconds)
        )
        with turns.turn(str(tmp_path), "another kernel"):
            assert not looks
        with turns.turn(str(tmp_path), "kernel"):
            assert looks


def test_a_type_of_an_argument_that_is_called_otherwise_now(tmp_path):
    """Of an older version of the files the stored code cannot even be listed: its types are gone."""
    (tmp_path / "rooms").mkdir()
    (tmp_path / "rooms" / "__init__.py").touch()
    kernel = tmp_path / "rooms" / "kernel.py"
    kernel.write_text(OF_A_TUPLE)
    assert answer(tmp_path)[0] == 2
    kernel.write_text(OF_A_TUPLE.replace("Pair", "Both"))
    assert answer(tmp_path)[0] == 2


def test_no_kernel_is_a_generator():
    """numba cannot call a generator that it loads from disk while its caller is new: KeyError in the middle of a solve."""
    source = Path(compute.__file__).parent.parent
    functions = [
        (file, node)
        for file in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(d) for d in node.decorator_list)
    ]
    assert len(functions) > 100
    for file, function in functions:
        assert not any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(function)), (
            file,
            function.name,
        )


@njit
def doubled(x, count):
    return 2 * x[:count].sum()


@njit
def growing(x):
    """The counter begins as the number 0, and is any number when the types are known."""
    count, total = 0, 0.0
    while count < x.size:
        total += doubled(x, count)
        count += 1
    return total + doubled(x, 2)


def test_one_kernel_for_all_numbers(monkeypatch):
    from numba.core.caching import NullCache

    monkeypatch.setattr(growing, "_cache", NullCache())  # compiled here and now
    assert growing(np.arange(4.0)) == 2 * (0 + 1 + 3) + 2
    within = doubled.get_call_template.__closure__[0].cell_contents.__self__
    assert [str(types[1]) for types in within.signatures] == ["int64"]


def test_a_kernel_within_another_is_not_the_one_that_python_calls(monkeypatch):
    """Which has what unpacks its arguments: without it a call would be the end of the process."""
    from numba.core.caching import NullCache

    for kernel in (doubled, growing):
        monkeypatch.setattr(kernel, "_cache", NullCache())
    growing(np.arange(3.0))
    assert not doubled.signatures
    assert doubled(np.arange(3.0), 2) == 2
    assert len(doubled.signatures) == 1


@njit
def refusing(x):
    if x[0] < 0:
        raise ValueError("below zero")
    return x[0]


@njit
def asking(x):
    return 1 + refusing(x)


def test_a_kernel_within_another_is_no_machine_code_of_its_own(monkeypatch):
    """Nothing but the kernel that Python calls is ever run; what the inner one raises reaches Python all the same."""
    from numba.core.caching import NullCache

    monkeypatch.setattr(asking, "_cache", NullCache())
    assert asking(np.ones(1)) == 2
    with pytest.raises(ValueError, match="below zero"):
        asking(-np.ones(1))
    within = refusing.get_call_template.__closure__[0].cell_contents.__self__
    (inner,), (outer,) = within.overloads.values(), asking.overloads.values()
    assert inner.library.get_pointer_to_function(inner.fndesc.llvm_func_name) == 0
    assert outer.library.get_pointer_to_function(outer.fndesc.llvm_func_name) != 0
