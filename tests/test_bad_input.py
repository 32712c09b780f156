"""Bad input: one list for the library, one for the commands. One sentence, non-zero exit, nothing half-written."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import unshuffle as us
from golden import Collect, differences, recorded
from unshuffle.cli.common import build
from unshuffle.files import write_together
from unshuffle.recipes.settings import plain
from unshuffle.recipes.sorting import Sorting

NAN, INF = float("nan"), float("inf")
GOOD = torch.linspace(-1, 1, 16).sin().reshape(4, 4)
P = 0.1 + 0.6 * torch.eye(
    4
)  # not sinkhorn(GOOD): every process of a test run reads this file, and would compile the kernels for it
COST = GOOD.abs()


def with_entry(value: float) -> torch.Tensor:
    spoilt = GOOD.clone()
    spoilt[1, 2] = value
    return spoilt


SQUARES = {  # where (..., n, n) of real numbers is expected
    "empty": torch.zeros(0, 0),
    "oblong": torch.zeros(3, 4),
    "a vector": torch.zeros(4),
    "whole numbers": torch.zeros(4, 4, dtype=torch.int64),
    "complex": torch.zeros(4, 4, dtype=torch.complex64),
    "numpy": np.zeros((4, 4)),
    "a list": [[0.0, 1.0], [1.0, 0.0]],
    "text": "scores",
    "nothing": None,
}
TAKES_SQUARE = {
    "sinkhorn": us.sinkhorn,
    "gumbel_sinkhorn": us.gumbel_sinkhorn,
    "assign": us.assign,
    "entropy": us.entropy,
    "marginal_error": us.marginal_error,
    "reorder": lambda soft: us.reorder(soft, torch.zeros(4, 2)),
    "GumbelSinkhorn": us.GumbelSinkhorn(),
    "Sinkhorn": us.Sinkhorn(),
    "ColumnSoftmax": us.ColumnSoftmax(),
    "OT4P": us.OT4P(),
    "StraightThrough": us.StraightThrough(us.GumbelSinkhorn()),
    "LocalTemperature": lambda soft: us.LocalTemperature()(soft, 1.0),
    "expected_energy": lambda soft: us.energies.expected_energy(us.Path(4), soft, COST),
}
"""Public functions of one matrix."""
OBLONG = {
    "assign",
    "sinkhorn",
    "gumbel_sinkhorn",
    "entropy",
    "GumbelSinkhorn",
    "Sinkhorn",
    "StraightThrough",
    "LocalTemperature",
}
"""Those for which there may be more or fewer items than positions."""

MASKS = {
    "numbers": torch.ones(4, 4),
    "wrong size": torch.ones(3, 3, dtype=torch.bool),
    "one row": torch.ones(4, dtype=torch.bool),
    "text": "all",
}
IMPOSSIBLE = torch.tensor([[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
TAKES_MASK = {
    "sinkhorn": lambda m: us.sinkhorn(GOOD, allowed=m),
    "gumbel_sinkhorn": lambda m: us.gumbel_sinkhorn(GOOD, allowed=m),
    "assign": lambda m: us.assign(GOOD, m),
    "GumbelSinkhorn": lambda m: us.GumbelSinkhorn()(GOOD, allowed=m),
    "StraightThrough": lambda m: us.StraightThrough(us.GumbelSinkhorn())(GOOD, allowed=m),
    "Path": lambda m: us.solve(us.Path(4), cost=COST, allowed=m),
    "Cycle": lambda m: us.solve(us.Cycle(4), cost=COST, allowed=m),
    "Grid": lambda m: us.solve(us.Grid(2, 2), cost=COST, allowed=m),
    "Graph": lambda m: us.solve(us.Graph(COST), cost=COST, allowed=m),
    "loss": lambda m: us.solve(lambda X: X[0].sum(), items=COST, allowed=m),
}
SOFT_MASK = {  # what does not look for a whole permutation takes any mask of the right kind
    "entropy": lambda m: us.entropy(P, allowed=m),
    "ColumnSoftmax": lambda m: us.ColumnSoftmax()(GOOD, allowed=m),
    "NeuralSort": lambda m: us.NeuralSort()(GOOD[0], allowed=m),
    "SoftSort": lambda m: us.SoftSort()(GOOD[0], allowed=m),
}
NO_ORDER = {
    "real numbers": torch.rand(4),
    "a number": torch.tensor(3),
    "numpy": np.arange(4),
    "a list": [0, 1, 2],
    "too large": torch.tensor([0, 1, 5]),
    "below -1": torch.tensor([0, -2, 1]),
    "twice the same": torch.tensor([0, 0, 1]),
    "twice the same, beside nobody": torch.tensor([1, -1, 1]),
    "twice the same in one of two": torch.tensor([[2, 0, 1], [2, 0, 2]]),
}
OTHERS = {
    "sinkhorn, NaN": lambda: us.sinkhorn(with_entry(NAN)),
    "sinkhorn, infinity": lambda: us.sinkhorn(with_entry(INF)),
    "gumbel_sinkhorn, NaN": lambda: us.gumbel_sinkhorn(with_entry(NAN)),
    "assign, NaN": lambda: us.assign(with_entry(NAN)),
    "assign, reject of three": lambda: us.assign(GOOD, reject=(1.0, 2.0, 3.0)),  # pyright: ignore
    "assign, reject in words": lambda: us.assign(GOOD, reject="cheap"),  # pyright: ignore
    "assign, reject True": lambda: us.assign(GOOD, reject=True),
    "sinkhorn, reject True": lambda: us.sinkhorn(GOOD, reject=(True, 1.0)),
    "assign, keep a half": lambda: us.assign(GOOD, keep=0.5),  # pyright: ignore
    "inverse, items": lambda: us.inverse(torch.arange(3), items=-1),
    "to_matrix, items": lambda: us.to_matrix(torch.arange(3), items=2),
    "sinkhorn, iterations": lambda: us.sinkhorn(GOOD, 0),
    "sinkhorn, half an iteration": lambda: us.sinkhorn(GOOD, 1.5),  # pyright: ignore
    "sinkhorn, NaN iterations": lambda: us.sinkhorn(GOOD, NAN),  # pyright: ignore
    "sinkhorn, tolerance": lambda: us.sinkhorn(GOOD, tolerance=0.0),
    "gumbel_sinkhorn, beta": lambda: us.gumbel_sinkhorn(GOOD, -1.0),
    "gumbel_sinkhorn, beta NaN": lambda: us.gumbel_sinkhorn(GOOD, NAN),
    "gumbel_sinkhorn, shape of beta": lambda: us.gumbel_sinkhorn(GOOD, torch.ones(3)),
    "gumbel_sinkhorn, samples": lambda: us.gumbel_sinkhorn(GOOD, samples=0),
    "gumbel_sinkhorn, noise": lambda: us.gumbel_sinkhorn(GOOD, noise=-1.0),
    "GumbelSinkhorn, schedule": lambda: us.GumbelSinkhorn(2.0),  # pyright: ignore
    "GumbelSinkhorn, a controller for a schedule": lambda: us.GumbelSinkhorn(us.LocalTemperature()),
    "GumbelSinkhorn, a shape for a schedule": lambda: us.GumbelSinkhorn(us.LinearInBeta()),  # pyright: ignore
    "GumbelSinkhorn, a signal for a controller": lambda: us.GumbelSinkhorn(local=us.ExcessEntropy()),  # pyright: ignore
    "GumbelSinkhorn, a schedule for a controller": lambda: us.GumbelSinkhorn(local=us.Constant(1.0)),  # pyright: ignore
    "gumbel_sinkhorn, a combination for a controller": lambda: us.gumbel_sinkhorn(
        torch.zeros(5, 5), local=us.MeanBeta()
    ),
    "SoftSort, a signal for a schedule": lambda: us.SoftSort(us.ExcessEntropy()),  # pyright: ignore
    "StraightThrough, a schedule": lambda: us.StraightThrough(us.Constant(1.0)),  # pyright: ignore
    "MatchedScalar, a function": lambda: us.MatchedScalar(lambda Q, beta, allowed: beta),  # pyright: ignore
    "LocalTemperature, a controller for a signal": lambda: us.LocalTemperature(us.LocalTemperature()),  # pyright: ignore
    "LocalTemperature, a schedule for combine": lambda: us.LocalTemperature(combine=us.Constant(1.0)),  # pyright: ignore
    "Anneal, a signal for a shape": lambda: us.Anneal(1.0, 2.0, 5, us.ExcessEntropy()),  # pyright: ignore
    "EntropyTarget, a controller for each": lambda: us.EntropyTarget(each=us.LocalTemperature()),  # pyright: ignore
    "EntropyTarget, a combination for a shape": lambda: us.EntropyTarget(shape=us.MeanBeta()),  # pyright: ignore
    "SoftSort, beta below 0": lambda: us.SoftSort(lambda epoch: torch.tensor(-1.0))(GOOD[0]),  # pyright: ignore
    "GumbelSinkhorn, iterations": lambda: us.GumbelSinkhorn(iterations=0),
    "LocalTemperature, signal": lambda: us.LocalTemperature(0.7),  # pyright: ignore
    "LocalTemperature, boost": lambda: us.LocalTemperature(max_boost=NAN),
    "ExcessEntropy": lambda: us.ExcessEntropy(1.0),
    "Constant": lambda: us.Constant(0.0),
    "Anneal": lambda: us.Anneal(1.0, INF, epochs=3),
    "Anneal, epochs": lambda: us.Anneal(1.0, 2.0, epochs=0),
    "LearnedTemperature": lambda: us.LearnedTemperature(2.0),
    "set_epoch, no module": lambda: us.set_epoch(us.solve, 1),  # pyright: ignore
    "NeuralSort, whole numbers": lambda: us.NeuralSort()(torch.arange(4)),  # pyright: ignore
    "SoftSort, no keys": lambda: us.SoftSort()(torch.zeros(0)),
    "reorder, whole numbers": lambda: us.reorder(P, torch.arange(4)),  # pyright: ignore
    "reorder, too few": lambda: us.reorder(P, torch.rand(3, 2)),
    "reorder, an order": lambda: us.reorder(torch.tensor([2, 0, 1]), torch.rand(3, 2)),
    "reorder, orders": lambda: us.reorder(torch.tensor([[2, 0, 1]]), torch.rand(3, 2)),
    "Path.energy, twice the same": lambda: us.Path(4).energy(torch.tensor([0, 1, 2, 2]), COST),
    "Graph.energy, twice the same": lambda: us.Graph(COST).energy(torch.tensor([0, 1, 2, 2]), COST),
    "Cycle.energy, nobody": lambda: us.Cycle(4).energy(torch.tensor([0, 1, 2, -1]), COST),
    "kendall_tau, lengths": lambda: us.kendall_tau(torch.rand(3), torch.rand(4)),
    "kendall_tau, NaN": lambda: us.kendall_tau(torch.tensor([NAN, 1.0]), torch.rand(2)),
    "kendall_tau, a list": lambda: us.kendall_tau([1, 2], torch.rand(2)),  # pyright: ignore
    "order_tau, lengths": lambda: us.metrics.order_tau(torch.arange(3), torch.arange(4)),
    "neighbour_accuracy": lambda: us.metrics.neighbour_accuracy(torch.arange(4), torch.arange(4), us.Grid(1, 3)),
    "monotone, one list without features": lambda: us.losses.monotone(torch.rand(4)),
    "tour_length, whole numbers": lambda: us.losses.tour_length(torch.zeros(4, 2, dtype=torch.int64)),
    "smooth1, flat tiles": lambda: us.losses.smooth1(torch.rand(4, 12), us.Grid(2, 2)),
    "smooth1, wrong grid": lambda: us.losses.smooth1(torch.rand(4, 1, 3, 3), us.Grid(2, 3)),
    "Path": lambda: us.Path(0),
    "Cycle": lambda: us.Cycle(NAN),  # pyright: ignore
    "Grid": lambda: us.Grid(2, "x"),  # pyright: ignore
    "Graph": lambda: us.Graph(with_entry(NAN)),
    "expected_energy, size": lambda: us.energies.expected_energy(us.Path(5), P, torch.rand(5, 5)),
    "solve, NaN": lambda: us.solve(us.Path(4), cost=with_entry(NAN)),
    "solve, infinity": lambda: us.solve(us.Cycle(4), cost=with_entry(INF)),
    "solve, empty": lambda: us.solve(us.Path(4), cost=torch.zeros(0, 0)),
    "solve, oblong": lambda: us.solve(us.Path(4), cost=torch.zeros(4, 3)),
    "solve, size": lambda: us.solve(us.Path(5), cost=COST),
    "solve, complex": lambda: us.solve(us.Path(4), cost=torch.zeros(4, 4, dtype=torch.complex64)),
    "solve, text": lambda: us.solve(us.Path(4), cost="cost"),
    "solve, vectors": lambda: us.solve(us.Grid(2, 2), cost=(torch.zeros(4), torch.zeros(4))),
    "solve, three costs": lambda: us.solve(us.Grid(2, 2), cost=(COST, COST, COST)),
    "solve, no cost": lambda: us.solve(us.Path(4)),
    "solve, no problem": lambda: us.solve(4, cost=COST),  # pyright: ignore
    "solve, runs": lambda: us.solve(us.Path(4), cost=COST, runs=0),
    "solve, NaN runs": lambda: us.solve(us.Path(4), cost=COST, runs=NAN),  # pyright: ignore
    "solve, seed": lambda: us.solve(us.Path(4), cost=COST, seed=None),  # pyright: ignore
    "solve, time limit": lambda: us.solve(us.Path(4), cost=COST, time_limit=NAN),
    "solve, init": lambda: us.solve(us.Path(4), cost=COST, init=torch.zeros(3, 3)),
    "solve, NaN init": lambda: us.solve(us.Path(4), cost=COST, init=with_entry(NAN)),
    "solve, no items": lambda: us.solve(lambda X: X.sum()),
    "solve, NaN items": lambda: us.solve(lambda X: X.sum(), items=with_entry(NAN)),
    "solve, zero items": lambda: us.solve(lambda X: X.sum(), items=torch.zeros(0, 2)),
    "solve, loss of many numbers": lambda: us.solve(lambda X: X, items=COST),
    "solve, loss without gradient": lambda: us.solve(lambda X: torch.tensor(1.0), items=COST),
}

TWO = torch.zeros(2)
ITEMS = torch.zeros(3, 4, 1)
SCORER = us.networks.ItemScorer(4)
NO_NUMBER = (NAN, INF, -1.0, "2", [1.0], 1j, True, {}, TWO)
NUMBERS = {  # a finite number that is not negative
    "sinkhorn, tolerance": lambda x: us.sinkhorn(GOOD, tolerance=x),
    "gumbel_sinkhorn, beta": lambda x: us.gumbel_sinkhorn(GOOD, x),
    "gumbel_sinkhorn, noise": lambda x: us.gumbel_sinkhorn(GOOD, noise=x),
    "Constant": us.Constant,
    "Anneal, start": lambda x: us.Anneal(x, 2.0, epochs=3),
    "Anneal, end": lambda x: us.Anneal(2.0, x, epochs=3),
    "ExcessEntropy": us.ExcessEntropy,
    "LocalTemperature, boost": lambda x: us.LocalTemperature(max_boost=x),
    "LearnedTemperature, threshold": lambda x: us.LearnedTemperature(threshold=x),
    "LearnedTemperature, boost": lambda x: us.LearnedTemperature(boost=x),
    "LearnedTemperature, slope": lambda x: us.LearnedTemperature(slope=x),
    "LearnedTemperature, max_boost": lambda x: us.LearnedTemperature(max_boost=x),
    "GumbelSinkhorn, noise": lambda x: us.GumbelSinkhorn(noise=x),
    "SoftSort, power": lambda x: us.SoftSort(power=x),
    "smooth2k, power": lambda x: us.losses.smooth2k(torch.rand(4, 1, 3, 3), us.Grid(2, 2), 1, x),
    "TourScorer, locality": lambda x: us.networks.TourScorer(4, locality=x),
    "TourScorer, logit_limit": lambda x: us.networks.TourScorer(4, logit_limit=x),
    "Descent, rate": us.Descent,
    "Descent, clip": lambda x: us.Descent(clip=x),
    "Descent, decay": lambda x: us.Descent(decay=x),
    "Cosine, warm": us.Cosine,
    "Cosine, floor": lambda x: us.Cosine(floor=x),
    "Stairs, every": lambda x: us.Stairs(x, 0.5),
    "Stairs, factor": lambda x: us.Stairs(0.1, x),
    "predict, noise": lambda x: us.predict(SCORER, ITEMS, noise=x),
}
ANY_SIGN = {  # a finite number
    "Anneal, epoch": us.Anneal(1.0, 2.0, epochs=3),
    "GumbelSinkhorn, epoch": lambda x: us.GumbelSinkhorn()(GOOD, epoch=x),
    "set_epoch": lambda x: us.set_epoch(us.Sinkhorn(), x),
    "utsp_loss": lambda x: us.energies.utsp_loss(P, COST, x),
}
SECONDS = {
    "solve": lambda x: us.solve(us.Path(4), cost=COST, time_limit=x),
    "fit": lambda x: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, time_limit=x),
    "Seriator": lambda x: us.Seriator(time_limit=x).fit(COST),
}
NO_COUNT = (NAN, INF, -1, 1.5, 3.0, "2", [1], True, TWO, 1j)
COUNTS = {
    "sinkhorn, iterations": lambda k: us.sinkhorn(GOOD, k),
    "gumbel_sinkhorn, samples": lambda k: us.gumbel_sinkhorn(GOOD, samples=k),
    "Anneal, epochs": lambda k: us.Anneal(1.0, 2.0, epochs=k),
    "GumbelSinkhorn, iterations": lambda k: us.GumbelSinkhorn(iterations=k),
    "GumbelSinkhorn, adapt_from": lambda k: us.GumbelSinkhorn(adapt_from=k),
    "ColumnSoftmax, samples": lambda k: us.ColumnSoftmax()(GOOD, samples=k),
    "OT4P, seed": lambda k: us.OT4P(seed=k),
    "Path": us.Path,
    "Cycle": us.Cycle,
    "Grid, height": lambda k: us.Grid(k, 2),
    "Grid, width": lambda k: us.Grid(2, k),
    "solve, runs": lambda k: us.solve(us.Path(4), cost=COST, runs=k),
    "solve, seed": lambda k: us.solve(us.Path(4), cost=COST, seed=k),
    "monotone, lags": lambda k: us.losses.monotone(ITEMS, (k,)),
    "smooth2k, band": lambda k: us.losses.smooth2k(torch.rand(4, 1, 3, 3), us.Grid(2, 2), k),
    "mask_only_tau, n": lambda k: us.metrics.mask_only_tau(k, 1),
    "mask_only_tau, anchors": lambda k: us.metrics.mask_only_tau(4, k),
    "ItemScorer": us.networks.ItemScorer,
    "KeyScorer": us.networks.KeyScorer,
    "TileScorer": lambda k: us.networks.TileScorer(k, (1, 4, 4)),
    "TileScorer, tile": lambda k: us.networks.TileScorer(4, (1, k, 4)),
    "SeamScorer": lambda k: us.networks.SeamScorer(4, (1, 4, 4), layers=k),
    "TourScorer": us.networks.TourScorer,
    "ContextScorer": us.networks.ContextScorer,
    "UnrolledAnnealer": lambda k: us.networks.UnrolledAnnealer((10, k, 30)),
    "fit, epochs": lambda k: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=k),
    "fit, samples": lambda k: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, samples=k),
    "fit, batch": lambda k: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, batch=k),
    "fit, seed": lambda k: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, seed=k),
    "fit, patience": lambda k: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, patience=k),
    "predict, draws": lambda k: us.predict(SCORER, ITEMS, draws=k),
    "predict, batch": lambda k: us.predict(SCORER, ITEMS, batch=k),
    "predict, seed": lambda k: us.predict(SCORER, ITEMS, seed=k),
    "Shuffled": lambda k: us.Shuffled(ITEMS, k),
    "Fresh": lambda k: us.Fresh(lambda g: ITEMS, k),
    "Seriator": lambda k: us.Seriator(random_state=k).fit(COST),
}
NO_FUNCTION = ("x", 1.0, [1.0], TWO, {}, object(), us.MeanBeta)  # the last: a class, of which none was made
FUNCTIONS = {
    "gumbel_sinkhorn, local": lambda f: us.gumbel_sinkhorn(GOOD, local=f),
    "Anneal, shape": lambda f: us.Anneal(1.0, 2.0, 3, f),
    "DegreeViolation": us.DegreeViolation,
    "LocalTemperature, signal": us.LocalTemperature,
    "LocalTemperature, combine": lambda f: us.LocalTemperature(combine=f),
    "MatchedScalar": us.MatchedScalar,
    "LearnedTemperature": lambda f: us.LearnedTemperature(combine=f),
    "GumbelSinkhorn, schedule": us.GumbelSinkhorn,
    "GumbelSinkhorn, local": lambda f: us.GumbelSinkhorn(local=f),
    "ColumnSoftmax": us.ColumnSoftmax,
    "NeuralSort": us.NeuralSort,
    "SoftSort": us.SoftSort,
    "OT4P": us.OT4P,
    "StraightThrough": us.StraightThrough,
    "solve, problem": lambda f: us.solve(f, cost=COST),
    "solve, callback": lambda f: us.solve(us.Path(4), cost=COST, callback=f),
    "expected_energy, layout": lambda f: us.energies.expected_energy(f, P, COST),
    "smooth1, grid": lambda f: us.losses.smooth1(torch.rand(4, 1, 3, 3), f),
    "neighbour_accuracy, grid": lambda f: us.metrics.neighbour_accuracy(torch.arange(4), torch.arange(4), f),
    "Descent": lambda f: us.Descent(over_time=f),
    "Fresh": lambda f: us.Fresh(f, 1),
    "OnPermutation": us.OnPermutation,
    "fit, network": lambda f: us.fit(f, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1),
    "fit, loss": lambda f: us.fit(SCORER, ITEMS, f, us.GumbelSinkhorn(), epochs=1),
    "fit, relax": lambda f: us.fit(SCORER, ITEMS, us.losses.monotone, f, epochs=1),
    "fit, callback": lambda f: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, callback=f),
    "predict, network": lambda f: us.predict(f, ITEMS),
    "predict, relax": lambda f: us.predict(SCORER, ITEMS, f),
    "Seriator, metric": lambda f: us.Seriator(metric=f).fit(COST),
    "gumbel_sinkhorn, generator": lambda f: us.gumbel_sinkhorn(GOOD, generator=f),
    "gumbel_sinkhorn, share": lambda f: us.gumbel_sinkhorn(GOOD, share=f),
    "Graph": us.Graph,
}
"""Functions, and other things that are not numbers."""

TWO_LISTS, THREE_MASKS = torch.rand(2, 4, 4), torch.ones(3, 4, 4, dtype=torch.bool)
BATCHED = {
    "sinkhorn": lambda s, m: us.sinkhorn(s, allowed=m),
    "assign": us.assign,
    "gumbel_sinkhorn": lambda s, m: us.gumbel_sinkhorn(s, allowed=m),
    "GumbelSinkhorn": lambda s, m: us.GumbelSinkhorn()(s, allowed=m),
    "ColumnSoftmax": lambda s, m: us.ColumnSoftmax()(s, allowed=m),
    "SoftSort": lambda s, m: us.SoftSort()(s[..., 0], allowed=m),
    "entropy": lambda s, m: us.entropy(s, allowed=m),
}
SPOILT_KEYS = (torch.tensor([0.0, NAN, 1.0]), torch.tensor([0.0, INF, 1.0]), torch.tensor([0.0, 3e38, -3e38]))
OTHERS |= {
    "ColumnSoftmax, NaN": lambda: us.ColumnSoftmax()(with_entry(NAN)),
    "ColumnSoftmax, infinity": lambda: us.ColumnSoftmax()(with_entry(INF)),
    "ColumnSoftmax, nothing possible": lambda: us.ColumnSoftmax()(torch.full((3, 3), -INF)),
    **{f"NeuralSort, keys {k}": lambda keys=keys: us.NeuralSort()(keys) for k, keys in enumerate(SPOILT_KEYS)},
    **{f"SoftSort, keys {k}": lambda keys=keys: us.SoftSort()(keys) for k, keys in enumerate(SPOILT_KEYS[:2])},
    **{f"decode, keys {k}": lambda keys=keys: us.SoftSort().decode(keys) for k, keys in enumerate(SPOILT_KEYS[:2])},
    "OT4P, base": lambda: us.OT4P(base=torch.eye(3))(GOOD),
    **{
        f"{name}, masks of other lists": lambda call=call: call(TWO_LISTS, THREE_MASKS)
        for name, call in BATCHED.items()
    },
    "sinkhorn, mask elsewhere": lambda: us.sinkhorn(GOOD, allowed=torch.ones(4, 4, dtype=torch.bool, device="meta")),
    "reorder, items of other lists": lambda: us.reorder(torch.rand(2, 4, 4), torch.rand(3, 4, 1)),
    "reorder, a number": lambda: us.reorder(P, torch.tensor(1.0)),
    "kendall_tau, other lists": lambda: us.kendall_tau(torch.rand(2, 4), torch.rand(3, 4)),
    "direct_accuracy, other lists": lambda: us.metrics.direct_accuracy(
        torch.arange(4).expand(2, 4), torch.arange(4).expand(3, 4)
    ),
    "gumbel_sinkhorn, learned noise": lambda: us.gumbel_sinkhorn(GOOD, noise=torch.ones((), requires_grad=True)),  # pyright: ignore
    "GumbelSinkhorn, learned noise": lambda: us.GumbelSinkhorn(noise=torch.nn.Parameter(torch.ones(()))),  # pyright: ignore
    **{
        f"{type(relax).__name__}, a schedule below 0": lambda relax=relax: relax(torch.rand(4, 4))
        for relax in (kind(lambda epoch: -1.0) for kind in (us.Sinkhorn, us.ColumnSoftmax, us.SoftSort, us.OT4P))
    },
    "solve, a class": lambda: us.solve(us.Path, cost=COST),  # pyright: ignore
    "solve, loss is NaN": lambda: us.solve(lambda X: X.sum() * NAN, items=COST),
    "reliability, shares": lambda: us.metrics.reliability(torch.ones(2), torch.tensor([0.5, 1.0])),
    "conformal_threshold, an empty place": lambda: us.metrics.conformal_threshold(P, torch.tensor([0, -1, 2, 3])),
    "place_sets, NaN": lambda: us.metrics.place_sets(P, NAN),
    "entropy, dim": lambda: us.entropy(P, dim="rows"),  # pyright: ignore
    "energy, too short": lambda: us.Path(4).energy(torch.arange(3), COST),
    "energy, too large": lambda: us.Grid(2, 2).energy(torch.tensor([0, 1, 2, 4]), COST),
    "energy, no order": lambda: us.Graph(COST).energy([0, 1, 2, 3], COST),  # pyright: ignore
    "energy, no cost": lambda: us.Cycle(4).energy(torch.arange(4), None),  # pyright: ignore
    "heat_map": lambda: us.energies.heat_map(torch.rand(3, 4)),
    "row_sum_penalty": lambda: us.energies.row_sum_penalty(None),  # pyright: ignore
    "pair_distances": lambda: us.energies.pair_distances(torch.arange(4)),
    "direct_accuracy, lengths": lambda: us.metrics.direct_accuracy(torch.arange(3), torch.arange(4)),
    "perfect_accuracy, real numbers": lambda: us.metrics.perfect_accuracy(torch.rand(4), torch.arange(4)),
    "tour_kendall_tau, a list": lambda: us.metrics.tour_kendall_tau([0, 1], torch.arange(2)),  # pyright: ignore
    "ContextScorer, heads": lambda: us.networks.ContextScorer(width=10, heads=4),
    "fit, no lists": lambda: us.fit(SCORER, ITEMS[:0], us.losses.monotone, us.GumbelSinkhorn(), epochs=1),
    "fit, text": lambda: us.fit(SCORER, "items", us.losses.monotone, us.GumbelSinkhorn(), epochs=1),
    "fit, number": lambda: us.fit(SCORER, 3, us.losses.monotone, us.GumbelSinkhorn(), epochs=1),  # pyright: ignore
    "fit, NaN": lambda: us.fit(SCORER, ITEMS * NAN, us.losses.monotone, us.GumbelSinkhorn(), epochs=1),
    "fit, device": lambda: us.fit(SCORER, ITEMS, us.losses.monotone, us.GumbelSinkhorn(), epochs=1, device="gpu"),
    "fit, other n": lambda: us.fit(SCORER, ITEMS[:, 1:], us.losses.monotone, us.GumbelSinkhorn(), epochs=1),
    "predict, no lists": lambda: us.predict(SCORER, ITEMS[:0]),
    "predict, NaN": lambda: us.predict(SCORER, ITEMS * NAN),
    "predict, mask": lambda: us.predict(SCORER, ITEMS, allowed=torch.ones(2, 4, 4, dtype=torch.bool)),
    "Seriator, metric of zeros": lambda: us.Seriator(metric="cosine").fit(np.eye(4)[:, :2]),
    "Seriator, negative metric": lambda: us.Seriator(metric=lambda a, b: -1.0).fit(np.eye(4)),
    "Seriator, criterion": lambda: us.Seriator(criterion="paht").fit(np.eye(4)),
}


@pytest.fixture(scope="module")
def heard():
    """Every sentence that is said in this file, by test."""
    collect = Collect()
    yield collect
    collect.end()


@pytest.fixture(autouse=True)
def _listening(heard, request):
    heard.pytest_runtest_logstart(request.node.nodeid)


@pytest.fixture(autouse=True)
def _without_shape_checks(monkeypatch):
    """In the tests every signature is checked by beartype, which speaks before we do; users have only our sentences."""
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)


def one_sentence(call) -> None:
    with pytest.raises(us.BadInput) as refused:
        call()
    text = str(refused.value)
    assert 10 < len(text) < 200
    assert "\n" not in text


@pytest.mark.parametrize("given", SQUARES)
@pytest.mark.parametrize("function", TAKES_SQUARE)
def test_not_a_square_of_real_numbers(function, given):
    if function in OBLONG and given == "oblong":
        pytest.skip("takes rectangles")
    one_sentence(lambda: TAKES_SQUARE[function](SQUARES[given]))


@pytest.mark.parametrize("function", {**TAKES_MASK, **SOFT_MASK})
def test_masks(function):
    call = {**TAKES_MASK, **SOFT_MASK}[function]
    for mask in MASKS.values():
        one_sentence(lambda mask=mask: call(mask))
    if function in TAKES_MASK:
        one_sentence(lambda: call(IMPOSSIBLE))


@pytest.mark.parametrize("given", NO_ORDER)
def test_not_an_order(given):
    one_sentence(lambda: us.inverse(NO_ORDER[given]))
    one_sentence(lambda: us.to_matrix(NO_ORDER[given]))
    one_sentence(lambda: us.reorder(NO_ORDER[given], P))


@pytest.mark.parametrize("case", OTHERS)
def test_the_rest_of_the_public_names(case):
    one_sentence(OTHERS[case])


@pytest.mark.parametrize("setting", {**NUMBERS, **ANY_SIGN, **SECONDS})
def test_not_a_number(setting):
    call = {**NUMBERS, **ANY_SIGN, **SECONDS}[setting]
    for value in NO_NUMBER:
        fine = (setting in ANY_SIGN and value is NO_NUMBER[2]) or (setting in SECONDS and value is INF)
        if not fine:
            one_sentence(lambda value=value: call(value))
    if (
        not setting.endswith(
            ("tolerance", "clip", "logit_limit", "predict, noise", "Sinkhorn, noise", "Sinkhorn, epoch")
        )
        and setting not in SECONDS
    ):
        one_sentence(lambda: call(None))  # elsewhere nothing means something


@pytest.mark.parametrize("setting", COUNTS)
def test_not_a_whole_number(setting):
    for value in NO_COUNT:
        one_sentence(lambda value=value: COUNTS[setting](value))


@pytest.mark.parametrize("setting", FUNCTIONS)
def test_not_a_function(setting):
    for value in NO_FUNCTION:
        one_sentence(lambda value=value: FUNCTIONS[setting](value))


def test_what_does_not_refuse_nan_shows_it():
    """Plain arithmetic on tensors: NaN in, NaN out, never a number that looks right."""
    soft, items = with_entry(NAN), torch.full((4, 2), NAN)
    shown = [
        us.entropy(soft),
        us.marginal_error(soft),
        us.reorder(soft, GOOD),
        us.reorder(P, items),
        us.LocalTemperature()(soft, 1.0),
        us.energies.expected_energy(us.Path(4), soft, COST),
        us.energies.expected_energy(us.Path(4), P, soft),
        us.losses.monotone(items),
        us.losses.tour_length(items),
        us.losses.smooth1(torch.full((4, 1, 3, 3), NAN), us.Grid(2, 2)),
    ]
    assert all(bool(found.isnan().any()) for found in shown)


@pytest.mark.parametrize("n", [1, 2])
def test_one_item_and_two_are_solved(n):
    cost = torch.rand(n, n)
    for layout in (us.Path(n), us.Cycle(n), us.Grid(1, n), us.Graph(torch.ones(n, n))):
        assert sorted(us.solve(layout, cost=cost).order.tolist()) == list(range(n))
    assert sorted(us.solve(lambda x: x.square().sum(), items=torch.rand(n)).order.tolist()) == list(range(n))
    assert us.sinkhorn(torch.zeros(n, n)).sum().item() == pytest.approx(n)


# -- the commands


def run(*arguments: object) -> Result:
    return CliRunner().invoke(build(str(arguments[0])), [str(a) for a in arguments])


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def huge_png(_: object = None) -> bytes:
    """The first lines of a 20,000 x 20,000 picture: enough for a reader to believe it and start."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(60_001 * 3))
    chunks = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (head, data, b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def photo_bytes(folder: Path) -> bytes:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)).save(folder / "whole.png")
    return (folder / "whole.png").read_bytes()


