"""A trained network back from its checkpoint, with the recipe that says what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from ..errors import BadInput
from ..learn.calibration import Calibration
from ..learn.checkpoint import load
from ..learn.descent import Cosine, Descent, Stairs, Steady
from ..learn.objective import Learner, OnPermutation
from ..relaxations.gumbel_sinkhorn import ColumnSoftmax, GumbelSinkhorn, Sinkhorn
from ..relaxations.neuralsort import NeuralSort
from ..relaxations.ot4p import OT4P
from ..relaxations.softsort import SoftSort
from ..relaxations.straight_through import StraightThrough
from ..structure.losses import monotone, monotone_at_all_scales
from ..temperature.entropy import EntropyTarget, LearnedTarget, OpenPlaces
from ..temperature.local import LocalTemperature, MatchedScalar, MeanBeta, MeanTau, Product
from ..temperature.parts import EachMatrix, EachRow
from ..temperature.schedules import Anneal, Constant, Exponential, LinearInBeta, LinearInTau
from ..temperature.signals import ByBound, ByMaximum, DegreeViolation, ExcessEntropy
from .draws import DrawnAnew, DrawnOnce
from .jigsaw import BlendedSeams, Jigsaw, PairedSeams
from .scorers import ByAnnealing, ByItem, ByKey, ByScattering, BySeams, ByTile
from .settings import restored
from .sorting import Sorting, distance_to_sorted
from .tour import SoftLength, Tour

# all that the settings of a recipe may be made of
RECIPES = (Sorting, Jigsaw, Tour)
SCORERS = (ByItem, ByKey, ByTile, BySeams, ByScattering, ByAnnealing)
RELAXATIONS = (GumbelSinkhorn, Sinkhorn, ColumnSoftmax, NeuralSort, SoftSort, OT4P, StraightThrough)
TEMPERATURES = (
    Anneal,
    Constant,
    EachMatrix,
    EachRow,
    EntropyTarget,
    Exponential,
    LinearInBeta,
    LinearInTau,
    LearnedTarget,
    LocalTemperature,
    MatchedScalar,
    MeanBeta,
    MeanTau,
    OpenPlaces,
)
SIGNALS = (Product, ExcessEntropy, DegreeViolation, ByBound, ByMaximum)
LOSSES = (monotone, monotone_at_all_scales, distance_to_sorted, OnPermutation, SoftLength, BlendedSeams, PairedSeams)
DESCENTS = (Descent, Steady, Cosine, Stairs, DrawnOnce, DrawnAnew)
PARTS = {
    part.__name__: part for part in (*RECIPES, *SCORERS, *RELAXATIONS, *TEMPERATURES, *SIGNALS, *LOSSES, *DESCENTS)
}


def recipe_from(settings: dict[str, Any]) -> Any:
    """A recipe as it was saved."""
    recipe = restored(settings, PARTS)
    if not isinstance(recipe, RECIPES):
        raise BadInput(f"These are the settings of {type(recipe).__name__}, which is no recipe.")
    return recipe


def trained(path: Path) -> tuple[Any, nn.Module, Calibration | None]:
    """Recipe, network and what its scores are worth, from a checkpoint (a file, or the folder of a run: its best)."""
    path = Path(path)
    state, said = load(path / "best.pt" if path.is_dir() else path)
    settings = said.get("recipe")
    if not isinstance(settings, dict) or "is" not in settings:
        raise BadInput(f"{path} was not written by this `unshuffle train`: it does not say which network it is of.")
    try:
        recipe = recipe_from(settings)
        learner = Learner(recipe.network(), recipe.relax, recipe.loss)
        learner.load_state_dict(state.learner)
        told = said.get("calibration")
        calibration = None if told is None else Calibration.from_plain(told)
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        raise BadInput(f"The settings and the weights in {path} do not fit together.") from error
    return recipe, learner.network.eval(), calibration
