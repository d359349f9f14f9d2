"""Identity and rights: every request and socket passes here before any route sees it.

A request carries a session's cookie, or `Authorization: Bearer` with an API token. The route that it will reach is
found with the app's own routes, so the route checked is the one that runs; its module has the right that it needs
(web.roles). Streams end within seconds of a login that is revoked, expires or loses rights.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.routing import Mount, WebSocketRoute, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge.access.access import Access
from edge.access.credentials import Credential, csrf_fits
from edge.core.access import ANYBODY, Principal, Requester, allows
from edge.core.errors import Forbidden, MagpieError, NotFound, NotLoggedIn, PasswordChangeNeeded
from web.errors import answer
from web.parts import Ending, Visit
from web.roles import Row

log = logging.getLogger(__name__)

_COOKIE: Final = "magpie_session"
CSRF_HEADER: Final = "x-csrf-token"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_API: Final = "/api/"
#: The row of a route by its method and path; None: it has none.
RowOf = Callable[[str, str], Row | None]
#: An open stream's login is looked at so often.
_SWEEP_S: Final = 2.0


#: Where there is no socket, no client gets one.
_NO_SOCKET: Final = Row("admin")


class Routes:
    """The app's routes with their rows, found as the app finds them: in order, by path, then by method."""

    def __init__(self, app: FastAPI, row_of: RowOf) -> None:
        self._routes: list[tuple[re.Pattern[str], Mapping[str, Row | None]]] = []
        for methods, template, row in routes_of(app, row_of):
            pattern = "/{path:path}" if methods == ("MOUNT",) else template
            self._routes.append((compile_path(pattern)[0], dict.fromkeys(methods, row)))

    def find(self, method: str, path: str) -> tuple[Row | None, Mapping[str, str]]:
        """The row of the route that will answer, and the path's parameters. None: a route without a row."""
        for pattern, rows in self._routes:
            found = pattern.match(path)
            if found is None:
                continue
            if method in rows:
                return rows[method], found.groupdict()
            if "MOUNT" in rows and method != "WS" and not path.startswith(_API):
                return rows["MOUNT"], {}
        if method == "WS":
            return _NO_SOCKET, {}
        # 404 or 405; under /api not shown to strangers.
        return Row("viewer" if path.startswith(_API) else None), {}


def routes_of(app: FastAPI, row_of: RowOf) -> Sequence[tuple[tuple[str, ...], str, Row | None]]:
    """Every route of the app, in order: its methods ("WS": a WebSocket, "MOUNT": a folder of files), path, row."""
    found = []
    for context in iter_route_contexts(app.routes):
        template = context.path or "/"
        if isinstance(context.original_route, Mount):
            methods: tuple[str, ...] = ("MOUNT",)
        elif isinstance(context.original_route, WebSocketRoute):
            methods = ("WS",)
        else:
            methods = tuple(sorted(context.methods or ()))
        found += [((method,), template, row_of(method, template)) for method in methods]
    return found


