"""The studio without a browser: who may ask, what is refused, jobs, queue, pages that go away, a server that is killed."""

from __future__ import annotations

import asyncio
import glob
import io
import json
import multiprocessing
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import unshuffle as us

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if not sys.platform.startswith("linux"):
    pytest.skip("processes are looked up in /proc", allow_module_level=True)

from studio_client import Page, Server, children, eventually
from unshuffle.studio import child, examples, explain, pages
from unshuffle.studio.desk import Desk
from unshuffle.studio.job import WEIGHING, Job
from unshuffle.studio.puzzle import PuzzleScene
from unshuffle.studio.scenes import Strips
from unshuffle.studio.server import LARGEST, bound, static
from unshuffle.studio.tasks import TASKS
from unshuffle.watch import Step, Where


@pytest.fixture(scope="module")
def server():
    running = Server()
    yield running
    running.stop()
    assert running.process.returncode == 0


@pytest.fixture
def page(server):
    opened = Page(server)
    yield opened
    opened.ask("leave")
    opened.close()


# --- who may ask ---------------------------------------------------------------------------------------------------------


PATHS = [
    "/api/tasks",
    "/api/explain",
    f"/api/pages/{uuid.UUID(int=1)}/events",
    f"/api/pages/{uuid.UUID(int=2)}/jobs",
    "/api/nothing",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", "wrong"])
def test_nothing_under_api_answers_without_the_token(server, path, token):
    for method in ("GET", "POST"):
        assert server.ask(method, path, {}, x_token=token)[0] == 403
        assert server.ask(method, f"{path}?token={token}", {}, x_token="")[0] == 403


def test_the_token_opens_in_a_header_or_in_the_address(server):
    assert server.ask("GET", "/api/tasks")[0] == 200
    assert server.ask("GET", f"/api/tasks?token={server.token}", x_token="")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:80"},
        {"host": "127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
    ids=str,
)
def test_other_names_and_other_sites_are_refused_even_with_the_token(server, headers):
    for path in ("/", "/api/tasks"):
        assert server.ask("GET", path, **headers)[0] == 403
    assert server.ask("POST", "/api/explain", {}, **headers)[0] == 403


def test_its_own_pages_are_welcome(server):
    for name in ("127.0.0.1", "localhost"):
        own = {
            "host": f"{name}:{server.port}",
            "origin": f"http://{name}:{server.port}",
            "sec_fetch_site": "same-origin",
        }
        assert server.ask("POST", "/api/explain", {"beta": 1.0}, **own)[0] == 200


def test_only_this_machine_can_reach_it():
    with bound(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        with pytest.raises(us.BadInput, match="choose another with --port"):
            bound(listening.getsockname()[1])


def test_the_page_needs_nothing_from_the_network():
    files = static()
    assert {"index.html", "style.css", "app.js"} <= set(files)
    for name, (data, _) in files.items():
        text = data.decode().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(^|\s)//[^\n]*", "", text).replace("http://", "X//") or "https://" not in text, name
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "innerHTML" not in text, name
        assert "eval(" not in text, name


@pytest.mark.parametrize(
    "path", ["/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/page/app.js", "/etc/passwd", "/guard.py"]
)
def test_names_are_never_paths(server, path):
    assert server.ask("GET", path)[0] == 404


def test_names_of_jobs_and_results_are_never_paths(page):
    job = page.start("tour", example="random", options={"time_limit": 0.1})
    page.until("done")
    assert page.ask(f"jobs/{job}/results/cities.csv", method="GET")[0] == 200
    for rest in (f"jobs/{job}/results/../cities.csv", f"jobs/{job}/results/%2e%2e/cities.csv", "jobs/uploads/unshuffled.zip",
                 "jobs/../unshuffled.zip", f"jobs/{job}/shown/99", "jobs/%2e%2e/results/x", f"jobs/{job}/results//etc/passwd"):  # fmt: skip
        assert page.ask(rest, method="GET")[0] in (400, 404), rest


# --- uploads -------------------------------------------------------------------------------------------------------------


def png(width: int, height: int) -> bytes:
    """A picture of zeros; only as much data as fits a few bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 3000)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("bomb.png", png(60_000, 60_000), "million pixels"),
        ("large.png", png(9_000, 9_000), "million pixels"),
        ("broken.png", png(400, 300), "damaged|be read"),
        ("text.png", b"not a picture at all", "not a picture"),
        ("script.jpg", b"<script>alert(1)</script>", "not a picture"),
        ("../../../evil.png", b"\x89PNG", "not a picture"),
    ],
    ids=lambda value: value if isinstance(value, str) else "data",
)
def test_hostile_pictures_are_refused_in_a_sentence_and_the_next_job_works(page, name, data, says):
    status, answer = page.upload(name, data)
    assert status == 200
    page.start("puzzle", files=[answer["upload"]], options={"grid": "3x3", "shuffle": True})
    told = page.until("failed", "done")[-1]
    assert told["event"] == "failed"
    assert re.search(says, told["sentence"])
    assert "Traceback" not in told["sentence"]
    assert tempfile.gettempdir() not in told["sentence"]
    assert not Path(tempfile.gettempdir(), "evil.png").exists()


def test_uploads_have_names_of_our_own_and_limits(page, server):
    assert page.upload("program.exe", b"MZ")[0] == 400
    assert page.upload("noending", b"")[0] == 400
    status, answer = page.upload("big.csv", b"1,2\n" * (LARGEST[False] // 4 + 10))
    assert status == 413
    assert "MB" in answer["sentence"]
    status, answer = page.upload("../../up.csv", b"x,y\n0,0\n1,0\n1,1\n0,1\n")
    assert status == 200
    folder = glob.glob(f"{tempfile.gettempdir()}/unshuffle-studio-{server.process.pid}-*/*/uploads/*")
    assert [re.fullmatch(r"[0-9a-f]{16}\.csv", Path(path).name) is not None for path in folder] == [
        True
    ]  # the big one is gone
    page.start("tour", files=[answer["upload"]])
    told = page.until("done", "failed")
    assert told[-1]["event"] == "done"
    assert next(e for e in told if e["event"] == "command")["text"] == "unshuffle tour ../../up.csv"


def test_a_table_that_is_none_is_told_in_a_sentence(page):
    uploads = [
        page.upload(name, data)[1]["upload"] for name, data in (("a.csv", b"\0\xff\xfe" * 50), ("b.csv", b"a,b\nx,y\n"))
    ]
    for task, files in (("table", uploads[:1]), ("table", uploads[1:]), ("match", uploads), ("tour", uploads[:1])):
        page.start(task, files=files)
        told = page.until("failed", "done")[-1]
        assert told["event"] == "failed", task
        assert "went wrong" not in told["sentence"], (task, told["sentence"])


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "nothing"},
        {"task": "tour"},
        {"task": "tour", "files": ["0123456789abcdef"]},
        {"task": "tour", "files": "../x"},
        {"task": "tour", "example": "../../etc/passwd"},
        {"task": "tour", "points": [[0, 0], ["x", 1]]},
        {"task": "tour", "points": [[0, 0]] * 2001},
        {"task": "tour", "example": "random", "options": {"out": "elsewhere"}},
        {"task": "tour", "example": "random", "options": {"seed": "0 --out elsewhere"}},
        {"task": "tour", "example": "random", "options": {"seed": -1}},
        {"task": "tour", "example": "random", "options": []},
        {"task": "puzzle", "example": "coffee", "options": {"grid": "3x3 --out x"}},
        {"task": "puzzle", "example": "coffee", "options": {"shuffle": "yes"}},
        {"task": "table", "example": "graves", "options": {"kind": "--out"}},
    ],
    ids=str,
)
def test_what_a_page_cannot_ask_for_is_refused_before_anything_starts(page, asked):
    status, answer = page.ask("jobs", asked)
    assert status == 400
    assert json.loads(answer)["sentence"].endswith(".")


def test_requests_that_are_no_json_or_too_long(page, server):
    path = f"/api/pages/{page.name}/jobs"
    for body, expected in ((b"{", 400), (b"[1]", 400), (b"[" * 100_000, 400), (b'"' + b"x" * 500_000 + b'"', 413)):
        assert server.ask("POST", path, body)[0] == expected
    assert server.ask("POST", "/api/pages/..%2f..%2fx/jobs", {})[0] in (400, 404)


def test_memory_of_a_pages_process_is_limited():
    code = """
from unshuffle.studio.child import limit_memory, sentence
import torch, sys
limit_memory(3 * 2**30)
try:
    torch.ones(10**9, dtype=torch.float64)
except (RuntimeError, MemoryError) as error:
    print(sentence(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "There is not enough memory" in done.stdout, done.stderr


# --- jobs ----------------------------------------------------------------------------------------------------------------


def test_the_command_that_is_shown_does_the_same_where_everything_is_unpacked(page, tmp_path):
    job = page.start("match", example="fish", options={"seed": 3})
    told = page.until("done", "failed")
    assert told[-1]["event"] == "done", told[-1]
    kinds = [event["event"] for event in told]
    assert kinds.index("begun") < kinds.index("given") < kinds.index("frame")
    with zipfile.ZipFile(io.BytesIO(page.ask(f"jobs/{job}/unshuffled.zip", method="GET")[1])) as archive:
        assert {"a.csv", "b.csv", "results/pairs.csv", "results/pairs.png", "results/result.json"} <= set(
            archive.namelist()
        )
        archive.extractall(tmp_path)
    words = shlex.split(next(event for event in told if event["event"] == "command")["text"])
    assert words == ["unshuffle", "match", "a.csv", "b.csv", "--seed", "3"]
    again = subprocess.run(
        [sys.executable, "-m", *words, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert again.returncode == 0, again.stderr
    theirs = json.loads((tmp_path / "results" / "result.json").read_text())
    clocks = ("seconds", "loading_seconds")
    assert {k: v for k, v in json.loads(again.stdout).items() if k not in clocks} == {
        k: v for k, v in theirs.items() if k not in clocks
    }
    assert told[-1]["pairs"] == theirs["pairs"]


def test_a_tour_is_paused_goes_on_takes_new_cities_and_stops_with_the_best_so_far(page):
    points = torch.rand(400, 2, generator=torch.Generator().manual_seed(0)).tolist()
    job = page.start("tour", points=points)
    told = page.until("frame")
    assert next(event for event in told if event["event"] == "given")["n"] == 400
    while page.until("frame")[-1].get("ring") is None:
        pass
    assert page.say(job, say="pause") == 200
    time.sleep(0.5)
    while not page.heard.empty():
        page.heard.get()
    time.sleep(0.5)
    assert page.heard.empty(), "paused"
    assert page.say(job, say="go on") == 200
    page.until("frame")
    assert page.say(job, say="points", points=[*points, [2.0, 2.0]]) == 200
    assert page.until("given")[-1]["n"] == 401
    page.until("frame")
    assert page.say(job, say="stop") == 200
    done = page.until("done")[-1]
    assert sorted(done["order"]) == list(range(401))
    assert "interrupted" in done["said"]
    assert page.say(job, say="dance") == 400


def test_a_new_job_of_a_page_takes_the_place_of_the_old_one(page):
    first = page.start("tour", points=torch.rand(200, 2).tolist())
    page.until("frame")
    second = page.start("tour", example="towns", options={"time_limit": 0.2})
    told = page.until("done")
    assert told[-1]["job"] == second
    assert len(told[-1]["order"]) == len(examples.TOWNS)
    assert page.say(first, say="stop") == 400


class Deaf(pages.Pages):
    """Processes that never answer; how many there were, and what the last was told."""

    started = 0

    def _new_process(self, page):
        class Process:
            kill = join = close = staticmethod(lambda *_: None)
            is_alive = staticmethod(lambda: True)

        self.started += 1
        page.pipe, self.other = multiprocessing.Pipe()
        page.process = Process()


@pytest.mark.parametrize("how", ["stop", "another job"])
def test_a_process_that_does_not_hear_is_ended(how, monkeypatch):
    monkeypatch.setattr(pages, "SILENCE", 0.2)
    monkeypatch.setattr(pages, "UNHEARD", 0.1)

    async def scene():
        deaf = Deaf()
        page = deaf.of(str(uuid.uuid4()))
        first = deaf.start(page, {"task": "learn"})
        assert page.running
        if how == "stop":
            deaf.say(page, first, {"say": "stop"})
            await asyncio.sleep(0.15)
            assert page.running, "it may still answer"
            await asyncio.sleep(0.15)
            assert not page.running
            assert "could not be stopped" in page.events[-1]["sentence"]
        else:
            second = deaf.start(page, {"task": "learn"})
            await asyncio.sleep(0.2)
            assert deaf.started == 2
            assert json.loads(deaf.other.recv_bytes())["job"] == second
        deaf.close()

    asyncio.run(scene())


def test_jobs_of_two_pages_wait_for_each_other_if_there_are_more_than_cores(server):
    opened = [Page(server) for _ in range(pages.AT_ONCE + 1)]
    try:
        jobs = [one.start("tour", points=torch.rand(200, 2).tolist()) for one in opened]
        assert opened[-1].until("waiting")[-1]["before"] == 1
        for one, job in zip(opened[:-1], jobs, strict=False):
            one.until("frame")
            one.say(job, say="stop")
            one.until("done")
        opened[-1].until("frame")
        opened[-1].say(jobs[-1], say="stop")
        assert sorted(opened[-1].until("done")[-1]["order"]) == list(range(200))
    finally:
        for one in opened:
            one.ask("leave")
            one.close()


def test_a_page_that_goes_away_takes_its_job_and_its_files_with_it(server):
    root = glob.glob(f"{tempfile.gettempdir()}/unshuffle-studio-{server.process.pid}-*")[0]
    for goes in ("says so", "is gone"):
        before = children(server.process.pid)
        opened = Page(server)
        opened.start("tour", points=torch.rand(400, 2).tolist())
        opened.until("frame")
        worker = children(server.process.pid) - before
        assert worker
        assert os.listdir(root)
        if goes == "says so":
            opened.ask("leave")
        opened.close()
        assert eventually(lambda w=worker: not (children(server.process.pid) & w)), goes
        assert eventually(lambda: not os.listdir(root)), goes


def test_fifty_requests_at_once(server):
    def ask(k: int) -> int:
        if k % 3 == 0:
            return server.ask("GET", "/app.js")[0]
        return server.ask("POST", "/api/explain", {"beta": 1 + k, "noise": 0.1, "seed": k})[0]

    with ThreadPoolExecutor(50) as many:
        assert set(many.map(ask, range(50))) == {200}


def test_a_server_that_is_killed_leaves_no_work_behind_and_starts_again_on_its_port():
    first = Server()
    opened = Page(first)
    opened.start("tour", points=torch.rand(400, 2).tolist())
    opened.until("frame")
    worker = children(first.process.pid)
    left = glob.glob(f"{tempfile.gettempdir()}/unshuffle-studio-{first.process.pid}-*")
    assert worker
    assert left
    first.stop(signal.SIGKILL)
    opened.close()
    second = Server(first.port)
    try:
        assert second.token != first.token
        assert second.ask("GET", "/api/tasks", x_token=first.token)[0] == 403
        assert second.ask("GET", "/api/tasks")[0] == 200
        assert not any(Path(path).exists() for path in left), "tidied up"
        assert eventually(lambda: not any(Path(f"/proc/{one}").exists() for one in worker)), "no orphans"
    finally:
        second.stop()


# --- what is shown ---------------------------------------------------------------------------------------------------------


def test_the_explaining_page_is_computed_by_the_operator(server):
    scores, _ = explain.example()
    given = {"beta": 3.0, "noise": 0.5, "iterations": 7, "seed": 4}
    told = json.loads(server.ask("POST", "/api/explain", given)[1])
    generator = torch.Generator().manual_seed(4)
    P = us.gumbel_sinkhorn(scores, beta=3.0, samples=1, iterations=7, noise=0.5, generator=generator)[0]
    torch.testing.assert_close(torch.tensor(told["P"]).reshape(12, 12), P, atol=1e-5, rtol=1e-4)
    assert told["order"] == us.assign(P.clamp_min(1e-30).log()).tolist()
    led = json.loads(server.ask("POST", "/api/explain", {"entropy": 0.4})[1])
    assert led["entropy"] == pytest.approx(0.4, abs=0.01)
    field = json.loads(server.ask("POST", "/api/explain", {"beta": 1.0, "boost": 1.0})[1])["field"]
    assert max(field) > min(field)
    for bad in ({"beta": -1}, {"beta": "x"}, {"iterations": 10**9}, {"entropy": 2}, {"noise": float("inf")}):
        status, answer = server.ask("POST", "/api/explain", bad)
        assert status == 400, bad
        assert "sentence" in json.loads(answer)


@pytest.mark.parametrize(("task", "name"), [(t, e) for t, task in TASKS.items() for e in task.examples], ids=str)
def test_every_example_is_read_by_its_command(task, name, tmp_path):
    paths = examples.example(task, name, tmp_path)
    assert paths
    assert all(path.parent == tmp_path and path.stat().st_size > 100 for path in paths)
    if task == "tour":
        from unshuffle.tasks.tour import read_cities

        cities = read_cities(paths[0])
        assert cities.n > 20
        assert ("great circles" in cities.understood) == (name == "towns")
    elif task in ("table", "match"):
        from unshuffle.readers.tables import read_table

        assert all(len(read_table(path).rows) >= 40 for path in paths)
    elif task == "strips":
        from unshuffle.tasks.strips import read_strips

        strips = read_strips(tmp_path)
        assert len(strips) == {"shredded page": 16, "some upside down": 14, "two pages": 24}[name]
        assert all(strip.background for strip in strips)


def test_without_its_packages_the_studio_says_what_to_install(monkeypatch, capsys):
    from unshuffle.cli.common import build

    for name in [n for n in sys.modules if n.startswith(("unshuffle.studio", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(SystemExit) as left:
        build("studio")(["studio", "--no-open"], prog_name="unshuffle")
    assert left.value.code == 2
    assert "pip install 'unshuffle[studio]'" in capsys.readouterr().err


def box_of(n: int):
    import numpy as np

    from unshuffle.cli.jigsaw import Box

    return Box(np.zeros((n, 4, 4, 3), np.uint8), None, [""] * n, "", None)


def test_tiles_that_were_turned_or_left_out_are_shown_as_they_were_found(tmp_path):
    scene = PuzzleScene(box_of(5))
    about = scene.about(tmp_path)
    assert about["n"] == 5
    assert about["size"][0] * about["size"][1] >= 5
    found = {
        "order": [1, -1, 0, 4],
        "turns": [2, -1, 0, 3],
        "grid": "2x2",
        "confidence": [1.0, 0.5, 0, 0, 1.0],
        "left_out": [2, 3],
    }
    (tmp_path / "result.json").write_text(json.dumps(found))
    told = scene.end(tmp_path)
    assert told["x"] == [0, 0, 0, 1, 1]
    assert told["y"] == [1, 0, 2.5, 2.5, 1], "what is left out lies below"
    assert told["turn"] == [0, 2, 0, 0, 3]
    assert told["size"] == [2, 3.5]
    assert told["left"] == [2, 3]
    polished = {"order": [0, -1, 1, 4], "turns": [0, -1, 2, 3]}
    (tmp_path / "result.json").write_text(json.dumps(found | {"polished": polished}))
    assert scene.end(tmp_path)["x"][:2] == [0, 0]
    assert scene.end(tmp_path)["y"][:2] == [0, 1]


def test_strips_of_pages_and_those_that_are_turned(tmp_path):
    scene = Strips([None] * 4)  # pyright: ignore[reportArgumentType]
    first = {"order": [2, 0], "turns": [0, 2]}
    found = {"strips": list("abcd"), "confidence": [1.0] * 4, "pages": [first, {"order": [3, 1], "gaps": [0]}]}
    (tmp_path / "result.json").write_text(json.dumps(found))
    told = scene.end(tmp_path)
    assert told["pages"] == [first | {"gaps": []}, {"order": [3, 1], "turns": [0, 0], "gaps": [0]}]
    assert told["pictures"] == ["page-1.png", "page-2.png"]
    where = Where(us.Path(2), torch.tensor([3, 1]))
    step = Step(0.0, "anneal", 1.0, 1.0, 0.5, soft=lambda: torch.eye(2), where=where)
    assert scene.frame(step)["x"] == [None, 1.0, None, 0.0], "the others wait"


def test_several_pictures_lie_side_by_side(tmp_path):
    one = {"grid": "2x1", "order": [4, 0], "confidence": [0.9, 0.8]}
    other = {"grid": "1x3", "order": [1, -1, 2], "confidence": [1.0, None, 0.7], "turns": [1, -1, 0]}
    (tmp_path / "result.json").write_text(json.dumps({"pictures": [one, other], "left_out": [3]}))
    told = PuzzleScene(box_of(5)).end(tmp_path)
    assert told["x"] == [1, 2.5, 2.5, 0, 0]
    assert told["y"] == [0, 0, 2, 3.5, 0]
    assert told["turn"] == [0, 1, 0, 0, 0]
    assert told["confidence"] == [0.8, 1.0, 0.7, 0.0, 0.9]
    assert told["size"] == [3.5, 4.5]


def test_tiles_of_a_pile_move_on_the_board_that_was_found_for_those_that_are_left():
    where = Where(us.Grid(1, 2), torch.tensor([3, 1, 0]))
    soft = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    step = Step(0.0, "anneal", 1.0, 1.0, 0.5, soft=lambda: soft, states=lambda: torch.tensor([2, 0, 1]), where=where)
    told = PuzzleScene(box_of(4)).frame(step)
    assert told["size"] == [2, 1]
    assert told["x"] == [None, 0.5, None, 0.0], "who is in no cell, or in another picture, is not drawn"
    assert told["turn"] == [None, 0, None, 2]


def test_the_page_is_told_an_energy_while_tiles_anneal(page):
    page.start("puzzle", example="coffee", options={"grid": "6x4", "shuffle": True})
    told = page.until("done", "failed")
    assert told[-1]["event"] == "done", told[-1]
    energies = [e["energy"] for e in told if e["event"] == "frame" and e["stage"] == "anneal" and "energy" in e]
    assert energies, "how many depends on the machine; that they fall is tested with the solver"
    assert energies[-1] <= energies[0]


def test_energies_for_the_page_alone_take_a_small_part_of_the_time():
    desk = Desk(None)  # pyright: ignore[reportArgumentType]
    job = Job(desk, Path(), {"task": "puzzle", "job": "0"})
    asked = []

    def slow() -> float:
        asked.append(time.thread_time())
        while time.thread_time() < asked[-1] + 0.02:
            pass
        return 1.0

    step, until = Step(0.0, "anneal", 1.0, float("nan"), 0.5, expected=slow), time.monotonic() + 0.5
    while time.monotonic() < until:
        job.energy(step)
    assert 1 <= len(asked) <= 0.5 * WEIGHING / 0.02 + 3  # the first is free


def test_a_page_that_was_given_up_is_told_so_when_it_asks_again(server):
    first = Page(server)
    assert first.until("here")[-1]["anew"]
    first.ask("leave")
    again = Page(server, first.name)
    assert again.until("here")[-1]["anew"], "it has lost its files"
    third = Page(server, first.name)
    assert not third.until("here")[-1]["anew"], "a connection that was broken off"
    for one in (first, again, third):
        one.close()


def test_compiling_is_told_and_a_process_that_takes_too_much_ends(monkeypatch):
    told, ended = [], []
    seconds = iter(range(100))
    monkeypatch.setattr(child, "compiling_seconds", lambda: next(seconds))
    monkeypatch.setattr(child, "OFTEN", 0.01)
    monkeypatch.setattr(child, "A_WHILE", 0.0)
    desk = Desk(None)  # pyright: ignore[reportArgumentType]
    desk._send = told.append
    desk.job = "7"
    monkeypatch.setattr(child, "taken", lambda: 100 if len(told) < 3 else 300)

    def end(code: int) -> None:
        ended.append(code)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit):
        child.look_after(desk, most=200)
    assert ended == [1]
    assert len(told) == 3
    assert told[0]["job"] == "7"
    assert "Compiling, once" in told[0]["stage"]
    desk.tell("done", job="7")
    desk.remark("of nothing")
    assert [what["event"] for what in told[3:]] == ["done"], "nothing comes after the end"


def test_memory_is_counted_in_bytes():
    known = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert child.taken() == pytest.approx(1024 * int(known.split()[1]), rel=0.05)
