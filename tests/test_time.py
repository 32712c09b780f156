"""Time: limits that hold in every stage, tours that are stopped, what a progress bar says, compiling apart from work."""

from __future__ import annotations

import contextlib
import io
import json
import math
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module

import numpy as np
import pytest
import torch
import typer
from rich.console import Console
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli import common
from unshuffle.cli.bench import busy
from unshuffle.cli.doubts import wanted
from unshuffle.cli.labels import name_points
from unshuffle.compute import compiling
from unshuffle.compute.jit import _beside, have_numba, njit, still_compiling
from unshuffle.progress_bar import Bar, on_terminal
from unshuffle.solve.cycle.quick import quick_tours
from unshuffle.solve.grid import solver as grid_solver
from unshuffle.watch import Step, Stopped, Watch, dispensable


def plane(n: int) -> torch.Tensor:
    points = torch.rand(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.cdist(points, points)


def nearest_neighbour(D: torch.Tensor, city: int) -> float:
    """In plain words, to compare with."""
    order, left = [city], set(range(len(D))) - {city}
    while left:
        order.append(min(left, key=lambda k: float(D[order[-1], k])))
        left.remove(order[-1])
    return sum(float(D[order[k - 1], order[k]]) for k in range(len(D)))


@pytest.mark.parametrize("polish", [False, True])
def test_a_stopped_tour_is_never_worse_than_nearest_neighbour(polish):
    D = plane(150)
    found = us.solve(us.Cycle(150), cost=D, time_limit=0.0, polish=polish)
    assert found.status == "time limit"
    assert sorted(found.best_order.tolist()) == list(range(150))
    assert found.energy == pytest.approx(float(us.Cycle(150).energy(found.order, D)))
    assert found.best_energy <= min(nearest_neighbour(D, city) for city in range(0, 150, 7)) + 1e-9
    assert found.confidence.shape == (150,)


def test_a_stopped_tour_keeps_its_anchors():
    allowed = torch.ones(30, 30, dtype=torch.bool)
    allowed[7], allowed[:, 4] = False, False
    allowed[7, 4] = True
    assert us.solve(us.Cycle(30), cost=plane(30), allowed=allowed, time_limit=0.0).order[4] == 7


@pytest.mark.parametrize("n", [2, 3, 4, 5, 9, 60])
def test_quick_tours_are_tours(n):
    cost = torch.rand(n, n, generator=torch.Generator().manual_seed(n)).double().numpy()
    for tour in quick_tours(cost):
        assert sorted(tour.tolist()) == list(range(n))
    assert (quick_tours(np.zeros((n, n))) >= 0).all()  # all alike


def test_more_runs_than_there_is_time_for():
    began = time.perf_counter()
    found = us.solve(us.Cycle(40), cost=plane(40), runs=1_000_000, time_limit=0.5)
    assert found.status == "time limit"
    assert 2 <= len(found.energies) < 1_000_000
    assert time.perf_counter() - began < 60
    assert found.energy == float(found.energies.min())


def test_runs_in_groups_are_all_there(monkeypatch):
    monkeypatch.setattr(import_module("unshuffle.solve.cycle.solver"), "MOST_TOGETHER", 2)
    found = us.solve(us.Cycle(12), cost=plane(12), runs=5)
    assert len(found.energies) == 5
    assert found.energy == pytest.approx(float(us.Cycle(12).energy(found.order, plane(12))))
    assert any(step.stage.startswith("group 3 of 3, round 1 of 13") for step in found.history)


def test_polish_gets_a_share_of_the_limit_and_keeps_to_it():
    watch = Watch(10.0, keep=0.2)
    watch._began -= 9
    assert not watch(stage="anneal")
    assert watch.spare()
    assert watch.rest() == "time limit"
    assert watch(stage="polish")
    watch._began -= 2
    assert not watch.spare()
    assert not watch(stage="polish")
    watch = Watch()
    watch._interrupt(2, None)
    assert not watch.spare()


def test_how_far_a_stage_is():
    def done(stage: str) -> float:
        return Step(0.0, stage, 1.0, 0.0, 0.0).overall

    assert done("anneal") == 0
    assert Step(0.0, "round 2 of 2", 1.0, 0.0, 0.0, done=0.5).overall == pytest.approx(3 / 4)
    assert done("round 3 of 4, level 2 of 2") == pytest.approx(5 / 8)
    assert done("group 2 of 2, round 1 of 13, level 1 of 5") == pytest.approx(1 / 2)


def test_a_bar_names_the_stage_says_how_long_and_never_nan(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(common, "errors", Console(file=screen, force_terminal=True, width=200))
    with common.progress("tour") as show:
        show._began -= 10
        show(Step(10.0, "round 3 of 4, level 1 of 2", 1.0, math.nan, math.nan))
        time.sleep(0.15)
        show(Step(10.0, "round 3 of 4, level 2 of 2", 1.0, 12.5, 0.25))
        time.sleep(0.15)
        show.stopping()
        time.sleep(0.15)
    seen = screen.getvalue()
    assert "nan" not in seen
    assert "round 3 of 4" in seen
    assert "energy 12.5" in seen
    assert "about 6 s left" in seen
    assert "the best so far is kept" in seen


def test_time_left_is_counted_from_where_the_stage_began():
    said: list[str] = []
    bar = Bar(lambda done, now, left: said.append(left))
    bar._began -= 30

    def tell(stage: str, done: float) -> str:
        bar(Step(40.0, stage, 1.0, math.nan, math.nan, done))
        return said[-1]

    assert tell("compare the seams", 0.75) == "about 10 s left"
    assert tell("anneal", 0.5) == ""
    bar._began -= 20
    assert tell("anneal", 0.8) == "about 5 s left"
    assert tell("round 1 of 2", 0.5) == ""
    bar._began -= 20
    assert tell("round 2 of 2", 0.0) == "about 20 s left"
    bar = Bar(lambda done, now, left: said.append(left), time_limit=60)
    assert tell("anneal", math.nan) == "about 20 s left"


def test_the_clock_goes_on_when_a_stage_is_over(monkeypatch):
    told: list[dict] = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **what: told.append(what))
    with on_terminal("jigsaw", Console(file=io.StringIO(), force_terminal=True)) as show:
        show(1.0, "anneal", "")
    assert told[-1]["completed"] < told[-1]["total"]


@pytest.mark.skipif(not have_numba, reason="many tiles are annealed in lists by kernels only")
def test_a_puzzle_of_many_tiles_says_how_far_it_is():
    h, w = 15, 20
    right, below = torch.rand(2, h * w, h * w, generator=torch.Generator().manual_seed(0)) + 1
    cell = torch.arange(h * w).reshape(h, w)
    right[cell[:, :-1], cell[:, 1:]] = below[cell[:-1], cell[1:]] = 0.1
    right[cell[3], :] = below[:, cell[9]] = 1.0  # a line that fits everything, so that there is something to reassemble
    steps: list[Step] = []
    us.solve(us.Grid(h, w), cost=(right, below), callback=steps.append)
    for stage in ("anneal", "reassemble"):
        done = [step.done for step in steps if step.stage == stage]
        assert done
        assert all(0 <= share <= 1 for share in done)
        assert done[-1] == 1
        assert min(done) < 1


@pytest.mark.skipif(not have_numba, reason="nothing compiles")
def test_compiling_is_counted_apart():
    import numba

    def inner(x):
        return x + 1

    compiled = numba.njit(inner)
    clock = common.Clock()
    before = compiling.compiling_seconds()
    began = time.perf_counter()
    numba.njit(lambda x: compiled(x) * 2)(3.0)
    spent, passed = compiling.compiling_seconds() - before, time.perf_counter() - began
    assert 0.5 * passed < spent <= passed
    assert clock.compiling == pytest.approx(spent)
    assert clock.seconds < passed
    compiled(1.0)
    assert clock.compiling == pytest.approx(spent)


def test_large_jobs_are_announced_and_impossible_ones_refused(capsys):
    common.foresee(600.0, 0.4, silent=False)
    assert "about 10 min and 0.4 GB" in capsys.readouterr().out
    common.foresee(2.0, 0.1, silent=False)
    assert capsys.readouterr().out == ""
    if common.free_memory() is not None:
        with pytest.raises(us.BadInput, match="GB are free"):
            common.foresee(1.0, 1e6, silent=False)


def test_names_in_a_picture_do_not_overlap():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = np.random.default_rng(0).random((60, 2))
    figure = Figure(figsize=(7, 6))
    axes = figure.add_subplot()
    axes.scatter(*points.T)
    placed = name_points(figure, axes, points, [f"Name ${k}$" for k in range(60)])
    assert placed > 35
    boxes = [text.get_window_extent(FigureCanvasAgg(figure).get_renderer()) for text in axes.texts]
    assert len(boxes) == placed
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def drawn(written: list[str], presses: int) -> None:
    with common.to_the_end():
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        written.append("a file")


def test_ctrl_c_while_drawing_throws_nothing_away():
    written: list[str] = []
    drawn(written, 0)
    with pytest.raises(typer.Exit) as end:
        drawn(written, 1)
    assert end.value.exit_code == 130
    assert len(written) == 2
    with pytest.raises(KeyboardInterrupt):
        drawn(written, 2)
    assert len(written) == 2


def test_ctrl_c_leaves_out_what_can_be_left_out_and_writes_the_rest(tmp_path, monkeypatch):
    def endless(*_):
        signal.raise_signal(signal.SIGINT)
        time.sleep(20)

    monkeypatch.setattr(us.Solution, "sets", endless)
    np.savetxt(tmp_path / "a.csv", np.random.default_rng(0).random((7, 2)), delimiter=",")
    began = time.perf_counter()
    done = CliRunner().invoke(common.build("tour"), ["tour", str(tmp_path / "a.csv"), "--out", str(tmp_path / "o")])
    assert done.exit_code == 130
    assert time.perf_counter() - began < 20
    assert "sets" not in json.loads((tmp_path / "o" / "a.json").read_text())
    assert (tmp_path / "o" / "a.png").exists()


def test_what_drawing_takes_is_kept_of_a_limit():
    clock = common.Clock(10.0)
    assert clock.left == pytest.approx(9.0, abs=0.5)
    assert clock.before(3.0) == pytest.approx(7.0, abs=0.5)
    assert clock.before(30.0) == pytest.approx(5.0, abs=0.5)
    assert common.Clock().before(3.0) is None


def test_sets_of_many_are_left_out_where_they_would_break_the_limit():
    assert wanted("finished", 1400, common.Clock())
    assert wanted("finished", 1400, common.Clock(20.0))
    assert not wanted("finished", 1400, common.Clock(2.0))
    assert wanted("time limit", 300, common.Clock(0.0))
    assert not wanted("interrupted", 5, common.Clock())


def test_loading_is_told_apart(monkeypatch):
    monkeypatch.setattr(common.Clock, "began", None)
    assert common.Clock().loading == 0.0  # no process of its own
    monkeypatch.setattr(common.Clock, "began", time.perf_counter() - 3.0)
    clock = common.Clock()
    assert clock.loading == pytest.approx(3.0, abs=0.2)
    assert clock.times()["loading_seconds"] == pytest.approx(3.0, abs=0.2)
    assert clock.seconds < 1.0
    assert ", and 3.0 s to load" in clock.words()


def test_ctrl_c_stops_all_watches_within_watches():
    told = []

    class Screen:
        def __call__(self, step: Step) -> None: ...
        def stopping(self) -> None:
            told.append("stopping")

    with Watch(None, Screen()) as outer:
        with Watch() as inner:
            assert inner(stage="anneal")
            signal.raise_signal(signal.SIGINT)
            assert not inner(stage="anneal")
        assert outer.stopped
        assert told == ["stopping"]
        with Watch() as later:
            assert later.stopped
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    with Watch() as other:
        assert not other.stopped


def pressed_soon(found: bool, needed: bool = True) -> tuple[object, float]:
    """What comes of Ctrl-C while a kernel compiles for two seconds, and after how long."""
    compile_ = _beside(lambda: time.sleep(2.0) or "compiled")
    began = time.perf_counter()
    with Watch() as watch:
        if found:
            watch(stage="anneal")
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        try:
            with contextlib.nullcontext() if needed else dispensable():
                return compile_(), time.perf_counter() - began
            return "left", time.perf_counter() - began
        except KeyboardInterrupt:
            return "interrupted", time.perf_counter() - began


def test_ctrl_c_while_compiling_waits_only_if_there_is_something_to_keep():
    assert pressed_soon(found=True)[0] == "compiled"
    for needed, end in ((True, "interrupted"), (False, "left")):
        what, seconds = pressed_soon(found=not needed, needed=needed)
        assert what == end
        assert seconds < 1.9
        assert still_compiling()
    with pytest.raises(ZeroDivisionError):
        _beside(lambda: 1 / 0)()


def test_what_nobody_waits_for_takes_no_more_of_pythons_time():
    end, ended = time.monotonic() + 20, threading.Event()

    def endless() -> None:
        try:
            while time.monotonic() < end:
                pass
        finally:
            ended.set()

    with Watch() as watch, dispensable():
        watch(stage="anneal")
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        _beside(endless)()
    assert ended.wait(10)


@pytest.mark.parametrize(("when", "said"), [("loading", "Interrupted.\n"), ("later", "KeyboardInterrupt\n")])
def test_a_module_that_is_being_loaded_does_not_see_ctrl_c(tmp_path, when, said):
    """Some of torch's abort if they do, or raise an error of their own."""
    (tmp_path / "pressed.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(2)\nexcept KeyboardInterrupt:\n    1 / 0\n"
    )
    then = "import pressed" if when == "loading" else "signal.raise_signal(2)"
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unshuffle.cli import common, main
def command():
    {then}
common.main = command
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr.endswith(said), done.stderr
    assert done.returncode == (130 if when == "loading" else -signal.SIGINT)


@pytest.mark.skipif(not have_numba, reason="nothing compiles")
def test_what_ctrl_c_breaks_off_is_compiling_only_if_something_is_compiled():
    """A kernel that is read from the disk takes the same way through `_beside`, and is not compiled."""
    from numba.core import event

    heard, end = [], threading.Event()

    def slow(compiled: bool) -> None:
        with event.trigger_event("numba:compile") if compiled else contextlib.nullcontext():
            end.wait(5)

    compiling.compiling_seconds()
    for compiled in (False, True):
        end.clear()
        with Watch():
            threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
            with pytest.raises(KeyboardInterrupt):
                _beside(slow)(compiled)
        heard.append(common._interrupted())
        end.set()
        while still_compiling():
            time.sleep(0.01)
    heard.append(common._interrupted())
    assert [words.split(";")[0] for words in heard] == [
        "Interrupted while loading",
        "Interrupted while compiling",
        "Interrupted.",
    ]


@pytest.mark.skipif(not have_numba, reason="nothing compiles")
def test_after_ctrl_c_nothing_is_compiled_that_can_be_done_without(tmp_path, monkeypatch):
    (tmp_path / "of_a_kernel.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from of_a_kernel import double  # pyright: ignore[reportMissingImports]

    found = []
    with Watch() as watch:
        watch(stage="anneal")
        signal.raise_signal(signal.SIGINT)
        with dispensable():
            found.append(njit(double)(1.0))
        found.append(njit(double)(2.0))  # what cannot be done without is waited for
        with dispensable():
            found.append(njit(double)(3.0))  # from the disk
    assert found == [4.0, 6.0]


@pytest.mark.skipif(not have_numba, reason="nothing compiles")
@pytest.mark.parametrize("annealing", [True, False])
def test_a_puzzle_that_is_stopped_is_judged_by_the_kernels_that_there_are(monkeypatch, annealing):
    """What a first call has not compiled yet takes ten seconds: tile after tile, and how sure each is."""

    def not_compiled(*_, **__):
        raise Stopped

    for name in ("regrow_by_segments", "grow", "Reassembly"):
        monkeypatch.setattr(grid_solver, name, not_compiled)
    right, below = torch.rand(2, 320, 320, generator=torch.Generator().manual_seed(0))
    stop = {"callback": lambda step: step.stage != "anneal"} if annealing else {}
    found = us.solve(us.Grid(16, 20), cost=(right, below), **stop)
    assert found.status == ("interrupted" if annealing else "finished")
    assert sorted(found.order.tolist()) == list(range(320))
    assert found.soft.shape == (320, 320)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()


INTERRUPTED = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from unshuffle.solve import local_search
before = local_search._improve_chain
pressed = []
def slow(*arguments):
    if not pressed:
        pressed.append(os.kill(os.getpid(), signal.SIGINT))
    while arguments[-1]():
        pass
local_search._improve_chain = slow
from unshuffle.cli import main
main()
"""


def test_ctrl_c_while_polishing_keeps_the_best(tmp_path):
    np.savetxt(tmp_path / "a.csv", np.random.default_rng(0).random((12, 2)), delimiter=",")
    command = [
        sys.executable,
        "-c",
        INTERRUPTED,
        "tour",
        str(tmp_path / "a.csv"),
        "--polish",
        "--json",
        "-o",
        str(tmp_path / "found"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "interrupted"
    assert (tmp_path / "found" / "a.png").exists()


def test_the_limit_of_a_command_covers_reading_and_drawing(tmp_path, monkeypatch):
    """What is left for the solver is what reading has not used, less a little for the picture."""
    given = []
    monkeypatch.setattr(
        "unshuffle.tasks.tour.solve", lambda *a, **k: (given.append(k["time_limit"]), us.solve(*a, **k))[1]
    )
    np.savetxt(tmp_path / "a.csv", np.random.default_rng(0).random((9, 2)), delimiter=",")
    done = CliRunner().invoke(
        common.build("tour"), ["tour", str(tmp_path / "a.csv"), "--time-limit", "5", "-o", str(tmp_path / "found")]
    )
    assert done.exit_code == 0, done.output
    assert 0 <= given[0] <= 5 - 0.75


@pytest.mark.parametrize(("load", "words"), [(0.3, ""), (5.0, "load 5.0 on 2 cores")])
def test_a_busy_machine_is_said_to_be(monkeypatch, load, words):
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load), raising=False)
    assert words in busy(2)
    assert bool(busy(2)) == bool(words)


def problems():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(24, 2, generator=generator)
    near, other = torch.cdist(x, x), torch.rand(2, 24, 24, generator=generator)
    yield us.Cycle(24), near
    yield us.Path(24), near
    yield us.Path(24), other[0]
    yield us.Grid(4, 6), tuple(other)
    yield us.Graph(other[0]), near


@pytest.mark.parametrize(("layout", "cost"), list(problems()), ids=lambda value: type(value).__name__)
def test_a_callback_can_look_at_the_soft_permutation_and_the_history_keeps_none(layout, cost):
    seen = []

    def look(step: Step) -> bool:
        if step.soft is not None:
            P = step.soft()
            assert len(P) == 24
            assert float(P.sum()) == pytest.approx(24, abs=0.5)  # each item once; few sweeps are not exact
            before = P.clone()
            P.zero_()  # a copy: the solver does not feel it
            seen.append(before)
        return len(seen) < 60

    found = us.solve(layout, cost=cost, runs=2, callback=look)
    assert seen
    assert all(step.soft is None for step in found.history)
    undisturbed = [0]

    def count(step: Step) -> bool:
        undisturbed[0] += step.soft is not None
        return undisturbed[0] < 60

    assert torch.equal(us.solve(layout, cost=cost, runs=2, callback=count).order, found.order)


def test_those_who_look_closely_get_smaller_steps_and_the_same_order():
    generator = torch.Generator().manual_seed(2)
    cost = tuple(torch.rand(2, 16, 16, generator=generator))

    class Look:
        closely = True

        def __call__(self, step: Step) -> None: ...

    one, other = (us.solve(us.Grid(4, 4), cost=cost, callback=look) for look in (Look(), lambda step: None))
    annealed = [sum(step.stage == "anneal" for step in found.history) for found in (one, other)]
    assert annealed[0] > 3 * annealed[1]
    assert torch.equal(one.order, other.order)
    assert torch.equal(one.soft, other.soft)


@pytest.mark.skipif(not have_numba, reason="nothing compiles")
@pytest.mark.parametrize("layout", [us.Path(40), us.Path(40, reach=3), us.Cycle(40)], ids=repr)
def test_a_path_or_tour_whose_kernels_are_not_compiled_in_time_has_an_order(monkeypatch, layout):
    """Every kernel that is to be compiled from the first step on is one too late."""
    kernels = {
        "path.solver": ("band_step", "best_arrangement", "anneal_chains", "improve_lags"),
        "path.lags": ("_gaps",),
        "cycle.solver": ("anneal_level", "walk_around"),
        "kinds": ("improve_tour",),
    }

    def not_compiled(*_, **__):
        raise Stopped

    for module, names in kernels.items():
        for name in names:
            monkeypatch.setattr(import_module(f"unshuffle.solve.{module}"), name, not_compiled, raising=False)
    D = plane(40)
    found = us.solve(layout, cost=D, polish=True)
    assert sorted(found.best_order.tolist()) == list(range(40))
    assert found.energy == pytest.approx(float(layout.energy(found.order, D)))
    assert found.soft.shape == (40, 40)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
