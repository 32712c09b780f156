"""How far it is: a bar on a terminal or in a notebook, told by the callbacks of ``solve``, ``match`` and ``fit``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 0.1  # seconds between two pictures of a bar in a notebook


class News(Protocol):
    """What a callback is told: a `Step` of a solver, a `Moment` of a training."""

    @property
    def seconds(self) -> float: ...
    @property
    def overall(self) -> float: ...
    @property
    def words(self) -> str: ...


Screen = Callable[[float | None, str, str], None]
"""(share that is done or None, what is going on, how long it may still take)"""


class Bar:
    """What a progress bar is told: `stage("drawing")`, or by calling it what a callback gets."""

    def __init__(self, screen: Screen, time_limit: float | None = None) -> None:
        self._screen, self._time_limit = screen, time_limit
        self._began, self._stage, self._lasting = time.perf_counter(), "", ""

    def stage(self, name: str) -> None:
        """A stage that does not say how far it is."""
        self._screen(None, name, "")

    def __call__(self, news: News) -> object:
        now, stage = time.perf_counter(), "".join(c for c in news.words.split("  ")[0] if not c.isdigit())
        if stage != (self._stage or stage):  # what went before says nothing of how long this one takes
            self._began = now
        self._stage, done, passed = stage, news.overall, now - self._began
        left = passed * (1 - done) / done if done > 0.03 and passed > 1 else math.inf
        if self._time_limit is not None:
            done = max(done, news.seconds / max(self._time_limit, 1e-9))
            left = min(left, max(self._time_limit - news.seconds, 0.0))
        self._lasting = getattr(news, "lasting", "") or self._lasting
        words = f"about {duration(left)} left" if left < math.inf else ""
        self._screen(min(done, 1.0), news.words + self._lasting, words)
        return None

    def stopping(self) -> None:
        """Ctrl-C is answered before the step that is under way has ended."""
        self._screen(None, "stopping; the best so far is kept", "")


def duration(seconds: float) -> str:
    """In the words of a person: 40 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress(title: str = "", quiet: bool = False, time_limit: float | None = None) -> Iterator[Bar]:
    """A bar that names the stage and says how long it may take, then vanishes: on a terminal's standard error or in a notebook.

    Elsewhere, in a pipe or a log, nothing is shown.

    Examples:
        >>> with us.progress("tour") as bar:
        ...     found = us.solve(us.Cycle(50), cost=D, callback=bar)
    """
    where = None if quiet else _notebook()
    if where is not None:
        with _in_notebook(title, *where) as screen:
            yield Bar(screen, time_limit)
        return
    from rich.console import Console

    with on_terminal(title, Console(stderr=True, highlight=False), quiet) as screen:
        yield Bar(screen, time_limit)


@contextmanager
def on_terminal(title: str, console: Console, quiet: bool = False) -> Iterator[Screen]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(24),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(title, total=None, now="", left="")

        def show(done: float | None, now: str, left: str) -> None:
            total = None if done is None else 1.0
            bar.update(
                task, total=total, completed=min(done or 0.0, 0.999), now=now, left=left
            )  # at 1 its clock would stop

        yield show


def _notebook() -> tuple[Callable[..., Any], Callable[[str], Any]] | None:
    """IPython's ``display`` and ``HTML``, if this runs in the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    if running is None or not getattr(running, "kernel", None):
        return None
    from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

    return display, HTML


@contextmanager
def _in_notebook(title: str, display: Callable[..., Any], html: Callable[[str], Any]) -> Iterator[Screen]:
    """One output that is drawn anew, at most ten times a second, and is empty in the end."""
    began, last = time.perf_counter(), -EVERY

    def page(done: float | None, now: str, left: str) -> Any:
        value = "" if done is None else f' value="{done:.3f}"'
        passed = duration(time.perf_counter() - began)
        words = "  ".join(filter(None, (title, now, passed, left)))
        return html(f'<progress max="1"{value}></progress> <code>{escape(words)}</code>')

    handle = display(page(None, "", ""), display_id=True)

    def show(done: float | None, now: str, left: str) -> None:
        nonlocal last
        if (passed := time.perf_counter()) - last >= EVERY:
            last = passed
            handle.update(page(done, now, left))

    try:
        yield show
    finally:
        handle.update(html(""))
