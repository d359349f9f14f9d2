"""Common settings of the tests with made-up requests, and a client that costs little more than the answer."""

from __future__ import annotations

import asyncio
import io
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from hypothesis import HealthCheck, Phase, settings
from schemathesis.python.asgi import ASGIClient

#: The same requests in each run; a loaded machine fails nothing.
FUZZ = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class _SameThread(requests.adapters.HTTPAdapter):
    """Asks an ASGI application in the caller's thread: to hand each request to another one costs more than the
    answer."""

    def __init__(self, app: Any) -> None:
        super().__init__()
        self._app, self._runner = app, asyncio.Runner()

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
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
        status, answered, content = self._runner.run(self._answer(scope, body))
        raw = urllib3.HTTPResponse(
            io.BytesIO(b"" if request.method == "HEAD" else content),
            headers=urllib3.HTTPHeaderDict((k.decode("latin-1"), v.decode("latin-1")) for k, v in answered),
            status=status,
            preload_content=False,
            request_method=request.method,
        )
        return self.build_response(request, raw)

    async def _answer(self, scope: dict[str, Any], body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
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


def client(app: Any) -> ASGIClient:
    """One for all requests; cookies that an answer sets stay in it until they are cleared."""
    made = ASGIClient(app)
    made.trust_env = False
    made.mount("http://", _SameThread(app))
    return made