class Auth:
    """ASGI layer around the routes. `access` None: there is no log-in, and everybody is an admin. `row_of(method,
    path)` is the row of a route."""

    def __init__(self, app: ASGIApp, web: FastAPI, access: Access | None, closing: Ending, row_of: RowOf) -> None:
        self.app = app
        self._web, self._access, self._closing, self._row_of = web, access, closing, row_of
        self._routes: Routes | None = None
        self._visits: dict[Visit, Credential] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        if access is not None:
            access.directory.when_changed(self._look_soon)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        if self._routes is None:
            self._routes = Routes(self._web, self._row_of)
        headers = Headers(scope=scope)
        method = "WS" if scope["type"] == "websocket" else scope["method"]
        row, parameters = self._routes.find(method, get_route_path(scope))
        credential, secret = _credential(headers)
        visit = Visit(ANYBODY, address_of(scope), self._closing.part(), secret)
        scope["magpie.visit"] = visit
        try:
            try:
                if self._access is not None:
                    visit.principal = await self._access.directory.who(credential)
                self._check(scope, headers, row, parameters, visit)
            except MagpieError as error:
                await _refuse(error, scope, receive, send)
                return
            self._enter(visit, credential)
            await self._run(scope, receive, send, row, visit)
        finally:
            self._closing.without(visit.ending)
            self._visits.pop(visit, None)

    def _check(
        self, scope: Scope, headers: Headers, row: Row | None, parameters: Mapping[str, str], visit: Visit
    ) -> None:
        """Raises NotLoggedIn, Forbidden, NotFound (a camera that the caller may not see)."""
        principal, path = visit.principal, scope["path"]
        if row is _NO_SOCKET:
            raise NotFound("there is no such socket")
        if row is None:
            log.error("%s %r has no row in its module of web/routes: refused", scope.get("method", "WS"), path[:200])
            raise Forbidden("no role may do this")
        if row.least is None:
            if principal is not None and principal.must_change and not row.before_change:
                visit.principal = None  # an open route is as for a stranger
            return
        if principal is None:
            raise NotLoggedIn("log in, or give an API token as Authorization: Bearer")
        unsafe = scope["type"] == "http" and scope["method"] not in _SAFE_METHODS
        if unsafe and principal.kind == "session" and not csrf_fits(visit.secret, headers.get(CSRF_HEADER, "")):
            raise Forbidden(f"the header {CSRF_HEADER} is absent or wrong; GET /api/v1/me tells it")
        if principal.must_change and not row.before_change:
            raise PasswordChangeNeeded(
                "choose a password of your own first: another person chose this one", "POST /api/v1/me/password"
            )
        if not allows(principal, row.least, row.every_camera):
            if principal.may(row.least):
                raise Forbidden(f"this concerns every camera, and {principal.name} may see some of them only")
            raise Forbidden(f"the role {row.least} is needed; {principal.name} is {principal.role}")
        asked = [parameters["camera"]] if "camera" in parameters else []
        query = scope.get("query_string", b"").decode("latin-1")
        asked += [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "camera"]
        for camera in asked:
            if not principal.may_see(camera):
                raise NotFound(f"camera {camera[:100]} does not exist")

    async def _run(self, scope: Scope, receive: Receive, send: Send, row: Row | None, visit: Visit) -> None:
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self.app(scope, receive, watched)
        if row is None or not row.audit or not 200 <= status < 300 or visit.principal is None or self._access is None:
            return
        by = Requester(visit.principal.name, visit.address)
        await self._access.audit(scope["path"].removeprefix("/api/v1/"), row.audit, by)

    # -- streams whose login ends

    def _enter(self, visit: Visit, credential: Credential | None) -> None:
        if self._access is None or credential is None:
            return
        self._visits[visit] = credential
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._look_soon)

    def _look_soon(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._visits and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = asyncio.get_running_loop().create_task(self._look(), name="web logins")

    async def _look(self) -> None:
        assert self._access is not None
        for visit, credential in list(self._visits.items()):
            now = await self._access.directory.who(credential)
            if not _same(visit.principal, now):
                visit.ending.code = Ending.LOGIN_OVER
                visit.ending.set()
                self._visits.pop(visit, None)
        if self._visits and self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._look_soon)


def _same(before: Principal | None, now: Principal | None) -> bool:
    if before is None or now is None:
        return before is now
    rights = [(p.name, p.role, p.cameras, p.must_change) for p in (before, now)]
    return rights[0] == rights[1]


def _credential(headers: Headers) -> tuple[Credential | None, str]:
    """The request's credential, and the session's secret if it is one. With an `authorization` header the
    cookie does not count."""
    given = headers.getlist("authorization")
    if given:
        kind, _, token = given[0].partition(" ")
        if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
            return None, ""
        return Credential.token(token.strip()), ""
    name = session_cookie(headers.get("host", ""))
    secret = cookie_parser("; ".join(headers.getlist("cookie"))).get(name, "")
    return (Credential.session(secret), secret) if secret else (None, "")


def session_cookie(host: str) -> str:
    """The name of the session's cookie at this `Host`. Browsers keep one set of cookies for all ports of a host, so the
    port is in the name: two appliances on one machine do not log each other's people out."""
    port = host.rpartition(":")[2]
    return f"{_COOKIE}_{port}" if ":" in host and port.isascii() and port.isdigit() and len(port) <= 5 else _COOKIE


def address_of(scope: Mapping[str, Any]) -> str:
    """Where a request came from, as it is kept: a proxy may send any text."""
    client = scope.get("client")
    return "".join(c if c.isprintable() else "?" for c in str(client[0]))[:64] if client else ""


async def _refuse(error: MagpieError, scope: Scope, receive: Receive, send: Send) -> None:
    whole = isinstance(error, PasswordChangeNeeded) and "websocket.http.response" in scope.get("extensions", {})
    if scope["type"] == "http" or whole:
        await answer(error)(scope, receive, send)
    else:  # before it is accepted: the client gets 403
        code = Ending.LOGIN_OVER if isinstance(error, NotLoggedIn) else 4403
        await send({"type": "websocket.close", "code": code, "reason": "refused"})
