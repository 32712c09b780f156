"""A value as plain settings, for files, and back.

Everything that decides a run is a number, a word, a function with a name, or an object of a small class whose arguments are such
values again. Written down, an object is `{"is": its class, argument: value, ...}` and a function `{"is": its name}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import BadInput, shown

IS = "is"


def plain(value: Any) -> Any:
    """As JSON knows it, with every argument."""
    return _written(value, lambda owner, parameter, setting: True)


def essential(value: Any) -> Any:
    """The same without arguments at their defaults: a setting that is added later does not rename old results."""

    def matters(owner: Any, parameter: inspect.Parameter, setting: Any) -> bool:
        default = getattr(owner, "usual", {}).get(parameter.name, parameter.default)
        return default is parameter.empty or plain(setting) != plain(default)

    return _written(value, matters)


def _written(value: Any, kept: Callable[[Any, inspect.Parameter, Any], bool]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_written(v, kept) for v in value]
    if inspect.isfunction(value):
        return {IS: value.__name__}
    given = {name: (p, getattr(value, name)) for name, p in _arguments(type(value)).items()}
    return {IS: type(value).__name__} | {n: _written(v, kept) for n, (p, v) in given.items() if kept(value, p, v)}


def in_words(value: Any) -> str:
    """As one would write it in code, without what is at its default: `Anneal(start=0.66, end=2.0, epochs=150)`."""
    return _in_words(essential(value))


def _in_words(said: Any) -> str:
    if isinstance(said, list):
        return " ".join(map(_in_words, said))
    if not isinstance(said, dict):
        return "none" if said is None else f"{said:,g}" if isinstance(said, float) else str(said)
    given = ", ".join(f"{name}={_in_words(v)}" for name, v in said.items() if name != IS)
    return f"{said[IS]}({given})" if given else said[IS]


@cache
def _arguments(kind: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


def restored(said: Any, parts: Mapping[str, Any]) -> Any:
    """The value that was written down, if all its parts are known ones: a file cannot name anything else."""
    if isinstance(said, list):
        return tuple(restored(v, parts) for v in said)
    if not isinstance(said, dict):
        return said
    name = said.get(IS)
    if not isinstance(name, str) or name not in parts:
        raise BadInput(f"These settings name a part that is not known here: {shown(name)}.")
    if inspect.isfunction(part := parts[name]):
        return part
    given = {key: restored(v, parts) for key, v in said.items() if key != IS}
    if unknown := sorted(given.keys() - _arguments(part).keys()):
        raise BadInput(f"{name} has no setting {', '.join(unknown)}: it was written by another version.")
    return part(**given)
