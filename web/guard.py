"""Rules for every request: no changes asked by other sites' pages, safe headers, no traceback to users."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.errors import Json, unexpected
from web.hosts import PLAIN_HOST, Hosts
from web.origin import foreign_origin

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def foreign(headers: Headers) -> str | None:
    """The `Origin` of a request that a page of another site sent, or None (web.origin)."""
    return foreign_origin(headers.get("origin"), headers.get("host", ""))


def content_policy(host: str) -> str:
    """Everything comes from this server, and sockets go to it. Pictures of the live view are blobs. `host` is what the
    browser asked for: not every browser takes 'self' for sockets."""
    sockets = f" ws://{host} wss://{host}" if PLAIN_HOST.fullmatch(host) else ""
    return (
        f"default-src 'self'; img-src 'self' blob: data:; connect-src 'self'{sockets}; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )


class Guard:
    """Outermost ASGI layer. `hosts`: names under which requests may come; None: any."""

    def __init__(self, app: ASGIApp, hosts: Hosts | None = None) -> None:
        self.app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope)
        host = given.get("host", "")
        misnamed = None if self._hosts is None else self._hosts.refused_of(given.getlist("host"))
        if misnamed is not None:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 4403, "reason": "not a name of this box"})
                return
            message = f"{misnamed!r} is no name of this box: ask for it by address, or name it in web.hosts"
            await Json({"error": {"code": "misdirected", "message": message}}, 421)(scope, receive, send)
            return
        refuse = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        origin = foreign(given) if refuse else None
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
                headers.setdefault("content-security-policy", content_policy(host))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, with_headers)
        except Exception as error:
            if scope["type"] == "websocket" or began:
                raise
            await unexpected(error, f"{scope['method']} {scope['path']}")(scope, receive, with_headers)