TSP = "NAME: a\nTYPE: TSP\nDIMENSION: {}\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 0 1\n3 1 0\nEOF\n"
FILES = {  # command: name, content, words that the sentence must have
    "tour": [
        ("a.csv", "", ["empty"]),
        ("a.csv", "1,2\n3,oops\n", ["row '2'", "column '2'", "oops"]),
        ("a.csv", "city,x,y\nParis,1,2\nRome,3,two\n", ["'Rome'", "'y'", "two"]),
        ("a.csv", "1,oops\n3,4\n", ["row '1'", "column '2'", "oops"]),
        ("a.csv", "1,2\n3,nan\n", ["row '2'", "nan"]),
        ("a.csv", "1,inf\n3,4\n", ["row '1'", "inf"]),
        ("a.csv", "1,2\n3\n", ["line 2"]),
        ("a.csv", "1e308,1e308\n-1e308,0\n1,1\n", ["a.csv", "too large"]),
        ("a.csv", "0,-1,2\n-1,0,3\n2,3,0\n", ["negative"]),
        ("a.csv", "city,lat,lon\nParis,48,2\nRome,95,12\nOslo,59,10\n", ["a.csv", "lat of city Rome is 95", "x and y"]),
        ("a.csv", "lon,lat\n1,2\n361,0\n3,4\n", ["lon of city 2 is 361"]),
        ("a.csv", b"\xff\xfe\x00\x9f", ["text file"]),
        ("a.tsp", TSP.format(4), ["promises 4"]),
        ("a.tsp", TSP.format(3).replace("EUC_2D", "GEO").replace("1 0 0", "1 139.4 35.4"), ["beyond 90"]),
        ("a.tsp", TSP.format("many"), ["DIMENSION"]),
        ("a.tsp", TSP.format(-1), ["DIMENSION"]),
        ("a.tsp", TSP.format(10**9), ["DIMENSION"]),
    ],
    "seriate": [
        ("a.csv", "", ["empty"]),
        ("a.csv", "name,p,q\na,1,2\nb,3,oops\n", ["'b'", "'q'", "oops"]),
        ("a.csv", "name,p,q\na,1,2\nb,3,nan\n", ["'b'", "'q'", "nan"]),
        ("a.csv", "name,p,q\na,1,2\nb,3,\n", ["'b'", "'q'", "empty"]),
        ("a.csv", "name,p,q\na,1,inf\nb,3,1\n", ["'a'", "'q'", "inf"]),
        ("a.csv", "name,p,q\na,1,2\na,3,1\n", ["2 rows", "'a'"]),
        ("a.csv", "name,p,p\na,1,2\nb,3,1\n", ["2 columns", "'p'"]),
        ("a.csv", "name,p,q\na,1,2\n", ["two rows"]),
        ("a.csv", "name,p,q\na,1,2\nb,3\n", ["line 3"]),
        ("a.csv", "name\na\nb\n", ["no column of numbers"]),
        ("a.csv", "1e308,1e308\n-1e308,0\n1,1\n", ["too large"]),
        ("a.csv", b"\xff\xfe\x00\x9f", ["text file"]),
    ],
    "jigsaw": [
        ("a.png", "", ["not a picture"]),
        ("a.png", "not a picture", ["not a picture"]),
        ("a.png", huge_png, ["million pixels"]),
        ("a.png", lambda folder: photo_bytes(folder)[:3000], ["damaged"]),
    ],
}


