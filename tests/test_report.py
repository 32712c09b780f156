"""The report says what the results say: numbers, spreads, paired differences, cuts and gaps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import ttest_rel
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.paper.measured import Measured, note
from unshuffle.paper.store import Place, Result, Store
from unshuffle.report.ambiguity import difference
from unshuffle.report.answers import answer
from unshuffle.report.build import Report, build_report
from unshuffle.report.grid import comparisons, cuts, elsewhere, grids
from unshuffle.report.pairs import pairs
from unshuffle.report.summary import reported, table, tables
from unshuffle.report.text import latex

TAUS = {"global": (0.70, 0.74, 0.78), "adaptive": (0.75, 0.77, 0.85), "matched": (0.74, 0.78, 0.80)}


def result(place: Place, metrics: dict[str, float], task: str = "sorting", **more) -> Result:
    key = f"{abs(hash((place, task))):x}"[:12]
    return Result(task, key, {}, place.seed, (place,), 60.0, metrics, more.pop("history", {}), {"torch": "2"}, **more)


def cell(row: str, seed: int, value: float, cut: str = "20 of 150 epochs", scale: str = "cpu", **more) -> Result:
    history = {"epoch": [0.0, 1.0], "tau": [0.0, value], "row_entropy_mean": [1.0, 0.5]}
    place = Place("sorting", "[10, 11]", row, "100", seed, scale, cut)
    return result(place, {"tau": value}, history=history, **more)


def sorting_results() -> list[Result]:
    return [cell(row, seed, tau) for row, taus in TAUS.items() for seed, tau in enumerate(taus)]


def all_results() -> list[Result]:
    """Something for every figure."""
    grid = [
        result(Place("sensitivity", "", h, b, 0, "cpu", "n = 20"), {"length": 9 + float(h) * float(b)}, "tour")
        for h in ("0.55", "0.65", "0.75", "0.85")
        for b in ("0.05", "0.10", "0.20", "0.35")
    ]
    steps = [result(Place("runtime", "", "controller", "64 x 300", s, "cpu"), {"overhead": 11.0 + s}) for s in (0, 1)]
    mechanism = {"beta": [0.5, 3.0, 6.0]} | {f"{r} {k}": [0.2, 0.6, 0.9] for r in ("easy", "hard") for k in TAUS}
    demands = {"easy_demand": 0.95, "hard_demand": 0.55}
    tour = {"x": [0.0, 1.0, 1.0], "y": [0.0, 0.0, 1.0]} | {
        key: [0.0, 1.0, 2.0] for key in ("given", "nearest", "solved")
    }
    overview = {"place": [1.0, 0.0, 3.0, 2.0]}
    for name in ("global", "adaptive"):
        overview |= {f"field {name}": [1.0] * 16, f"soft {name}": [0.25] * 16, f"placed {name}": [0.0, 1.0, 2.0, 3.0]}
    jigsaw = {"shuffled": [3.0, 1.0, 2.0, 0.0], "solved": [0.0, 1.0, 2.0, 3.0]}
    place = Place("figures", "", "", "", 0, "cpu")
    return [
        *sorting_results(),
        *grid,
        *steps,
        result(place, demands, "mechanism", history=mechanism),
        result(place, dict.fromkeys(tour, 3.4), "example-tour", history=tour),
        result(place, {"direct": 1.0}, "example-jigsaw", history=jigsaw),
        result(place, {"direct global": 1.0, "direct adaptive": 1.0}, "overview", history=overview),
    ]


FAILED = replace(cell("global", 7, 0.0), metrics={}, error="RuntimeError: out of <luck>", key="f" * 12)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for one in [*all_results(), FAILED]:
        Store(folder).write(one)
    return folder


@pytest.fixture(scope="module")
def made(store) -> Report:
    return build_report(store)


# --- the numbers -----------------------------------------------------------------------------------------------------


def test_a_cell_has_mean_spread_seeds_the_papers_number_and_the_difference():
    found = table("sorting", sorting_results())
    adaptive = found.sections["[10, 11]"]["adaptive"]["100"]
    assert adaptive.mean == pytest.approx(0.79)
    assert adaptive.spread == pytest.approx(0.0529, abs=1e-4)
    assert adaptive.paper == (0.80, 0.11)
    assert adaptive.difference == pytest.approx(-0.01)
    (grid,) = (g for g in grids(found) if g.title == "[10, 11]")
    lines = {(line.method, line.kind): line.cells for line in grid.lines}
    at = grid.columns.index("100")
    assert lines["Unsupervised GS + TA", "ours"][at] == "0.790 ± 0.053 [3]†"
    after = [line for line in grid.lines if line.kind == "paper"]
    assert any(line.cells[at] == "0.80 ± 0.11" for line in after)
    assert any(line.cells[at] == "-0.010" for line in grid.lines if line.kind == "difference")


def test_cuts_are_said_under_the_table_and_gaps_are_listed():
    found = table("sorting", sorting_results())
    rows = "Unsupervised GS; Unsupervised GS + TA; Matched scalar control"
    assert cuts(found) == [f"† {rows} (n 100): 20 of 150 epochs."]
    assert "[0, 1] Unsupervised GS: all" in found.missing
    assert "[10, 11] Unsupervised GS: 5, 10, 50, 200, 300" in found.missing
    assert table("tsp", sorting_results()).missing == ["all of it"]
    assert table("sensitivity", []).missing == []


def test_paired_differences_agree_with_scipys_paired_test():
    first, control = pairs(table("sorting", sorting_results()))
    assert (first.first, first.second) == ("adaptive", "global")
    assert first.differences == pytest.approx((0.05, 0.03, 0.07))
    assert first.p == pytest.approx(float(ttest_rel(TAUS["adaptive"], TAUS["global"])[1]))  # pyright: ignore
    assert first.better == 3
    theirs = ttest_rel(TAUS["adaptive"], TAUS["global"]).confidence_interval(0.95)  # pyright: ignore
    assert first.interval == pytest.approx((theirs.low, theirs.high))
    assert (control.second, control.better) == ("matched", 2)


def test_pairs_use_common_seeds_only_and_where_lower_is_better_say_so():
    some = [r for r in sorting_results() if not (r.places[0].row == "global" and r.seed == 1)]
    assert pairs(table("sorting", some))[0].differences == pytest.approx((0.05, 0.07))
    gaps = {"GS UTSP": (31.0, 33.0, 35.0), "GS UTSP + DV-TA": (30.0, 34.0, 34.0)}
    tours = [
        result(Place("tsp", "", row, "100", seed, "cpu"), {"gap": gap}, "tour")
        for row, values in gaps.items()
        for seed, gap in enumerate(values)
    ]
    (pair,) = pairs(table("tsp", tours))
    assert (pair.better, len(pair.differences)) == (2, 3)


def test_only_runs_of_one_scale_are_compared():
    """A long training is no better method than a short one."""
    long = [
        cell("adaptive", 0, 0.95, "", "sizes"),
        cell("entropy", 1, 0.99, "", "sizes"),
        cell("global", 1, 0.2, "", "smoke"),
    ]
    found = pairs(table("sorting", [*sorting_results(), *long]))
    assert all(pair.scale == "cpu" for pair in found)
    assert found[0].differences == pytest.approx((0.05, 0.03, 0.07))
    both = table("sorting", [*sorting_results(), *long, cell("global", 0, 0.97, "", "sizes")])
    first, second = (pair for pair in pairs(both) if (pair.first, pair.second) == ("adaptive", "global"))
    assert (second.scale, second.differences) == ("sizes", pytest.approx((-0.02,)))
    assert [line[0] for line in comparisons(both)][:2] == ["[10, 11] n 100, scale cpu", "[10, 11] n 100, scale sizes"]
    assert first.differences == found[0].differences


def test_more_seeds_at_a_smaller_scale_are_not_hidden_by_fewer_at_a_larger_one():
    found = table("sorting", [*sorting_results(), cell("global", 0, 1.0, cut="", scale="sizes")])
    said = "0.740 ± 0.040 with 3 seeds at the smaller scale cpu"
    assert elsewhere(found) == [f"‡ Unsupervised GS ([10, 11] n 100): {said}."]
    (line,) = (x for g in grids(found) for x in g.lines if x.method == "Unsupervised GS" and x.kind == "ours")
    assert "1.000‡" in line.cells
    assert elsewhere(table("sorting", sorting_results())) == []


def test_the_answer_stands_above_the_table_and_comes_from_its_numbers(made):
    said = answer(table("sorting", sorting_results()))
    assert "+ TA against Unsupervised GS: better with every seed in 1 of 1 cells, worse with every seed in 0" in said
    assert "+0.050 ([10, 11] n 100, 3 seeds)" in said
    assert said in made.markdown
    assert answer(table("tsp", [])) == ""
    alone = [result(Place("mask-only", "", "mask-only", "5 x 5", 0, "cpu"), {"tau": 0.03})]
    assert answer(table("mask-only", alone)) == "Ours minus the paper's, in the one cell that both have: +0.0010."


def test_a_training_that_stopped_early_is_marked():
    early = replace(
        cell("global", 0, 0.7, cut=""),
        metrics={"tau": 0.7, "epochs": 40},
        settings={"recipe": {"epochs": 150}, "stopping": {"patience": 25}},
    )
    found = table("sorting", [early])
    assert cuts(found) == ["† Unsupervised GS (n 100): stopped early, after 25 epochs without a better loss."]
    (line,) = (x for g in grids(found) for x in g.lines if x.method == "Unsupervised GS" and x.kind == "ours")
    assert "0.700†" in line.cells


def test_kendall_tau_is_compared_at_equal_entropy():
    """tau = 1 - entropy against tau = (1 - entropy) / 2, in steps of their own and with a rise on the way."""
    quick = {"row_entropy_mean": [1.0, 0.5, 0.7, 0.2], "tau": [0.0, 0.5, 9.0, 0.8]}
    slow = {"row_entropy_mean": [0.9, 0.6, 0.4], "tau": [0.05, 0.2, 0.3]}
    assert difference(quick, slow) == pytest.approx(0.35 / 2, abs=1e-6)  # (1 - entropy) / 2 from 0.4 to 0.9 on average
    assert difference(quick, {"row_entropy_mean": [0.19], "tau": [0.5]}) is None
    found = {t.name: t for t in tables(sorting_results())}["ambiguity"]
    cells = found.sections["[10, 11]"]
    assert cells["adaptive - global"]["100"].ours == pytest.approx({0: 0.025, 1: 0.015, 2: 0.035})
    assert "GS + TA minus matched scalar +0.008 (above 0 in 2 of 3 pairs of runs)" in answer(found)


def test_failures_are_counted_and_a_study_answers_its_own_question():
    lengths = [result(Place("sensitivity", "", "0.55", b, 0, "cpu"), {"length": v, "failed": f}, "tour")
               for b, v, f in (("0.05", 20.0, 0.0), ("0.10", 25.0, 1.0))]  # fmt: skip
    found = table("sensitivity", lengths)
    assert answer(found).startswith("From 20.000 to 25.000, the longest 25 % above the shortest; 1 of 2 runs failed")
    assert "25.000 (1 failed)" in next(line for g in grids(found) for line in g.lines).cells
    gains = [result(Place("anchors", "6 x 6", row, k, 0, "cpu"), {"gain": v}, "jigsaw")
             for row, k, v in (("global", "0", 0.01), ("adaptive", "0", 0.02), ("global", "6", 0.3))]  # fmt: skip
    said = answer(table("anchors", gains))
    assert said == "Without anchors, beyond random places: 6 x 6 +0.010 to +0.020 (2 runs)."


def test_equal_results_have_no_p_value():
    same = [cell(row, seed, 1.0) for row in ("global", "adaptive") for seed in range(3)]
    (line,) = comparisons(table("sorting", same))
    assert line[2:] == ("+0.0000 ± 0.0000", "+0.0000 to +0.0000", "0 of 3", "-")


def test_the_largest_scale_wins_and_failures_are_not_numbers():
    smoke = cell("global", 0, 0.1, scale="smoke")
    failed = cell("global", 3, 0.0, error="RuntimeError: no")
    found = table("sorting", [*sorting_results(), smoke, replace(failed, metrics={})])
    global_cell = found.sections["[10, 11]"]["global"]["100"]
    assert list(global_cell.ours) == [0, 1, 2]
    assert (global_cell.failed, global_cell.mean) == (1, pytest.approx(0.74))


def test_sizes_beyond_the_papers_get_a_column_in_its_place():
    place = Place("sorting", "[0, 1]", "strong recipe", "1000", 0, "cpu")
    assert table("sorting", [result(place, {"tau": 0.99})]).columns[-2:] == ["300", "1000"]


@pytest.mark.parametrize("name", list(reported()))
def test_the_papers_tables_are_whole(name):
    about = reported()[name]
    for rows in about["sections"].values():
        assert set(rows) <= set(about["names"])
        assert all(len(values) == len(about["columns"]) for values in rows.values())


# --- results from elsewhere ------------------------------------------------------------------------------------------


def test_what_benchmarks_measured_are_rows_of_the_same_tables(tmp_path):
    place = Place("tsp", "", "solve", "100", 0, "cpu")
    note(tmp_path / "runs", Measured("a benchmark", "uniform 100"), place, {"gap": 1.9})
    note(tmp_path / "runs", Measured("a benchmark", "uniform 100"), place, {"gap": 1.8})  # measured again
    note(
        tmp_path / "runs",
        Measured("a benchmark", "uniform 100"),
        replace(place, row="nearest neighbour"),
        {"gap": 25.1},
    )
    tours = table("tsp", Store(tmp_path / "runs")).sections[""]
    assert (tours["solve"]["100"].mean, tours["nearest neighbour"]["100"].mean) == (1.8, 25.1)


def test_a_second_folder_of_results_is_added(store, tmp_path):
    note(tmp_path, Measured("a benchmark", "uniform 200"), Place("tsp", "", "solve", "200", 0, "cpu"), {"gap": 2.5})
    both = {t.name: t for t in build_report(store, tmp_path).tables}
    assert both["tsp"].sections[""]["solve"]["200"].mean == 2.5
    assert both["sorting"].sections["[10, 11]"]["adaptive"]["100"].ours


# --- the files -------------------------------------------------------------------------------------------------------


def test_latex_escapes_and_balances():
    text = latex([table(name, all_results()) for name in ("tsp", "sensitivity", "sorting")], ["made by a test"])
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert not re.search(r"(?<!\\)[%_#]", body)
    assert body.count(r"\begin{") == body.count(r"\end{")
    assert body.count("$") % 2 == 0
    widths = {
        line.count(" & ")
        for part in body.split(r"\begin{tabular}")[1:]
        for line in part.split(r"\end{tabular}")[0].splitlines()
        if line.endswith(r"\\") and "300" in part
    }
    assert widths == {7}  # method, kind and six list lengths


def test_the_command_writes_three_files_and_needs_no_torch(store, tmp_path):
    code = (
        "import sys; sys.argv = ['unshuffle', 'report', *sys.argv[1:]]\n"
        "from unshuffle.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'matplotlib' in sys.modules\n"
        "assert 'torch' not in sys.modules and 'numba' not in sys.modules\n"
    )
    out = tmp_path / "out"
    arguments = [
        "--store",
        str(store),
        "--others",
        str(tmp_path / "none"),
        "--out",
        str(out),
        "--json",
        "--figures",
        str(out / "drawn"),
    ]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cells"]["sorting"] == 3
    assert {f.name for f in out.iterdir()} == {"report.md", "report.tex", "report.html", "drawn"}
    drawn = {f.name for f in (out / "drawn").iterdir()}
    assert len(drawn) == 9
    assert {"overview.svg", "ambiguity-and-quality-during-training.svg"} <= drawn


def test_the_page_holds_all_figures_and_nothing_from_outside(made):
    assert made.html.count("<figure>") == 9
    assert not re.search(r"(src|href)=\"(?!data:|#)", made.html)
    assert "<script" not in made.html
    assert "0.790 ± 0.053 [3]†" in made.html
    assert "0.790 ± 0.053 [3]†" in made.markdown


def test_failed_runs_are_named(made):
    assert "sorting-ffffffffffff: RuntimeError: out of &lt;luck&gt;" in made.markdown
    assert "out of &lt;luck&gt;" in made.html


def test_no_results_are_one_sentence(tmp_path):
    done = CliRunner().invoke(build("report"), ["report", "--store", str(tmp_path), "--others", str(tmp_path)])
    assert done.exit_code == 2
    assert "There are no results in" in done.stderr


# --- the page in a browser -------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_page_opens_in_a_browser(made, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    file = tmp_path / "report.html"
    file.write_text(made.html)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            for width in (375, 1200):
                page = browser.new_page(viewport={"width": width, "height": 800})
                said, asked = [], []
                page.on("console", lambda message, said=said: said.append(message.text))
                page.on("pageerror", lambda error, said=said: said.append(str(error)))
                page.on("request", lambda request, asked=asked: asked.append(request.url))
                page.goto(file.as_uri())
                assert said == []
                assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.locator("figure img").count() == 9
                shown = "Array.from(document.images).every(i => i.complete && i.naturalWidth > 0)"
                assert page.evaluate(shown)
        finally:
            browser.close()
