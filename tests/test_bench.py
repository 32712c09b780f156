"""What `unshuffle bench` measures on: scores of a short training, the same every time and as sharp as asked."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from types import SimpleNamespace

import torch
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.bench import timing, trained
from unshuffle.bench.timing import AT_LEAST, ROUNDS, Spread, Took, as_row, shown_range, turns
from unshuffle.cli.common import build
from unshuffle.paper import checks

cli = import_module("unshuffle.cli.bench")


def test_trained_scores_are_seeded_and_sharp():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = trained.scores(3, 12, 10.0, 4)
    assert torch.equal(torch.get_rng_state(), before)
    trained.network.cache_clear()
    assert torch.equal(trained.scores(3, 12, 10.0, 4), first)
    sharp = us.entropy(us.sinkhorn(first)).mean() <= trained.ENTROPY
    assert sharp or first.abs().max() >= 2000
    assert not first.requires_grad


def test_a_first_call_that_compiles_counts_nowhere(monkeypatch):
    """A share of a training step was once 1372.8 %: the seconds in which its kernels were compiled."""

    def compiling(*_):
        calls = iter((0.3,))
        return lambda: time.sleep(next(calls, 0.002))

    assert turns({"compiled at first": compiling()}, 0.0).milliseconds("compiled at first") < 100
    monkeypatch.setattr(checks, "training_step", lambda *_: compiling())
    assert abs(checks.Overhead(1, 4, 0.0, 0).compute(lambda *_: None).metrics["overhead"]) < 300


def test_rivals_take_turns_and_a_ratio_is_of_one_round(monkeypatch):
    """The plain way took 817 ms in one run and 1,006 in another: only what was measured side by side can be compared."""
    calls = []
    took = turns({name: lambda name=name: calls.append(name) for name in "ab"}, 0.0)
    assert "".join(calls) == "ab" + "aabb" * AT_LEAST, "once before the watch runs, then in turns, until it is late"
    assert all(len(found) == AT_LEAST for found in took.rounds.values())
    ticks = count()
    # a clock that no busy machine makes late
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 1000))
    took = turns({"a": calls.clear, "b": calls.clear}, 1.0)
    assert all(len(found) == ROUNDS for found in took.rounds.values())
    # a machine that is twice as slow in the second round; a call that is disturbed in the third
    took = Took({"plain": [8.0, 16.0, 9.0], "ours": [1.0, 2.0, 3.0]})
    assert took.times("plain", "ours") == (8.0, 3.0, 8.0)
    assert took.more("plain", "ours") == (7.0, 2.0, 7.0)
    assert took.milliseconds("ours") == 2000


def test_rows_have_the_range_of_a_ratio():
    @dataclass
    class Row:
        n: int
        ratio: Spread

    row = as_row(Row(3, Spread(11.42, 10.9, 12.04)))
    assert row == {"n": 3, "ratio": 11.42, "ratio_range": [10.9, 12.04]}
    assert shown_range(row, "ratio") == "11.4 (10.9 to 12.0)"
    assert shown_range({"lead": 0.12, "lead_range": [0.1, 0.135]}, "lead", percent=True) == "12 % (10 to 14)"
    assert shown_range({"ratio": 2.0}, "ratio") == "2.0", "a file of before"
    assert shown_range({}, "ratio") == "-"


def test_ctrl_c_keeps_the_tables_that_are_complete(monkeypatch, tmp_path):
    def pressed(*_):
        raise KeyboardInterrupt

    row = {
        "batch": 4,
        "n": 5,
        "iterations": 10,
        "ours": 1.0,
        "plain": 2.0,
        "ratio": 2.0,
        "pot": None,
        "pygmtools": None,
    }
    monkeypatch.setattr(cli, "MEASURES", dict.fromkeys(cli.MEASURES, pressed) | {"speed": lambda *_: [row]})
    ran = CliRunner().invoke(build("bench"), ["bench", "--out", str(tmp_path)])
    assert ran.exit_code == 130
    assert "Forward + backward" in ran.output
    assert "Peak memory" not in ran.output
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert (kept["status"], kept["speed"], kept["growth"]) == ("interrupted", [row], [])
    monkeypatch.setattr(cli, "MEASURES", {"speed": pressed})
    assert CliRunner().invoke(build("bench"), ["bench", "--out", str(tmp_path / "b")]).exit_code == 130
    assert not (tmp_path / "b" / "bench.json").exists()
