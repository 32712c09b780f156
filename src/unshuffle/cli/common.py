"""What all commands share: options, progress, files, and the one place where errors become a sentence."""

from __future__ import annotations

import atexit
import contextlib
import csv
import difflib
import functools
import gc
import inspect
import io
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperCommand
from typer.models import ArgumentInfo

from .. import __version__
from ..errors import BadInput
from ..files import write_atomic as write_atomic
from ..files import write_together as write_together
from ..progress_bar import duration, on_terminal
from ..readers.cells import as_text
from .onlooker import Show
from .results import json_text as json_text
from .results import keep_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# command -> its line in the list; the function of the same name is in the module of the same name
COMMANDS = {
    "demo": "Shuffle a shipped photo, put it back together, show before and after.",
    "jigsaw": "Put the tiles of a shuffled picture back in place.",
    "strips": "Put the strips of shredded pages back in order.",
    "tour": "Find a short round trip through cities.",
    "seriate": "Order the rows (and columns) of a table so that neighbours are alike.",
    "hic": "Order bins or contigs of a genome by their contacts, tell chromosomes apart.",
    "markers": "Put genetic markers into linkage groups and in order.",
    "slices": "Put slices of a volume or frames of a film in order.",
    "match": "Match the rows of two tables by what each knows of its own rows.",
    "studio": "Watch it work in a browser, on this machine alone.",
    "train": "Teach a network to order, from structure alone.",
    "apply": "Order new data with a trained network, in one pass.",
    "bench": "Measure speed and memory of the Sinkhorn operator on this machine.",
    "reproduce": "Compute the tables of the paper, ours beside the paper's.",
    "report": "Show the tables and figures of the paper with ours beside them.",
}

LOADED = time.perf_counter()  # almost the first thing that a command does: what it works with takes seconds to load
DRAWING = 1.0  # seconds: to load what draws, a picture of usual size, and the files
SELDOM = (
    20_000,
    50,
    100,
)  # when to look for garbage: of a million things that are loaded none is, and looking takes half a second
INTERRUPTED = 130  # what shells say of a program that Ctrl-C ended
AFTERWARDS = (
    "Ctrl-C stops with the best so far, written as usual, and exit code 130. Bad input gives one sentence and exit code 2; "
    "--debug adds the traceback."
)

errors = Console(stderr=True, highlight=False)


def main() -> None:
    """The console script."""
    Clock.began = LOADED
    gc.set_threshold(*SELDOM)
    atexit.register(gc.freeze)  # nor does Python look through all of it at the end, which takes a second
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    # completion asks with the words so far in the environment, not as arguments
    words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:] or arguments
    wanted = next((a for a in words if not a.startswith("-")), None)
    try:
        build(wanted, debug)(arguments, prog_name="unshuffle")
    except KeyboardInterrupt:  # outside of the command's own work
        _end_now()
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        _leave(end.code)
        raise


def _end_now() -> None:
    errors.print(_interrupted(), markup=False)
    _leave(INTERRUPTED)


def _interrupted() -> str:
    """What Ctrl-C has broken off, as far as that is known; nothing is loaded to say it."""
    if not _with_kernels():
        return "Interrupted."
    compiling = sys.modules.get("unshuffle.compute.compiling")
    doing = "compiling" if compiling is not None and compiling.compiling_now() else "loading"
    return f"Interrupted while {doing}; nothing was written."


def _with_kernels() -> bool:
    jit = sys.modules.get("unshuffle.compute.jit")
    return jit is not None and jit.still_compiling()


def _leave(code: object) -> None:
    """Does not wait for a compiler that nobody wants any more, and that no one can stop half-way; else the usual end follows."""
    if _with_kernels():
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else INTERRUPTED)


def build(wanted: str | None, debug: bool = False) -> typer.Typer:
    """The application. Only the wanted command's module is imported, so that help and typos answer at once."""
    app = typer.Typer(
        name="unshuffle",
        help="Find the order hidden in unordered data, from structure alone.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        epilog="Example: unshuffle jigsaw photo.jpg --grid 7x7 --shuffle. Add --debug to any command for a traceback.",
    )
    app.callback()(_root)
    for name, line in COMMANDS.items():
        function = _load(name) if name == wanted else _placeholder(line)
        helped = {"help": None if name == wanted else line, "epilog": AFTERWARDS}
        app.command(name, cls=Suggesting, **helped)(_guarded(function, debug))
    return app


