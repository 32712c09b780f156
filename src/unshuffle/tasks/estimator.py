"""Seriation in the manner of scikit-learn: settings in the constructor, results in attributes that end in ``_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from ..errors import BadInput, shown
from .seriation import Criterion, seriate

try:
    from sklearn.base import BaseEstimator
except ImportError:  # without scikit-learn only its pipelines and searches are missing
    BaseEstimator = object


class Seriator(BaseEstimator):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
    """Orders rows so that neighbours are alike; from features, or from dissimilarities (``metric="precomputed"``).

    ``metric`` is a name or a function that `scipy.spatial.distance.pdist` takes; scale the features before, as for any
    distance. ``criterion`` is "path" (length of the way through the rows) or "two-sum" (all pairs; for sparse counts).
    Rows may come as a numpy array, a pandas frame, a torch tensor or nested lists; `fit_transform` gives back the same kind.

    After `fit`, for n rows: ``order_`` (n,) is the row at each position, ``rank_`` (n,) the position of each row,
    ``confidence_`` (n,) how sure each row's place is (0 to 1), ``energy_`` the criterion's value, lower is better.
    An order and its reverse are the same order: which end comes first means nothing.
    """

    def __init__(
        self,
        metric: str | Callable[[np.ndarray, np.ndarray], float] = "euclidean",
        criterion: str = "path",
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
        found = seriate(
            self._dissimilarity(rows),
            _criterion(self.criterion),
            seed=self.random_state,
            time_limit=self.time_limit,
            polish=self.polish,
        )
        self.order_, self.energy_ = found.solution.best_order.numpy(), found.solution.best_energy
        same = np.array_equal(self.order_, found.order)
        self.confidence_ = (found.solution if same else found.at(self.order_)).confidence.numpy()
        self.rank_ = np.argsort(self.order_)
        self.n_features_in_ = rows.shape[1]
        names = list(getattr(X, "columns", ()))
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def fit_transform(self, X: Any, y: object = None) -> Any:
        """The rows in order, in the kind that came (of dissimilarities, the columns too)."""
        order = self.fit(X, y).order_
        both = self.metric == "precomputed"
        if hasattr(X, "iloc"):  # a pandas frame keeps its index
            return X.iloc[order, order] if both else X.iloc[order]
        rows = X if isinstance(X, Tensor) else np.asarray(X)
        return rows[order][:, order] if both else rows[order]

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


def _criterion(name: str) -> Criterion:
    try:
        return Criterion(name)
    except ValueError:
        raise BadInput(f"criterion must be {' or '.join(repr(c.value) for c in Criterion)}, not {name!r}.") from None


def _rows(X: Any) -> np.ndarray:
    """Two-dimensional, real, finite, at least two rows; the words are those that users of scikit-learn know."""
    if issparse(X):
        raise BadInput("Sparse data are not supported; give X.toarray().")
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
    if len(rows) < 2:
        raise BadInput(f"Found array with {len(rows)} sample(s), but an order needs at least 2 rows.")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise BadInput(f"X contains NaN or infinity: row {row}, column {column} is {rows[row, column]}.")
    return rows
