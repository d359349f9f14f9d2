"""Common settings of the tests with made-up requests, and a client that costs little more than the answer."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
import schemathesis
import urllib3
from examples_kit import THOROUGH, tried
from hypothesis import HealthCheck, Phase, settings
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.python.asgi import ASGIClient

#: The same requests in each run; a loaded machine fails nothing. The explicit ones (each boundary of each field) cost
#: two thirds of all and are left to the searches.
FUZZ = settings(
    max_examples=tried(5, 12),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate] if THOROUGH else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)


BASE = "http://testserver"

#: Status, headers, body.
Answered = tuple[int, list[tuple[bytes, bytes]], bytes]


class _SameThread(requests.adapters.HTTPAdapter):
    """Asks an ASGI application in the caller's thread: to hand each request to another one costs more than the
    answer."""

    def __init__(self, app: Any) -> None:
        super().__init__()
        self._app, self._loop = app, asyncio.new_event_loop()

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        ((status, answered, content),) = self.ask([request])
        raw = urllib3.HTTPResponse(
            io.BytesIO(b"" if request.method == "HEAD" else content),
            headers=urllib3.HTTPHeaderDict((k.decode("latin-1"), v.decode("latin-1")) for k, v in answered),
            status=status,
            preload_content=False,
            request_method=request.method,
        )
        return self.build_response(request, raw)

    def ask(self, asked: Sequence[requests.PreparedRequest]) -> list[Answered]:
        """Status, headers and body of the answers, one request after another."""

        async def each() -> list[Answered]:
            return [await self._answer(request) for request in asked]

        return self._loop.run_until_complete(each())

    async def _answer(self, request: requests.PreparedRequest) -> Answered:
        parts = urlsplit(str(request.url))
        body = request.body.encode() if isinstance(request.body, str) else bytes(request.body or b"")
        headers = [(b"host", parts.netloc.encode())] if "host" not in request.headers else []
        headers += [(k.lower().encode("latin-1"), _octets(v)) for k, v in request.headers.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": parts.scheme,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "root_path": "",
            "query_string": parts.query.encode(),
            "headers": headers,
            "client": ("testclient", 50_000),
            "server": (parts.hostname or "", parts.port or 80),
            "state": {},
        }
        asked = [{"type": "http.request", "body": body, "more_body": False}]
        begun: dict[str, Any] = {}
        content = bytearray()

        async def receive() -> dict[str, Any]:
            return asked.pop() if asked else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            content.extend(message.get("body", b""))

        await self._app(scope, receive, send)
        return begun["status"], list(begun.get("headers", ())), bytes(content)


def _octets(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


class Client:
    """Asks an application by `session`, or the same with several headers."""

    def __init__(self, app: Any) -> None:
        self._adapter = _SameThread(app)
        self.session = ASGIClient(app)
        self.session.trust_env = False
        self.session.mount("http://", self._adapter)

    def each(self, case: schemathesis.Case, headers: Sequence[Mapping[str, str]]) -> list[tuple[int, bytes]]:
        """Status and body with each of these headers. The request is made up once: that costs more than its answer."""
        made = self.session.prepare_request(requests.Request(**case.as_transport_kwargs(BASE)))
        copies = [made.copy() for _ in headers]
        for copy, others in zip(copies, headers, strict=True):
            copy.headers.update(others)
        return [(status, body) for status, _, body in self._adapter.ask(copies)]


def described(client: Client, app: Any, path: str, headers: Mapping[str, str] | None = None) -> Any:
    """The schema of the OpenAPI document that `app` answers at `path`. Its code is named as a source of constants: a
    schema that knows its application would read all of it again for each operation."""

    @schemathesis.python.constants
    def application() -> Any:
        return app

    return schemathesis.openapi.from_dict(client.session.get(f"{BASE}{path}", headers=headers).json())


def operations(schema: Any) -> list[tuple[str, str]]:
    """Method and path of each operation."""
    return [(found.ok().method.upper(), found.ok().path) for found in schema.get_all_operations()]


def ask_made_up(schema: Any, operation: tuple[str, str], asked: Callable[[schemathesis.Case], None]) -> None:
    """Call `asked` with each request that is made up for this operation. To make them up takes long: `parametrize` of
    `schema` would do it for all operations in each process that collects tests."""
    method, path = operation
    (made,) = get_all_tests(
        schema=schema.include(method=method, path=path), test_func=asked, settings=FUZZ, given_kwargs=None
    )
    _, run = made.ok()
    run()
