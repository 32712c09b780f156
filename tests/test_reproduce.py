"""Runs as values, results as files: nothing twice, nothing lost, nothing stopped by a failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.paper import tours
from unshuffle.paper.executor import Local, not_yet_computed
from unshuffle.paper.geometry import ot4p
from unshuffle.paper.jigsaws import jigsaw
from unshuffle.paper.keys import PublishedKeys, UntrainedKeys, UntrainedSoftSort, greedy
from unshuffle.paper.lock import held
from unshuffle.paper.run import Busy, Means, Outcome, Planned, Training, Unfinished, carry_out, compact, result_of
from unshuffle.paper.sorting import BUDGETS, RANGES, sorting
from unshuffle.paper.store import Place, Result, Store
from unshuffle.paper.tables import TABLES, Wanted
from unshuffle.paper.tours import reference_tours, tsp, tsp_ablation
from unshuffle.recipes.draws import DrawnOnce
from unshuffle.recipes.jigsaw import Jigsaw
from unshuffle.recipes.settings import plain
from unshuffle.recipes.sorting import Sorting
from unshuffle.recipes.tour import nearest_neighbour, ordered
from unshuffle.recipes.training import BestHeldOut, LastByTest, untrained
from unshuffle.report.summary import reported
from unshuffle.structure.losses import tour_length
from unshuffle.temperature.local import MatchedScalar

PLACE = Place("sorting", "[0, 1]", "global", "5", 0, "smoke")


@dataclass(frozen=True)
class Trial:
    """A run that does as it is told; `folder` counts how often it was computed."""

    seed: int
    folder: str
    ending: str = "good"

    @property
    def task(self) -> str:
        return "trial"

    def settings(self) -> Trial:
        return self

    def compute(self, means: Means) -> Outcome:
        count = Path(self.folder) / f"{self.seed}-{time.time_ns()}"
        count.touch()
        if self.ending == "error":
            raise RuntimeError("this one fails")
        if self.ending == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome({"tau": float(self.seed)})


@dataclass(frozen=True)
class Settled:
    """A trial that says that it has these settings."""

    of: Any
    seed: int
    folder: str
    task: str = "trial"

    def settings(self) -> Any:
        return self.of

    def compute(self, means: Means) -> Outcome:
        return Outcome({"tau": 0.5})


def times(folder: str | Path, seed: int) -> list[Path]:
    return list(Path(folder).glob(f"{seed}-*"))


def planned(run: Trial) -> Planned:
    return Planned(run, replace(PLACE, seed=run.seed))


def small(epochs: int = 3, seed: int = 0) -> Training:
    return Training(replace(Sorting.paper(5, epochs=epochs, seed=seed), training=DrawnOnce(512), test_lists=20))


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_key_names_everything_that_decides_the_numbers_and_nothing_else():
    first = Planned(small(), PLACE)
    assert first.key == Planned(small(), replace(PLACE, table="other")).key
    assert first.key != Planned(small(seed=1), PLACE).key
    assert first.key != Planned(replace(small(), stopping=BestHeldOut(3)), PLACE).key


def settled(folder: Path, **settings: Any) -> Planned:
    """A run with these settings, each with its default; a pair is a value and another default."""
    pairs = {name: value if isinstance(value, tuple) else (value, value) for name, value in settings.items()}
    fields = [("n", int), *((name, int, default) for name, (_, default) in pairs.items())]
    kind = make_dataclass("Settings", fields, frozen=True)
    return Planned(Settled(kind(3, *(value for value, _ in pairs.values())), 0, str(folder)), PLACE)


def left(one: Planned, store: Store) -> int:
    return len(not_yet_computed([one], store, retry=False))


def test_a_setting_that_is_added_with_a_default_finds_old_results(tmp_path):
    store = Store(tmp_path / "store")
    carry_out(settled(tmp_path), store, None, None, None)
    assert left(settled(tmp_path), store) == 0
    assert left(settled(tmp_path, later=7), store) == 0
    assert left(settled(tmp_path, later=(8, 7)), store) == 1


def test_a_changed_default_does_not_reuse_old_results(tmp_path):
    store = Store(tmp_path / "store")
    carry_out(settled(tmp_path, way=7), store, None, None, None)
    assert left(settled(tmp_path, way=7), store) == 0
    assert left(settled(tmp_path, way=8), store) == 1
    assert left(settled(tmp_path, way=(7, 8)), store) == 0  # asked for by name now


def test_the_place_of_a_picture_folder_does_not_matter():
    here, there = (Planned(Training(Jigsaw.paper(f"/{d}/faces", 5)), PLACE) for d in ("here", "there"))
    assert here.key == there.key
    assert here.run.settings().recipe.data == "faces"


@pytest.mark.parametrize("scale", ["smoke", "cpu", "sizes", "paper"])
def test_every_table_lists_runs_whose_cells_the_report_knows(scale):
    for name in reported().keys() & TABLES.keys():
        table = TABLES[name]
        runs = table(Wanted(scale, (0, 1), Path("faces")))
        cells = [(p.place.section, p.place.row, p.place.column, p.place.seed) for p in runs]
        assert len(set(cells)) == len(cells) > 0
        steady = [
            p for p in runs if (name, p.place.row) == ("hard-sorting-schedules", "entropy")
        ]  # no schedule: one run in all columns
        assert len({p.key for p in steady}) == len({p.place.seed for p in steady})
        assert len({p.key for p in runs if p not in steady}) == len(cells) - len(steady)
        about = reported()[name]
        assert {p.place.row for p in runs} <= set(about["names"])
        if scale == "paper":
            assert not any(p.place.cut for p in runs)
            assert set(about["sections"]) == {p.place.section for p in runs}


def test_cuts_are_said():
    runs = sorting("cpu", (0,))
    cut = {p.place.column: p.place.cut for p in runs if p.place.row == "adaptive"}
    assert cut == {"5": "", "10": "", "50": "", "100": "the first 30 of 150 epochs"}
    cut = {p.place.column: p.place.cut for p in runs if p.place.row == "trained NeuralSort"}
    assert cut == {"5": "", "10": "", "50": "20 of 150 epochs", "100": "the first 8 of 150 epochs"}
    assert not any(p.place.cut for p in runs if p.place.row == "strong recipe")


def test_at_the_papers_sizes_schedules_of_tours_are_broken_off_and_all_else_is_whole():
    assert not any(p.place.cut for p in sorting("sizes", (0,)))
    assert {p.place.cut for p in jigsaw("sizes", (0,), Path("faces")) if p.place.row == "global"} == {
        "100 of 500 epochs",
        "100 of 600 epochs",
    }
    runs = {(p.place.row, p.place.column, p.place.seed): p for p in tsp_ablation("sizes", (0, 1, 2))}
    assert {(n, seed, p.place.cut) for (_, n, seed), p in runs.items()} == {
        ("100", 0, "the first 100 of 300 epochs"),
        ("100", 1, "the first 100 of 300 epochs"),
        ("200", 0, "the first 25 of 300 epochs"),
    }
    recipe: Any = runs["GS UTSP + TA", "100", 0].run.recipe  # pyright: ignore[reportAttributeAccessIssue]
    assert (recipe.epochs, recipe.relax.schedule.epochs, recipe.batch, recipe.samples) == (100, 200, 128, 8)


def test_the_sorting_table_pairs_its_methods():
    runs = [p for p in sorting("cpu", (0, 1, 2)) if p.place.column == "10" and p.place.section == "[10, 11]"]
    for seed in range(3):
        mine = [p for p in runs if p.place.seed == seed]
        recipes: dict[str, Any] = {p.place.row: p.run.recipe for p in mine if isinstance(p.run, Training)}
        local = recipes["adaptive"].relax.local
        assert local.max_boost == 0.1
        assert recipes["matched"].relax.local == MatchedScalar(local)
        assert recipes["global"].relax.local is None
        same = replace(recipes["adaptive"], relax=recipes["global"].relax)
        assert plain(same) == plain(recipes["global"])
    assert [b.sizes for rows, b in BUDGETS["paper"] if "global" in rows] == [(5, 10, 50, 100, 200, 300)]


def test_neuralsort_as_published_is_the_papers_row():
    """Softmax over positions, single precision, tau = 1, greedy: it sorts [0, 1] at n = 50 and hardly anything of [10, 11]."""
    papers = reported()["sorting"]["sections"]
    for section, column, n in (("[0, 1]", 2, 50), ("[10, 11]", 0, 5), ("[10, 11]", 1, 10), ("[10, 11]", 2, 50)):
        tau = PublishedKeys(n, RANGES[section], seed=0).compute(Means(Path())).metrics["tau"]
        assert tau == pytest.approx(papers[section]["NeuralSort, as published"][column][0], abs=0.04)
    for keys in (UntrainedKeys, UntrainedSoftSort):
        assert keys(50, (10.0, 11.0), seed=0, lists=20).compute(Means(Path())).metrics["tau"] == 1.0


def test_the_sweep_of_ot4p_varies_rate_schedule_and_range():
    runs = {p.place.row: p.run for p in ot4p("cpu", (0,)) if p.place.column == "5" and p.place.section == "[0, 1]"}
    recipes: dict[str, Any] = {row: run.recipe for row, run in runs.items() if isinstance(run, Training)}
    del recipes["global"]
    assert recipes["OT4P, rate 5e-3"].descent.rate == 10 * recipes["OT4P"].descent.rate
    ends = {row: [round(1 / r.relax.schedule(e), 3) for e in (0, 15, 29)] for row, r in recipes.items()}
    assert ends == {
        "OT4P": [1.0, 0.326, 0.2],
        "OT4P, rate 5e-3": [1.0, 0.326, 0.2],
        "OT4P, tau to 0.5": [1.0, 0.659, 0.5],
        "OT4P, exponential": [1.0, 0.435, 0.2],
        "OT4P, tau 0.5": [0.5, 0.5, 0.5],
    }


def test_tours_are_compared_with_short_ones_and_with_what_they_began_as(tmp_path):
    (one,) = [p for p in tsp("smoke", (0,)) if p.place.row == "GS UTSP"]
    run: Any = one.run
    short = replace(run, recipe=replace(run.recipe, test_instances=4))
    found = short.measured(untrained(short.recipe))
    assert (found["length"], found["failed"]) == (found["untrained_length"], 1.0)  # not shorter: failed
    cities = short.recipe.test_set()
    lengths = [
        tour_length(ordered(cities, tours)) for tours in (reference_tours(short.recipe), nearest_neighbour(cities))
    ]
    assert (lengths[0] <= lengths[1] + 1e-5).all()
    assert -1 <= found["tau"] < 0.9


def test_greedy_decoding_takes_what_is_left_position_by_position():
    P = torch.tensor([[[0.6, 0.7, 0.1], [0.5, 0.6, 0.2], [0.0, 0.0, 0.0]]])
    assert greedy(P).tolist() == [[0, 1, 2]]
    assert greedy(torch.zeros(1, 3, 3)).tolist() == [[0, 1, 2]]


def test_rows_as_published_follow_the_authors_code():
    runs = {
        p.place.row: p.run for p in sorting("cpu", (0,)) if p.place.column == "50" and p.place.section == "[10, 11]"
    }
    ours, theirs = runs["adaptive"], runs["adaptive, as published"]
    assert isinstance(theirs, Training)
    relax: Any = theirs.recipe.relax
    assert 1 / relax.schedule(74.5) == pytest.approx(1.0)  # tau from 1.5 to 0.5, linear
    assert (relax.adapt_from, theirs.recipe.descent.clip, theirs.stopping) == (0, None, LastByTest(5, 5, 0.001))
    assert (ours.recipe.relax.adapt_from, ours.stopping) == (1, BestHeldOut(25))  # pyright: ignore


# --- one run ---------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_leaves_no_result_and_ends_as_if_it_had_not_been(tmp_path):
    whole, parts = Store(tmp_path / "whole"), Store(tmp_path / "parts")
    one = Planned(small(), PLACE)
    expected = carry_out(one, whole, None, None, None)
    with pytest.raises(Unfinished):
        carry_out(one, parts, None, 0.0, None)
    assert list(parts) == []
    assert (parts.work_folder("sorting", one.key) / "last.pt").exists()
    found = carry_out(one, parts, None, None, None)
    assert found.metrics == expected.metrics
    assert found.history["loss"] == expected.history["loss"]
    assert not (parts.folder / "unfinished").exists()


def test_a_result_says_what_it_is_of_and_comes_back_from_its_file(tmp_path):
    store = Store(tmp_path)
    one = Planned(small(epochs=2), PLACE)
    result = carry_out(one, store, None, None, "abc")
    assert one.found(store.by_task()) == result
    contents = json.loads(store.path("sorting", one.key).read_text())
    assert contents["settings"]["recipe"]["n"] == 5
    assert {"torch", "unshuffle", "python"} <= set(contents["versions"])
    assert contents["commit"] == "abc"
    assert contents["seconds"] > 0
    assert set(contents["history"]) >= {"epoch", "loss", "held_out", "tau", "row_entropy_mean"}
    assert result.metrics["epochs"] == 2


def test_a_long_history_is_thinned_and_keeps_its_end():
    kept = compact([{"epoch": e, "loss": 1 / (e + 1)} for e in range(150)], most=60)
    assert 50 <= len(kept["epoch"]) <= 60
    assert kept["epoch"][-1] == 149
    assert kept["loss"][-1] == pytest.approx(1 / 150, rel=1e-3)


def test_a_run_in_two_tables_is_computed_once_and_noted_in_both(tmp_path):
    store = Store(tmp_path / "store")
    run = Trial(3, str(tmp_path))
    twice = [Planned(run, PLACE), Planned(run, replace(PLACE, table="other"))]
    (missing,) = not_yet_computed(twice, store, retry=False)
    carry_out(missing, store, None, None, None)
    assert not_yet_computed(twice, store, retry=False) == []
    (result,) = store
    assert [p.table for p in result.places] == ["sorting", "other"]
    assert len(times(tmp_path, 3)) == 1


# --- many runs -------------------------------------------------------------------------------------------------------


def test_failures_and_deaths_are_kept_and_stop_nothing(tmp_path):
    store, told = Store(tmp_path / "store"), []
    endings = ["good", "error", "death", "good"]
    runs = [planned(Trial(seed, str(tmp_path), ending)) for seed, ending in enumerate(endings)]
    undone = Local(workers=1)(runs, store, lambda one, result: told.append(result))
    assert undone == 0
    assert sorted(result.seed for result in told) == [0, 1, 2, 3]  # each once
    results = {result.seed: result for result in store}
    assert results[0].metrics == {"tau": 0.0}
    assert results[3].metrics == {"tau": 3.0}
    assert results[1].error == "RuntimeError: this one fails"
    assert "died" in (results[2].error or "")
    assert len(times(tmp_path, 2)) == 2  # a second try: once may have been another's fault
    assert [p.run.seed for p in not_yet_computed(runs, store, retry=False)] == []
    assert [p.run.seed for p in not_yet_computed(runs, store, retry=True)] == [1, 2]


def test_two_processes_on_one_store_compute_a_run_once(tmp_path):
    """The second finds it taken, comes back, and gets the first one's result."""
    store, one = Store(tmp_path / "store"), planned(Trial(0, str(tmp_path)))
    with held(store.lock("trial", one.key)) as mine:
        assert mine
        with pytest.raises(Busy):
            carry_out(one, store, None, None, None)
        assert times(tmp_path, 0) == []
    first = carry_out(one, store, None, None, None)
    assert len(times(tmp_path, 0)) == 1
    assert not (store.folder / "unfinished").exists()
    assert list(store) == [first]


