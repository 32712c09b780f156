r"""Seriation: the rows of a table in an order in which neighbours are alike, beside what the standard methods find.

Three criteria. *Path length*, $\sum_a D_{o(a), o(a+1)}$: right where near rows really are near (curves).
*2-SUM*, $\sum_{i<k} (\max D - D_{ik}) (r_i - r_k)^2$ with r the positions: right where adjacent rows alone say little about which end is
which, in noise of many columns and in sparse incidence tables; `choosing` says which of the two a table asks for. *Lags*, the length of a path on
which pairs up to half of all places apart count, the nearer the more: it has few anti-Robinson events, and is wrong where
the data come back to where they have been (a spiral).
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from ..errors import BadInput
from ..readers.tables import Table
from ..solve import solve
from ..solve.kinds import WHOLE, certain, instead
from ..solve.path.solver import judge_path
from ..solve.solution import Polished, Solution
from ..structure.layouts import Graph, Path
from ..watch import Step, Stopped, Watch, dispensable
from .choosing import LINKAGES, criterion_for
from .criteria import Criterion, Kind
from .standard import path_length, spectral_order, two_sum
from .two_sum import confidence_of, improved, shares_of

MOST_LEAVES = 1500  # optimal leaf ordering is cubic: 1500 rows take half a minute
MOST_ANNEALED = 200
"""Rows that 2-SUM is annealed for. With more, exchanges from the standard orders end as low, in a small part of the time."""
SOON = 500  # rows: the optimal leaf order of fewer takes less than a second
LEAVES = """import pickle, sys
from scipy.cluster.hierarchy import optimal_leaf_ordering
pickle.dump(optimal_leaf_ordering(*pickle.load(sys.stdin.buffer)), sys.stdout.buffer)"""


def kind_of(table: Table) -> Kind:
    """Dissimilarity if square, symmetric, zero on the diagonal and nowhere negative; counts if whole and nowhere negative.

    One column is never counts: of those only the shares of a row are compared, and all of a single column is always the whole.
    """
    X = table.values
    square = X.shape[0] == X.shape[1] and X.shape[0] > 1
    if square and np.allclose(X, X.T) and np.allclose(np.diag(X), 0) and (X >= 0).all() and X.any():
        return Kind.dissimilarity
    whole = bool((X >= 0).all() and (np.round(X) == X).all())
    return Kind.counts if whole and X.shape[1] > 1 else Kind.features


ASSUMED = {
    Kind.features: "measurements, each column standardised; --kind counts compares shares of rows instead",
    Kind.counts: "counts, because all are whole and none is negative; if they measure something, say --kind features",
    Kind.dissimilarity: "dissimilarities, because they are square, symmetric and 0 on the diagonal; --kind features or "
    "counts if they are not",
}
"""What is said of a kind that nobody gave."""


def dissimilarity(table: Table, kind: Kind) -> Float[np.ndarray, "n n"]:
    """Features: Euclidean between standardised columns. Counts: Brainerd and Robinson (1951), city block between shares of rows."""
    X = table.values
    if len(X) < 2:
        raise BadInput("Seriation needs at least two rows.")
    if kind is Kind.dissimilarity:
        if X.shape[0] != X.shape[1]:
            raise BadInput(
                f"A dissimilarity matrix must be square, but the table has {X.shape[0]} rows and {X.shape[1]} columns."
            )
        off = np.argwhere(~np.isclose(X, X.T))
        if len(off):
            row, column = off[0]
            raise BadInput(
                f"A dissimilarity matrix must be symmetric, but {table.rows[row]!r}, {table.columns[column]!r} is "
                f"{X[row, column]:g} and the other way round {X[column, row]:g}."
            )
        if (X < 0).any():
            row, column = np.argwhere(X < 0)[0]
            raise BadInput(
                f"Dissimilarities must not be negative, but {table.rows[row]!r}, {table.columns[column]!r} is {X[row, column]:g}."
            )
        return (X + X.T) / 2
    if kind is Kind.counts:
        return squareform(pdist(_shares(table), "cityblock"))
    return squareform(pdist(_standardised(X)))


def coordinates(table: Table, kind: Kind) -> Float[np.ndarray, "n d"]:
    """Rows as points whose straight distances compare them: standardised columns; of counts, roots of shares (Hellinger)."""
    return np.sqrt(_shares(table)) if kind is Kind.counts else _standardised(table.values)


def _shares(table: Table) -> Float[np.ndarray, "n d"]:
    """Counts as shares of their rows."""
    X = table.values
    if (X < 0).any():
        row, column = np.argwhere(X < 0)[0]
        raise BadInput(
            f"Counts must not be negative, but {table.rows[row]!r}, {table.columns[column]!r} is {X[row, column]:g}."
        )
    empty = np.flatnonzero(X.sum(1) == 0)
    if len(empty):
        raise BadInput(f"Row {table.rows[empty[0]]!r} has no counts at all, so nothing says where it belongs; drop it.")
    return X / X.sum(1, keepdims=True)


def _standardised(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n some"]:
    """Columns with mean 0 and spread 1; those without any spread are left out."""
    if np.abs(X).max() > 1e150:  # squares of more do not fit a double
        raise BadInput("The numbers of the table are too large to compare; divide them by a power of ten.")
    spread = X.std(0)
    if not (spread > 0).any():
        raise BadInput("All rows of the table are the same, so there is no order to find.")
    return (X - X.mean(0))[:, spread > 0] / spread[spread > 0]


def many(table: Table, kind: Kind) -> bool:
    """Whether there are too many rows to compare each with each: then `seriate_many` is for them."""
    return kind is not Kind.dissimilarity and len(table.values) > WHOLE


def over_lags(n: int) -> Path:
    return Path(n, reach=max(1, n // 2))


def lag_length(D: Float[np.ndarray, "n n"], order: Int[np.ndarray, "n"]) -> float:
    return float(over_lags(len(D)).energy(torch.from_numpy(order.copy()), torch.from_numpy(D)))


CRITERIA: dict[Criterion, Callable[[np.ndarray, np.ndarray], float]] = {
    Criterion.path: path_length,
    Criterion.two_sum: two_sum,
    Criterion.lags: lag_length,
}


def leaf_order(
    D: Float[np.ndarray, "n n"], method: str, more: Callable[[], bool] = lambda: True
) -> Int[np.ndarray, "n"]:
    """Optimal leaf ordering of a hierarchical clustering (Bar-Joseph, Gifford and Jaakkola 2001), from scipy.

    That hears no Ctrl-C on its way. Of many rows it runs in a process that is ended, and `Stopped` raised, once ``more`` says no.
    """
    condensed = squareform(D, checks=False)
    tree = linkage(condensed, method)
    if len(D) <= SOON:
        return leaves_list(optimal_leaf_ordering(tree, condensed))
    with TemporaryFile() as given:  # no pipe: what does not fit in before the first look is never sent (Python 3.11)
        pickle.dump((tree, condensed), given)
        given.seek(0)
        with Popen(
            [sys.executable, "-c", LEAVES], stdin=given, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        ) as process:
            try:
                ordered = _answer(process, more)
            finally:
                process.kill()
    return leaves_list(pickle.loads(ordered) if process.returncode == 0 else optimal_leaf_ordering(tree, condensed))


def _answer(process: Popen[bytes], more: Callable[[], bool]) -> bytes:
    while True:
        try:
            return process.communicate(timeout=0.2)[0]
        except TimeoutExpired:
            if not more():
                raise Stopped from None


@dataclass(frozen=True, eq=False)
class Seriation:
    order: Int[np.ndarray, "n"]
    criterion: Criterion
    value: float
    winner: str
    """Where the order comes from: annealing alone, annealing from a standard method's order, or that order itself."""
    others: dict[str, tuple[float, np.ndarray]]
    """Value and order of the standard methods."""
    solution: Solution
    """Of this order, whoever found it: its confidence, and what local search made of it."""
    dissimilarity: Float[np.ndarray, "n n"] | None = field(repr=False)
    """None of many rows, of which only near ones were compared."""

    def at(self, order: Int[np.ndarray, "n"]) -> Solution:
        """The solution with another order of the same rows in its place."""
        if self.dissimilarity is None:
            raise ValueError("Of many rows there is one order.")
        D = self.dissimilarity
        return _judged(_with(self.solution, D, self.criterion, order), D, self.criterion)