def refused(done: Result, folder: Path, *words: str) -> None:
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert word in line, line
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("command", "name", "content", "words"),
    [(command, *case) for command, cases in FILES.items() for case in cases],
)
def test_a_file_that_cannot_be_used(command, name, content, words, tmp_path):
    file = write(tmp_path / name, content(tmp_path) if callable(content) else content)  # pyright: ignore
    refused(run(command, file, "--out", tmp_path / "out"), tmp_path, *words)


@pytest.mark.parametrize("command", ["tour", "seriate", "jigsaw", "strips"])
def test_missing_file_and_folder_instead_of_file(command, tmp_path):
    refused(run(command, tmp_path / "none.csv", "--out", tmp_path / "out"), tmp_path, "none.csv")
    (tmp_path / "folder").mkdir()
    refused(run(command, tmp_path / "folder", "--out", tmp_path / "out"), tmp_path, "folder")


@pytest.mark.parametrize(
    ("content", "words"),
    [(huge_png, "million pixels"), (lambda: b"", "not a picture"), (lambda: b"no picture", "not a picture")],
)
def test_strips_do_not_lose_a_broken_scan(tmp_path, content, words):
    (tmp_path / "scans").mkdir()
    for name in ("a.png", "b.png"):
        Image.new("L", (20, 200), 255).save(tmp_path / "scans" / name)
    write(tmp_path / "scans" / "c.png", content())
    refused(run("strips", tmp_path / "scans", "--out", tmp_path / "out"), tmp_path, "c.png", words)


