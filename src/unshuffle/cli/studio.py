"""``unshuffle studio``: watch it work in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from ..errors import BadInput


def studio(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of this machine; 0 takes one that is free.")
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address only, open no browser.")] = False,
) -> None:
    """Watch it work in a browser: puzzles, strips, tours, tables, matching and learning, on this machine alone.

    Serves one page on 127.0.0.1 until Ctrl-C. The address has a token; whoever does not know it gets nothing. Every page shows the
    command line that does the same, and gives all the files that it writes.

    Example: unshuffle studio --port 8100 --no-open
    """
    try:
        from ..studio.server import serve
    except ImportError as error:
        raise BadInput(f"The studio needs {error.name}: pip install 'unshuffle[studio]'.") from None

    def ready(address: str) -> None:
        typer.echo(f"The studio is at {address}")
        typer.echo("Ctrl-C ends it.")
        if not no_open:
            webbrowser.open(address)

    serve(port, ready)