def test_a_result_that_was_written_while_we_waited_is_taken(tmp_path, monkeypatch):
    store, one = Store(tmp_path / "store"), planned(Trial(0, str(tmp_path)))
    theirs = result_of(one, 1.0, Outcome({"tau": 0.25}), None, None)

    @contextmanager
    def late(path: Path):
        store.write(theirs)
        yield True

    monkeypatch.setattr("unshuffle.paper.run.held", late)
    assert carry_out(one, store, None, None, None) == theirs
    assert times(tmp_path, 0) == []


def test_the_lock_of_a_process_of_this_machine_ends_with_it(tmp_path):
    lock = tmp_path / "unfinished" / "one.lock"
    code = f"import os; from pathlib import Path; from unshuffle.paper.lock import held\nwith held(Path({str(lock)!r})): os._exit(1)"
    subprocess.run([sys.executable, "-c", code], check=False, timeout=100)
    assert lock.exists()
    with held(lock) as mine:
        assert mine
        with held(lock) as second:
            assert not second  # we are alive


def test_the_lock_of_a_dead_process_expires_and_that_of_a_living_one_does_not(tmp_path):
    lock = tmp_path / "unfinished" / "one.lock"
    lock.parent.mkdir()
    lock.touch()
    os.utime(lock, (time.time() - 120, time.time() - 120))
    with held(lock) as mine:
        assert mine
    with held(lock, beat=0.02, stale=0.2) as mine:
        time.sleep(0.5)
        with held(lock, stale=0.2) as second:
            assert (mine, second) == (True, False)


