"""Seriation in the manner of scikit-learn: settings in the constructor, results in attributes that end in ``_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist, pdist, squareform
from torch import Tensor

from ..errors import BadInput, dense, shown
from .criteria import Criterion
from .seriation import seriate

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import validate_data
except ImportError:  # without scikit-learn only its pipelines and searches are missing
    BaseEstimator, TransformerMixin = object, type("TransformerMixin", (), {})
    NotFittedError, validate_data = BadInput, None


class Seriator(TransformerMixin, BaseEstimator):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
    """Orders rows so that neighbours are alike; from features, or from dissimilarities (``metric="precomputed"``).

    ``metric`` is a name or a function that `scipy.spatial.distance.pdist` takes; scale the features before, as for any
    distance. ``criterion`` is "path" (length of the way through the rows), "two-sum" (all pairs; where neighbours say little) or "lags" (a path on
    which pairs up to half of all places apart count); None is path or two-sum, by what the rows ask for, which ``criterion_`` tells.
    Rows may come as a numpy array, a pandas frame, a torch tensor or nested lists; `ordered` gives back the same kind, in order.
    `transform` gives every row, also new ones, its place among the fitted ones, so that it can stand in the middle of a pipeline.

    After `fit`, for n rows: ``order_`` (n,) is the row at each position, ``rank_`` (n,) the position of each row,
    ``confidence_`` (n,) how sure each row's place is (0 to 1), ``energy_`` the criterion's value, lower is better.
    An order and its reverse are the same order: which end comes first means nothing.
    """

    def __init__(
        self,
        metric: str | Callable[[np.ndarray, np.ndarray], float] = "euclidean",
        criterion: str | None = None,
        polish: bool = False,
        time_limit: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.metric = metric
        self.criterion = criterion
        self.polish = polish
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Seriator:
        """Find the order of the rows of ``X`` (n x d, or n x n dissimilarities). ``y`` is there for pipelines only."""
        rows = _rows(X)
        apart = self._dissimilarity(rows)
        found = seriate(
            apart,
            None if self.criterion is None else _criterion(self.criterion),
            seed=self.random_state,
            time_limit=self.time_limit,
            polish=self.polish,
        )
        self.criterion_ = found.criterion.value
        self.order_, self.energy_ = found.solution.best_order.numpy(), found.solution.best_energy
        same = np.array_equal(self.order_, found.order)
        self.confidence_ = (found.solution if same else found.at(self.order_)).confidence.numpy()
        self.rank_ = np.argsort(self.order_)
        self.fitted_ = rows
        self.neighbours_ = apart[self.order_[:-1], self.order_[1:]]
        self.n_features_in_ = rows.shape[1]
        names = list(getattr(X, "columns", ()))
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def fit_transform(self, X: Any, y: object = None) -> Any:
        """The place of each row, as `transform` gives it."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Where each row belongs in the fitted order, as a column (m x 1): its position, counted from 0, for fitted rows; for a
        new one a fraction between the fitted row it is most like and that one's neighbour on the side where it fits better.

        The rows stay as they come, so that labels stay with them. With ``metric="precomputed"`` X is m x n, from new to fitted rows.
        """
        return _places(self._to_fitted(X), self.neighbours_, self.order_)[:, None]

    def ordered(self, X: Any) -> Any:
        """The rows of ``X`` (fitted or new ones) in order, in the kind that came (of dissimilarities, the columns too)."""
        self._check_fitted()
        same = np.array_equal(_rows(X, least=1), self.fitted_)
        order = (
            self.order_
            if same
            else np.argsort(_places(self._to_fitted(X), self.neighbours_, self.order_), kind="stable")
        )
        both = same and self.metric == "precomputed"
        if hasattr(X, "iloc"):  # a pandas frame keeps its index
            return X.iloc[order, order] if both else X.iloc[order]
        rows = X if isinstance(X, Tensor) else np.asarray(X)
        return rows[order][:, order] if both else rows[order]

    def score(self, X: Any, y: object = None) -> float:
        """How much shorter the way through the rows of ``X`` is in the order of their places than in a random order: 1 - length
        over mean dissimilarity of a pair. 0 is no better than chance; at most 1. The same for all metrics and scales."""
        places, rows = self.transform(X)[:, 0], _rows(X, least=1)
        if len(rows) < 2:
            return 0.0
        if self.metric == "precomputed":  # from new to fitted rows: those between new ones are those of their places
            nearest = np.argmin(rows, axis=1)
            D = self.fitted_[np.ix_(nearest, nearest)]
        else:
            D = _pairwise(rows, self.metric)
        order = np.argsort(places, kind="stable")
        usual = D.sum() / (len(D) * (len(D) - 1))
        return float(1 - D[order[:-1], order[1:]].mean() / usual) if usual > 0 else 0.0

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """One column: the place."""
        self._check_fitted()
        return np.array(["place"], dtype=object)

    def _to_fitted(self, X: Any) -> np.ndarray:
        """Dissimilarities from the rows of X to the fitted ones."""
        self._check_fitted()
        rows = _rows(X, least=1)
        if validate_data is not None:  # the words of scikit-learn for other columns than those of `fit`
            validate_data(self, X, reset=False, skip_check_array=True)
        elif rows.shape[1] != self.n_features_in_:
            raise BadInput(f"X has {rows.shape[1]} features, but Seriator is expecting {self.n_features_in_} features.")
        if self.metric == "precomputed":
            return rows
        return _between(rows, self.fitted_, self.metric)

    def _check_fitted(self) -> None:
        if not hasattr(self, "order_"):
            raise NotFittedError("This Seriator is not fitted yet; call fit first.")

    def _dissimilarity(self, rows: np.ndarray) -> np.ndarray:
        if self.metric != "precomputed":
            return _pairwise(rows, self.metric)
        if rows.shape[0] != rows.shape[1]:
            raise BadInput(f"Precomputed dissimilarities must be a square matrix, not of shape {rows.shape}.")
        if not np.allclose(rows, rows.T) or (rows < 0).any():
            raise BadInput("Precomputed dissimilarities must be symmetric and not negative.")
        return (rows + rows.T) / 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


def _pairwise(rows: np.ndarray, metric: str | Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
    try:
        D = squareform(pdist(rows, metric))  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (TypeError, ValueError) as error:
        raise BadInput(f"metric must be one of scipy's pdist, a function or 'precomputed': {error}") from None
    bad = np.argwhere(~(np.isfinite(D) & (D >= 0)))  # such as the cosine of a row of zeros
    if len(bad):
        first, second = bad[0]
        raise BadInput(f"metric {shown(metric)} of rows {first} and {second} is {D[first, second]}, not a distance.")
    return D


def _between(
    rows: np.ndarray, fitted: np.ndarray, metric: str | Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """Dissimilarities of rows to fitted rows, by the same rule as between those (some metrics look at all rows at once)."""
    if metric in ("seuclidean", "mahalanobis"):  # the scales are those of the fitted rows
        V = fitted.var(0, ddof=1) if metric == "seuclidean" else np.linalg.inv(np.atleast_2d(np.cov(fitted.T)))
        scale = {"V": V} if metric == "seuclidean" else {"VI": V}
        return cdist(rows, fitted, metric, **scale)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return cdist(rows, fitted, metric)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _places(D: np.ndarray, steps: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Fractions of positions: beside the nearest fitted row, on the side where the way through all grows less.

    ``D`` is from rows to fitted rows, ``steps`` the dissimilarities of neighbours in the order.
    """
    along = D[:, order]
    rows, nearest = np.arange(len(D)), along.argmin(1)
    reach = along[rows, nearest]
    growth, share = np.empty((2, len(D))), np.empty((2, len(D)))
    for side, step in enumerate((-1, 1)):
        other = nearest + step
        inside = (other >= 0) & (other < len(order))
        beyond = along[rows, other.clip(0, len(order) - 1)]
        gap = steps[np.minimum(nearest, other).clip(0, len(steps) - 1)]
        growth[side] = reach + np.where(inside, beyond - gap, 0)
        share[side] = reach / np.maximum(reach + np.where(inside, beyond, gap), 1e-300)
    better = growth.argmin(0)
    return nearest + np.where(better == 0, -1, 1) * share[better, rows]


