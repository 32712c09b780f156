"""One reader of tables for all commands: what people's files look like, what is said about them, what is written back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from unshuffle.cli.common import build, harmless, table_text
from unshuffle.errors import BadInput
from unshuffle.readers.cells import read_cells
from unshuffle.readers.tables import read_table
from unshuffle.tasks.tour import read_cities

TRIANGLE = [[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]


def file_of(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "file.csv"
    path.write_bytes(text.encode(encoding))
    return path


def run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(build(command), [command, *map(str, arguments)])


@pytest.mark.parametrize(
    ("text", "labels", "ignored"),
    [
        ("ID,X,Y\n1,0,0\n2,3,4\n3,0,4\n", ["1", "2", "3"], ""),
        ("ID,X,Y\n17,0,0\n4,3,4\n99,0,4\n", ["17", "4", "99"], ""),
        ("x,y,population\n0,0,9\n3,4,7\n0,4,8\n", ["1", "2", "3"], "population ignored"),
        ("id,population,y,x\n1,9,0,0\n2,9,4,3\n3,9,4,0\n", ["1", "2", "3"], "population ignored"),
        ('city,x,y\n"Paris, Texas",0,0\nRome,3,4\nBonn,0,4\n', ["Paris, Texas", "Rome", "Bonn"], ""),
        ("Stadt;x;y\nKöln;0,0;0\nBonn;3,0;4\nUlm;0;4,0\n", ["Köln", "Bonn", "Ulm"], ""),
        ("0,0;0,0\n3,0;4,0\n0,0;4,0\n", ["1", "2", "3"], ""),
        ("name,country,x,y\na,F,0,0\nb,F,3,4\nc,I,0,4\n", ["a", "b", "c"], "country ignored"),
        ("7,0,0\n8,3,4\n9,0,4\n", ["7", "8", "9"], ""),
        ("# places, and where they are\n0,0\n3,4\n0,4\n", ["1", "2", "3"], ""),
        ("0,0,\n3,4,\n0,4,\n", ["1", "2", "3"], ""),
        ("easting\tnorthing\tnote\n0\t0\tmill\n3\t4\tinn\n0\t4\tfarm\n", ["mill", "inn", "farm"], ""),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_coordinates_are_found_whatever_stands_beside_them(tmp_path, text, labels, ignored, encoding) -> None:
    cities = read_cities(file_of(tmp_path, text, encoding))
    assert cities.points is not None
    assert cities.points.tolist() == TRIANGLE
    assert cities.cost.sum() == pytest.approx(2 * (3 + 4 + 5))  # two coordinates, not three
    assert cities.labels == labels
    assert ignored in cities.understood


def test_three_coordinates_are_no_distances(tmp_path) -> None:
    cities = read_cities(file_of(tmp_path, "1,2,3\n4,5,6\n7,8,9\n"))
    assert cities.points is not None
    assert float(cities.cost[0, 1]) == pytest.approx(27**0.5)
    cities = read_cities(file_of(tmp_path, "x,y,z\n0,1,2\n1,0,3\n2,3,0\n"))
    assert "columns x, y and z" in cities.understood
    cities = read_cities(file_of(tmp_path, "0,1,2\n1,0,3\n2,3,0\n"))
    assert cities.points is None
    assert cities.cost.tolist() == [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    assert "3 x 3 matrix of distances" in cities.understood
    cities = read_cities(file_of(tmp_path, "id,1,2,3\n1,0,5,6\n2,5,0,7\n3,6,7,0\n"))
    assert cities.cost.tolist() == [[0, 5, 6], [5, 0, 7], [6, 7, 0]]


def test_degrees_are_not_a_plane(tmp_path) -> None:
    """A quarter of the equator, and the way from it to the pole; the columns in either order."""
    for text in ("lon,lat\n0,0\n90,0\n0,90\n", "latitude,longitude\n0,0\n0,90\n90,0\n"):
        cities = read_cities(file_of(tmp_path, text))
        assert cities.cost[0, 1:].tolist() == pytest.approx([6371.009 * np.pi / 2] * 2)
        assert "great circles" in cities.understood
        assert cities.points is not None
        assert cities.points[1].tolist() == [90, 0]
    chosen = read_cities(file_of(tmp_path, "lon,lat,age\n0,0,7\n90,0,8\n0,90,9\n"), ("lat", "lon"))
    assert "great circles" in chosen.understood, "whichever is named first"
    assert chosen.cost.tolist() == cities.cost.tolist()


def test_columns_can_be_chosen_and_dropped(tmp_path) -> None:
    path = file_of(tmp_path, "name,a,b,c\np,0,9,0\nq,3,9,4\nr,0,8,4\n")
    assert "columns a, b and c" in read_cities(path).understood
    for cities in (read_cities(path, ("a", "c")), read_cities(path, drop=("b",)), read_cities(path, ("A", "C"))):
        assert cities.points is not None
        assert cities.points.tolist() == TRIANGLE
        assert "b ignored" in cities.understood
    with pytest.raises(BadInput, match="no column 'd' for --use; its columns are name, a, b, c"):
        read_cities(path, ("a", "d"))
    done = run("tour", path, "--use", "a,c", "--json", "-o", tmp_path / "o")
    assert json.loads(done.stdout)["length"] == pytest.approx(12)
    assert "3 cities named by column name, columns a and c; b ignored." in run("tour", path, "--use", "a,c").stdout


def test_a_column_of_kinds_is_no_name_and_no_number(tmp_path) -> None:
    cities = read_cities(file_of(tmp_path, "x,y,kind\n0,0,a\n3,0,a\n3,4,b\n"))
    assert cities.labels == ["1", "2", "3"]
    assert cities.understood == "3 cities, columns x and y; kind ignored"


def test_columns_to_use_are_named_alike_in_tour_and_seriate(tmp_path) -> None:
    path = file_of(tmp_path, "grave,year,beads,pins\ng,3,5,1\nh,1,2,2\ni,2,4,3\n")
    table = read_table(path, use=("pins", "beads"))
    assert table.columns == ["pins", "beads"]
    assert table.rows == ["g", "h", "i"]
    assert table.ignored == ("year",)
    done = run("seriate", path, "--use", "year", "-o", tmp_path / "o", "--json")
    assert json.loads(done.stdout)["names in order"] in (["h", "i", "g"], ["g", "i", "h"])
    with pytest.raises(BadInput, match="no column 'coins' for --use"):
        read_table(path, use=("coins",))


def test_both_commands_read_the_same_table(tmp_path) -> None:
    path = file_of(tmp_path, 'Ort;x;y;Notiz\n"Köln; am Rhein";0,5;1;alt\nBonn;1,5;2;neu\nUlm;2;2;alt\n', "cp1252")
    table, cities = read_table(path), read_cities(path)
    assert table.rows == cities.labels == ["Köln; am Rhein", "Bonn", "Ulm"]
    assert cities.points is not None
    assert table.values.tolist() == cities.points.tolist() == [[0.5, 1], [1.5, 2], [2, 2]]
    assert table.ignored == ("Notiz",)


@pytest.mark.parametrize("command", ["tour", "seriate"])
def test_an_endless_cell_is_one_sentence(tmp_path, command) -> None:
    path = file_of(tmp_path, 'name,x,y\n"a' + "x" * 140_000 + ",1,2\nb,3,4\nc,5,6\n")
    done = run(command, path, "-o", tmp_path / "o")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.exception
    assert "quotation mark" in done.stderr


def test_one_column_is_sorted_and_what_was_assumed_is_said(tmp_path) -> None:
    years = [1950, 1990, 1910, 1970, 1930, 2010, 1955, 1961, 1923]
    path = file_of(tmp_path, "name,year\n" + "".join(f"n{k},{year}\n" for k, year in enumerate(years)))
    done = run("seriate", path, "--json", "-o", tmp_path / "o")
    result = json.loads(done.stdout)
    assert result["kind"] == "features"
    found = [years[k] for k in result["order"]]
    assert found in (sorted(years), sorted(years)[::-1])
    path = file_of(tmp_path, "name,year,finds\na,1950,3\nb,1930,4\nc,1910,5\n")
    said = run("seriate", path, "-o", tmp_path / "o").stdout
    assert "3 rows named by column name, 2 columns of numbers (year, finds)" in said
    assert "counts" in said
    assert "--kind features" in said
    assert "--kind" not in run("seriate", path, "--kind", "counts", "-o", tmp_path / "o").stdout


def test_names_that_spreadsheets_would_compute_are_marked_and_read_back(tmp_path) -> None:
    names = ["=1+1", "+cmd", "-x", "@sum", "plain", "-1.5"]
    text = table_text([["name", "x", "y"], *([name, k, -k] for k, name in enumerate(names))])
    assert [line.split(",")[0] for line in text.splitlines()[1:]] == ["'=1+1", "'+cmd", "'-x", "'@sum", "plain", "-1.5"]
    assert read_table(file_of(tmp_path, text)).rows == names
    run("tour", file_of(tmp_path, text), "-o", tmp_path / "o")
    assert "'=1+1" in (tmp_path / "o" / "file.csv").read_text()


def test_no_escape_of_a_name_reaches_the_screen(tmp_path) -> None:
    assert harmless("a\x1b[31mb\x07\r\u202ec") == "a?[31mb??\u003fc"
    evil = "evil\x1b]0;title\x07\x9b2J"
    path = tmp_path / f"{evil}.csv"
    path.write_text("0,0\n1,1\n0,1\n1,0\n2,2\n5,1\n3,7\n2,1\n")
    for done in (
        run("tour", path, "-o", tmp_path / "o"),
        run("seriate", path, "-o", tmp_path / evil),
        run("tour", tmp_path / f"none{evil}", "-o", tmp_path / "o"),
    ):
        assert not {"\x1b", "\x07", "\x9b"} & set(done.output), repr(done.output)
    path.write_text("name,x\x1b[5m\na,1\nb,2\n\x1b[1mc,three\n")
    done = run("seriate", path, "-o", tmp_path / "o")
    assert done.exit_code == 2
    assert not {"\x1b", "\x07", "\x9b"} & set(done.output), repr(done.output)


def test_results_of_two_inputs_and_of_two_commands_do_not_mix(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text("0,5\n1,1\n0,1\n1,3\n")
        for command in ("tour", "seriate"):
            assert run(command, f"{name}.csv").exit_code == 0
    folders = sorted(str(p) for p in Path("unshuffled").iterdir())
    assert folders == [f"unshuffled/{name}-{command}" for name in "ab" for command in ("seriate", "tour")]
    for inside in ("old", "new", "old/new"):
        Path(inside).mkdir(exist_ok=True)
        assert run("tour", Path("a.csv").rename(f"{inside}/a.csv")).exit_code == 0
        Path(f"{inside}/a.csv").rename("a.csv")
    more = {p.name for p in Path("unshuffled").iterdir()} - {Path(p).name for p in folders}
    assert more == {"old-a-tour", "new-a-tour", "old-new-a-tour"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run("tour", tmp_path / "old" / ".." / "a.csv").exit_code == 0
    assert (tmp_path / "elsewhere" / "unshuffled" / "a-tour").exists()  # seen from here, nothing but .. lies before it
    monkeypatch.chdir(tmp_path)
    rows = (Path("unshuffled/a-tour/a.csv")).read_text().splitlines()
    assert rows[0] == "position,city,number in the input,confidence"
    assert sorted(int(row.split(",")[2]) for row in rows[1:]) == [1, 2, 3, 4]


def test_a_header_of_years_and_bad_lines(tmp_path) -> None:
    assert read_table(file_of(tmp_path, "name,1950,1960\nParis,3,4\nRome,5,6\n")).rows == ["Paris", "Rome"]
    with pytest.raises(BadInput, match="line 2 has 1 cells"):
        read_cells(file_of(tmp_path, "1,2\n3\n"))
    with pytest.raises(BadInput, match="not a text file"):
        read_cells(file_of(tmp_path, "a,b\x00\n1,2\n"))


def test_two_matches_with_one_second_table_do_not_mix(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    points = np.random.default_rng(0).random((6, 2))
    for name in ("a", "b", "c"):
        np.savetxt(f"{name}.csv", points, delimiter=",", header="x,y", comments="")
    for first in ("a", "b"):
        assert run("match", f"{first}.csv", "c.csv").exit_code == 0
    assert sorted(folder.name for folder in (tmp_path / "unshuffled").iterdir()) == ["a-c-match", "b-c-match"]


@pytest.mark.parametrize("cell", ["8.050,03", "1'234.5", "12 345", "1.234.567"])
def test_a_sign_between_the_thousands_is_told(tmp_path, cell) -> None:
    path = file_of(tmp_path, f"name;x;y\na;1;2\nb;{cell};3\nc;4;5\n")
    with pytest.raises(BadInput, match="without a sign between the thousands"):
        read_table(path)


def test_names_in_letters_that_the_font_lacks_are_no_warning(tmp_path) -> None:
    """Warnings are errors here."""
    done = run("tour", file_of(tmp_path, "name,x,y\n東京,1,2\n大阪,3,5\n京都,7,1\n"), "-o", tmp_path / "o")
    assert done.exit_code == 0, done.exception
    assert any((tmp_path / "o").glob("*.png"))
    assert run("tour", file_of(tmp_path, "x,y\n1,2\n"), "-o", tmp_path / "o").stdout.startswith(
        "1 city, columns x and y."
    )
