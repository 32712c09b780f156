"""The package as a stranger meets it: installed from a wheel, without numba, and on the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import unshuffle

ROOT = Path(__file__).parent.parent
CHECKOUT = (ROOT / "pyproject.toml").exists()


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "unshuffle", *arguments, **environment)


def test_version_and_help_are_quick_and_need_no_torch():
    done = cli("--version")
    assert done.stdout.strip() == f"unshuffle {unshuffle.__version__}"
    listing = cli("--help")
    assert listing.returncode == 0
    for command in ("jigsaw", "strips", "tour", "seriate", "demo", "bench"):
        assert command in listing.stdout
    code = "import sys; from unshuffle.cli.common import COMMANDS, build\n"
    code += "for name in (None, *COMMANDS): build(name)\nprint('torch' in sys.modules)"
    assert run(sys.executable, "-c", code).stdout.strip() == "False"


def test_a_typo_is_answered_with_a_suggestion():
    done = cli("jigsw")
    assert done.returncode == 2
    assert "jigsaw" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["jigsaw", "strips", "tour", "seriate", "demo", "bench"])
def test_every_command_has_help_with_an_example(command):
    done = cli(command, "--help")
    assert done.returncode == 0, done.stderr
    assert "xample" in done.stdout
    for option in ("--json", "--out"):
        assert option in done.stdout


def test_everything_works_without_numba_with_one_warning():
    """And with it without a word, which the test of the wheel sees: there every warning is an error."""
    code = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import torch, unshuffle as us
    s = torch.linspace(-2, 2, 192, dtype=torch.float64).sin().mul(3).reshape(3, 8, 8).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: us.sinkhorn(x, 5), (s,))
    P = us.gumbel_sinkhorn(s, 2.0, samples=2, generator=torch.Generator().manual_seed(0))
    us.kendall_tau(torch.arange(9), torch.randperm(9)); us.assign(s)
    for layout in (us.Cycle(9), us.Path(9), us.Grid(3, 3), us.Graph(torch.rand(9, 9))):  # more than are tried one by one
        cost = (torch.rand(9, 9), torch.rand(9, 9)) if isinstance(layout, us.Grid) else torch.rand(9, 9)
        found = us.solve(layout, cost=cost, runs=1, time_limit=0.5, polish=True)
        assert sorted(found.best_order.tolist()) == list(range(9)) and found.history
told = [str(w.message) for w in seen if "numba" in str(w.message)]
assert len(told) == 1 and "slower" in told[0], told
print(",".join(f"{x:.12f}" for x in P.flatten().tolist()))
"""
    off = run(sys.executable, "-c", code, UNSHUFFLE_NUMBA="0")
    assert off.returncode == 0, off.stderr
    # and it is the same operator with the same noise
    s = torch.linspace(-2, 2, 192, dtype=torch.float64).sin().mul(3).reshape(3, 8, 8)
    P = unshuffle.gumbel_sinkhorn(s, 2.0, samples=2, generator=torch.Generator().manual_seed(0))
    assert [float(x) for x in off.stdout.split(",")] == pytest.approx(P.flatten().tolist(), abs=1e-6)


@pytest.mark.skipif(not CHECKOUT, reason="needs the source tree")
def test_sdist_and_wheel_install_and_run_elsewhere(tmp_path):
    """The wheel of the sdist, in an empty environment (dependencies are lent by this one), used from there."""
    pytest.importorskip("build")
    pytest.importorskip("pyright")
    # an sdist, and the wheel of that; with what builds it at hand, not downloaded twice
    alone = [] if find_spec("hatchling") is None else ["--no-isolation"]
    built = run(sys.executable, "-m", "build", *alone, "--outdir", str(tmp_path), str(ROOT))
    assert built.returncode == 0, built.stderr
    assert len(list(tmp_path.glob("unshuffle-*.tar.gz"))) == 1
    (wheel,) = tmp_path.glob("unshuffle-*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "env" / "lib" / version / "site-packages"
    install = run(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel))
    assert install.returncode == 0, install.stderr
    (site / "lent.pth").write_text(str(Path(torch.__file__).parent.parent) + "\n")
    for compiled in (ROOT / "src").rglob(
        "__pycache__/*.nb[ic]"
    ):  # so is what was compiled here, which spares it ten seconds
        (place := site / compiled.relative_to(ROOT / "src")).parent.mkdir(exist_ok=True)
        shutil.copy(compiled, place)
    script = tmp_path / "env" / "bin" / "unshuffle"
    assert run(str(script), "--version").stdout.strip() == f"unshuffle {unshuffle.__version__}"
    code = "import unshuffle as us, torch; print(us.__file__); us.sinkhorn(torch.randn(3, 3))"
    used = run(str(python), "-W", "error", "-c", code, PYTHONPATH="")
    assert used.returncode == 0, used.stderr
    assert str(site) in used.stdout
    assert (site / "unshuffle" / "py.typed").exists()
    assert {"index.html", "app.js", "style.css"} <= {f.name for f in (site / "unshuffle" / "studio" / "page").iterdir()}
    assert {"seams.npz", "LICENSE.seams.txt"} <= {f.name for f in (site / "unshuffle" / "data").iterdir()}
    told = pyright(tmp_path, python)
    assert [line for line, _ in told] == [5], told  # and nothing else: all of the rest is typed
    assert "str" in told[0][1]


OUTSIDE = """import torch
import unshuffle as us
found: us.Solution = us.solve(us.Path(3), cost=torch.rand(3, 3))
order: torch.Tensor = us.assign(us.sinkhorn(torch.rand(3, 3)))
wrong: str = us.sinkhorn(torch.rand(3, 3))
relax: us.GumbelSinkhorn = us.GumbelSinkhorn(us.Anneal(0.5, 2.0, epochs=3), local=us.LocalTemperature())
"""


def pyright(folder: Path, python: Path) -> list[tuple[int, str]]:
    """Line and message of what a type checker says of a stranger's file."""
    (folder / "outside.py").write_text(OUTSIDE)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), str(folder / "outside.py")]
    found = json.loads(run(*command).stdout)["generalDiagnostics"]
    return [(one["range"]["start"]["line"] + 1, one["message"]) for one in found]


@pytest.mark.slow
def test_bench_measures_and_saves(tmp_path):
    done = cli("bench", "--quick", "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert json.loads((tmp_path / "bench.json").read_text()) == results
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert all(row["ratio"] > 1 for row in results["speed"] + results["step"])
    for row in results["memory"]:
        assert row["ours"] < row["vectors"] + 1.2, "more than one further matrix"