@pytest.fixture
def in_this_process(monkeypatch):
    """Runs need no processes of their own, which spares them the start."""

    def carried_out(self, runs, store, tell) -> int:
        for one in runs:
            tell(one, carry_out(one, store, None, None, None))
        return 0

    monkeypatch.setattr(Local, "__call__", carried_out)


def test_failed_runs_are_an_exit_code(tmp_path, monkeypatch, in_this_process):
    monkeypatch.setattr("unshuffle.paper.checks.mask_only_tau", lambda n, k: 1 / 0)
    done = reproduce("mask-only", "--scale", "smoke", "--store", tmp_path)
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.output


def test_a_time_limit_leaves_the_rest_for_later(tmp_path):
    runs = [planned(Trial(seed, str(tmp_path))) for seed in range(3)]
    assert Local(limit=-1.0)(runs, Store(tmp_path / "store"), lambda *_: None) == 3


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("faces")
    y, x = np.mgrid[0:30, 0:30] / 30
    for k in range(12):
        colours = np.stack(((x + k * y) % 1, y, np.full_like(x, k / 12)), -1)
        Image.fromarray((255 * colours).astype(np.uint8)).save(folder / f"{k:02}.png")
    return folder


def test_every_run_of_the_smoke_scale_works(tmp_path, pictures, monkeypatch):
    """In this process; with its own the scale takes a minute. Tours are compared with two short ones instead of sixteen."""
    monkeypatch.setattr(tours, "WITH_REFERENCE", 2)
    monkeypatch.setattr(tours, "_solved", lru_cache(tours._solved.__wrapped__))  # others may have solved sixteen
    store = Store(tmp_path)
    for table in TABLES.values():
        for one in not_yet_computed(table(Wanted("smoke", (0,), pictures)), store, retry=False):
            result = carry_out(one, store, None, None, None)
            assert result.error is None, result
            if one.place.table in reported():
                assert reported()[one.place.table]["metric"] in result.metrics


