"""What was stored before recipes held strategies is brought to the present form, and is then found."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from unshuffle.learn.checkpoint import load, save
from unshuffle.paper.executor import not_yet_computed
from unshuffle.paper.run import Planned, Training
from unshuffle.paper.store import Place, Result, Store
from unshuffle.recipes.settings import plain
from unshuffle.recipes.sorting import Sorting
from unshuffle.recipes.trained import trained
from unshuffle.recipes.training import train

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "migrate_runs.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs the source tree")
TEMPERATURE = {
    "start": 0.66, "end": 2.0, "epochs": 150, "boost": 0.1, "threshold": 0.7, "adapt_from": 1, "matched": True, "degree": False,
    "product": False, "linear_in_tau": False, "mean_of_tau": False, "exponential": False,
}  # fmt: skip
OLD: dict[str, Any] = {
    "n": 6, "values": [10.0, 11.0], "temperature": TEMPERATURE, "epochs": 150, "batch": 256, "samples": 5, "rate": 5e-4,
    "clip": 1.0, "lists": 10_000, "steps": 39, "test_lists": 100, "held_out_lists": 100, "standardise": False,
    "all_scales": False, "supervised": False, "cosine": False, "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("migrate_runs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_old_result_is_found_again(script, tmp_path):
    place = Place("sorting", "[10, 11]", "matched", "6", 0, "cpu")
    settings = {"recipe": OLD, "patience": None}
    Store(tmp_path).write(Result("sorting", "0" * 12, settings, 0, (place,), 1.0, {"tau": 0.5}, {}, {}))
    assert script.migrated(tmp_path) == [True]
    assert script.migrated(tmp_path) == [False]
    wanted = Planned(Training(Sorting.paper(6, (10.0, 11.0), "matched")), place)
    assert not_yet_computed([wanted], Store(tmp_path), retry=False) == []
    (result,) = Store(tmp_path)
    assert (result.key, result.metrics) == (wanted.key, {"tau": 0.5})


def test_an_old_checkpoint_can_be_applied(script, tmp_path):
    recipe = replace(Sorting.paper(6, (10.0, 11.0), "matched"), epochs=1)
    fitted = train(recipe, tmp_path, time_limit=0.0, calibrated=False)
    state, said = load(tmp_path / "best.pt")
    save(state, tmp_path / "best.pt", said | {"recipe": OLD | {"epochs": 1}})
    assert script.migrated(tmp_path / "best.pt") == [True]
    again, network, *_ = trained(tmp_path)
    assert plain(again) == plain(recipe)
    items = recipe.held_out()
    assert torch.equal(network(items), fitted.network(items))
