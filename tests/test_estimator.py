"""The estimator: the order of a curve, the same kind back, and scikit-learn's own checks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist, squareform

import unshuffle as us

ANGLE = np.linspace(0, 3, 16)
MIXED = np.random.default_rng(0).permutation(16)
CURVE = np.stack((np.cos(ANGLE), np.sin(ANGLE)), axis=1)[MIXED]


def in_order(found: np.ndarray) -> bool:
    """Up to the direction, which an order does not have."""
    return found.tolist() in (list(range(16)), list(range(15, -1, -1)))


def test_a_curve_is_put_in_order():
    model = us.Seriator().fit(CURVE)
    assert in_order(MIXED[model.order_])
    assert (model.order_[model.rank_] == np.arange(16)).all()
    assert model.energy_ == pytest.approx(np.linalg.norm(np.diff(CURVE[model.order_], axis=0), axis=1).sum())
    assert model.confidence_.shape == (16,)
    assert ((model.confidence_ >= 0) & (model.confidence_ <= 1)).all()
    assert us.Seriator(random_state=3).fit(CURVE).order_.tolist() in (
        model.order_.tolist(),
        model.order_[::-1].tolist(),
    )


@pytest.mark.parametrize("criterion", ["path", "two-sum"])
def test_precomputed_dissimilarities_are_reordered_on_both_sides(criterion):
    D = squareform(pdist(CURVE))
    model = us.Seriator(metric="precomputed", criterion=criterion)
    R = model.fit(D).ordered(D)
    assert (D[np.ix_(model.order_, model.order_)] == R).all()
    assert in_order(MIXED[model.order_])


def test_any_metric_of_scipy_and_a_function():
    assert in_order(MIXED[us.Seriator("cityblock").fit(CURVE).order_])
    assert in_order(MIXED[us.Seriator(lambda a, b: float(np.abs(a - b).max())).fit(CURVE).order_])


def test_polish_is_never_worse():
    points = np.random.default_rng(1).random((20, 2))
    assert us.Seriator(polish=True).fit(points).energy_ <= us.Seriator().fit(points).energy_ + 1e-9


def test_the_confidence_is_that_of_the_polished_order():
    from unshuffle.solve.path.solver import judge_path

    points = np.random.default_rng(3).random((40, 2))
    model = us.Seriator(polish=True).fit(points)
    assert model.order_.tolist() != us.Seriator().fit(points).order_.tolist()
    D = torch.from_numpy(squareform(pdist(points)))
    expected = judge_path(us.Path(40), D, torch.from_numpy(model.order_.copy()), None)[1]
    assert model.confidence_ == pytest.approx(expected.numpy())


def test_the_same_kind_comes_back():
    model = us.Seriator().fit(CURVE)
    array = model.ordered(CURVE)
    assert isinstance(array, np.ndarray)
    assert (array == CURVE[model.order_]).all()
    tensor = model.ordered(torch.from_numpy(CURVE).float())
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float32
    assert (model.ordered(CURVE.tolist()) == array).all()


def test_a_frame_keeps_its_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(CURVE, index=[f"grave {k}" for k in MIXED], columns=["x", "y"])
    model = us.Seriator()
    sorted_frame = model.fit(frame).ordered(frame)
    assert list(model.feature_names_in_) == ["x", "y"]
    assert list(sorted_frame.index) == [f"grave {k}" for k in MIXED[model.order_]]
    assert (sorted_frame.loc["grave 7"] == frame.loc["grave 7"]).all()


@pytest.mark.parametrize(
    ("settings", "X", "words"),
    [
        ({}, [[1.0, 2.0]], "1 sample"),
        ({}, [1.0, 2.0], "2D"),
        ({}, np.zeros((3, 0)), "0 feature"),
        ({}, [[1.0, np.nan], [1.0, 2.0]], "row 0, column 1"),
        ({}, [["a", "b"], ["c", "d"]], "numbers"),
        ({"criterion": "best"}, CURVE, "'path', 'two-sum' or 'lags'"),
        ({"metric": "precomputed"}, CURVE, "square"),
        ({"metric": "precomputed"}, [[0.0, 1.0], [2.0, 0.0]], "symmetric"),
    ],
)
def test_refusals_are_one_sentence(settings, X, words):
    with pytest.raises(us.BadInput, match=words):
        us.Seriator(**settings).fit(X)


def test_places_of_fitted_rows_are_their_ranks():
    model = us.Seriator()
    assert model.fit_transform(CURVE)[:, 0] == pytest.approx(model.rank_)
    assert model.transform(CURVE[[3]]) == pytest.approx(model.rank_[[3]][:, None])


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "precomputed"])
def test_new_rows_are_placed_among_the_fitted_ones(metric):
    """Points of the same curve between the fitted ones, and beyond both ends."""
    angle = np.array([0.31, 1.7, -0.05, 2.93, 3.05])
    new = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    given = (squareform(pdist(CURVE)), cdist(new, CURVE)) if metric == "precomputed" else (CURVE, new)
    model = us.Seriator(metric).fit(given[0])
    expected = angle / (ANGLE[1] - ANGLE[0])
    if MIXED[model.order_[0]] != 0:
        expected = 15 - expected
    assert model.transform(given[1])[:, 0] == pytest.approx(expected, abs=0.1 if metric != "seuclidean" else 0.5)
    assert (model.ordered(given[1]) == given[1][np.argsort(expected)]).all()


def test_score_is_one_minus_length_over_chance_and_has_no_scale():
    model = us.Seriator().fit(CURVE)
    D = squareform(pdist(CURVE))
    usual = D[~np.eye(16, dtype=bool)].mean()
    assert model.score(CURVE) == pytest.approx(1 - model.energy_ / 15 / usual)
    assert us.Seriator().fit(100 * CURVE).score(100 * CURVE) == pytest.approx(model.score(CURVE))
    worse = us.Seriator().fit(CURVE)
    worse.order_ = np.random.default_rng(0).permutation(16)
    worse.neighbours_ = D[worse.order_[:-1], worse.order_[1:]]
    assert worse.score(CURVE) < model.score(CURVE) - 0.3


def test_in_the_middle_of_a_pipeline_and_in_a_search():
    """Labels stay with their rows: the place along a noisy curve explains what grows along it, for rows never seen."""
    linear, search, pipeline, scale = (
        pytest.importorskip(f"sklearn.{name}")
        for name in ("linear_model", "model_selection", "pipeline", "preprocessing")
    )
    rng = np.random.default_rng(0)
    angle = rng.permutation(np.linspace(0, 3, 48))
    X = np.stack((np.cos(angle), np.sin(angle)), axis=1) + 0.01 * rng.normal(size=(48, 2))
    steps = [("scale", scale.StandardScaler()), ("order", us.Seriator()), ("line", linear.LinearRegression())]
    model = pipeline.Pipeline(steps).fit(X[:32], angle[:32])
    assert model.score(X[32:], angle[32:]) > 0.98
    grid = {"order__criterion": ["path", "two-sum"], "scale__with_std": [True, False]}
    found = search.GridSearchCV(pipeline.Pipeline(steps[:2]), grid, cv=2, error_score="raise").fit(X[:24])
    assert 0.5 < found.best_score_ <= 1


def test_set_output_gives_frames_with_the_same_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(CURVE, index=[f"grave {k}" for k in MIXED], columns=["x", "y"])
    model = us.Seriator().set_output(transform="pandas")
    places = model.fit_transform(frame)
    assert list(places.columns) == ["place"]
    assert list(places.index) == list(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"x": "z"}))


def test_scikit_learn_agrees():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    checks.check_estimator(us.Seriator(time_limit=0.0), on_skip=None)  # the same first steps whatever the load


def test_it_works_without_scikit_learn():
    code = "import sys; sys.modules['sklearn'] = sys.modules['sklearn.base'] = None\n"
    code += "import unshuffle as us; print(us.Seriator().fit([[3.0], [1.0], [2.0]]).order_.tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() in ("[1, 2, 0]", "[0, 2, 1]"), done.stderr
