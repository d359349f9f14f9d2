"""The page's server: uvicorn inside the control process's event loop."""

from __future__ import annotations

from fastapi import FastAPI

from web.listening import AsgiServer

_MAX_MESSAGE = 64 * 1024


class WebServer(AsgiServer):
    """Serves the page, REST and the live socket of `app` (web.app.create_app)."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
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
        )
        self._closing = app.state.closing

    async def stop(self) -> None:
        """Stop listening, end the streams at once, let running requests finish. Safe to call twice."""
        self._closing.set()
        await super().stop()
