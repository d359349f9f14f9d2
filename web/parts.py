"""Parts that the routes share: the service, the caller, bodies, parameters, streams that end when they have to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from fastapi import Depends, Path, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection

from edge.appliance.service import ApplianceService
from edge.core.access import Principal, Requester
from edge.core.errors import InvalidValue, InvalidValues, NotFound, NotLoggedIn
from edge.settings.base import IDENTIFIER_PATTERN

T = TypeVar("T")

#: A body larger than this is refused unread. The largest sensible one, a camera's settings, is a few kB.
MAX_BODY = 256 * 1024
_MAX_DEPTH = 32
#: The whole of it has to come within this time.
BODY_S: Final = 30.0


def service_of(connection: HTTPConnection) -> ApplianceService:
    """The appliance behind this app."""
    service: ApplianceService = connection.app.state.service
    return service


class Ending(asyncio.Event):
    """Set when a connection has to end. The server's own has a part for each connection, and they end with it or
    before it; `code` is what a WebSocket is closed with."""

    GOING_AWAY, LOGIN_OVER = 1001, 4401

    def __init__(self) -> None:
        super().__init__()
        self.code = self.GOING_AWAY
        self._parts: set[Ending] = set()

    def part(self) -> Ending:
        """One connection's; give it to `without` when the connection is over."""
        made = Ending()
        self._parts.add(made)
        if self.is_set():
            made.set()
        return made

    def without(self, part: Ending) -> None:
        """The connection is over."""
        self._parts.discard(part)

    def set(self) -> None:
        """End it, and every part of it."""
        super().set()
        for part in self._parts:
            part.set()


@dataclass(eq=False)
class Visit:
    """One request or socket: its principal (None: not logged in), from where, and when it has to end. `secret` is the
    session's, of which the CSRF token is made; "" without a session."""

    principal: Principal | None
    address: str
    ending: Ending
    secret: str = ""


def visit_of(connection: HTTPConnection) -> Visit:
    """The visit that web.auth made of the request."""
    visit: Visit = connection.scope["magpie.visit"]
    return visit


def closing_of(connection: HTTPConnection) -> Ending:
    """Set when the server is stopping or the login behind the connection is over: every stream ends."""
    return visit_of(connection).ending


def caller_of(connection: HTTPConnection) -> Principal:
    """The caller of a route that is not open to all. Raises NotLoggedIn."""
    principal = visit_of(connection).principal
    if principal is None:
        raise NotLoggedIn("the request carries no log-in")
    return principal


async def who(request: Request) -> str:
    """The requester's name; recorded with every change, with its address (edge.core.access.Requester)."""
    return Requester(caller_of(request).name, visit_of(request).address)


def seen(caller: Principal, camera: str) -> str:
    """The camera's id. Raises NotFound, as of a camera that is not there, if the caller may not see it."""
    if not caller.may_see(camera):
        raise NotFound(f"camera {camera} does not exist")
    return camera


async def _service(request: Request) -> ApplianceService:  # async: a plain function would cost a thread each time
    return service_of(request)


async def _closing(request: Request) -> asyncio.Event:
    return closing_of(request)


async def _caller(request: Request) -> Principal:
    return caller_of(request)


Service = Annotated[ApplianceService, Depends(_service)]
Closing = Annotated[asyncio.Event, Depends(_closing)]
#: The requester's name, to be kept with a change.
Who = Annotated[str, Depends(who)]
#: The requester, with role and cameras: every answer that lists or names cameras is limited by `caller.may_see`.
Caller = Annotated[Principal, Depends(_caller)]
OfCamera = Annotated[str | None, Query(pattern=IDENTIFIER_PATTERN, description="only of this camera")]
CameraId = Annotated[str, Path(description="id of a camera", max_length=63, examples=["junction-north"])]
VersionId = Annotated[
    str,
    Path(
        description="id of a model version",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$",
        examples=["junction-north-w3-2-1790000000"],
    ),
]
WindowNumber = Annotated[int, Path(ge=0, le=2**53, description="number of a retraining window", examples=[3])]


