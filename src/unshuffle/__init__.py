"""unshuffle: find the order hidden in unordered data, from structure alone.

The public names are loaded when first used, so that ``import unshuffle`` and ``unshuffle --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .solve import solve

__version__ = "0.1.0"

# name -> module that defines it; "losses" is itself a module
_HOME = {
    "BadInput": "shapes",
    "sinkhorn": "operators.sinkhorn",
    "gumbel_sinkhorn": "operators.gumbel",
    "assign": "operators.assignment",
    "reorder": "operators.permutation",
    "inverse": "operators.permutation",
    "to_matrix": "operators.permutation",
    "entropy": "operators.permutation",
    "marginal_error": "operators.permutation",
    "kendall_tau": "operators.permutation",
    "Path": "structure.layouts",
    "Cycle": "structure.layouts",
    "Grid": "structure.layouts",
    "Graph": "structure.layouts",
    "Solution": "solve.solution",
}

if TYPE_CHECKING:
    from .operators.assignment import assign as assign
    from .operators.gumbel import gumbel_sinkhorn as gumbel_sinkhorn
    from .operators.permutation import entropy as entropy
    from .operators.permutation import inverse as inverse
    from .operators.permutation import kendall_tau as kendall_tau
    from .operators.permutation import marginal_error as marginal_error
    from .operators.permutation import reorder as reorder
    from .operators.permutation import to_matrix as to_matrix
    from .operators.sinkhorn import sinkhorn as sinkhorn
    from .shapes import BadInput as BadInput
    from .structure.layouts import Cycle as Cycle
    from .structure.layouts import Graph as Graph
    from .structure.layouts import Grid as Grid
    from .structure.layouts import Path as Path

__all__ = ["__version__", "solve", *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unshuffle' has no attribute {name!r}")
    module = import_module(f".{_HOME[name]}", __name__)
    value = getattr(module, name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
