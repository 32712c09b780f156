"""Recipes, the sorting task, and `unshuffle train` and `apply` as a user calls them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

import unshuffle as us
from unshuffle.cli.common import build
from unshuffle.cli.train import chosen_recipe, described
from unshuffle.recipes.draws import DrawnAnew, DrawnOnce
from unshuffle.recipes.settings import essential, plain
from unshuffle.recipes.sorting import Sorting, distance_to_sorted
from unshuffle.recipes.temperatures import tempered
from unshuffle.recipes.trained import recipe_from, trained
from unshuffle.recipes.training import LastByTest, about, train


def small(**changes) -> Sorting:
    return replace(Sorting.strong(8, (10.0, 11.0), epochs=2), **({"training": DrawnAnew(30)} | changes))


def test_the_paper_recipe_is_the_papers_table():
    recipe = Sorting.paper(100, (10.0, 11.0))
    assert (recipe.epochs, recipe.batch, recipe.samples, recipe.descent.clip) == (150, 256, 5, 1.0)
    assert (recipe.training, recipe.test_lists) == (DrawnOnce(10_000), 100)
    relax = recipe.relax
    assert relax.iterations == 10
    assert relax.schedule(0) == pytest.approx(0.66)
    assert relax.schedule(149) == pytest.approx(2.0)
    assert relax.local == us.LocalTemperature(us.ExcessEntropy(0.7), 0.1)
    assert relax.adapt_from == 1
    assert not recipe.network().standardise


def test_as_published_is_linear_in_tau_and_not_clipped():
    recipe = Sorting.paper(10, as_published=True)
    middle = recipe.relax.schedule(74.5)
    assert 1 / middle == pytest.approx((1.5 + 0.5) / 2)
    assert recipe.descent.clip is None
    assert recipe.relax.local == us.LocalTemperature(us.ExcessEntropy(0.7), 0.1, us.MeanTau())


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("fixed", None),
        ("global", None),
        ("adaptive", us.LocalTemperature(us.ExcessEntropy(0.7), 0.1)),
        ("matched", us.MatchedScalar(us.LocalTemperature(us.ExcessEntropy(0.7), 0.1))),
        ("degree", us.LocalTemperature(us.DegreeViolation(), 0.1)),
    ],
)
def test_the_temperatures_of_the_command_line(name, local):
    field, degree = (us.LocalTemperature(signal, 0.1) for signal in (us.ExcessEntropy(0.7), us.DegreeViolation()))
    ways = tempered(name, us.Anneal(0.5, 2.0, 10), field, degree)
    assert ways["local"] == local
    assert ways["schedule"](9) == (0.5 if name == "fixed" else 2.0)
    assert ways["noise"] == 1.0


def test_an_entropy_target_is_that_of_the_layer_without_arguments():
    field = us.LocalTemperature()
    ways = tempered("entropy", us.Anneal(0.5, 2.0, 10), field)
    assert ways["schedule"] == us.GumbelSinkhorn().schedule
    assert (ways["local"], ways["noise"]) == (None, None)
    assert tempered("entropy", us.Anneal(0.5, 2.0, 10), field, noise=0.0)["noise"] == 0.0
    for recipe in (Sorting.paper(5, temperature="entropy", annealed=70), Sorting.strong(5, temperature="entropy")):
        assert recipe.relax == us.GumbelSinkhorn(adapt_from=recipe.relax.adapt_from)


def test_lists_are_disjoint_by_purpose_and_paired_by_seed():
    recipe = Sorting.paper(5, temperature="global")
    other = Sorting.paper(5, temperature="adaptive")
    assert torch.equal(recipe.held_out(), other.held_out())
    train_lists = recipe.batches().items
    assert not set(map(tuple, train_lists.squeeze(-1).tolist())) & set(
        map(tuple, recipe.held_out().squeeze(-1).tolist())
    )


def test_the_strong_recipe_sorts_values_that_the_paper_finds_hard():
    recipe = replace(Sorting.strong(20, (10.0, 11.0), epochs=3), training=DrawnAnew(40))
    fitted = train(recipe)
    assert recipe.test(fitted.network)["tau"] > 0.95


def test_the_supervised_loss_is_zero_only_at_the_sorted_list():
    items = torch.rand(3, 7, 1)
    right = us.to_matrix(items.squeeze(-1).argsort(-1))
    assert distance_to_sorted(right, items).abs().max() == 0
    assert distance_to_sorted(right.flip(-1), items).min() > 0


@pytest.mark.parametrize(
    "recipe",
    [
        Sorting.paper(12, temperature="matched"),
        Sorting.paper(12, supervised=True, as_published=True),
        Sorting.strong(12, temperature="adaptive"),
        Sorting.paper(12, temperature="entropy"),
        replace(Sorting.paper(12), relax=us.StraightThrough(us.NeuralSort(us.Constant(2.0)))),
        replace(Sorting.paper(12), relax=us.OT4P(us.Anneal(1.0, 5.0, 3), seed=4)),
    ],
)
def test_a_recipe_survives_being_saved(recipe):
    said = json.loads(json.dumps(about(recipe)))
    assert said["task"] == "sorting"
    again = recipe_from(said["recipe"])
    assert plain(again) == plain(recipe)
    assert torch.equal(again.held_out(), recipe.held_out())


def test_settings_of_strangers_are_refused():
    said = plain(Sorting.paper(12))
    with pytest.raises(us.BadInput, match="no setting colour"):
        recipe_from(said | {"colour": 1})
    with pytest.raises(us.BadInput, match="not known here"):
        recipe_from(said | {"loss": {"is": "system"}})
    with pytest.raises(us.BadInput, match="no recipe"):
        recipe_from(said["relax"])


def test_essential_settings_are_those_that_differ_from_the_defaults():
    relax = us.GumbelSinkhorn(us.Anneal(0.5, 2.0, 3), us.LocalTemperature(us.ExcessEntropy(0.2)), 10, 1.0)
    assert essential(relax) == {
        "is": "GumbelSinkhorn",
        "schedule": {"is": "Anneal", "start": 0.5, "end": 2.0, "epochs": 3},
        "local": {"is": "LocalTemperature", "signal": {"is": "ExcessEntropy", "threshold": 0.2}},
    }


def test_the_authors_way_of_stopping_looks_at_the_test_lists_and_keeps_the_last_weights(tmp_path):
    recipe = replace(Sorting.paper(5, epochs=4, as_published=True), training=DrawnOnce(512), test_lists=20)
    last = train(recipe, tmp_path / "last", stopping=LastByTest())
    best = train(recipe, tmp_path / "best")
    assert [r["loss"] for r in last.history] == [r["loss"] for r in best.history]
    assert last.history[-1]["test_tau"] == recipe.test(last.network)["tau"]
    assert "test_tau" not in best.history[-1]
    # no tau is better by 3 than any before: the end at the third look, one every epoch
    stopped = train(recipe, tmp_path / "stopped", stopping=LastByTest(2, every=1, least=3.0))
    assert (stopped.status, len(stopped.history)) == ("finished", 3)


def test_the_authors_patience_counts_looks_at_kendall_tau():
    def stops(taus: list[float]) -> list[int]:
        history = [{"test_tau": tau} for tau in taus]
        return [k for k in range(len(taus) + 1) if LastByTest(2, every=2, least=0.01)(history[:k])]

    assert stops([0.0, 0.5, 0.9, 0.505, 0.9, 0.6, 0.9, 0.6]) == []  # the odd epochs are not looked at
    assert stops([0.0, 0.5, 0.9, 0.505, 0.9, 0.4, 0.9]) == [6, 7]


def test_a_trained_network_comes_back_from_its_checkpoint(tmp_path):
    recipe = small()
    fitted = train(recipe, tmp_path)
    again, network, calibration = trained(tmp_path)
    assert plain(again) == plain(recipe)
    items, _, truth = recipe.known()
    assert calibration == us.calibrate(fitted.network, items, truth, recipe.relax)
    assert torch.equal(network(items), fitted.network(items))


@pytest.mark.parametrize(
    ("task", "name", "given", "message"),
    [
        ("sorting", "strong", {"band": 2}, "--band does not apply"),
        ("sorting", "strong", {"temperature": "degree"}, "signal of tours"),
        ("sorting", "paper", {"values": (3.0, 1.0)}, "lower to a higher"),
        ("sorting", "paper", {"n": 1}, "at least two"),
        ("jigsaw", "strong", {}, "needs --data"),
        ("jigsaw", "paper", {"n": 9, "data": "x"}, "4, 5, 6, 7"),
        ("tour", "paper", {"values": (0.0, 1.0)}, "--values does not apply"),
    ],
)
def test_options_that_do_not_fit_are_refused(task, name, given, message):
    with pytest.raises(us.BadInput, match=message):
        chosen_recipe(task, name, 0, given)


def test_options_reach_the_recipe():
    recipe = chosen_recipe("sorting", "paper", 4, {"n": 9, "values": (1.0, 2.0), "temperature": "global", "epochs": 3})
    assert plain(recipe) == plain(Sorting.paper(9, (1.0, 2.0), "global", seed=4, epochs=3))
    assert plain(chosen_recipe("tour", "paper", 0, {"n": 50, "utsp": True}))["relax"]["is"] == "ColumnSoftmax"


def cli(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(build(command), [command, *map(str, arguments)])


def test_train_then_apply(tmp_path):
    run = tmp_path / "run"
    done = cli("train", "sorting", "--n", 8, "--epochs", 2, "--out", run, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["test"]["tau"] > 0.9
    assert {f.name for f in run.iterdir()} == {"best.pt", "last.pt", "log.jsonl", "run.json"}
    lists = torch.rand(3, 8)
    data = tmp_path / "lists.csv"
    data.write_text("\n".join(",".join(f"{v:.6f}" for v in line) for line in lists.tolist()))
    done = cli("apply", run, data, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    tau = us.metrics.order_tau(torch.tensor(answer["orders"]), lists.argsort(-1))
    assert tau.mean() > 0.9
    assert all(0 <= c <= 1 for line in answer["confidence"] for c in line)
    assert (tmp_path / "out" / "lists.order.json").exists()
    assert answer["calibrated"]
    assert answer["outside"] == ["", "", ""]
    assert answer["sets"]["level"] == 0.9
    true = lists.argsort(-1).argsort(-1).tolist()
    held = [place in some for line, sets in zip(true, answer["sets"]["places"], strict=True) for place, some in zip(line, sets, strict=True)]  # fmt: skip
    assert len(held) == 24
    assert sum(held) > 18
    assert all(list(order).index(k) in some for order, sets in zip(answer["orders"], answer["sets"]["places"], strict=True) for k, some in enumerate(sets))  # fmt: skip
    data.write_text("\n".join(",".join(f"{10 + v:.6f}" for v in line) for line in lists.tolist()))
    done = cli("apply", run, data, "--out", tmp_path / "out")
    assert "3 of 3 lists are unlike all that calibration saw" in done.stdout
    assert "mean 10." in done.stdout
    for text, message in (("1,2,x,4,5,6,7,8", "row '1', column '3'"), ("1,2", "lists of 8 numbers"), ("", "is empty")):
        data.write_text(text)
        done = cli("apply", run, data)
        assert done.exit_code == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    data.write_text("\n".join(["name," + ",".join("abcdefgh"), "p,1,2,3,4,5,6,7,8", "q,8,7,6,5,4,3,2,1"]))
    done = cli("apply", run, data, "--drop", "name", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["orders"] == [list(range(8)), list(range(7, -1, -1))]


def test_the_recipe_is_printed_as_people_read_it():
    lines = described(Sorting.paper(100, (10.0, 11.0)), "sorting, paper recipe")
    said = {line.split("  ")[1]: line.split("  ")[-1].strip() for line in lines[1:]}
    assert said["values"] == "10 11"
    assert said["loss"] == "monotone"
    assert said["relax"].startswith("GumbelSinkhorn(schedule=Anneal(start=0.66, end=2, epochs=150), local=")
    assert "iterations" not in said["relax"]  # at its default
    assert all(len(line) < 160 for line in lines)


def test_a_time_limit_without_an_epoch_says_so(tmp_path):
    done = cli("train", "sorting", "--n", 8, "--time-limit", 0, "--out", tmp_path)
    assert "before the first epoch was done" in done.stdout
    assert "best.pt" not in done.stdout
    assert done.exit_code == 0, done.output


def test_ctrl_c_is_answered_at_once_and_keeps_the_best_so_far(tmp_path):
    command = [sys.executable, "-m", "unshuffle", "train", "sorting", "--n", "20", "--epochs", "400", "--out", tmp_path]
    running = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "log.jsonl"
    for _ in range(1200):
        if log.exists() and len(log.read_text().splitlines()) > 1:
            break
        time.sleep(0.1)
    began = time.perf_counter()
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert time.perf_counter() - began < 10  # 2 on a machine that is not busy
    assert "best so far: epoch" in said
    recipe, network, *_ = trained(tmp_path)
    assert recipe.test(network)["tau"] > 0.5


def test_tensorboard_gets_every_epoch(tmp_path):
    pytest.importorskip("tensorboard")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensorboard's own dependencies
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        from unshuffle.learn.watching import tensorboard

        fitted = train(small(), callback=tensorboard(tmp_path))
        seen = EventAccumulator(str(tmp_path)).Reload()
    assert {"loss", "held_out", "beta_mean"} <= set(seen.Tags()["scalars"])
    written = [event.value for event in seen.Scalars("held_out")]
    assert written == pytest.approx([record["held_out"] for record in fitted.history])
