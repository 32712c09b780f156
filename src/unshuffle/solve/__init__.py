"""``solve``: one instance, no training. The front door; each layout's solver is in its own file.

``unshuffle/__init__.py`` imports this module when the package is imported, so that ``us.solve`` is the function and not
this package of the same name. Nothing heavy may therefore be imported at the top of this file.
"""

from __future__ import annotations

from typing import Any


def solve(problem: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("solve is being written")
