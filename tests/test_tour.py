"""Reading cities, TSPLIB's rules against lengths worked out by hand, the command as a user runs it."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
import torch

from unshuffle.errors import BadInput
from unshuffle.tasks.tour import read_cities, solve_tour, tour_length, tour_text

POINTS = "NODE_COORD_SECTION\n1 0.0 0.0\n2 3.0 4.0\n3 1.0 1.0\nEOF\n"


def _tsp(tmp_path, head, body, name="x.tsp"):
    file = tmp_path / name
    file.write_text(f"NAME : x\nTYPE : TSP\nDIMENSION : 3\n{head}\n{body}")
    return file


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("EUC_2D", [5, 1, 4]),  # 5, 1.414 -> 1, sqrt(13) = 3.606 -> 4
        ("CEIL_2D", [5, 2, 4]),
        ("ATT", [2, 1, 2]),  # sqrt(25/10) = 1.58, sqrt(0.2) = 0.45, sqrt(1.3) = 1.14, never rounded below
    ],
)
def test_rounding_rules(tmp_path, rule, expected):
    cities = read_cities(_tsp(tmp_path, f"EDGE_WEIGHT_TYPE : {rule}", POINTS))
    assert [float(cities.cost[i, k]) for i, k in ((0, 1), (0, 2), (1, 2))] == expected
    assert torch.equal(cities.cost, cities.cost.T)
    assert tour_length(cities, torch.tensor([0, 1, 2])) == sum(expected)


def test_geo_by_hand(tmp_path):
    """A quarter of the equator, and 30 minutes that are half a degree: int(RRR * angle + 1), RRR = 6378.388."""
    body = "NODE_COORD_SECTION\n1 0.0 0.0\n2 0.0 90.0\n3 0.30 0.0\nEOF\n"
    cities = read_cities(_tsp(tmp_path, "EDGE_WEIGHT_TYPE: GEO", body))
    assert float(cities.cost[0, 1]) == math.floor(6378.388 * math.pi / 2 + 1)
    assert float(cities.cost[0, 2]) == math.floor(6378.388 * math.pi / 360 + 1)
    assert float(cities.cost[0, 0]) == 0
    assert cities.points is not None
    assert cities.points[1].tolist() == [90.0, 0.0]  # longitude goes right


MATRIX = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("FULL_MATRIX", "0 1 2 1 0 3 2 3 0"),
        ("UPPER_ROW", "1 2 3"),
        ("LOWER_ROW", "1 2 3"),
        ("UPPER_DIAG_ROW", "0 1 2 0 3 0"),
        ("LOWER_DIAG_ROW", "0 1 0 2 3 0"),
        ("UPPER_COL", "1 2 3"),
        ("LOWER_COL", "1 2 3"),
        ("UPPER_DIAG_COL", "0 1 0 2 3 0"),
        ("LOWER_DIAG_COL", "0 1 2 0 3 0"),
    ],
)
def test_explicit_matrices(tmp_path, form, numbers):
    head = f"EDGE_WEIGHT_TYPE : EXPLICIT\nEDGE_WEIGHT_FORMAT : {form}"
    cities = read_cities(_tsp(tmp_path, head, f"EDGE_WEIGHT_SECTION\n{numbers}\nEOF\n"))
    assert cities.cost.tolist() == MATRIX
    assert cities.points is None


def test_triangles_of_four_cities(tmp_path):
    """With three cities rows and columns of a triangle list the same numbers; with four they do not."""
    full = [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]
    for form, numbers in (
        ("UPPER_ROW", "1 2 3 4 5 6"),
        ("LOWER_ROW", "1 2 4 3 5 6"),
        ("UPPER_COL", "1 2 4 3 5 6"),
        ("LOWER_COL", "1 2 3 4 5 6"),
    ):
        file = tmp_path / f"{form}.tsp"
        file.write_text(
            f"NAME: f\nTYPE: TSP\nDIMENSION: 4\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: {form}\n"
            f"EDGE_WEIGHT_SECTION\n{numbers}\nEOF\n"
        )
        assert read_cities(file).cost.tolist() == full, form


def test_csv_with_and_without_header_names_and_semicolons(tmp_path):
    for text in ("0,0\n3,4\n0,4\n", "x,y\n0,0\n3,4\n0,4\n", "city;x;y\na;0;0\nb;3;4\nc;0;4\n", "a 0 0\nb 3 4\nc 0 4\n"):
        file = tmp_path / "cities.csv"
        file.write_text(text)
        cities = read_cities(file)
        assert cities.n == 3, text
        assert tour_length(cities, torch.tensor([0, 1, 2])) == pytest.approx(12.0)
        assert cities.labels == (["a", "b", "c"] if "a" in text else ["1", "2", "3"])


def test_csv_of_distances(tmp_path):
    file = tmp_path / "d.csv"
    file.write_text("0,1,9,1\n1,0,1,9\n9,1,0,1\n1,9,1,0\n")
    cities = read_cities(file)
    assert cities.points is None
    assert tour_length(cities, solve_tour(cities).order) == 4


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "empty"),
        ("a.csv", "1,2\n3\n", "line 2 has 1 cells"),
        ("a.csv", "1,2\n3,oops\n", "row '2', column '2' is 'oops'"),
        ("a.csv", "1,2\n3,nan\n", "row '2', column '2' is nan"),
        ("a.csv", "1,2,3,4,5\n1,2,3,4,5\n", "coordinates"),
        ("a.csv", "0,-1,2\n-1,0,2\n2,2,0\n", "negative"),
        ("a.tsp", "NAME: a\nTYPE: TSP\nEDGE_WEIGHT_TYPE: EUC_2D\n" + POINTS, "DIMENSION"),
        ("a.tsp", "DIMENSION: 4\nEDGE_WEIGHT_TYPE: EUC_2D\n" + POINTS, "promises 4 cities"),
        ("a.tsp", "DIMENSION: 3\nEDGE_WEIGHT_TYPE: XRAY1\n" + POINTS, "XRAY1"),
        ("a.tsp", "DIMENSION: 3\nTYPE: CVRP\nEDGE_WEIGHT_TYPE: EUC_2D\n" + POINTS, "CVRP"),
        ("a.tsp", "DIMENSION: 3\nEDGE_WEIGHT_TYPE: EUC_2D\n", "NODE_COORD_SECTION"),
        (
            "a.tsp",
            "DIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: UPPER_ROW\nEDGE_WEIGHT_SECTION\n1 2\nEOF\n",
            "3 numbers",
        ),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, name, text, words):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadInput, match=words):
        read_cities(file)


def test_a_binary_file_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xff\xfe\x00\x9f")
    with pytest.raises(BadInput, match="not a text file"):
        read_cities(file)


def test_tour_file(tmp_path):
    cities = read_cities(_tsp(tmp_path, "EDGE_WEIGHT_TYPE : EUC_2D", POINTS))
    lines = tour_text(cities, torch.tensor([2, 0, 1])).splitlines()
    assert lines[1] == "COMMENT : length 10"
    assert lines[-5:] == ["3", "1", "2", "-1", "EOF"]


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from unshuffle.cli import main; main()", "tour", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command(tmp_path):
    file = tmp_path / "ring.csv"
    corners = [
        (math.cos(a), math.sin(a))
        for a in torch.rand(12, generator=torch.Generator().manual_seed(0)).mul(6.28).tolist()
    ]
    file.write_text("".join(f"{x},{y}\n" for x, y in corners))
    done = _run(file, "--polish", "--json", "--out", tmp_path / "out", "--seed", 1, "--runs", 2)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert sorted(result["order"]) == list(range(12))
    assert result["polished_length"] <= result["length"] + 1e-9
    around = sorted(range(12), key=lambda i: math.atan2(corners[i][1], corners[i][0]))
    best = sum(math.dist(corners[around[k]], corners[around[k - 1]]) for k in range(12))
    assert result["length"] == pytest.approx(best)  # on a circle the tour is the circle
    assert (tmp_path / "out" / "ring.tour").read_text().count("\n") == 12 + 7
    assert (tmp_path / "out" / "ring.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_refuses_in_one_sentence(tmp_path):
    done = _run(tmp_path / "nothing.csv")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
