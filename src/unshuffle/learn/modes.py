"""Training and evaluation: who changes a module's mode for a while puts every part of it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def modes_kept(*parts: object) -> Iterator[None]:
    """Afterwards every module in these is in training or in evaluation as it was, also after an error."""
    modules = [module for part in parts if isinstance(part, nn.Module) for module in part.modules()]
    before = [module.training for module in modules]
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training
