"""The page's server: uvicorn inside the control process's event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import h11
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from web.listening import DRAIN_S, AsgiServer
from web.tls import Tls

#: Of the live socket.
_MAX_MESSAGE: Final = 64 * 1024
#: A request's line and headers; more than that is kept for no client, as no login is needed to send it.
_MAX_HEADERS: Final = 16 * 1024
#: After an answer, a connection on which nothing more comes is closed after so many seconds.
_KEPT_S: Final = 5.0
#: A connection on which no whole request line and headers come for so many seconds is closed.
HEADERS_S: Final = 20.0

log = logging.getLogger(__name__)
# Any client can send bytes that are not HTTP: a warning for each would push everything else out of the log.
log.setLevel(logging.ERROR)


class _StrictConnection(h11.Connection):
    """h11's, which would take a request with two lengths and answer the bytes after the shorter one as a request of its
    own: a way past any proxy before this server.
    """

    def next_event(self) -> Any:
        """Raises h11.RemoteProtocolError."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("a request has Content-Length or Transfer-Encoding, not both")
        return event


class _PageHttp(H11Protocol):
    """uvicorn's parser, which would wait without end for a request: any client of the port could take every file
    descriptor that the appliance may have, without a login.
    """

    headers_s = HEADERS_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = log
        self.conn = _StrictConnection(h11.SERVER, _MAX_HEADERS)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._due = self.loop.call_later(self.headers_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Parse; a request that comes piece by piece does not lengthen the time."""
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self or self._at_work():
            self._stop_waiting()
        elif self._due is None:
            self._due = self.loop.call_later(self.headers_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _give_up(self) -> None:
        self._due = None
        if not self._at_work():
            self.transport.close()


class WebServer(AsgiServer):
    """Serves the page, REST and the live socket of `app` (web.app.create_app); with `tls` by https. A connection may be
    open for `headers_s` without a whole request; when it stops, a request that runs may finish in `drain_s` seconds."""

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        tls: Tls | None = None,
        headers_s: float = HEADERS_S,
        drain_s: int = DRAIN_S,
    ) -> None:
        context = None if tls is None else tls.context
        super().__init__(
            app,
            host,
            port,
            "the page",
            "web.port",
            drain_s=drain_s,
            http=type("_PatientHttp", (_PageHttp,), {"headers_s": headers_s}),
            timeout_keep_alive=min(_KEPT_S, headers_s),
            ws="websockets-sansio",
            ws_max_size=_MAX_MESSAGE,
            ws_per_message_deflate=False,  # JPEG does not shrink, and deflating cost three quarters of the rate
            ssl_context_factory=None if context is None else lambda _config, _default: context,
        )
        self._closing = app.state.closing
        self._tls = tls
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """As `AsgiServer.start`."""
        await super().start()
        if self._tls is not None:
            self._watch = asyncio.create_task(self._tls.watch(), name="TLS files")

    async def stop(self) -> None:
        """Stop listening, end the streams at once, let running requests finish. Safe to call twice."""
        self._closing.set()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        # In this turn of the loop the sockets say "going away"; uvicorn, were it first, would say "restarting".
        await asyncio.sleep(0)
        await super().stop()
