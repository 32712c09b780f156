"""The command line as people like it: pipes, completion, colours, the same words everywhere."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from unshuffle.cli.common import COMMANDS, Clock, build, main
from unshuffle.cli.jigsaw import jigsaw

SQUARE = "0,0\n1,1\n0,1\n1,0\n"
NEEDED = {  # arguments that a command cannot do without
    "demo": [],
    "jigsaw": ["photo.png"],
    "strips": ["scans"],
    "tour": ["cities.csv"],
    "seriate": ["table.csv"],
    "hic": ["contacts.npz"],
    "markers": ["genotypes.csv"],
    "slices": ["sections"],
    "match": ["a.csv", "b.csv"],
    "train": ["sorting"],
    "apply": ["best.pt", "lists.csv"],
    "bench": [],
    "reproduce": ["sorting"],
    "report": [],
}
SHARED = {  # what an option of this name means wherever it is
    "--out": "Folder for the results, INPUT is the input's name; made if it does not exist.",
    "--quiet": "No progress and no summary.",
    "--seed": "Makes a run repeatable.",
}


ANSWERING = [command for command in COMMANDS if command != "studio"]
"""All but the one that serves pages until it is ended."""


def options(command: str) -> dict[str, str]:
    found = get_command(build(command)).commands[command].params  # pyright: ignore
    return {name: option.help for option in found for name in option.opts if name.startswith("--")}


@pytest.mark.parametrize("command", ANSWERING)
def test_the_same_names_mean_the_same(command):
    mine = options(command)
    assert "JSON on standard output" in mine["--json"]
    assert "--quiet" in mine
    for name in set(SHARED) & set(mine):
        assert mine[name] == SHARED[name]
    assert not {"--output", "--output-dir", "--verbose", "--format", "--random-state"} & set(mine)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_parses(command):
    text = CliRunner().invoke(build(command), [command, "-h"]).stdout
    assert "Ctrl-C" in text
    example = re.search(r"Examples?:\s+unshuffle\s+(.+?)(;|\n\n)", text + "\n\n", re.S)
    assert example, text
    words = example.group(1).split()
    assert words[0] == command
    known = options(command)
    assert all(word in known for word in words if word.startswith("--"))


def test_typos_of_commands_and_options_are_answered():
    for wanted, arguments in (("seriat", ["seriat"]), ("tour", ["tour", "x", "--polsh"])):
        done = CliRunner().invoke(build(wanted), arguments)
        assert done.exit_code == 2
        assert "seriate" in done.stderr or "--polish" in done.stderr


@pytest.mark.parametrize("command", ANSWERING)
def test_a_mistyped_option_of_any_command_is_answered(command):
    done = CliRunner().invoke(build(command), [command, *NEEDED[command], "--jsn"])
    assert (done.exit_code, "--json" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("seriate t.csv --kind count", "counts"),
        ("seriate t.csv --criterion pth", "path"),
        ("train sortin", "sorting"),
        ("train tour --recipe papr", "paper"),
        ("train tour --temperature adptive", "adaptive"),
        ("reproduce sortng", "sorting"),
        ("reproduce tsp --scale smok", "smoke"),
        ("reproduce tsp --executor rya", "ray"),
    ],
)
def test_a_mistyped_choice_is_answered(arguments, meant):
    done = CliRunner().invoke(build(arguments.split()[0]), arguments.split())
    assert done.exit_code == 2
    assert f"Did you mean '{meant}'?" in done.stderr


def unshuffle(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unshuffle", *map(str, arguments)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120)


def test_json_pipes_and_nothing_else_is_said(tmp_path):
    (tmp_path / "a.csv").write_text(SQUARE)
    done = CliRunner().invoke(build("tour"), ["tour", str(tmp_path / "a.csv"), "--json", "-o", str(tmp_path / "o")])
    result = json.loads(done.stdout)
    assert result["length"] == pytest.approx(4)
    assert result == json.loads((tmp_path / "o" / "a.json").read_text())
    plain = CliRunner().invoke(build("tour"), ["tour", str(tmp_path / "a.csv"), "-o", str(tmp_path / "o")])
    assert "4 cities" in plain.stdout
    assert done.stderr == plain.stderr == ""  # a progress bar is for terminals
    quiet = CliRunner().invoke(build("tour"), ["tour", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "o")])
    assert (quiet.exit_code, quiet.output) == (0, "")


def good_call(command: str, folder: Path) -> list[str]:
    """A call of any command that takes a second or so."""
    pixels = np.random.default_rng(0).integers(0, 255, (48, 48, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    (folder / "scans").mkdir()
    for k in range(3):
        Image.fromarray(pixels[:, 16 * k : 16 * k + 16]).save(folder / "scans" / f"{k}.png")
    (folder / "points.csv").write_text(SQUARE)
    (folder / "lists.csv").write_text("0.3,0.1,0.2,0.9\n")
    (folder / "contacts.csv").write_text("9,5,1,2\n5,9,4,1\n1,4,9,6\n2,1,6,9\n")
    (folder / "genotypes.csv").write_text("id,a,b,c\n" + "1,AA,AA,AB\n2,AB,AB,AB\n3,BB,BB,BB\n" * 4)
    calls = {
        "demo": ["--out", "o"],
        "jigsaw": ["photo.png", "--grid", "2x2", "--out", "o"],
        "strips": ["scans", "--out", "o"],
        "tour": ["points.csv", "--out", "o"],
        "seriate": ["points.csv", "--kind", "features", "--out", "o"],
        "hic": ["contacts.csv", "--out", "o"],
        "markers": ["genotypes.csv", "--out", "o"],
        "slices": ["scans", "--out", "o"],
        "match": ["points.csv", "points.csv", "--out", "o"],
        "train": ["sorting", "--n", "4", "--epochs", "1", "--time-limit", "1", "--out", "run"],
        "apply": ["run", "lists.csv", "--out", "o"],
        "bench": ["--quick", "--out", "o"],
        "reproduce": ["mask-only", "--scale", "smoke", "--store", "runs"],
        "report": ["--store", "runs", "--out", "o"],
    }
    first = {"apply": "train", "report": "reproduce"}.get(command)
    if first:
        assert CliRunner().invoke(build(first), [first, *calls[first], "-q"]).exit_code == 0
    return [command, *calls[command]]


@pytest.mark.parametrize("command", ANSWERING)
def test_every_command_pipes_and_can_be_quiet(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "unshuffle.cli.bench.collect",
        lambda *_: {k: [] for k in ("speed", "scores", "step", "middle", "tour", "memory", "growth", "first")},
    )
    monkeypatch.setattr("unshuffle.cli.demo.jigsaw", lambda photo, **given: jigsaw(photo, **{**given, "grid": "4x3"}))
    call = good_call(command, tmp_path)
    done = CliRunner().invoke(build(command), [*call, "--json"])
    assert done.exit_code == 0, done.output
    assert isinstance(json.loads(done.stdout), dict)
    assert "\x1b" not in done.output
    quiet = CliRunner().invoke(build(command), [*call, "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    plain = CliRunner().invoke(build(command), call)
    assert plain.exit_code == 0
    assert plain.stdout.strip()
    assert "\x1b" not in plain.output
    assert "\r" not in plain.output, "a progress bar outside of a terminal"


def test_bench_measures_one_table_again(tmp_path, monkeypatch):
    from unshuffle.cli import bench

    file, call = tmp_path / "bench.json", ["bench", "-q", "-o", str(tmp_path), "--only"]
    assert CliRunner().invoke(build("bench"), [*call, "tour"]).exit_code == 2, "there is nothing to keep yet"
    file.write_text(json.dumps({name: [] for name in bench.MEASURES} | {"first": {"import": 1.0}, "tour": ["old"]}))
    monkeypatch.setitem(bench.MEASURES, "tour", lambda quick, say: ["new"])
    done = CliRunner().invoke(build("bench"), [*call, "tour"])
    assert done.exit_code == 0, done.output
    kept = json.loads(file.read_text())
    assert (kept["tour"], kept["first"]) == (["new"], {"import": 1.0})
    wrong = CliRunner().invoke(build("bench"), [*call, "tours"])
    assert wrong.exit_code == 2
    assert "speed, scores" in wrong.output


def test_completion():
    shown = unshuffle("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_UNSHUFFLE_COMPLETE=complete_bash" in shown.stdout
    asked = {"_UNSHUFFLE_COMPLETE": "complete_bash"}
    assert unshuffle(COMP_WORDS="unshuffle se", COMP_CWORD="1", **asked).stdout.split() == ["seriate"]
    words = unshuffle(COMP_WORDS="unshuffle seriate --cr", COMP_CWORD="2", **asked).stdout.split()
    assert words == ["--criterion"]


def read_all(terminal: int, into: list[bytes]) -> None:
    """Until nobody holds the other end any more."""
    with contextlib.suppress(OSError):
        while block := os.read(terminal, 1_000_000):
            into.append(block)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("colour", [True, False])
def test_progress_is_for_terminals_and_colours_can_be_turned_off(tmp_path, colour):
    import pty

    (tmp_path / "a.csv").write_text(SQUARE)
    terminal, end = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color"} | ({} if colour else {"NO_COLOR": "1"})
    command = [sys.executable, "-m", "unshuffle", "tour", str(tmp_path / "a.csv"), "-o", str(tmp_path / "o")]
    screen: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(terminal, screen), daemon=True)
    reader.start()  # a terminal holds little: on a slow machine the command would wait for ever for somebody to read
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=end, text=True, timeout=300)
    os.close(end)
    reader.join()
    os.close(terminal)
    seen = b"".join(screen).decode()
    assert done.returncode == 0
    assert "tour" in seen, "no progress on a terminal"
    assert seen.rstrip("\r\n").endswith("\x1b[2K") or "\x1b[2K" in seen  # and it is wiped
    assert bool(re.search(r"\x1b\[[\d;]*3[0-7]", seen)) == colour
    assert "\x1b" not in done.stdout


def test_what_a_command_loads_is_not_looked_through_for_garbage(monkeypatch):
    """It takes half a second at the start and a second at the end, and finds nothing."""
    done = []
    monkeypatch.setattr(Clock, "began", None)  # and so again for the tests after this one
    monkeypatch.setattr("atexit.register", done.append)
    monkeypatch.setattr("gc.set_threshold", lambda *seldom: done.append(min(seldom) >= 50))
    monkeypatch.setattr("sys.argv", ["unshuffle", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert done == [True, gc.freeze]
