"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


def names_of(given: list[str] | None) -> tuple[str, ...]:
    """Names that came one by one or with commas between them."""
    return tuple(name.strip() for names in given or () for name in names.split(",") if name.strip())


Seed = Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Makes a run repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="Folder for the results, INPUT is the input's name; made if it does not exist."),
]
Polish = Annotated[bool, typer.Option("--polish", help="Add a local search, reported apart.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out; may be given again.")]
Use = Annotated[
    list[str] | None,
    typer.Option("--use", help="The columns to use, such as x,y; may be given again; found out if not given."),
]
Alternatives = Annotated[
    int,
    typer.Option(
        "--alternatives", min=0, help="So many different orders beside the best go into the JSON, with values."
    ),
]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", min=0.0, help="Stop after so many seconds with the best so far.")
]


@dataclass(frozen=True)
class Usual:
    """The options of every command that works for a while, declared once: a parameter of this type stands for all of them, and
    its default says in which folder the results go."""

    out: Out
    seed: Seed = 0
    time_limit: TimeLimit = None
    json_: Json = False
    quiet: Quiet = False

    @property
    def silent(self) -> bool:
        """Nothing for a person to read."""
        return self.json_ or self.quiet
