"""uvicorn inside an event loop of ours, on sockets that are bound first; shared by the page and served inference."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Generator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from edge.core.errors import Unavailable

#: A request that runs may finish in so many seconds when the server stops.
DRAIN_S = 5
_BACKLOG = 128
#: A client that takes nothing of what was sent to it for so long is cut off; else its connection would stay for ever.
_UNREAD_S = 60.0


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process's owner decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class AsgiServer:
    """Serves `app` at host:port between `start` and `stop`. Port 0 takes any free one; `port` tells which. `what`
    names the server in errors, `setting` the setting of its port; a client that takes nothing of its answer for
    `unread_s` seconds is cut off; when it stops, a request that runs may finish in `drain_s` seconds; `options` go to
    uvicorn's configuration."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        what: str,
        setting: str,
        unread_s: float = _UNREAD_S,
        drain_s: int = DRAIN_S,
        **options: Any,
    ) -> None:
        self._app, self._host, self._asked = app, host, port
        self._what, self._setting, self._options = what, setting, options
        self._unread_s, self._drain_s = unread_s, drain_s
        self._sockets: list[socket.socket] = []
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port listened on (before `start`: the one asked for)."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else self._asked

    async def start(self) -> None:
        """Listen. Returns when requests are answered. Raises Unavailable (port taken, not allowed, no such host)."""
        sockets = await asyncio.to_thread(_listen, self._host, self._asked, self._what, self._setting)
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=self._drain_s,
            **self._options,
        )
        for sock in sockets:
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; taken over by every connection
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * self._unread_s))
        self._sockets, self._server = sockets, _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets), name=self._setting)
        while not self._server.started:
            await asyncio.sleep(0.005)
            if self._task.done():
                await self.stop()
                raise Unavailable(f"{self._what}'s server ended while it was starting")

    async def stop(self) -> None:
        """Stop listening, let running requests finish. Safe to call twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._task is not None:
            await self._task
        for sock in self._sockets:
            sock.close()
        self._sockets, self._server, self._task = [], None, None


def _listen(host: str, port: int, what: str, setting: str) -> list[socket.socket]:
    """Bound sockets for every address of `host`, all on one port. Raises Unavailable."""
    where = f"{host}:{port}"
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except OSError as error:
        for sock in sockets:
            sock.close()
        if isinstance(error, socket.gaierror):
            raise Unavailable(f"{what} cannot listen on {where}: no such address") from None
        hint = f"another program listens there: set {setting}" if error.errno == errno.EADDRINUSE else ""
        words = error.strerror or str(error)
        raise Unavailable(f"{what} cannot listen on {where}: {words}", hint) from None
    return sockets
