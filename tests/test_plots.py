"""Results draw themselves: on given axes or new ones, and in notebooks."""

from __future__ import annotations

import base64
import io
import re
import sys
import types

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from PIL import Image

import unshuffle as us
from unshuffle import plots, progress_bar

POINTS = torch.rand(12, 2, generator=torch.Generator().manual_seed(1))
COST = torch.cdist(POINTS, POINTS)
LISTS = torch.rand(40, 5, 1, generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def tour():
    return us.solve(us.Cycle(12), cost=COST, time_limit=1.0)


@pytest.fixture(scope="module")
def fitted():
    network = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5))
    return us.fit(network, LISTS, us.losses.monotone, us.GumbelSinkhorn(), epochs=2, held_out=LISTS[:8])


@pytest.fixture(scope="module")
def prediction(fitted):
    return us.predict(fitted.network, LISTS[:3])


@pytest.fixture(scope="module")
def matched():
    return us.match(POINTS, POINTS.flip(0) + 0.001)


def axes():
    return Figure().add_subplot()


def test_a_tour_is_closed_and_a_path_is_open(tour):
    drawn = tour.plot(axes(), points=POINTS)
    x, y = drawn.lines[0].get_data()
    np.testing.assert_allclose(np.stack((x, y), 1), POINTS[torch.cat((tour.order, tour.order[:1]))])
    path = us.solve(us.Path(12), cost=COST)
    way = path.plot(axes(), points=POINTS).lines[0].get_xydata()
    np.testing.assert_allclose(way, POINTS[path.order])


def test_a_heat_map_has_its_rows_in_order_and_of_a_square_table_both_sides(tour):
    shown = tour.plot(axes(), table=COST).images[0].get_array()
    np.testing.assert_allclose(shown, COST[tour.order][:, tour.order])
    np.testing.assert_allclose(tour.plot(axes(), table=POINTS).images[0].get_array(), POINTS[tour.order])


def test_a_matrix_too_fine_to_be_shown_is_shown_by_means_of_blocks():
    values = np.arange(600.0)[:, None] + np.zeros((600, 3))
    shown = plots.draw_matrix(axes(), values).images[0].get_array()
    assert shown.shape == (plots.FINEST, 3)
    assert (np.diff(shown[:, 0]) > 0).all()
    assert shown.min() >= 0
    assert shown.max() <= 599


def test_without_anything_the_soft_permutation_is_on_the_diagonal(tour):
    shown = np.asarray(tour.plot(axes()).images[0].get_array())
    np.testing.assert_allclose(shown, tour.soft[tour.best_order])
    assert np.trace(shown) > 0.5 * 12


def test_left_out_items_and_empty_positions_are_drawn_too():
    found = us.solve(us.Path(8), cost=COST, reject=0.1)  # twelve items, eight places
    placed = found.order[found.order >= 0]
    assert len(placed) < 8
    assert len(found.left_out) == 12 - len(placed)
    np.testing.assert_allclose(found.plot(axes(), points=POINTS).lines[0].get_xydata(), POINTS[placed])
    assert found.plot(axes()).images[0].get_array().shape == (12, 8)
    assert found.plot(axes(), table=POINTS).images[0].get_array().shape == (len(placed), 2)
    sheet = found.plot(axes(), pictures=np.arange(12)[:, None, None] + np.ones((12, 3, 3))).images[0].get_array()
    empty = int((found.order < 0).nonzero()[0])
    assert (sheet[:3, 4 * empty : 4 * empty + 3] == 255).all(), "an empty place stays empty"
    assert "<img" in found._repr_html_()


def test_pictures_stand_in_the_places_of_the_grid():
    tiles = np.arange(6, dtype=np.uint8)[:, None, None] * 40 + np.zeros((6, 4, 5), np.uint8)
    D = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
    found = us.solve(us.Grid(2, 3), cost=(D, D.T))
    sheet = found.plot(axes(), pictures=tiles).images[0].get_array()
    for place, item in enumerate(found.order.tolist()):
        row, column = divmod(place, 3)
        assert sheet[row * 5 + 1, column * 6 + 1, 0] == 40 * item
    with pytest.raises(us.BadInput, match="pictures must be 6 arrays"):
        found.plot(axes(), pictures=tiles[:2])


