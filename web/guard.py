"""What holds for every request: no changes asked by other sites' pages, safe headers, no traceback to users."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.errors import Json, unexpected
from web.origin import foreign_origin

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {
    # Everything comes from this server. Pictures of the live view are blobs.
    "content-security-policy": (
        "default-src 'self'; img-src 'self' blob: data:; connect-src 'self' ws: wss:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def foreign(headers: Headers) -> str | None:
    """The `Origin` of a request that a page of another site sent, or None (web.origin)."""
    return foreign_origin(headers.get("origin"), headers.get("host", ""))


class Guard:
    """Outermost ASGI layer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refuse = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        origin = foreign(Headers(scope=scope)) if refuse else None
        if origin is not None:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 4403, "reason": "another site's page"})
                return
            message = f"a page of another site ({origin[:100]}) may not do this"
            await Json({"error": {"code": "forbidden", "message": message}}, 403)(scope, receive, send)
            return
        began = False

        async def with_headers(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, with_headers)
        except Exception as error:
            if scope["type"] == "websocket" or began:
                raise
            await unexpected(error, f"{scope['method']} {scope['path']}")(scope, receive, with_headers)