def good_file(command: str, folder: Path) -> list[object]:
    if command == "tour":
        return [write(folder / "a.csv", "0,0\n0,1\n1,1\n1,0\n")]
    if command == "seriate":
        return [write(folder / "a.csv", "1,0\n0,1\n1,1\n2,3\n")]
    if command == "jigsaw":
        return [write(folder / "a.png", photo_bytes(folder)), "--grid", "2x2"]
    (folder / "scans").mkdir()
    for k in range(3):
        pixels = np.random.default_rng(k).integers(0, 255, (120, 20), np.uint8)
        Image.fromarray(pixels).save(folder / "scans" / f"{k}.png")
    return [folder / "scans"]


@pytest.mark.parametrize("command", ["tour", "seriate", "jigsaw", "strips"])
def test_an_output_that_cannot_be_written(command, tmp_path, monkeypatch):
    given = good_file(command, tmp_path)
    monkeypatch.setattr("unshuffle.cli.common.progress", lambda *_: pytest.fail("told only after the work"))
    blocked = write(tmp_path / "file", "in the way") / "out"
    refused(run(command, *given, "--out", blocked), tmp_path, "Not a directory")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("command", ["tour", "seriate", "jigsaw", "strips"])
def test_a_full_disk_leaves_nothing(command, tmp_path, monkeypatch):
    given = good_file(command, tmp_path)
    count = iter(range(100))

    def full(_: int) -> None:
        if next(count) == 1:  # the second file of the command no longer fits
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = run(command, *given, "--out", tmp_path / "results")
    assert done.exit_code == 2
    assert "No space left" in done.stderr
    assert list((tmp_path / "results").iterdir()) == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a short training."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    done = run("train", "sorting", "--n", "3", "--epochs", "1", "--time-limit", "1", "--out", folder, "-q")
    assert done.exit_code == 0, done.output
    return folder


