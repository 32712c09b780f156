"""What every solver is asked for besides its problem: one small value instead of five arguments handed from one to the next."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..watch import Watch


class Request(NamedTuple):
    """``allowed`` (bool, items x positions) forbids and anchors, ``init`` (scores) says where to start; the rest as in `solve`."""

    generator: torch.Generator
    watch: Watch
    allowed: Tensor | None = None
    init: Tensor | None = None
    runs: int | None = None
