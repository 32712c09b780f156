"""Who may ask: only pages of this very server, and of the interface under /api/ only those that know the token.

A browser sends the name it looked up as Host, so a foreign name that was made to point to this machine (DNS rebinding) is
refused; and it says from where a request was made, so other sites cannot start work here.
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost")
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            return
        refused = self.refused(scope)
        if refused:
            await PlainTextResponse(refused, 403, headers=HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in said]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await self.app(scope, receive, with_headers)

    def refused(self, scope: Scope) -> str:
        """Why, in one sentence; empty if the request is welcome."""
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self.hosts:
            return "This is not the address of the studio."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return "Another site may not use the studio."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "Another site may not use the studio."
        if not scope["path"].startswith("/api/"):
            return ""
        given = headers.get("x-token") or QueryParams(scope["query_string"]).get("token") or ""
        known = hmac.compare_digest(given.encode(), self.token.encode())
        return "" if known else "The token is missing or wrong: open the address that the studio printed."