class Suggesting(TyperCommand):
    """A command that answers a mistyped choice with the one that was likely meant, as typer does for names of options."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().make_context(*args, **kwargs)
        except typer.BadParameter as error:
            message = error.message.removeprefix("Value error, ")
            given, _, choices = message.partition(" is not one of ")
            error.message = message + meant(given.strip("'"), re.findall("'(.+?)'", choices))
            raise


def meant(given: str, choices: Iterable[str]) -> str:
    """The end of an error: " Did you mean ...?", if anything is near."""
    near = difflib.get_close_matches(given, list(choices), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def one_of(what: str, given: str, choices: Iterable[str]) -> str:
    """The given choice, if it is one; otherwise one sentence."""
    choices = list(choices)
    if given not in choices:
        raise BadInput(f"{what} must be one of {', '.join(choices)}, not {given!r}.{meant(given, choices)}")
    return given


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
            if "out" in kwargs:
                kwargs["out"] = own_folder(signature, kwargs)
                can_be_written(kwargs["out"])  # now, not after minutes of work
                keep_inputs(function.__name__, _paths(signature, kwargs), kwargs["out"])
            for name, group in groups.items():
                kwargs[name] = type(group)(**{field.name: kwargs.pop(field.name) for field in fields(group)})
            function(*args, **kwargs)
        except BrokenPipeError:  # the reader of a pipe has seen enough; click ends quietly
            raise
        except (BadInput, OSError, MemoryError) as error:
            if debug:
                raise
            errors.print(f"Error: {harmless(sentence(error))}", markup=False, soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            _end_now()
            raise typer.Exit(INTERRUPTED) from None

    # typer reads real types, not the strings that `from __future__ import annotations` leaves
    given = inspect.signature(function, eval_str=True)
    groups = {name: p.default for name, p in given.parameters.items() if is_dataclass(p.default)}
    signature = given.replace(parameters=[option for p in given.parameters.values() for option in _one_by_one(p)])
    vars(call)["__signature__"] = signature
    call.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return call


def _one_by_one(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """A group of options as options, with what the group has as their defaults; any other parameter as it is."""
    if not is_dataclass(group := parameter.default):
        return [parameter]
    kinds = get_type_hints(type(group), include_extras=True)
    return [
        parameter.replace(name=field.name, annotation=kinds[field.name], default=getattr(group, field.name))
        for field in fields(group)
    ]


def own_folder(signature: inspect.Signature, given: dict[str, Any]) -> Path:
    """Where the results go: a default such as ``unshuffled/INPUT-tour`` takes the name of the last argument, and FIRST
    that of the first one, so that the results of two inputs or of two commands never mix."""
    if given["out"] != signature.parameters["out"].default or "INPUT" not in str(given["out"]):
        return given["out"]
    arguments = [given[name] for name, p in signature.parameters.items() if _is_argument(p.annotation)]
    folder = str(given["out"])
    for word, argument in (("FIRST", arguments[0]), ("INPUT", arguments[-1])):
        name = argument.value if isinstance(argument, Enum) else _named_after(Path(argument))
        folder = folder.replace(word, harmless(name) or "input", 1)
    return Path(folder)


LONGEST = 60  # letters of the name of a folder, of up to four bytes each; file systems take 255


def _named_after(path: Path) -> str:
    """The file's name, and before it the folders that it is in, seen from here: inputs of one name in two folders are two."""
    here = path.resolve()
    there = here.parent.parts
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(there, Path.cwd().parts, strict=False)))
    return "-".join([*there[max(shared, 1) :], here.stem])[-LONGEST:]  # without the root or the letter of a drive


def _paths(signature: inspect.Signature, given: dict[str, Any]) -> list[Path]:
    """What the command is to read: its arguments and the files that options name."""
    return [given[name] for name in signature.parameters if name != "out" and isinstance(given[name], Path)]


def _is_argument(annotation: Any) -> bool:
    return any(isinstance(mark, ArgumentInfo) for mark in getattr(annotation, "__metadata__", ()))


def harmless(text: str) -> str:
    """Text of a stranger's file or name on one line of the screen: what could move the cursor or recolour is a question mark."""
    return "".join(c if c.isprintable() else "?" for c in text)


