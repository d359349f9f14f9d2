"""The REST transport's server on a host and port, inside the running event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from web.listening import DRAIN_S, AsgiServer
from web.tls import Tls

#: A request's line and headers.
_MAX_HEADERS: Final = 64 * 1024
#: Clients keep pools of connections; a short limit makes them meet closed ones.
_IDLE_S: Final = 75.0


class OipHttpServer(AsgiServer):
    """Serves `app` (create_oip_app) at host:port between `start` and `stop`; `setting` names the port's setting in
    errors. A connection on which nothing is asked for `idle_s` seconds is closed, also in the middle of headers. When
    it stops, a request that runs may finish in `drain_s` seconds. With `tls` by https. Fastest in uvloop's event loop,
    works in any."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        setting: str = "serving.http.port",
        idle_s: float = _IDLE_S,
        tls: Tls | None = None,
        drain_s: int = DRAIN_S,
    ) -> None:
        context = None if tls is None else tls.context
        super().__init__(
            app,
            host,
            port,
            "served inference",
            setting,
            http=_InferenceHttp,
            drain_s=drain_s,
            ws="none",
            proxy_headers=False,
            timeout_keep_alive=idle_s,
            ssl_context_factory=None if context is None else lambda _config, _default: context,
        )


class _InferenceHttp(HttpToolsProtocol):
    """uvicorn's fast parser, which would take headers without end, with a bound; and errors in the protocol's form."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_headers, self._header_bytes, self._completed = True, 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, but not without end."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Parse; give up on a request whose headers do not end."""
        completed = self._completed
        super().data_received(data)
        if self._in_headers and self._completed == completed and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > _MAX_HEADERS:
                self.send_400_response(f"The headers of a request may have {_MAX_HEADERS} bytes.")
            elif self.cycle is None or self.cycle.response_complete:
                self._wait()

    def _wait(self) -> None:
        """uvicorn's own timer, which it stops when something comes and starts after an answer only."""
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def on_headers_complete(self) -> None:
        """The headers are complete; the rest is the app's matter."""
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The message is complete; the next request's headers follow."""
        self._in_headers, self._header_bytes = True, 0
        self._completed += 1
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, and close."""
        body = orjson.dumps({"error": msg})
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: "
        self.transport.write(b"%s%d\r\n\r\n%s" % (head, len(body), body))
        self.transport.close()
