"""The link between a camera's worker and the serving front: answered pictures go through shared memory, copied once.

The worker never waits: an answer for which no place is free, or no front is there, is left out and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edge.core.application_sources import SOURCE_INPUTS
from edge.core.errors import InvalidValue, Unavailable
from edge.core.vision import Detections
from edge.serving.arena import Arena, Mapped, aligned
from edge.serving.executor_link import shake_hands
from edge.serving.link_messages import (
    HELLO_S,
    Frames,
    Hello,
    OfferedAnswer,
    Placed,
    SlotFree,
    decode,
    encode,
)

log = logging.getLogger(__name__)

#: Shared memory of one camera; only the used part is taken from the machine. At most so many answers are in it.
CAMERA_ARENA_BYTES, MOST_SLOTS = 64 * 2**20, 16
#: After a connection that failed the next one is tried so many seconds later.
_RETRY_S = 1.0


class CameraLink(asyncio.Protocol):
    """The front's end: `on_answer(link, answer)` gets what comes; `free(slot)` is called when it is done with."""

    def __init__(self, hello: Hello, arena: Arena, on_answer: Callable[[CameraLink, OfferedAnswer], None]) -> None:
        self.camera = hello.name
        self.classes = hello.models
        self.arena = arena
        self._on_answer = on_answer
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._lost = False

    @property
    def connected(self) -> bool:
        """True until the link is lost or closed."""
        return self._transport is not None and not self._lost

    def tensors(self, answer: OfferedAnswer) -> dict[str, NDArray[Any]]:
        """The answer's picture, boxes, scores and labels, each with one row: views of the arena. Raises InvalidValue
        for others than SOURCE_INPUTS."""
        specs = {spec.name: spec for spec in SOURCE_INPUTS}
        if {p.name for p in answer.tensors} != specs.keys():
            raise InvalidValue("offered_answer.tensors", [p.name for p in answer.tensors], ", ".join(specs))
        for p in answer.tensors:
            wanted = specs[p.name]
            fits = len(p.shape) == len(wanted.shape) and p.shape[0] == 1 and p.datatype == wanted.datatype
            if not fits or any(w not in (-1, g) for w, g in zip(wanted.shape, p.shape, strict=True)):
                raise InvalidValue(
                    f"offered_answer.{p.name}", [p.datatype, *p.shape], f"{wanted.datatype} {wanted.shape}"
                )
        return {p.name: self.arena.read(p.datatype, p.shape, p.offset, p.nbytes) for p in answer.tensors}

    def free(self, slot: int) -> None:
        """The worker may write there again."""
        if self._transport is not None and not self._lost:
            self._transport.write(encode(SlotFree(slot)))

    def close(self, reason: str = "closed by the front") -> None:
        """End the connection."""
        if self._transport is not None and not self._lost:
            log.info("camera %s: %s", self.camera, reason)
            self._transport.abort()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                message = decode(body)
                if not isinstance(message, OfferedAnswer):
                    raise InvalidValue("frame.is", type(message).__name__.lower(), "offered_answer")
                self._on_answer(self, message)
        except InvalidValue as error:
            log.error("camera %s broke the protocol: %s", self.camera, error)
            self.close("it broke the protocol")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self.arena.close()  # requests that run keep what they read


