"""The executor's end of the link to the serving front: batches come in, their answers go out."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge.core.errors import InvalidValue, MagpieError, Unavailable
from edge.core.oip import Tensor
from edge.serving.arena import ArenaFull, Mapped, aligned, encoded_bytes, tensor_bytes
from edge.serving.link_messages import (
    HELLO_S,
    Batch,
    Done,
    Failed,
    Frames,
    Hello,
    LinkLost,
    Loaded,
    Placed,
    Refused,
    Welcome,
    decode,
    encode,
)
from edge.serving.unix_address import short_address


class ExecutorLink:
    """The executor's end: blocking, used from one thread."""

    def __init__(self, connection: socket.socket, arena: Mapped) -> None:
        self.arena = arena
        self._socket = connection
        self._frames = Frames()
        self._waiting: list[Batch] = []
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    @staticmethod
    def connect(
        path: Path, executor: str, token: str, models: Sequence[str], timeout_s: float = HELLO_S
    ) -> ExecutorLink:
        """Connect and show the token. Raises Unavailable: no front listens, it refuses (the message says why), or does
        not answer in time.
        """
        connection, arena, frames, bodies = shake_hands(
            path, Hello(executor, token, tuple(models), os.getpid()), timeout_s
        )
        try:
            link = ExecutorLink(connection, arena)
            link._frames = frames
            link._waiting = [link._batch(body) for body in bodies]
            return link
        except InvalidValue as error:
            connection.close()
            arena.close()
            raise Unavailable(f"no serving front answers at {Path(path).name}: {error}") from error

    def receive(self, timeout_s: float) -> Batch | None:
        """The next batch, or None after `timeout_s`. Raises LinkLost when the front is gone."""
        ends = time.monotonic() + timeout_s
        while not self._waiting:
            left = ends - time.monotonic()
            if not self._poll.poll(max(0.0, left) * 1000.0):
                return None
            try:
                data = self._socket.recv(65536)
                bodies = self._frames.feed(data)
                self._waiting += [self._batch(body) for body in bodies]
            except TimeoutError:
                continue
            except (OSError, InvalidValue) as error:
                raise LinkLost(f"the link to the front broke: {error}") from error
            if not data:
                raise LinkLost("the front has ended the link")
        return self._waiting.pop(0)

    @property
    def pending(self) -> int:
        """Batches that have come and were not taken yet."""
        return len(self._waiting)

    def inputs(self, batch: Batch) -> dict[str, NDArray[Any]]:
        """The batch's inputs: views of the arena (BYTES: copies). Raises InvalidValue if they are not in the arena."""
        return {p.name: self.arena.read(p.datatype, p.shape, p.offset, p.nbytes) for p in batch.inputs}

    def place(self, batch: Batch, outputs: Sequence[Tensor]) -> tuple[Placed, ...]:
        """Write outputs into the batch's room. Raises ArenaFull if they take more (`needed_room` tells how much)."""
        needed = needed_room(outputs)
        if needed > batch.output_bytes:
            raise ArenaFull(f"the outputs take {needed} bytes, the batch has room for {batch.output_bytes}")
        at, placed = batch.output_offset, []
        for out in outputs:
            size = self.arena.write(out.datatype, out.array, at, batch.output_offset + batch.output_bytes - at)
            placed.append(Placed(out.name, out.datatype, tuple(out.array.shape), at, size))
            at += aligned(size)
        return tuple(placed)

    def send(self, message: Done | Failed | Loaded) -> None:
        """Answer. Raises LinkLost when the front is gone."""
        try:
            self._socket.sendall(encode(message))
        except OSError as error:
            raise LinkLost(f"the link to the front broke: {error}") from error

    def close(self) -> None:
        """End the link. Safe to repeat."""
        self._socket.close()
        self.arena.close()

    @staticmethod
    def _batch(body: bytes) -> Batch:
        message = decode(body)
        if not isinstance(message, Batch):
            raise InvalidValue("frame.is", type(message).__name__.lower(), "batch")
        return message


def shake_hands(path: Path, hello: Hello, timeout_s: float) -> tuple[socket.socket, Mapped, Frames, list[bytes]]:
    """Connect to the front and show the token: the connection, the arena, and what came after the welcome already.

    Raises Unavailable: no front listens, it refuses (the message says why), or does not answer in time.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout_s)
    fds: list[int] = []
    try:
        with short_address(Path(path)) as address:
            connection.connect(address)
        connection.sendall(encode(hello))
        frames = Frames()
        bodies: list[bytes] = []
        while not bodies:
            data, new, _, _ = socket.recv_fds(connection, 65536, 1)
            fds += new
            if not data:
                raise LinkLost("the front closed the connection")
            bodies = frames.feed(data)
        answer = decode(bodies[0])
        if isinstance(answer, Refused):
            raise Unavailable(f"the front refuses {hello.kind} {hello.name}: {answer.reason}")
        if not isinstance(answer, Welcome) or len(fds) != 1:
            raise LinkLost("the front did not hand over an arena")
        return connection, Mapped(fds.pop(), answer.arena_bytes), frames, bodies[1:]
    except (OSError, InvalidValue) as error:
        connection.close()
        raise Unavailable(f"no serving front answers at {Path(path).name}: {error}") from error
    except MagpieError:
        connection.close()
        raise
    finally:
        for fd in fds:
            os.close(fd)


def needed_room(outputs: Sequence[Tensor]) -> int:
    """Room in bytes that outputs take in the arena."""
    return output_room(
        [
            encoded_bytes(out.array) if out.datatype == "BYTES" else tensor_bytes(out.datatype, out.array.shape)
            for out in outputs
        ]
    )


def output_room(sizes: Sequence[int]) -> int:
    """Room for outputs of these sizes in bytes, each beginning at a block of its own."""
    return sum(aligned(size) for size in sizes)