def test_the_history_is_energy_and_entropy_against_time(tour):
    drawn = tour.plot(axes(), history=True)
    assert drawn.lines[0].get_xydata().tolist() == [[s.seconds, s.energy] for s in tour.history]


def test_without_axes_a_new_figure_is_made(tour):
    before = set(pyplot.get_fignums())
    drawn = tour.plot()
    new = set(pyplot.get_fignums()) - before
    assert len(new) == 1
    assert drawn.figure.number in new
    pyplot.close(drawn.figure)


def test_of_a_match_pairs_come_first(matched):
    shown = matched.plot(axes()).images[0].get_array()
    assert np.trace(np.asarray(shown)) == pytest.approx(float(matched.confidence.sum()), abs=0.1)


def test_a_training_shows_its_log_and_a_prediction_its_scores(fitted, prediction):
    labels = [line.get_label() for line in fitted.plot(axes()).lines]
    assert [label.split()[0] for label in labels] == ["loss", "held_out", "row_entropy_mean"]
    shown = prediction.plot(axes(), index=1).images[0].get_array()
    np.testing.assert_allclose(shown, prediction.scores[1][prediction.order[1]], rtol=1e-6)
    tiles = np.zeros((5, 3, 3))
    assert prediction.plot(axes(), pictures=tiles).images


@pytest.mark.parametrize("name", ["tour", "fitted", "prediction", "matched"])
def test_every_result_is_a_line_and_in_a_notebook_a_picture_and_a_few_words(name, request):
    result = request.getfixturevalue(name)
    assert "\n" not in repr(result)
    assert len(repr(result)) < 150
    html = result._repr_html_()
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1])
    with Image.open(io.BytesIO(picture)) as image:
        assert len(image.convert("L").getcolors(256) or []) > 10, "an empty picture"
    if name != "fitted":
        assert "confidence above 0.9" in html


def test_words_of_a_card_are_text():
    assert "<b>" not in plots.card("<b>", ["<b>"], lambda ax: ax.plot([1, 2]))


def test_a_bar_in_a_notebook_is_drawn_anew_and_vanishes(monkeypatch):
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)

    def display(page: str, display_id: bool) -> types.SimpleNamespace:
        assert display_id
        shown.append(page)
        return handle

    screen = types.ModuleType("IPython.display")
    vars(screen).update(HTML=str, display=display)
    shell = types.ModuleType("IPython")
    vars(shell).update(get_ipython=lambda: types.SimpleNamespace(kernel=object()), display=screen)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    monkeypatch.setattr(progress_bar, "EVERY", 0.0)
    with us.progress("a <tour>") as bar:
        us.solve(us.Cycle(12), cost=COST, callback=bar, time_limit=0.3)
    assert "&lt;tour&gt;" in shown[0]
    assert any(re.search(r'value="0\.\d+".*energy', page) for page in shown)
    assert shown[-1] == ""


def test_a_bar_is_silent_in_a_pipe_and_fits_trainings_too(capsys):
    network = torch.nn.Linear(1, 5)
    with us.progress("sorting") as bar:
        us.fit(network, LISTS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, callback=bar)
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err == ""


def test_what_may_be_elsewhere_is_drawn_and_nothing_else():
    ax = Figure().add_subplot()
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    plots.draw_partners(ax, square, [0, 1, 2, 3], [[1, 3], [0, 2, 3], [1, 3], [2, 0]])
    (lines,) = ax.collections
    assert [line.vertices.tolist() for line in lines.get_paths()] == [[[1, 0], [0, 1]]]
    ax = Figure().add_subplot()
    plots.draw_places(ax, [(0, 0), (1, 2), (1, 2)])
    (bars,) = ax.collections
    assert [bar.vertices.tolist() for bar in bars.get_paths()] == [[[0.5, 1], [2.5, 1]], [[0.5, 2], [2.5, 2]]]