def seriate(
    D: Float[np.ndarray, "n n"],
    criterion: Criterion | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Seriation:
    """Anneal; if a standard method found something lower, anneal again from there, so that the result is never above it.

    Without a criterion, by what the table asks for (`choosing`).
    """
    n = len(D)
    if n < 2:
        raise BadInput("Seriation needs at least two rows.")
    watch = Watch(time_limit, callback)  # one clock for all of it; annealings meet Ctrl-C by watches of their own
    with watch:
        criterion = criterion or _asked_for(D, watch)
        measure = CRITERIA[criterion]
        watch.show(Step(0.0, "spectral order", 0.0, math.nan, math.nan))
        others = {"spectral": spectral_order(D)}

        def more() -> bool:
            return watch.show(Step(watch.seconds, "optimal leaf orders", 0.0, math.nan, math.nan))

        if 2 < n <= MOST_LEAVES and (time_limit is None or leaf_seconds(n) < (time_limit - watch.seconds) / 2):
            leaves = []
            with suppress(Stopped):
                for method in LINKAGES:
                    if more():
                        leaves.append(leaf_order(D, method, more))
            if leaves:
                others["optimal leaf order"] = min(leaves, key=lambda o: measure(D, o))
    values = {name: (measure(D, order), order) for name, order in others.items()}
    name, (value, order) = min(values.items(), key=lambda item: item[1][0])
    if watch.status == "interrupted":
        # to anneal after Ctrl-C, however shortly, would take as long as all that was done
        best = _unannealed(D, criterion, order, watch)
        return Seriation(order, criterion, value, name, values, _judged(best, D, criterion), D)
    if criterion is Criterion.two_sum and n > MOST_ANNEALED:
        return _exchanged(D, values, watch, polish)
    options = {"seed": seed, "callback": callback, "polish": polish}
    first = _anneal(D, criterion, None, time_limit=_left(watch), **options)
    winner, best = "annealed", first
    slack = 1e-9 * max(abs(value), 1e-300)
    if best.energy > value + slack:
        if first.status != "interrupted" and watch.spare():
            again = _anneal(D, criterion, order, time_limit=_left(watch), **options)
            if again.energy < best.energy:
                winner, best = f"annealed from the {name}", again
        if best.energy > value - slack:
            winner, best = name, _with(best, D, criterion, order)
    return Seriation(best.order.numpy(), criterion, best.energy, winner, values, _judged(best, D, criterion), D)


def _asked_for(D: Float[np.ndarray, "n n"], watch: Watch) -> Criterion:
    """What the table asks for; path length if nobody waits for the answer."""

    def more() -> bool:
        return watch.show(Step(watch.seconds, "what the table asks for", 0.0, math.nan, math.nan))

    with dispensable():
        return criterion_for(D, more)
    return Criterion.path


def _exchanged(
    D: Float[np.ndarray, "n n"], values: dict[str, tuple[float, np.ndarray]], watch: Watch, polish: bool
) -> Seriation:
    """By 2-SUM: the best of what exchanges of rows make of the standard orders."""
    orders = {name: improved(D, order) for name, (_, order) in values.items()}
    name, order = min(orders.items(), key=lambda item: two_sum(D, item[1]))
    found = _unannealed(D, Criterion.two_sum, order, watch)
    found = replace(found, polished=Polished(found.order, found.energy)) if polish else found
    judged = _judged(found, D, Criterion.two_sum)
    return Seriation(order, Criterion.two_sum, found.energy, f"exchanges from the {name}", values, judged, D)


def _with(found: Solution, D: np.ndarray, criterion: Criterion, order: Int[np.ndarray, "n"]) -> Solution:
    """The solution with another order in its place; of 2-SUM `_judged` says how sure it is."""
    judge = certain if criterion is Criterion.two_sum else None
    return instead(found, *_problem(D, criterion), torch.from_numpy(order.copy()), judge)


def _judged(found: Solution, D: Float[np.ndarray, "n n"], criterion: Criterion) -> Solution:
    """With a confidence, and sets, of neighbours in a line: to annealing 2-SUM is a graph like any other."""
    if criterion is not Criterion.two_sum:
        return found
    return replace(found, confidence=confidence_of(D, found.order.numpy()), weigh=partial(shares_of, D))


def seriate_many(
    points: Float[np.ndarray, "n d"],
    *,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
    polish: bool = False,
) -> Seriation:
    """Thousands of rows by their near neighbours and local search, along the data as a whole where there is such a way."""
    found = solve(Path(len(points)), items=points, seed=seed, time_limit=time_limit, callback=callback, polish=polish)
    return Seriation(found.order.numpy(), Criterion.path, found.energy, "near neighbours", {}, found, None)


def leaf_seconds(n: int) -> float:
    """What the three optimal leaf orders of n rows may take; stopped on the way, they would be of no use."""
    return 90 * (n / MOST_LEAVES) ** 3


def _left(watch: Watch) -> float | None:
    return None if watch.time_limit is None else max(0.0, watch.time_limit - watch.seconds)


def _problem(D: Float[np.ndarray, "n n"], criterion: Criterion) -> tuple[Path | Graph, Tensor]:
    """The layout and the pair cost whose energy is the criterion."""
    if criterion is not Criterion.two_sum:
        return over_lags(len(D)) if criterion is Criterion.lags else Path(len(D)), torch.from_numpy(D)
    place = torch.arange(len(D), dtype=torch.float64)
    return Graph((place[:, None] - place) ** 2 / 2), torch.from_numpy(D.max() - D)


def _anneal(D: np.ndarray, criterion: Criterion, start: np.ndarray | None, **options: object) -> Solution:
    n = len(D)
    init: Tensor | None = None
    if start is not None:
        init = torch.zeros(n, n)
        init[torch.from_numpy(start.copy()), torch.arange(n)] = 5.0
    layout, cost = _problem(D, criterion)
    return solve(layout, cost=cost, init=init, **options)  # pyright: ignore[reportArgumentType]


def _unannealed(D: np.ndarray, criterion: Criterion, order: Int[np.ndarray, "n"], watch: Watch) -> Solution:
    """An order that was not annealed, as a solution that was stopped."""
    (layout, cost), found = _problem(D, criterion), torch.from_numpy(order.copy())
    energy = layout.energy(found, cost).reshape(1)
    judge = judge_path if isinstance(layout, Path) else certain
    soft, sure = judge(layout, cost, found, None)  # pyright: ignore[reportArgumentType]
    told = {"status": watch.status, "seconds": watch.seconds, "layout": layout, "given": cost}
    return Solution(found, float(energy), soft, sure, energy, **told)


def column_order(
    table: Table, kind: Kind, rows: Int[np.ndarray, "n"], seed: int = 0, time_limit: float | None = None
) -> tuple[Int[np.ndarray, "d"], Float[np.ndarray, "d"]]:
    """Columns in the same manner: the columns as rows of their own table, turned to run the way the rows do; and how sure.

    Of counts and features: the columns of dissimilarities are the rows. With no time at all, along the rows by their centres.
    """
    width = len(table.columns)
    if width < 3:
        return np.arange(width), np.zeros(width)
    X = table.values
    turned = Table(
        table.columns,
        table.rows,
        X.T if kind is Kind.counts else ((X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)).T,
    )
    used = np.flatnonzero(X.any(0)) if kind is Kind.counts else np.arange(X.shape[1])
    some = Table([table.columns[k] for k in used], table.rows, turned.values[used])
    order, confidence = used, np.zeros(width)
    weight = X[rows] - X.min(0)
    centre = (np.arange(len(X))[:, None] * weight).sum(0) / np.maximum(weight.sum(0), 1e-12)
    if time_limit == 0:
        order = used[np.argsort(centre[used], kind="stable")]
    elif len(used) > 2:
        D = dissimilarity(some, kind) if kind is Kind.counts else squareform(pdist(some.values))
        found = seriate(D, seed=seed, time_limit=time_limit)
        order, confidence[used] = used[found.order], found.solution.confidence.numpy()
    if len(order) > 1 and np.corrcoef(centre[order], np.arange(len(order)))[0, 1] < 0:
        order = order[::-1]
    return np.concatenate((order, np.setdiff1d(np.arange(width), used))), confidence


def foreseen(
    n: int, criterion: Criterion | None, time_limit: float | None = None, near: bool = False
) -> tuple[float, float]:
    """Seconds and gigabytes that n rows may take; measured on 2 cores. ``near``: only near ones are compared."""
    if near:
        seconds = 3e-4 * n
        return seconds if time_limit is None else min(seconds, time_limit), 3e-6 * n
    annealed = criterion is Criterion.lags or (criterion is not Criterion.path and n <= MOST_ANNEALED)
    seconds = (leaf_seconds(n) if n <= MOST_LEAVES else 0.0) + (2e-4 if annealed else 2e-5) * n**2
    return seconds if time_limit is None else min(seconds, time_limit), 120 * n**2 / 1e9