LISTS = {
    "": ["empty"],
    "3,1\n": ["line 1", "lists of 3"],
    "3,1,2\n3,1,x\n": ["row '2'", "column '3'", "'x'"],
    "3,1,nan\n": ["row '1'", "nan"],
    "3,inf,1\n": ["row '1'", "inf"],
    b"\xff\xfe\x00\x9f": ["text file"],
}


@pytest.mark.parametrize("content", LISTS)
def test_lists_that_a_network_cannot_order(content, trained, tmp_path):
    file = write(tmp_path / "a.csv", content)
    refused(run("apply", trained, file, "--out", tmp_path / "out"), tmp_path, *LISTS[content])


def test_apply_to_nothing_and_to_a_folder(trained, tmp_path):
    refused(run("apply", trained, tmp_path / "none.csv", "--out", tmp_path / "out"), tmp_path, "none.csv")
    refused(run("apply", trained, tmp_path, "--out", tmp_path / "out"), tmp_path, tmp_path.name)


def test_a_full_disk_leaves_nothing_of_the_other_commands(trained, tmp_path, monkeypatch):
    """Two files each, of which the second does not fit."""
    lists = write(tmp_path / "a.csv", "3,1,2\n")
    measured = {k: [] for k in ("speed", "step", "memory", "growth", "first")}
    monkeypatch.setattr("unshuffle.cli.bench.collect", lambda *_: measured)
    for call in (["bench", "--quick"], ["apply", trained, lists]):
        count = iter(range(100))

        def full(_: int, count=count, files=2 if call[0] == "bench" else 1) -> None:
            if next(count) == files - 1:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        done = run(*call, "--out", tmp_path / "results")
        assert done.exit_code == 2
        assert "No space left" in done.stderr
        assert list((tmp_path / "results").iterdir()) == []