def reproduce(*arguments: object):
    return CliRunner().invoke(build("reproduce"), ["reproduce", *map(str, arguments)])


def test_the_command_computes_once_and_shows_ours_beside_the_papers(tmp_path):
    arguments = ("mask-only", "--scale", "smoke", "--store", tmp_path)
    first = reproduce(*arguments)
    assert first.exit_code == 0, first.output
    assert "(0.029)" in first.stdout
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(files) == 6
    second = reproduce(*arguments, "--json")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == files
    cell = json.loads(second.stdout)["cells"][0]
    assert cell["ours"] == pytest.approx([0.029, 0.029], abs=0.02)
    assert cell["paper"] == [0.029, None]


def test_a_row_a_column_and_a_section_can_be_asked_for(tmp_path, in_this_process):
    arguments = ("sorting", "--scale", "smoke", "--seeds", "0", "--only", "SoftSort", "--column", "5")
    done = reproduce(*arguments, "--section", "[10, 11]", "--store", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert {(r.task, r.places[0].section) for r in Store(tmp_path)} == {
        ("softsort", "[10, 11]"),
        ("sorting", "[10, 11]"),
    }
    exact = reproduce("sorting", "--scale", "smoke", "--seeds", "0", "--row", "SoftSort", "--store", tmp_path / "exact")
    assert exact.exit_code == 0, exact.output
    assert {r.task for r in Store(tmp_path / "exact")} == {"softsort"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sorted",), "TABLE must be one of"),
        (("sorting", "--scale", "large"), "--scale must be one of"),
        (("sorting", "--seeds", "a"), "Seeds are whole numbers"),
        (("jigsaw",), "--data"),
        (("sorting", "--device", "quantum"), "There is no device 'quantum' here"),
        (("sorting", "--row", "adapt"), "--row must be one of strong recipe, global, adaptive, matched"),
        (("sorting", "--column", "7"), "--column must be one of 100, 300, 5, 10, 50"),
        (("sorting", "--only", "Neural", "--section", "[1, 2]"), "--section must be one of [0, 1], [10, 11]"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, tmp_path):
    done = reproduce(*arguments, "--store", tmp_path)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"scale": "huge"}, "of the scale 'huge'"), ({"tau": "high"}, "is not a result"), ({"column": "many"}, None)],
)
def test_results_that_make_no_sense_are_told_in_one_sentence(changed, words, tmp_path):
    place = replace(PLACE, **{k: v for k, v in changed.items() if k != "tau"})
    Store(tmp_path).write(Result("t", "k", {}, 0, (place,), 1.0, {"tau": changed.get("tau", 0.5)}, {}, {}))
    done = CliRunner().invoke(build("report"), ["report", "--store", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == (2 if words else 0), done.output
    assert (words or "") in done.stderr
    assert not isinstance(done.exception, ValueError)


def test_names_in_results_are_harmless(tmp_path):
    place = replace(PLACE, column="<b>7</b>", section="\x1b[31m[0, 1]")
    Store(tmp_path).write(Result("t", "k", {}, 0, (place,), 1.0, {}, {}, {}, error="\x1b]0;title\x07 <script>"))
    done = CliRunner().invoke(build("report"), ["report", "--store", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    for file in (tmp_path / "out").iterdir():
        assert "\x1b" not in (text := file.read_text())
        assert "<script" not in text or file.suffix == ".tex"


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "sorting-000000000000.json").write_text("{")
    with pytest.raises(ValueError, match=r"sorting-000000000000.json is not a result"):
        list(Store(tmp_path))


def test_results_of_a_store_come_back_equal(tmp_path):
    result = Result("t", "k", {"n": 1}, 0, (PLACE,), 1.0, {"tau": 0.5}, {}, {"python": "3"})
    Store(tmp_path).write(result)
    assert list(Store(tmp_path)) == [result]
