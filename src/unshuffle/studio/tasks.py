"""What can be asked for: of each page the command behind it, what it takes, and the command line that is run and shown."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BadInput, shown


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    flag: str
    least: int
    most: int

    def __call__(self, value: Any) -> list[str]:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise BadInput(f"{self.flag} must be a whole number from {self.least} to {self.most}, not {shown(value)}.")
        return [self.flag, str(value)]


@dataclass(frozen=True)
class Number:
    """A number within bounds."""

    flag: str
    least: float
    most: float

    def __call__(self, value: Any) -> list[str]:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not self.least <= value <= self.most:
            raise BadInput(f"{self.flag} must be a number from {self.least:g} to {self.most:g}, not {shown(value)}.")
        return [self.flag, f"{value:g}"]


@dataclass(frozen=True)
class Switch:
    flag: str

    def __call__(self, value: Any) -> list[str]:
        if not isinstance(value, bool):
            raise BadInput(f"{self.flag} is given or not, but {shown(value)} came.")
        return [self.flag] if value else []


@dataclass(frozen=True)
class Word:
    """Text of a certain form."""

    flag: str
    form: str

    def __call__(self, value: Any) -> list[str]:
        if not isinstance(value, str) or not re.fullmatch(self.form, value):
            raise BadInput(f"{self.flag} cannot be {shown(value)}.")
        return [self.flag, value]


Option = Callable[[Any], list[str]]
SEED, TIME = Whole("--seed", 0, 2**31), Number("--time-limit", 0.1, 3600)
PICTURES = frozenset({"png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff", "gif", "ppm", "pgm"})
TABLES = frozenset({"csv", "tsv", "txt", "tsp", "atsp"})


@dataclass(frozen=True)
class Task:
    """A command, the options that a page may set, and the files that it takes."""

    command: tuple[str, ...]
    options: Mapping[str, Option]
    takes: frozenset[str] = frozenset()
    least: int = 0
    most: int = 0
    folder: bool = False
    """Whether several files are given as their folder."""
    examples: tuple[str, ...] = ()

    def words(self, options: Mapping[str, Any]) -> list[str]:
        """The options of the command line; one that the page does not have is refused."""
        for name in options:
            if name not in self.options:
                raise BadInput(f"There is no option {shown(name)} here.")
        return [word for name, option in self.options.items() if name in options for word in option(options[name])]

    def check(self, count: int) -> None:
        if not self.least <= count <= self.most:
            wanted = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
            raise BadInput(f"This page takes {wanted} file{'s' * (wanted != '1')}, not {count}.")

    def inputs(self, names: list[str], folder: str) -> list[str]:
        """The arguments of the command."""
        return [folder] if self.folder and len(names) > 1 else names


ANY = {"seed": SEED, "time_limit": TIME, "polish": Switch("--polish")}
TASKS = {
    "puzzle": Task(
        ("jigsaw",),
        {
            "grid": Word("--grid", r"auto|[1-9]\d{0,2}x[1-9]\d{0,2}"),
            "shuffle": Switch("--shuffle"),
            "turned": Switch("--turned"),
            "foreign": Switch("--foreign"),
            "several": Switch("--several"),
            "gap": Word("--gap", "auto|[0-3]"),
            "anchors": Whole("--anchors", 0, 1000),
            **ANY,
        },
        PICTURES,
        least=1,
        most=1000,
        folder=True,
        examples=("coffee", "boats", "alps", "turned", "missing and foreign", "two in one pile"),
    ),
    "strips": Task(
        ("strips",),
        {"turned": Switch("--turned"), "several": Switch("--several"), "missing": Switch("--missing"), **ANY},
        PICTURES,
        least=2,
        most=200,
        folder=True,
        examples=("shredded page", "some upside down", "two pages"),
    ),
    "tour": Task(("tour",), ANY, TABLES, least=1, most=1, examples=("random", "spiral", "towns")),
    "table": Task(
        ("seriate",),
        {
            "columns": Switch("--columns"),
            "kind": Word("--kind", "features|counts|dissimilarity"),
            "criterion": Word("--criterion", "path|two-sum|lags"),
            **ANY,
        },
        TABLES,
        least=1,
        most=1,
        examples=("graves", "spectra"),
    ),
    "match": Task(
        ("match",),
        {
            "distances": Switch("--distances"),
            "reject": Number("--reject", 0.01, 0.99),
            "seed": SEED,
            "time_limit": TIME,
        },
        TABLES,
        least=2,
        most=2,
        examples=("fish", "cells"),
    ),
    "learn": Task(
        ("train", "sorting"),
        {
            "recipe": Word("--recipe", "paper|strong"),
            "n": Whole("--n", 3, 40),
            "epochs": Whole("--epochs", 1, 60),
            "seed": SEED,
        },
    ),
}
TEMPERATURES = ("global", "adaptive", "entropy")  # what Learn compares, side by side


def command_line(words: list[str]) -> str:
    """To copy."""
    return shlex.join(["unshuffle", *words])