class Hostile:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch hostile",)


def checkpoints(folder: Path) -> dict[str, Path]:
    torch.save(Hostile(), folder / "hostile.pt")
    write(folder / "pickle.pt", pickle.dumps(Hostile()))
    torch.save({"weights": torch.zeros(2)}, folder / "other.pt")
    torch.save(torch.zeros(2), folder / "tensor.pt")
    torch.save({"unshuffle": 99, "about": {}, "state": {"learner": {}, "optimiser": {}}}, folder / "newer.pt")
    recipe = {"task": "sorting", "recipe": plain(Sorting.strong(n=5))}
    torch.save({"unshuffle": 1, "about": recipe, "state": {"learner": {}, "optimiser": {}}}, folder / "weightless.pt")
    write(folder / "text.pt", "not a checkpoint")
    write(folder / "cut.pt", (folder / "weightless.pt").read_bytes()[:500])
    return {name: folder / f"{name}.pt" for name in CHECKPOINTS}


CHECKPOINTS = ("hostile", "pickle", "other", "tensor", "newer", "weightless", "text", "cut", "missing")


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints_of_strangers(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lists.csv", "3,1,2\n")
    file = checkpoints(tmp_path)[kind]
    refused(run("apply", file, tmp_path / "lists.csv", "--out", tmp_path / "out"), tmp_path, f"{kind}.pt")
    assert not (tmp_path / "hostile").exists(), "what it said was carried out"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "sorting", "--values", "1", "nan"], "nan"),
        (["train", "sorting", "--device", "gpu", "--epochs", "1"], "gpu"),
        (["train", "jigsaw", "--data", "{folder}/none"], "none"),
        (["train", "jigsaw", "--data", "{folder}"], "picture"),
        (["train", "sorting", "--epochs", "1", "--out", "{folder}/file/out"], "Not a directory"),
        (["seriate", "{folder}/file", "--kind", "dissimilarity"], "negative"),
        (["reproduce", "nothing"], "nothing"),
        (["reproduce", "sortng"], "Did you mean 'sorting'?"),
        (["reproduce", "sorting", "--scale", "smok"], "Did you mean 'smoke'?"),
        (["reproduce", "sorting", "--scale", "smoke", "--seeds", "0,-1"], "Seeds"),
        (["reproduce", "sorting", "--scale", "smoke", "--only", "nobody"], "nobody"),
        (["reproduce", "jigsaw", "--scale", "smoke", "--data", "{folder}/none"], "none"),
        (["reproduce", "sorting", "--scale", "smoke", "--store", "{folder}/file/store"], "Not a directory"),
        (["report", "--store", "{folder}/none"], "none"),
        (["demo", "--out", "{folder}/file/out"], "Not a directory"),
        (["bench", "--quick", "--out", "{folder}/file/out"], "Not a directory"),
    ],
)
def test_the_other_commands(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "unshuffle.cli.bench.collect", lambda *_: {k: [] for k in ("speed", "step", "memory", "growth", "first")}
    )
    write(tmp_path / "file", ",a,b,c\na,0,1,2\nb,1,0,-3\nc,2,-3,0\n")
    done = run(*(word.format(folder=tmp_path) for word in arguments))
    assert done.exit_code == 2, (done.output, done.exception)
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    assert words in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_files_are_written_together_or_not_at_all(tmp_path):
    (tmp_path / "b").mkdir()
    write(tmp_path / "a", "old")
    with pytest.raises(IsADirectoryError):
        write_together({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    write_together({tmp_path / "a": "new", tmp_path / "c": b"new"})
    assert (tmp_path / "a").read_text() == (tmp_path / "c").read_text() == "new"


def process(*arguments: object, code: str = "", **streams) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"{code}\nfrom unshuffle.cli import main; main()", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, **streams}
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, **streams)