class CameraSender:
    """The worker's end; used from one thread, which never waits for the front. `lost` counts answers left out."""

    def __init__(self, path: Path, camera: str, token: str, classes: Sequence[str]) -> None:
        self.lost = 0
        self._path, self._hello = path, Hello(camera, token, tuple(classes), os.getpid(), "camera")
        self._socket: socket.socket | None = None
        self._arena: Mapped | None = None
        self._frames = Frames()
        self._connecting: threading.Thread | None = None
        self._made: queue.SimpleQueue[tuple[socket.socket, Mapped, Frames, list[bytes]]] = queue.SimpleQueue()
        self._retry_s = 0.0
        self._slot_bytes = 0
        self._slots = 0
        self._free: list[int] = []

    def send(
        self, frame: int, picture: NDArray[np.uint8], found: Detections, applications: Sequence[str], now_s: float
    ) -> bool:
        """Hand an answer over: `picture` (H, W, 3) and its objects, for these applications. False, and counted, where
        that cannot be done at once. `now_s`: monotonic seconds."""
        try:
            sent = self._connected(now_s) and self._sent(frame, picture, found, tuple(applications))
        except (OSError, InvalidValue) as error:
            log.info("camera %s: the serving front is gone: %s", self._hello.name, error)
            self.close()
            sent = False
        self.lost += not sent
        return sent

    def close(self) -> None:
        """End the link. Safe to repeat; `send` connects again."""
        if self._socket is not None:
            self._socket.close()
        if self._arena is not None:
            self._arena.close()
        while not self._made.empty():
            connection, arena, _, _ = self._made.get()
            connection.close()
            arena.close()
        self._socket = self._arena = None
        self._slots, self._slot_bytes, self._free = 0, 0, []

    def _connected(self, now_s: float) -> bool:
        """Whether the front can be written to. It is connected to in a thread: it may be slow to let the worker in."""
        if self._socket is not None:
            return True
        if not self._made.empty():
            self._socket, self._arena, self._frames, bodies = self._made.get()
            self._socket.setblocking(False)
            self._take(bodies)
            return True
        if now_s >= self._retry_s and (self._connecting is None or not self._connecting.is_alive()):
            self._retry_s = now_s + _RETRY_S
            self._connecting = threading.Thread(target=self._connect, name="to the serving front", daemon=True)
            self._connecting.start()
        return False

    def _connect(self) -> None:
        try:
            self._made.put(shake_hands(self._path, self._hello, HELLO_S))
        except Unavailable as error:
            log.debug("camera %s: %s", self._hello.name, error)

    def _sent(self, frame: int, picture: NDArray[np.uint8], found: Detections, applications: tuple[str, ...]) -> bool:
        assert self._socket is not None
        assert self._arena is not None
        self._receive()
        arrays: dict[str, NDArray[Any]] = {
            "picture": picture[None],
            "boxes": found.boxes[None].astype(np.float32, copy=False),
            "scores": found.scores[None].astype(np.float32, copy=False),
            "labels": found.classes[None].astype(np.int64, copy=False),
        }
        # Objects take little beside a picture; their room is that of a thousand, so that slots stay alike.
        wanted = aligned(picture.nbytes) + 3 * aligned(max(1024, len(found)) * 16)
        if wanted != self._slot_bytes and len(self._free) == self._slots:
            self._slot_bytes = wanted
            self._slots = min(MOST_SLOTS, self._arena.size // wanted)
            self._free = list(range(self._slots))
        if wanted != self._slot_bytes or not self._free:
            return False
        slot = self._free.pop()
        at = slot * self._slot_bytes
        placed = []
        for spec in SOURCE_INPUTS:
            array = arrays[spec.name]
            size = self._arena.write(spec.datatype, array, at, array.nbytes)
            placed.append(Placed(spec.name, spec.datatype, tuple(array.shape), at, size))
            at += aligned(size)
        data = encode(OfferedAnswer(slot, frame, applications, tuple(placed)))
        try:
            whole = self._socket.send(data) == len(data)
        except BlockingIOError:
            self._free.append(slot)
            return False
        if not whole:
            raise OSError("the front does not read")
        return True

    def _receive(self) -> None:
        """Take in what the front has freed; OSError if it is gone."""
        assert self._socket is not None
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            if not data:
                raise OSError("it has ended the link")
            self._take(self._frames.feed(data))

    def _take(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            message = decode(body)
            if not isinstance(message, SlotFree):
                raise InvalidValue("frame.is", type(message).__name__.lower(), "slot_free")
            self._free.append(message.slot)
