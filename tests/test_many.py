"""A folder of puzzles in one call: each has its own results, failures stop nothing, what is done is not done again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from test_turned import texture
from unshuffle.cli.common import build
from unshuffle.cli.many import PuzzleJob, put_one_together, puzzles_in
from unshuffle.structure.layouts import Grid
from unshuffle.tasks.jigsaw import cut


def tiles(folder: Path, seed: int) -> np.ndarray:
    """Writes shuffled tiles; returns the picture."""
    folder.mkdir(parents=True)
    whole = texture(36, 48, seed)
    for k, tile in enumerate(np.random.default_rng(seed).permutation(cut(whole, Grid(3, 4))[0])):
        Image.fromarray(tile).save(folder / f"{k}.png")
    return whole


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(build("jigsaw"), ["jigsaw", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Without processes; the names of what is computed."""
    begun = []

    def here(self: object, work, jobs, tell, deadline=None) -> int:
        for job in jobs:
            begun.append(job.name)
            tell(job, work(job))
        return 0

    monkeypatch.setattr("unshuffle.cli.many.Processes.__call__", here)
    return begun


def test_each_has_its_own_results_and_a_failure_stops_nothing(tmp_path: Path, at_once: list[str]) -> None:
    box, out = tmp_path / "box", tmp_path / "out"
    wholes = {name: tiles(box / name, seed) for seed, name in enumerate("ab")}
    (box / "broken").mkdir()
    (box / "broken" / "1.png").write_bytes(b"no picture")
    (box / "empty").mkdir()
    code, said = call(box, "--grid", "4x3", "--jobs", "2", "--out", out)
    assert code == 1
    assert "Failed: broken: " in said
    assert "2 of 3 puzzles" in said
    for name, whole in wholes.items():
        assert np.array_equal(np.asarray(Image.open(out / name / "reassembled.png")), whole)
        assert json.loads((out / name / "result.json").read_text())["input"] == str(box / name)
    assert not (out / "broken").exists()
    summary = json.loads((out / "summary.json").read_text())["puzzles"]
    assert [(one["puzzle"], one["status"]) for one in summary] == [("a", "finished"), ("b", "finished"), ("broken", "error")]  # fmt: skip
    assert "sets" not in summary[0]  # as long as all of its tiles: they are in its own result.json
    lines = (out / "summary.csv").read_text().splitlines()
    assert lines[1].startswith("a,finished,4x3,12,0,")
    assert lines[3].startswith("broken,error,")
    assert at_once == ["a", "b", "broken"]

    code, _ = call(box, "--grid", "4x3", "--out", out)  # what is done is not done again, what failed is
    assert code == 1
    assert at_once[3:] == ["broken"]
    (box / "broken" / "1.png").unlink()
    assert call(box, "--grid", "4x3", "--out", out)[0] == 0
    assert at_once[4:] == []
    assert call(box, "--grid", "4x3", "--alternatives", "1", "--out", out)[0] == 0  # asked for something else
    assert at_once[4:] == ["a", "b"]
    assert len(json.loads((out / "a" / "result.json").read_text())["alternatives"]) == 1


def test_one_that_is_interrupted_is_done_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: list[str]
) -> None:
    tiles(tmp_path / "box" / "a", 0)
    monkeypatch.setattr("unshuffle.cli.many.put_one_together", lambda job: "It was interrupted.")
    assert call(tmp_path / "box", "--out", tmp_path / "out")[0] == 130
    monkeypatch.undo()
    assert not (tmp_path / "out" / "a").exists()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["puzzles"][0]["status"] == "interrupted"


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    whole = tiles(tmp_path / "box" / "a", 0)
    code, said = call(tmp_path / "box", "--grid", "4x3", "--jobs", "1", "--json", "--out", tmp_path / "out")
    assert code == 0, said
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "a" / "reassembled.png")), whole)


def test_a_packed_puzzle_needs_no_common_disk(tmp_path: Path) -> None:
    tiles(tmp_path / "box" / "a", 0)
    job = PuzzleJob("a", tmp_path / "box" / "a", {"grid": "4x3", "seed": 0, "time_limit": None}).packed()
    there = put_one_together(job)
    for file in (tmp_path / "box" / "a").iterdir():
        file.unlink()
    found = put_one_together(job)
    assert isinstance(found, dict)
    assert isinstance(there, dict)
    assert found["reassembled.png"] == there["reassembled.png"]


def test_what_is_a_puzzle_among_many(tmp_path: Path) -> None:
    box = tmp_path / "box"
    tiles(box / "a", 0)
    assert list(puzzles_in(box, False)) == ["a"]
    assert puzzles_in(box / "a", False) == {}  # tiles of one
    assert len(puzzles_in(box / "a", True)) == 12  # with --jobs each picture is a puzzle
    Image.new("RGB", (8, 8)).save(box / "a.png")
    assert puzzles_in(box, False) == {}
    assert puzzles_in(box, True) == {"a": box / "a", "a.png": box / "a.png"}
    code, said = call(box / "a.png", "--jobs", "2", "--out", tmp_path / "o")
    assert code == 2
    assert "for a folder of puzzles" in said
