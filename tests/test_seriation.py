"""Tables in, orders out; never above spectral or optimal leaf order; errors that name the cell."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kendalltau
from typer.testing import CliRunner

from unshuffle.cli.common import build
from unshuffle.errors import BadInput
from unshuffle.readers.tables import Table, read_table
from unshuffle.solve.solution import Polished, Solution
from unshuffle.tasks import seriation
from unshuffle.tasks.choosing import allowed_length, criterion_for, short_order, unexplained
from unshuffle.tasks.criteria import Criterion, Kind
from unshuffle.tasks.seriation import column_order, dissimilarity, kind_of, seriate
from unshuffle.tasks.standard import anti_robinson, path_length, spectral_order, two_sum
from unshuffle.tasks.two_sum import improved
from unshuffle.watch import Stopped


def graves(rows: int = 20, types: int = 16, seed: int = 0) -> np.ndarray:
    """Types come into fashion and go: each grave holds a few that were in fashion."""
    rng = np.random.default_rng(seed)
    when = np.linspace(0, 1, rows)[:, None]
    chance = 0.9 * np.exp(-(((when - np.linspace(0, 1, types)) / 0.12) ** 2))
    table = (rng.random((rows, types)) < chance).astype(int)
    table[np.arange(rows), (np.arange(rows) * types) // rows] = 1
    return table


def written(tmp_path, values: np.ndarray, mark: str = ",", names: bool = True, header: bool = True):
    path = tmp_path / "table.csv"
    lines = [mark.join([""] * names + [f"t{k}" for k in range(values.shape[1])])] if header else []
    lines += [mark.join([f"g{r}"] * names + [f"{v:g}" for v in row]) for r, row in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")
    return path


def tau(order) -> float:
    return abs(float(kendalltau(order, np.arange(len(order))).statistic))


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
@pytest.mark.parametrize("header", [True, False])
def test_tables_are_read_whatever_separates_them(tmp_path, mark: str, header: bool) -> None:
    values = graves(5, 4)
    if mark == " " and header:
        return  # a header that begins with nothing cannot be told from one cell fewer
    table = read_table(written(tmp_path, values, mark, header=header))
    assert table.rows == [f"g{k}" for k in range(5)]
    assert (table.values == values).all()


def test_bare_numbers_and_numbered_rows(tmp_path) -> None:
    values = np.random.default_rng(0).random((4, 3))
    assert (
        read_table(written(tmp_path, values, names=False, header=False)).values.round(5) == values.round(5)
    ).mean() > 0.9
    path = tmp_path / "numbered.csv"
    path.write_text("id,1,2\n3,0.5,1\n1,0.25,7\n2,0,1\n")
    table = read_table(path)
    assert table.rows == ["3", "1", "2"]
    assert table.columns == ["1", "2"]
    path.write_text("a;b\n0,5;1\n1,5;2\n")
    assert read_table(path).values.tolist() == [[0.5, 1.0], [1.5, 2.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (",a,b\nx,1,2\ny,1,old\n", "row 'y', column 'b' is 'old'"),
        (",a,b\nx,1,2\nx,1,3\n", "2 rows are called 'x'"),
        (",a,a\nx,1,2\ny,1,3\n", "2 columns are called 'a'"),
        (",a,b\nx,1,nan\ny,1,3\n", "row 'x', column 'b' is nan"),
        (",a,b\nx,1,\ny,1,3\n", "row 'x', column 'b' is empty"),
        (",a,b\nx,1,2\ny,1\n", "line 3 has 2 cells"),
        ("", "is empty"),
        (",a,b\n", "no rows"),
    ],
)
def test_bad_cells_are_named(tmp_path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        read_table(path)


def test_columns_can_be_dropped(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,site,a,b\nx,north,1,2\ny,south,3,4\n")
    assert read_table(path, ("site",)).columns == ["a", "b"]
    with pytest.raises(BadInput, match="no column 'place'"):
        read_table(path, ("place",))


def test_kinds_are_told_apart() -> None:
    def table(values: np.ndarray) -> Table:
        return Table(
            [str(k) for k in range(len(values))], [str(k) for k in range(values.shape[1])], values.astype(float)
        )

    X = np.random.default_rng(0).normal(size=(6, 3))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    assert kind_of(table(X)) is Kind.features
    assert kind_of(table(D)) is Kind.dissimilarity
    assert kind_of(table(graves(6, 5))) is Kind.counts
    assert dissimilarity(table(D), Kind.dissimilarity) == pytest.approx(D)
    assert dissimilarity(table(X * [1, 10, 100]), Kind.features) == pytest.approx(
        dissimilarity(table(X), Kind.features)
    )
    with pytest.raises(BadInput, match="symmetric"):
        dissimilarity(table(np.triu(D)), Kind.dissimilarity)
    with pytest.raises(BadInput, match="no counts"):
        dissimilarity(table(np.eye(3)[:2] * 0), Kind.counts)


def test_criteria_are_their_definitions() -> None:
    rng = np.random.default_rng(1)
    D = rng.random((6, 6))
    D = D + D.T
    np.fill_diagonal(D, 0)
    order = rng.permutation(6)
    R = D[np.ix_(order, order)]
    assert path_length(D, order) == pytest.approx(sum(R[a, a + 1] for a in range(5)))
    assert two_sum(D, order) == pytest.approx(
        sum((D.max() - R[a, b]) * (b - a) ** 2 for a in range(6) for b in range(a))
    )
    triples = [(a, b, c) for a in range(6) for b in range(a + 1, 6) for c in range(b + 1, 6)]
    assert anti_robinson(D, order) == sum(int(R[a, b] > R[a, c]) + int(R[b, c] > R[a, c]) for a, b, c in triples)
    line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    assert anti_robinson(line, np.arange(6)) == 0


@pytest.mark.parametrize("criterion", list(Criterion))
def test_graves_come_back_and_nothing_is_above_the_standard_methods(criterion: Criterion) -> None:
    mixed = np.random.default_rng(2).permutation(20)
    table = Table([str(k) for k in range(20)], [str(k) for k in range(16)], graves(seed=1)[mixed].astype(float))
    found = seriate(dissimilarity(table, Kind.counts), criterion)
    assert found.value <= min(value for value, _ in found.others.values()) * (1 + 1e-9)
    assert tau(mixed[found.order]) > (0.7 if criterion is Criterion.path else 0.9)


def gradient(n: int = 40, d: int = 20, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    """Columns that come and go along the rows, with noise; mixed rows are for the caller."""
    rng = np.random.default_rng(seed)
    level = np.exp(-(((np.linspace(0, 1, n)[:, None] - rng.uniform(-0.2, 1.2, d)) / 0.4) ** 2))
    return squareform(pdist(level + noise * rng.normal(size=(n, d))))


def spiral(columns: int, noise: float, n: int = 60) -> np.ndarray:
    rng, angle = np.random.default_rng(1), np.linspace(np.pi, 5 * np.pi, n)
    points = np.stack((angle * np.cos(angle), angle * np.sin(angle)), 1) / angle[-1]
    turned = points @ np.linalg.qr(rng.normal(size=(columns, 2)))[0].T
    return squareform(pdist(turned + noise * rng.normal(size=turned.shape)))


def test_a_table_asks_for_2_sum_where_neighbours_say_little() -> None:
    names = [str(k) for k in range(20)]
    finds = dissimilarity(Table(names, names[:16], graves().astype(float)), Kind.counts)
    assert criterion_for(finds) is Criterion.two_sum
    assert criterion_for(gradient()) is Criterion.two_sum
    t = np.linspace(0, 1, 60)
    wave = np.stack((2 * t, np.sin(4 * np.pi * t) / 2), 1) + 0.01 * np.random.default_rng(0).normal(size=(60, 2))
    assert criterion_for(squareform(pdist(wave))) is Criterion.path  # neighbours do not allow another order
    noisy = spiral(20, 0.05)  # here they do, but the short one explains far more of the table
    assert path_length(noisy, improved(noisy, spectral_order(noisy))) < allowed_length(noisy, short_order(noisy))
    assert criterion_for(noisy) is Criterion.path
    assert criterion_for(1 - np.eye(6)) is Criterion.path  # nothing to choose


def test_ctrl_c_while_the_table_is_asked_leaves_the_question(monkeypatch) -> None:
    monkeypatch.setattr(seriation, "_anneal", None)
    stages = []
    found = seriate(gradient(), callback=lambda step: stages.append(step.stage) or len(stages) < 4)
    assert set(stages[:4]) == {"what the table asks for"}
    assert (found.criterion, found.solution.status) == (Criterion.path, "interrupted")


def test_what_an_order_leaves_unexplained_is_counted_as_said() -> None:
    D, n = gradient(13), 13
    order = np.random.default_rng(0).permutation(n)
    R = D[np.ix_(order, order)]
    for scale, error in zip((1, 2), unexplained(D, order), strict=True):
        squares = []
        for a, b in itertools.permutations(range(n), 2):
            beside = [R[c, b] for c in range(n) if 0 < abs(c - a) <= scale and c != b]
            squares += [(R[a, b] - np.mean(beside)) ** 2] if beside else []
        assert error == pytest.approx(np.mean(squares))


@settings(max_examples=10)
@given(st.integers(2, 12), st.integers(0, 1000))
def test_exchanges_lower_2_sum_until_none_does(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    D, start = squareform(pdist(rng.random((n, 3)))), rng.permutation(n)
    order = improved(D, start)
    value = two_sum(D, order)
    assert sorted(order.tolist()) == list(range(n))
    assert value <= two_sum(D, start) * (1 + 1e-12)
    for p, q in itertools.combinations(range(n), 2):
        other = order.copy()
        other[[p, q]] = other[[q, p]]
        assert two_sum(D, other) >= value * (1 - 1e-6)


def test_many_rows_by_2_sum_are_exchanged_instead_of_annealed(monkeypatch) -> None:
    monkeypatch.setattr(seriation, "MOST_ANNEALED", 30)
    monkeypatch.setattr(seriation, "_anneal", None)
    mixed = np.random.default_rng(0).permutation(40)
    found = seriate(gradient()[np.ix_(mixed, mixed)], polish=True)
    assert tau(mixed[found.order]) > 0.6
    assert tau(mixed[short_order(found.dissimilarity)]) < 0.6
    assert found.winner.startswith("exchanges from the ")
    assert found.value == pytest.approx(two_sum(found.dissimilarity, found.order))
    assert found.value < min(value for value, _ in found.others.values())
    assert found.solution.best_energy == pytest.approx(found.value)
    assert 0 < float(found.solution.confidence.mean()) < 1
    assert len(found.solution.sets(0.9).places) == 40


@settings(max_examples=4)
@given(st.integers(2, 8), st.integers(0, 1000), st.booleans())
def test_never_above_on_anything(n: int, seed: int, ties: bool) -> None:
    X = np.random.default_rng(seed).normal(size=(n, 2))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    D = D.round(0) if ties else D
    D = (D + D.T) / 2
    for criterion in Criterion:
        found = seriate(D, criterion)
        assert sorted(found.order.tolist()) == list(range(n))
        assert found.value <= min(value for value, _ in found.others.values()) + 1e-9 * max(1.0, D.sum())


@pytest.mark.parametrize("criterion", list(Criterion))
def test_confidence_and_polish_belong_to_the_order_that_is_given_back(criterion: Criterion, monkeypatch) -> None:
    """Where annealing is no better than a standard method, whose order then comes back."""

    def poor(layout, *, cost, **_):
        order = torch.arange(layout.n)
        energy = float(layout.energy(order, cost))
        nothing = torch.zeros(layout.n)
        return Solution(order, energy, torch.eye(layout.n), nothing, nothing[:1], polished=Polished(order, energy))

    monkeypatch.setattr(seriation, "solve", poor)
    X = np.random.default_rng(5).random((24, 3))
    found = seriate(squareform(pdist(X)), criterion, polish=True)
    assert found.winner in found.others
    assert found.solution.order.tolist() == found.order.tolist()
    assert found.solution.energy == pytest.approx(found.value)
    assert found.solution.best_energy <= found.value + 1e-9
    assert found.solution.confidence.max() > 0
    assert found.at(found.solution.best_order.numpy()).energy == pytest.approx(found.solution.best_energy)


def test_columns_follow_the_rows() -> None:
    mixed = np.random.default_rng(3).permutation(16)
    table = Table([str(k) for k in range(20)], [str(k) for k in range(16)], graves(seed=4)[:, mixed].astype(float))
    across, sure = column_order(table, Kind.counts, np.arange(20))
    assert ((sure >= 0) & (sure <= 1)).all()
    assert sorted(across.tolist()) == list(range(16))
    assert float(kendalltau(mixed[across], np.arange(16)).statistic) > 0.8


def test_command_line(tmp_path) -> None:
    mixed = np.random.default_rng(5).permutation(20)
    path = written(tmp_path, graves(seed=6)[mixed])
    done = CliRunner().invoke(
        build("seriate"), ["seriate", str(path), "--columns", "--out", str(tmp_path / "o"), "--json"]
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["kind"] == "counts"
    assert result["lowest"] == "unshuffle"
    assert tau(mixed[result["order"]]) > 0.9
    rows = list(csv.reader((tmp_path / "o" / "rows.csv").read_text().splitlines()))
    assert rows[0] == ["position", "row", "number in the input", "confidence"]
    assert [int(row[2]) - 1 for row in rows[1:]] == result["order"]
    assert [float(row[3]) for row in rows[1:]] == [
        pytest.approx(result["confidence"][k], abs=1e-4) for k in result["order"]
    ]
    assert {"seconds", "compiling_seconds", "loading_seconds"} <= set(result)
    assert (tmp_path / "o" / "before-after.png").stat().st_size > 5000
    assert (tmp_path / "o" / "columns.csv").exists()
    bad = CliRunner().invoke(build("seriate"), ["seriate", str(tmp_path / "none.csv")])
    assert bad.exit_code == 2


def test_the_leaf_order_of_many_rows_can_be_ended_on_the_way_and_is_the_same(monkeypatch):
    D = squareform(pdist(np.random.default_rng(0).normal(size=(200, 3))))  # more than fits into a pipe at once
    here = seriation.leaf_order(D, "average")
    monkeypatch.setattr(seriation, "SOON", 10)
    looks = iter(range(300))  # a minute
    assert (seriation.leaf_order(D, "average", lambda: next(looks, None) is not None) == here).all()
    monkeypatch.setattr(seriation, "LEAVES", "import time; time.sleep(100)")
    began = time.perf_counter()
    with pytest.raises(Stopped):
        seriation.leaf_order(D, "average", lambda: False)
    assert time.perf_counter() - began < 5
    monkeypatch.setattr(seriation, "LEAVES", "raise SystemExit(1)")  # killed, say: then here
    assert (seriation.leaf_order(D, "average") == here).all()


def test_ctrl_c_in_the_leaf_orders_keeps_the_best_so_far(monkeypatch):
    calls = []

    def pressed(D, method, more):
        calls.append(method)
        os.kill(os.getpid(), signal.SIGINT)
        return np.arange(len(D))

    monkeypatch.setattr(seriation, "leaf_order", pressed)
    monkeypatch.setattr(seriation, "_anneal", None)  # whoever presses Ctrl-C does not want to wait for that
    x = np.linspace(0.0, 1.0, 12)[np.random.default_rng(0).permutation(12), None]
    found = seriation.seriate(squareform(pdist(x)))
    assert len(calls) == 1
    assert found.solution.status == "interrupted"
    assert found.value == pytest.approx(1.0)  # the spectral order is exact here
    assert found.solution.energy == pytest.approx(1.0)
    assert found.solution.confidence.shape == (12,)
    assert len(found.solution.alternatives(2)) == 2
    assert sorted(found.order) == list(range(12))


def test_with_no_time_columns_go_along_the_rows(monkeypatch):
    monkeypatch.setattr(seriation, "seriate", None)
    place = np.array([3, 0, 2, 4, 1])
    counts = np.round(9 * np.exp(-((np.arange(5)[:, None] - place) ** 2) / 2))
    table = Table([str(k) for k in range(5)], [str(k) for k in range(5)], counts)
    order, sure = seriation.column_order(table, seriation.Kind.counts, np.arange(5), time_limit=0.0)
    assert order.tolist() == np.argsort(place).tolist()
    assert sure.shape == (5,)


def test_confidence_of_two_sum_is_high_on_a_clear_table_and_low_on_noise():
    from unshuffle.tasks.two_sum import _change, confidence_of, moves_of

    place = np.arange(20)
    clear = np.abs(place[:, None] - place).astype(float)
    noise = np.random.default_rng(0).random((20, 20))
    noise = noise + noise.T
    np.fill_diagonal(noise, 0.0)
    rows = seriate(noise, Criterion.two_sum).order
    assert float(confidence_of(clear, place).min()) > 0.94
    assert float(confidence_of(noise, rows).mean()) < 0.5
    alike = noise.max() - noise
    np.fill_diagonal(alike, 0.0)
    moves = moves_of(noise, place)
    for k in (0, 7, len(moves.start) - 1):
        p, q = int(moves.start[k]), int(moves.end[k])
        moved = np.insert(np.delete(place, p), q, p)
        by_hand = two_sum(noise, moved) - two_sum(noise, place)
        assert _change(alike, p, q) == pytest.approx(by_hand)
    sure = seriate(clear, Criterion.two_sum).solution
    assert all(len(places) == 1 for places in sure.sets().places)


def test_the_walk_by_two_sum_meets_orders_as_often_as_it_says():
    from unshuffle.solve.path.walk import nearby_by_two_sum

    rng = np.random.default_rng(0)
    alike = rng.random((5, 5))
    alike = alike + alike.T
    np.fill_diagonal(alike, 0.0)
    orders = np.array(list(itertools.permutations(range(5))))
    value = np.array([two_sum(alike.max() - alike, order) for order in orders])
    chance = np.exp((value.min() - value) / 4.0)
    met = nearby_by_two_sum(np.arange(5), alike, 4.0, rng, 3000)
    for item in range(5):
        expected = [chance[orders[:, place] == item].sum() / chance.sum() for place in range(5)]
        assert np.abs((met == item).mean(0) - expected).max() < 0.04
