"""Somebody who looks on while a command works, such as the studio: told what was read and every step, and may stop it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from ..progress_bar import Bar, News, Screen


class Onlooker(Protocol):
    def given(self, thing: Any) -> None:
        """What the command has read: tiles, strips, cities, tables."""
        ...

    def stage(self, name: str) -> None: ...

    def __call__(self, news: News) -> object:
        """A step of the solver or of the training; False stops it with the best so far."""
        ...


_present: ContextVar[Onlooker | None] = ContextVar("onlooker", default=None)


@contextmanager
def looked_on(by: Onlooker) -> Iterator[None]:
    """Commands that are called within have this onlooker."""
    token = _present.set(by)
    try:
        yield
    finally:
        _present.reset(token)


def present() -> Onlooker | None:
    return _present.get()


class Show(Bar):
    """The progress bar of a command; tells the onlooker too, if there is one."""

    def __init__(self, screen: Screen, time_limit: float | None = None) -> None:
        super().__init__(screen, time_limit)
        self._onlooker = present()
        self.closely = self._onlooker is not None

    def given(self, thing: Any) -> None:
        """The command has read its input."""
        if self._onlooker is not None:
            self._onlooker.given(thing)

    def stage(self, name: str) -> None:
        super().stage(name)
        if self._onlooker is not None:
            self._onlooker.stage(name)

    def __call__(self, news: News) -> object:
        super().__call__(news)
        return None if self._onlooker is None else self._onlooker(news)