async def known_parameters(request: Request) -> None:
    """Raises InvalidValues if the query has a parameter that the route does not know, or one twice that is no list."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    fields = {f.alias: f.field_info for f in get_flat_params(route.dependant) if isinstance(f.field_info, Query)}
    known = sorted(fields)
    problems = []
    for name in request.query_params:
        given = request.query_params.getlist(name)
        if name not in known:
            allowed = f"no such parameter; known: {', '.join(known)}" if known else "no parameters here"
            problems.append(InvalidValue(f"query.{name[:100]}", given[0], allowed))
        elif len(given) > 1 and not _is_list(fields[name].annotation):
            problems.append(InvalidValue(f"query.{name}", given, "one value"))
    if problems:
        raise InvalidValues(problems)


def _is_list(annotation: object) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


async def json_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object. Raises InvalidValue, or HTTPException 413 (too large), 408 (it does not come).

    The content type must say JSON: with it a browser asks before it sends such a request for another site's page.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "application/merge-patch+json"):
        raise InvalidValue("header content-type", kind, "application/json")
    raw = bytearray()
    body_s: float = request.app.state.body_s
    try:
        async with asyncio.timeout(body_s):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > MAX_BODY:
                    raise HTTPException(413, f"the body is larger than {MAX_BODY} bytes")
    except TimeoutError:
        close = {"connection": "close"}
        raise HTTPException(408, f"the body did not come within {body_s:g} seconds", close) from None
    except ClientDisconnect:  # the answer has no receiver, and it is no fault of ours that belongs in the log
        raise HTTPException(400, "the client went away before its body was there") from None
    return parse_object(bytes(raw))


def parse_object(raw: bytes) -> dict[str, Any]:
    """Strict JSON: an object, no name twice, no NaN, not nested absurdly deep. Raises InvalidValue."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidValue(twice, "the name twice in one object", "each name once")
        return out

    def refuse(text: str) -> Any:
        raise InvalidValue("(body)", text, "numbers that JSON knows")

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=refuse)
    except InvalidValue:
        raise
    except (ValueError, RecursionError) as error:
        words = "nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
        raise InvalidValue("(body)", words, "a JSON object in UTF-8") from None
    if not isinstance(value, dict):
        raise InvalidValue("(body)", value, "a JSON object")
    _check(value, "", 0)
    return value


def _check(value: Any, path: str, depth: int) -> None:
    """Refuse values that no field can have: too deep, or with characters that a database cannot keep."""
    if depth > _MAX_DEPTH:
        raise InvalidValue(path, "nested too deep", f"at most {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check(key, path or "(body)", depth + 1)
            _check(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check(inner, f"{path}[{number}]", depth + 1)
    elif isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise InvalidValue(path, ascii(value), "text without NUL and without halves of surrogate pairs")


Body = Annotated[dict[str, Any], Depends(json_object)]


async def until_closing(
    items: AsyncIterator[T], closing: asyncio.Event, pause_s: float = 3600.0
) -> AsyncIterator[T | None]:
    """The items, until the server stops; None whenever none came for `pause_s` seconds.

    Always closes `items` at the end, so that nothing is encoded without a watcher.
    """
    closed = asyncio.ensure_future(closing.wait())
    following: asyncio.Future[T] | None = None
    try:
        while not closing.is_set():
            if following is None:
                following = asyncio.ensure_future(_next(items))
            waiting: set[asyncio.Future[Any]] = {following, closed}
            await asyncio.wait(waiting, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            if closing.is_set():
                return
            if not following.done():
                yield None
                continue
            done, following = following, None
            try:
                item = done.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        closed.cancel()
        if following is not None:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await following
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def example(value: Any, description: str = "") -> dict[int | str, dict[str, Any]]:
    """OpenAPI `responses` of a JSON answer with an example."""
    content = {"application/json": {"example": value}}
    return {200: {"description": description or "the answer", "content": content}}


def takes(schema: str, value: Any) -> dict[str, Any]:
    """OpenAPI of a body that `json_object` reads: a named schema and an example."""
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": value}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