def can_be_written(folder: Path) -> None:
    """Nothing, if the folder can be made or written to; otherwise an error."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(there))
    if not os.access(there, os.W_OK):
        raise PermissionError(13, "Permission denied", str(there))


def sentence(error: BaseException) -> str:
    """An exception in the words of a person."""
    if isinstance(error, MemoryError):
        return "There is not enough memory for a problem of this size."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _load_what_draws() -> None:
    """Beside the work, so that nobody waits for it at the end."""
    import_module("matplotlib.backends.backend_agg")
    import_module("matplotlib.figure")


class Clock:
    """The time of a whole command: seconds of work, those of loading and of compiling apart, and what is left of a limit."""

    began: float | None = None
    """When this process began, if it was for one command."""

    def __init__(self, time_limit: float | None = None) -> None:
        """Where the work begins: all that it needs has been loaded."""
        from ..compute.compiling import compiling_seconds

        threading.Thread(target=_load_what_draws).start()  # no daemon: to end in the midst of loading C++ may abort
        self._began = time.perf_counter()
        self.loading = 0.0 if Clock.began is None else self._began - Clock.began
        self._compiling, self._before = compiling_seconds, compiling_seconds()
        self.time_limit = time_limit

    @property
    def compiling(self) -> float:
        """Seconds that went into compiling kernels, which happens once on a machine."""
        return self._compiling() - self._before

    @property
    def seconds(self) -> float:
        """Seconds of everything else: reading, costs, solving, polish, drawing."""
        return time.perf_counter() - self._began - self.compiling

    @property
    def left(self) -> float | None:
        """Seconds of the limit that are left to solve in, with what pictures and files take kept; compiling counts."""
        return self.before(0.0)

    def before(self, drawing: float) -> float | None:
        """The same, if pictures and files are known to take so many seconds; at most half of the limit is kept."""
        if self.time_limit is None:
            return None
        kept = min(max(DRAWING, drawing), self.time_limit / 2)
        return max(0.0, self.time_limit - kept - (time.perf_counter() - self._began))

    def spare(self, seconds: float) -> bool:
        """Whether so many seconds are left of the limit, if there is one."""
        return self.time_limit is None or time.perf_counter() - self._began + seconds < self.time_limit

    def times(self) -> dict[str, float]:
        """For the result file."""
        apart = {"compiling_seconds": round(self.compiling, 3), "loading_seconds": round(self.loading, 3)}
        return {"seconds": round(self.seconds, 3), **apart}

    def words(self) -> str:
        """For a person: "3.2 s, and 20 s to compile, once, and 1.4 s to load"."""
        compiling = f", and {self.compiling:.0f} s to compile, once" if self.compiling >= 1 else ""
        loading = f", and {self.loading:.1f} s to load" if self.loading >= 0.5 else ""
        return f"{self.seconds:.1f} s{compiling}{loading}"


@contextlib.contextmanager
def progress(title: str, quiet: bool = False, time_limit: float | None = None) -> Iterator[Show]:
    """A bar on a terminal's standard error that names the stage and says how long it may take, then vanishes."""
    with on_terminal(title, errors, quiet) as screen:
        yield Show(screen, time_limit)


@contextlib.contextmanager
def to_the_end() -> Iterator[None]:
    """What has been found is drawn and written, also if Ctrl-C comes now; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = _Ending()
    before, _Ending.now = signal.signal(signal.SIGINT, ending), ending
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _Ending.now = None
    if ending.pressed:
        raise typer.Exit(INTERRUPTED)


class _Ending:
    """Who hears Ctrl-C while results are drawn and written."""

    now: ClassVar[_Ending | None] = None

    def __init__(self) -> None:
        self.pressed = self.dispensable = False

    def __call__(self, _signal: int, _frame: object) -> None:
        if self.pressed or self.dispensable:
            self.pressed = True
            raise KeyboardInterrupt
        self.pressed = True


def unless_pressed(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Something that takes seconds and can be left out: nothing, if Ctrl-C has come while results are drawn, or comes now."""
    ending = _Ending.now
    if ending is None:
        return compute()
    if ending.pressed:
        return {}
    ending.dispensable = True
    try:
        return compute()
    except KeyboardInterrupt:
        return {}
    finally:
        ending.dispensable = False


LARGE = 20.0  # seconds: from here on a job is announced


def foresee(seconds: float, gigabytes: float, silent: bool) -> None:
    """Says before a large job how long it may take and how much memory; one that cannot fit is refused."""
    free = free_memory()
    if free is not None and gigabytes > free:
        raise BadInput(f"This needs about {gigabytes:.1f} GB of memory, but {free:.1f} GB are free; give fewer items.")
    if seconds > LARGE or gigabytes > 1:
        size = f" and {gigabytes:.1f} GB of memory" if gigabytes >= 0.1 else ""
        announce(
            f"This may take about {duration(seconds)}{size}; --time-limit ends it earlier, Ctrl-C keeps the best so far.",
            silent,
        )


def free_memory() -> float | None:
    """Gigabytes that a program can still take, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


@contextlib.contextmanager
def any_letters() -> Iterator[None]:
    """Names in letters that the font does not have are drawn as boxes, without a word about each of them on the screen."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def png_of(figure: Figure, dpi: int = 150) -> bytes:
    """A matplotlib figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    with any_letters():
        # the usual compression takes seconds for many pixels, and saves hardly any
        figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight", pil_kwargs={"compress_level": 3})
    return buffer.getvalue()


def table_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as the text of a CSV file. A name that a spreadsheet would compute is marked as text by an apostrophe."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([as_text(cell) for cell in row] for row in rows)
    return text.getvalue()


def counted(number: int, what: str) -> str:
    """1 tile, 2 tiles."""
    return f"{number} {what}{'s' * (number != 1)}"


def announce(line: str, silent: bool) -> None:
    """A line for a person before the work begins."""
    if not silent:
        typer.echo(harmless(line))


def say(result: dict[str, Any], lines: list[str], as_json: bool, quiet: bool) -> None:
    """The end of every command: JSON on standard output, or a few lines for a person, or nothing."""
    if as_json:
        typer.echo(json_text(result), nl=False)
    elif not quiet:
        for line in lines:
            typer.echo(harmless(line))
    if result.get("status") == "interrupted":
        raise typer.Exit(INTERRUPTED)