def _criterion(name: str) -> Criterion:
    try:
        return Criterion(name)
    except ValueError:
        *most, last = (repr(c.value) for c in Criterion)
        raise BadInput(f"criterion must be {', '.join(most)} or {last}, not {name!r}.") from None


def _rows(X: Any, least: int = 2) -> np.ndarray:
    """Two-dimensional, real, finite, at least two rows; the words are those that users of scikit-learn know."""
    if issparse(X):
        raise BadInput("Sparse data are not supported; give X.toarray().")
    dense("X", X)
    values = np.asarray(X.detach().cpu() if isinstance(X, Tensor) else X)
    if np.iscomplexobj(values):
        raise BadInput("Complex data not supported: give real numbers.")
    try:
        rows = values.astype(np.float64)
    except ValueError as error:  # text in a cell; scikit-learn wants the TypeError of other objects
        raise BadInput(f"X must be numbers: {error}.") from None
    if rows.ndim != 2:
        raise BadInput(f"Expected 2D array (rows x features), got shape {rows.shape}. Reshape your data.")
    if rows.shape[1] == 0:
        raise BadInput(f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
    if len(rows) < least:
        raise BadInput(f"Found array with {len(rows)} sample(s), but at least {least} are needed: an order is of rows.")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise BadInput(f"X contains NaN or infinity: row {row}, column {column} is {rows[row, column]}.")
    return rows
