"""The page's server: uvicorn inside the control process's event loop."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from web.listening import AsgiServer
from web.tls import Tls

_MAX_MESSAGE = 64 * 1024


class WebServer(AsgiServer):
    """Serves the page, REST and the live socket of `app` (web.app.create_app); with `tls` by https."""

    def __init__(self, app: FastAPI, host: str, port: int, tls: Tls | None = None) -> None:
        context = None if tls is None else tls.context
        super().__init__(
            app,
            host,
            port,
            "the page",
            "web.port",
            http="h11",
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
        await super().stop()
