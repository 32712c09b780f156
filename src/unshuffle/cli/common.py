"""What all commands share: options, progress, files, and the one place where errors become a sentence."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .. import __version__
from ..errors import BadInput
from ..files import write_atomic as write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..solve.watch import Step

# command -> its line in the list; the function of the same name is in the module of the same name
COMMANDS = {
    "demo": "Shuffle a shipped photo, put it back together, show before and after.",
    "jigsaw": "Put the tiles of a shuffled picture back in place.",
    "strips": "Put the strips of shredded pages back in order.",
    "tour": "Find a short round trip through cities.",
    "seriate": "Order the rows (and columns) of a table so that neighbours are alike.",
    "bench": "Measure speed and memory of the Sinkhorn operator on this machine.",
}

Seed = Annotated[int, typer.Option("--seed", help="Makes a run repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; made if it does not exist.")]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", min=0.0, help="Stop after so many seconds.")]

errors = Console(stderr=True, highlight=False)


def main() -> None:
    """The console script."""
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    wanted = next((a for a in arguments if not a.startswith("-")), None)
    build(wanted, debug)(arguments)


def build(wanted: str | None, debug: bool = False) -> typer.Typer:
    """The application. Only the wanted command's module is imported, so that help and typos answer at once."""
    app = typer.Typer(
        name="unshuffle",
        help="Find the order hidden in unordered data, from structure alone.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog="Example: unshuffle jigsaw photo.jpg --grid 7x7 --shuffle. Add --debug to any command for a traceback.",
    )
    app.callback()(_root)
    for name, line in COMMANDS.items():
        function = _load(name) if name == wanted else _placeholder(line)
        app.command(name, help=None if name == wanted else line)(_guarded(function, debug))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unshuffle {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


def _root(version: Version = False) -> None: ...


def _load(name: str) -> Callable[..., None]:
    return getattr(import_module(f".{name}", __package__), name)


def _placeholder(line: str) -> Callable[..., None]:
    def command() -> None: ...

    command.__doc__ = line
    return command


def _guarded(function: Callable[..., None], debug: bool) -> Callable[..., None]:
    """Bad input, unreadable files and full disks end in one sentence and exit code 2."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except (BadInput, OSError, MemoryError) as error:
            if debug:
                raise
            errors.print(f"Error: {sentence(error)}", markup=False, soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            errors.print("Interrupted.", markup=False)
            raise typer.Exit(130) from None

    # typer reads real types, not the strings that `from __future__ import annotations` leaves
    signature = inspect.signature(function, eval_str=True)
    vars(call)["__signature__"] = signature
    call.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return call


def sentence(error: BaseException) -> str:
    """An exception in the words of a person."""
    if isinstance(error, MemoryError):
        return "There is not enough memory for a problem of this size."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


@contextlib.contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
    """A callback for ``solve`` that shows stage, energy and entropy on a terminal's standard error, then vanishes."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal) as bar:
        task = bar.add_task(title, total=None, now="")

        def show(step: Step) -> None:
            bar.update(task, now=f"{step.stage}  energy {step.energy:.6g}  entropy {step.entropy:.3f}")

        yield show


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """A matplotlib figure as PNG (or by the path's ending), atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=dpi, bbox_inches="tight")
    return write_atomic(path, buffer.getvalue())


def say(result: dict[str, Any], lines: list[str], as_json: bool, quiet: bool) -> None:
    """The end of every command: JSON on standard output, or a few lines for a person, or nothing."""
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif not quiet:
        for line in lines:
            typer.echo(line)