def test_standard_output_on_a_full_disk(tmp_path):
    with open("/dev/full", "w") as full:
        done = process("tour", *good_file("tour", tmp_path), "--json", "--out", tmp_path / "o", stdout=full)
    assert done.returncode == 2
    assert done.stderr.strip() == "Error: No space left on device"


INTERRUPT = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born deaf to it
from unshuffle.{module} import {name} as patched
before = patched.{method}
def interrupted(*a, **k):
    os.kill(os.getpid(), signal.SIGINT)
    return before(*a, **k)
patched.{method} = interrupted
"""


def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    points = np.random.default_rng(0).random((60, 2))
    np.savetxt(tmp_path / "a.csv", points, delimiter=",")
    code = INTERRUPT.format(module="watch", name="Watch", method="__call__")
    done = process("tour", tmp_path / "a.csv", "--json", "--out", tmp_path / "o", code=code)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "interrupted"
    assert sorted(result["order"]) == list(range(60))
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["a.csv", "a.json", "a.png", "a.tour"]


def test_ctrl_c_before_there_is_anything_writes_nothing(tmp_path):
    code = INTERRUPT.format(module="tasks.tour", name="Cities", method="__init__")
    done = process("tour", *good_file("tour", tmp_path), "--out", tmp_path / "o", code=code)
    assert done.returncode == 130
    assert done.stderr.strip() == "Interrupted."
    assert not (tmp_path / "o").exists()


def test_debug_shows_the_traceback(tmp_path):
    assert "Traceback" in process("tour", tmp_path / "none.csv", "--debug").stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    first, second = os.pipe()
    os.close(first)
    done = process("tour", *good_file("tour", tmp_path), "--json", "--out", tmp_path / "o", stdout=second)
    os.close(second)
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_all_that_was_said_is_as_recorded(heard):
    """What ``golden.py --check refusals`` compares, of the tests above that were run."""
    old = {test: said for test, said in recorded()["refusals"].items() if test in heard.said}
    lines = list(differences(old, {test: sorted(said) for test, said in heard.said.items()}, lambda a, b: a == b))
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("relax", [us.NeuralSort(), us.StraightThrough(us.SoftSort())])
def test_a_sort_is_not_trained_on_scores_of_items_and_positions(relax):
    with pytest.raises(us.BadInput, match=r"one key per item .* shape \(4, 5, 5\)"):
        us.fit(torch.nn.Linear(1, 5), [torch.rand(4, 5, 1)], loss=us.losses.monotone, relax=relax, epochs=1)
