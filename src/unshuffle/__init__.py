"""unshuffle: find the order hidden in unordered data, from structure alone.

The public names are loaded when first used, so that ``import unshuffle`` and ``unshuffle --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .solve import solve

__version__ = "0.1.0"

# name -> module that defines it
_HOME = {
    "BadInput": "errors",
    "progress": "progress_bar",
    "sinkhorn": "operators.sinkhorn",
    "gumbel_sinkhorn": "operators.gumbel",
    "assign": "operators.assignment",
    "reorder": "operators.permutation",
    "inverse": "operators.permutation",
    "to_matrix": "operators.permutation",
    "entropy": "operators.permutation",
    "marginal_error": "operators.permutation",
    "kendall_tau": "operators.permutation",
    "backends": "operators.backends",
    "Path": "structure.layouts",
    "Cycle": "structure.layouts",
    "Grid": "structure.layouts",
    "Graph": "structure.layouts",
    "Solution": "solve.solution",
    "Solutions": "solve.batch",
    "solve_all": "solve.batch",
    "match": "solve.match.front",
    "Match": "solve.match.front",
    "Anneal": "temperature.schedules",
    "Constant": "temperature.schedules",
    "LinearInBeta": "temperature.schedules",
    "LinearInTau": "temperature.schedules",
    "Exponential": "temperature.schedules",
    "EntropyTarget": "temperature.entropy",
    "LearnedTarget": "temperature.entropy",
    "OpenPlaces": "temperature.entropy",
    "EachMatrix": "temperature.parts",
    "EachRow": "temperature.parts",
    "LocalTemperature": "temperature.local",
    "ExcessEntropy": "temperature.signals",
    "DegreeViolation": "temperature.signals",
    "MeanBeta": "temperature.local",
    "MeanTau": "temperature.local",
    "Product": "temperature.local",
    "MatchedScalar": "temperature.local",
    "LearnedTemperature": "temperature.learned",
    "GumbelSinkhorn": "relaxations.gumbel_sinkhorn",
    "Sinkhorn": "relaxations.gumbel_sinkhorn",
    "ColumnSoftmax": "relaxations.gumbel_sinkhorn",
    "NeuralSort": "relaxations.neuralsort",
    "SoftSort": "relaxations.softsort",
    "OT4P": "relaxations.ot4p",
    "StraightThrough": "relaxations.straight_through",
    "set_epoch": "relaxations.layer",
    "Seriator": "tasks.estimator",
    "fit": "learn.fit",
    "Fitted": "learn.fit",
    "calibrate": "learn.predict",
    "Calibration": "learn.calibration",
    "predict": "learn.predict",
    "Prediction": "learn.predict",
    "OnPermutation": "learn.objective",
    "Descent": "learn.descent",
    "Cosine": "learn.descent",
    "Stairs": "learn.descent",
    "Steady": "learn.descent",
    "Shuffled": "learn.batches",
    "Fresh": "learn.batches",
}
# names that are modules themselves
_MODULES = {
    "losses": "structure.losses",
    "energies": "structure.energies",
    "metrics": "metrics",
    "networks": "networks",
}

if TYPE_CHECKING:
    from . import metrics as metrics
    from . import networks as networks
    from .errors import BadInput as BadInput
    from .learn.batches import Fresh as Fresh
    from .learn.batches import Shuffled as Shuffled
    from .learn.calibration import Calibration as Calibration
    from .learn.descent import Cosine as Cosine
    from .learn.descent import Descent as Descent
    from .learn.descent import Stairs as Stairs
    from .learn.descent import Steady as Steady
    from .learn.fit import Fitted as Fitted
    from .learn.fit import fit as fit
    from .learn.objective import OnPermutation as OnPermutation
    from .learn.predict import Prediction as Prediction
    from .learn.predict import calibrate as calibrate
    from .learn.predict import predict as predict
    from .operators.assignment import assign as assign
    from .operators.backends import backends as backends
    from .operators.gumbel import gumbel_sinkhorn as gumbel_sinkhorn
    from .operators.permutation import entropy as entropy
    from .operators.permutation import inverse as inverse
    from .operators.permutation import kendall_tau as kendall_tau
    from .operators.permutation import marginal_error as marginal_error
    from .operators.permutation import reorder as reorder
    from .operators.permutation import to_matrix as to_matrix
    from .operators.sinkhorn import sinkhorn as sinkhorn
    from .progress_bar import progress as progress
    from .relaxations.gumbel_sinkhorn import ColumnSoftmax as ColumnSoftmax
    from .relaxations.gumbel_sinkhorn import GumbelSinkhorn as GumbelSinkhorn
    from .relaxations.gumbel_sinkhorn import Sinkhorn as Sinkhorn
    from .relaxations.layer import set_epoch as set_epoch
    from .relaxations.neuralsort import NeuralSort as NeuralSort
    from .relaxations.ot4p import OT4P as OT4P
    from .relaxations.softsort import SoftSort as SoftSort
    from .relaxations.straight_through import StraightThrough as StraightThrough
    from .solve.batch import Solutions as Solutions
    from .solve.batch import solve_all as solve_all
    from .solve.match.front import Match as Match
    from .solve.match.front import match as match
    from .solve.solution import Solution as Solution
    from .structure import energies as energies
    from .structure import losses as losses
    from .structure.layouts import Cycle as Cycle
    from .structure.layouts import Graph as Graph
    from .structure.layouts import Grid as Grid
    from .structure.layouts import Path as Path
    from .tasks.estimator import Seriator as Seriator
    from .temperature.entropy import EntropyTarget as EntropyTarget
    from .temperature.entropy import LearnedTarget as LearnedTarget
    from .temperature.entropy import OpenPlaces as OpenPlaces
    from .temperature.learned import LearnedTemperature as LearnedTemperature
    from .temperature.local import LocalTemperature as LocalTemperature
    from .temperature.local import MatchedScalar as MatchedScalar
    from .temperature.local import MeanBeta as MeanBeta
    from .temperature.local import MeanTau as MeanTau
    from .temperature.local import Product as Product
    from .temperature.parts import EachMatrix as EachMatrix
    from .temperature.parts import EachRow as EachRow
    from .temperature.schedules import Anneal as Anneal
    from .temperature.schedules import Constant as Constant
    from .temperature.schedules import Exponential as Exponential
    from .temperature.schedules import LinearInBeta as LinearInBeta
    from .temperature.schedules import LinearInTau as LinearInTau
    from .temperature.signals import DegreeViolation as DegreeViolation
    from .temperature.signals import ExcessEntropy as ExcessEntropy

__all__ = ["__version__", "solve", *_HOME, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value = import_module(f".{_MODULES[name]}", __name__)
    elif name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'unshuffle' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
