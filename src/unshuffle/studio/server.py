"""The server: one page, its files, and under /api/ what the page asks for. Bound to 127.0.0.1 only."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import socket
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..errors import BadInput
from .explain import explained
from .guard import Guard
from .pages import MOST_BYTES, OpenPage, Pages, Upload
from .tasks import PICTURES, TASKS

ADDRESS = "127.0.0.1"
LARGEST = {True: 60_000_000, False: 20_000_000}  # bytes of a picture, of a table
MOST_JSON = 400_000  # bytes of a request that is not an upload
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
RESULT_KINDS = {"png": "image/png", "csv": "text/csv", "json": "application/json"}


class TooLarge(BadInput):
    pass


Answer = Callable[[Request], Awaitable[Response]]


def answering(function: Answer) -> Answer:
    """Bad requests are answered in one sentence."""

    async def call(request: Request) -> Response:
        try:
            return await function(request)
        except TooLarge as error:
            return JSONResponse({"sentence": str(error)}, 413)
        except BadInput as error:
            return JSONResponse({"sentence": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)

    return call


class Studio:
    """What the routes share."""

    def __init__(self) -> None:
        self.pages = Pages()

    def page(self, request: Request) -> OpenPage:
        return self.pages.of(request.path_params["page"])

    def known(self, request: Request) -> OpenPage:
        """A page that is there; asking for results does not make one."""
        found = self.pages.pages.get(request.path_params["page"])
        if found is None:
            raise BadInput("This page is not known here; reload it.")
        return found

    # --- routes ------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        page = self.page(request)

        async def stream() -> AsyncIterator[str]:
            yield "retry: 1000\n\n"
            async with contextlib.aclosing(self.pages.events(page)) as events:  # pyright: ignore[reportArgumentType]
                async for event in events:
                    yield ": still here\n\n" if event is None else f"data: {json.dumps(event)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def leave(self, request: Request) -> Response:
        self.pages.drop(self.known(request))
        return Response(status_code=204)

    async def upload(self, request: Request) -> Response:
        """The bytes of one file; its name is only shown."""
        page, called = self.page(request), request.query_params.get("name", "")[:200]
        number, path, ending = self.pages.room(page, called)
        most = min(LARGEST[ending in PICTURES], MOST_BYTES - page.bytes)
        size = 0
        try:
            with path.open("xb") as file:
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise TooLarge(f"This is more than the {most / 1e6:.0f} MB that the studio takes here.")
                    await run_in_threadpool(file.write, part)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        page.bytes += size
        page.uploads[number] = Upload(path, ending, called)
        return JSONResponse({"upload": number, "bytes": size})

    async def start(self, request: Request) -> Response:
        page = self.page(request)
        return JSONResponse({"job": self.pages.start(page, await asked(request))})

    async def say(self, request: Request) -> Response:
        self.pages.say(self.known(request), request.path_params["job"], await asked(request))
        return JSONResponse({})

    def folder(self, request: Request) -> Path:
        """Of a job of this page."""
        page = self.known(request)
        name = request.path_params["job"]
        found = {path.name: path for path in page.folder.iterdir()}  # names are looked up, never joined to a path
        if name not in found or name == "uploads":
            raise BadInput("This job is not known here.")
        return found[name]

    async def picture(self, request: Request) -> Response:
        """A picture of the input."""
        path = self.folder(request) / "shown" / f"{int(request.path_params['number'])}.png"
        if not path.is_file():
            raise BadInput("There is no such picture.")
        return Response(path.read_bytes(), media_type="image/png")

    async def result(self, request: Request) -> Response:
        """One of the files that the command wrote, by its name."""
        folder = self.folder(request) / "results"
        found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        name = request.path_params["name"]
        if name not in found:
            raise BadInput("There is no such result.")
        kind = RESULT_KINDS.get(found[name].suffix[1:], "application/octet-stream")
        return Response(found[name].read_bytes(), media_type=kind)

    async def everything(self, request: Request) -> Response:
        """Input and results, packed: the command that was shown can be run where this is unpacked."""
        data = await run_in_threadpool(packed, self.folder(request))
        headers = {"content-disposition": 'attachment; filename="unshuffled.zip"'}
        return Response(data, media_type="application/zip", headers=headers)

    async def explain(self, request: Request) -> Response:
        given = await asked(request)
        return JSONResponse(await run_in_threadpool(explained, given))

    async def tasks(self, request: Request) -> Response:
        return JSONResponse(
            {name: {"examples": task.examples, "takes": sorted(task.takes)} for name, task in TASKS.items()}
        )


async def asked(request: Request) -> dict[str, Any]:
    """The body of a request: a JSON object of moderate size."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_JSON:
            raise TooLarge("This request is too large.")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("This is not JSON.") from None
    if not isinstance(given, dict):
        raise BadInput("A JSON object was expected.")
    return given


def packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and name.parts[0] != "shown":
                archive.write(path, str(name))
    return buffer.getvalue()


def static() -> dict[str, tuple[bytes, str]]:
    """The files of the page, by name: read once, so that no request is ever a path."""
    folder = files("unshuffle") / "studio" / "page"
    return {
        entry.name: (entry.read_bytes(), KINDS[entry.name.rsplit(".", 1)[-1]])
        for entry in folder.iterdir()
        if entry.name.rsplit(".", 1)[-1] in KINDS
    }


def application(token: str, port: int) -> Starlette:
    studio, page = Studio(), static()

    async def file(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in page:
            return Response("There is no such page.", 404)
        data, kind = page[name]
        return Response(data, media_type=kind)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        threading.Thread(
            target=explained, args=({},), daemon=True
        ).start()  # torch is loaded while the page is looked at
        yield
        studio.pages.close()

    at = "/api/pages/{page}"
    routes = [
        Route("/", file),
        Route("/{name}", file),
        Route("/api/tasks", answering(studio.tasks)),
        Route("/api/explain", answering(studio.explain), methods=["POST"]),
        Route(f"{at}/events", answering(studio.events)),
        Route(f"{at}/leave", answering(studio.leave), methods=["POST"]),
        Route(f"{at}/uploads", answering(studio.upload), methods=["POST"]),
        Route(f"{at}/jobs", answering(studio.start), methods=["POST"]),
        Route(f"{at}/jobs/{{job}}/say", answering(studio.say), methods=["POST"]),
        Route(f"{at}/jobs/{{job}}/shown/{{number:int}}", answering(studio.picture)),
        Route(f"{at}/jobs/{{job}}/results/{{name:path}}", answering(studio.result)),
        Route(f"{at}/jobs/{{job}}/unshuffled.zip", answering(studio.everything)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, port=port)], lifespan=lifespan)


def bound(port: int) -> socket.socket:
    """A socket of this machine only; port 0: any that is free."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((ADDRESS, port))
        found.listen(128)  # whoever opens the address at once waits, and is not refused
    except OSError as error:
        found.close()
        raise BadInput(f"Port {port} cannot be used ({error.strerror}); choose another with --port.") from None
    return found


def serve(port: int, ready: Callable[[str], None]) -> None:
    """Serves until Ctrl-C; ``ready`` is told the address, token and all."""
    listening, token = bound(port), secrets.token_urlsafe(24)
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        application(token, port),
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
        h11_max_incomplete_event_size=32_000,
    )
    server = uvicorn.Server(config)
    ready(f"http://{ADDRESS}:{port}/?token={token}")
    with listening, contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        server.run(sockets=[listening])
