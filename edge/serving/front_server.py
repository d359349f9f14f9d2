"""The Unix socket on which executors reach the serving front: the right to connect, and the arena that each gets."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from edge.core.errors import InvalidValue, MagpieError, Unavailable
from edge.serving.arena import ARENA_BYTES, Arena
from edge.serving.camera_link import CameraLink
from edge.serving.front_link import FrontLink
from edge.serving.link_messages import (
    HELLO_S,
    MAX_TEXT,
    Frames,
    Hello,
    LinkLost,
    OfferedAnswer,
    PeerKind,
    Refused,
    Welcome,
    decode,
    encode,
)
from edge.serving.unix_address import short_address

log = logging.getLogger(__name__)

#: Connections that have not proved themselves yet.
_MAX_STRANGERS = 64


class FrontServer:
    """Listens on a Unix socket (mode 0600); each executor that proves its token becomes a FrontLink, each worker of a
    camera that does a CameraLink.

    `on_executor(link)` is called on the event loop and must set `link.handler`; `on_camera` takes the answers of
    cameras. Only executors and cameras that were announced by `expect` are let in, and one at a time under each name.
    """

    def __init__(
        self,
        path: Path,
        on_executor: Callable[[FrontLink], None],
        arena_bytes: int = ARENA_BYTES,
        hello_s: float = HELLO_S,
        on_camera: Callable[[CameraLink, OfferedAnswer], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.refused = 0
        self._on_executor, self._on_camera = on_executor, on_camera
        self._arena_bytes, self._hello_s = arena_bytes, hello_s
        self._expected: dict[tuple[PeerKind, str], tuple[str, int]] = {}
        self._links: dict[tuple[PeerKind, str], FrontLink | CameraLink] = {}
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._strangers: set[asyncio.Task[None]] = set()

    def expect(self, name: str, token: str, arena_bytes: int | None = None, kind: PeerKind = "executor") -> None:
        """Let this executor or camera in when it shows `token` (not empty); with an arena of that size."""
        if not token:
            raise InvalidValue("token", token, "a secret")
        self._expected[kind, name] = (token, self._arena_bytes if arena_bytes is None else arena_bytes)

    def forget(self, name: str, kind: PeerKind = "executor") -> None:
        """Let this executor or camera in no more; a link that it has goes on."""
        self._expected.pop((kind, name), None)

    async def start(self) -> None:
        """Listen. Raises Unavailable if the socket cannot be made."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.setblocking(False)
        try:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            os.fchmod(listener.fileno(), 0o600)  # Linux: the name is then born with this mode
            with short_address(self.path) as address:
                listener.bind(address)
            listener.listen(128)
        except OSError as error:
            listener.close()
            raise Unavailable(f"cannot listen for executors at {self.path}: {error.strerror or error}") from error
        self._socket = listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))

    async def stop(self) -> None:
        """Listen no more and end all links. Safe to repeat."""
        tasks = [t for t in (self._accepting, *self._strangers) if t is not None]
        self._accepting = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with contextlib.suppress(OSError):
                self.path.unlink()
        for link in tuple(self._links.values()):
            link.close("the front stops")
        await asyncio.sleep(0)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.error("an executor's connection could not be accepted: %s", error)
                await asyncio.sleep(0.1)  # no descriptors left: do not spin
                continue
            connection.setblocking(False)
            if len(self._strangers) >= _MAX_STRANGERS:
                self.refused += 1
                connection.close()
                continue
            task = loop.create_task(self._greet(connection))
            self._strangers.add(task)
            task.add_done_callback(self._strangers.discard)

    async def _greet(self, connection: socket.socket) -> None:
        """From the first byte to a link, or to a refusal."""
        try:
            async with asyncio.timeout(self._hello_s):
                hello = await _read_hello(connection)
                link = self._admit(hello)
                try:
                    # Small enough for any socket's buffer, and the first that is written to it.
                    socket.send_fds(connection, [encode(Welcome(link.arena.size))], [link.arena.fd])
                    await asyncio.get_running_loop().connect_accepted_socket(lambda: link, connection)
                except BaseException:
                    link.arena.close()
                    raise
        except (MagpieError, OSError, TimeoutError) as error:
            self.refused += 1
            log.warning("a connection to %s was refused: %s", self.path.name, error or "it did not say who it is")
            with contextlib.suppress(OSError, InvalidValue):
                connection.send(encode(Refused(str(error)[:MAX_TEXT])))
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            if link.connected:
                self._links[hello.kind, hello.name] = link
                if isinstance(link, FrontLink):
                    self._on_executor(link)

    def _admit(self, hello: Hello) -> FrontLink | CameraLink:
        peer = hello.kind, hello.name
        token, size = self._expected.get(peer, ("", 0))
        shown = hello.token.encode("utf-8", "replace")  # JSON may hold half a surrogate pair
        if not token or not hmac.compare_digest(token.encode(), shown):
            raise Unavailable(f"unknown {hello.kind} or wrong token")
        self._links = {known: link for known, link in self._links.items() if link.connected}
        if peer in self._links:
            raise Unavailable(f"{hello.kind} {hello.name} is connected already")
        if self._on_camera is not None and hello.kind == "camera":
            return CameraLink(hello, Arena(size), self._on_camera)
        return FrontLink(hello, Arena(size))


async def _read_hello(connection: socket.socket) -> Hello:
    loop = asyncio.get_running_loop()
    frames = Frames(2**16)
    while True:
        data = await loop.sock_recv(connection, 65536)
        if not data:
            raise LinkLost("the connection ended before it said who it is")
        bodies = frames.feed(data)
        if bodies:
            message = decode(bodies[0])
            if not isinstance(message, Hello) or len(bodies) > 1 or frames.waiting:
                raise InvalidValue("frame.is", type(message).__name__.lower(), "hello, and nothing after it yet")
            return message
