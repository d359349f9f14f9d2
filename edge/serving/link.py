"""The Unix socket between the serving front and its executors: small frames with a schema; tensors go by the arena.

A frame is a length (4 bytes, little-endian) and a JSON object. Nothing is ever unpickled and every number is checked,
because an executor runs models that nobody vouches for: what it sends can end its own link, and nothing else.

    executor                          front
    Hello(executor, token, models) -> Welcome(arena) with the arena's descriptor, or Refused(reason)
                                   <- Batch(number, model, version, rows, inputs, room for outputs)
    Done(number, outputs, times)   ->    or Failed(number, code, reason)
    Loaded(models)                 ->    whenever the set of loaded versions has changed

The front answers in any order that it likes; an executor runs batches in the order of their coming.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from numpy.typing import NDArray

from edge.core.errors import InvalidValue, MagpieError, Overloaded, Unavailable
from edge.core.oip import DATATYPES, Tensor
from edge.serving.arena import ARENA_BYTES, Arena, ArenaFull, Mapped, aligned, encoded_bytes, tensor_bytes

log = logging.getLogger(__name__)

#: The largest frame: a batch of a model with hundreds of tensors stays far below.
MAX_FRAME = 2**20
#: Batches of one executor that may be outstanding: a bound against a front that forgets, not a scheduling rule.
MAX_OUTSTANDING = 64
#: An accepted connection must prove itself within this time.
HELLO_S = 5.0
#: Connections that have not proved themselves yet.
_MAX_STRANGERS = 64

_HEADER = struct.Struct("<I")
_LARGEST = 2**53
_MAX_DIMENSIONS = 32
_MAX_TENSORS = 256
_MAX_TEXT = 4096


class LinkLost(Unavailable):
    """The other end of the link is gone, or broke the protocol."""

    code = "link_lost"


# -- messages


@dataclass(frozen=True)
class Placed:
    """A tensor in the arena: `nbytes` at `offset`. BYTES are in the protocol's encoding (length before content)."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Hello:
    """The executor's first frame: who it is, the secret that it was started with, `model/version` of all it serves."""

    executor: str
    token: str
    models: tuple[str, ...]
    pid: int = 0


@dataclass(frozen=True)
class Welcome:
    """The front's answer; the arena's descriptor travels with it."""

    arena_bytes: int


@dataclass(frozen=True)
class Refused:
    """The front's other answer: wrong token, or an executor of that name is connected."""

    reason: str


@dataclass(frozen=True)
class Batch:
    """One batch of `rows` requests' data. Outputs go into `output_bytes` at `output_offset`."""

    number: int
    model: str
    version: str
    rows: int
    inputs: tuple[Placed, ...]
    output_offset: int
    output_bytes: int

    @property
    def key(self) -> str:
        """`model/version`."""
        return f"{self.model}/{self.version}"


@dataclass(frozen=True)
class Times:
    """Seconds of a batch in its executor: waiting for the share, reading inputs, computing, writing outputs."""

    waited_s: float = 0.0
    input_s: float = 0.0
    infer_s: float = 0.0
    output_s: float = 0.0

    @property
    def busy_s(self) -> float:
        """Without the wait."""
        return self.input_s + self.infer_s + self.output_s


@dataclass(frozen=True)
class Done:
    """A batch has been computed."""

    number: int
    outputs: tuple[Placed, ...]
    times: Times = field(default_factory=Times)


@dataclass(frozen=True)
class Failed:
    """A batch failed, and only it. `code` is that of edge.core.errors, or "model_failed", "out_of_memory",
    "output_too_large" (then `needed_bytes` is the room that its outputs take)."""

    number: int
    code: str
    reason: str
    needed_bytes: int = 0
    times: Times = field(default_factory=Times)


@dataclass(frozen=True)
class Loaded:
    """`model/version` of all that the executor serves from now on."""

    models: tuple[str, ...]


Message = Hello | Welcome | Refused | Batch | Done | Failed | Loaded


def encode(message: Message) -> bytes:
    """The frame of a message. Raises InvalidValue if it is larger than MAX_FRAME."""
    body = _ENCODER.encode(_WRITERS[type(message)](message)).encode()
    if len(body) > MAX_FRAME:
        raise InvalidValue("frame", f"{len(body)} bytes", f"at most {MAX_FRAME} bytes")
    return _HEADER.pack(len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Message:
    """The message in a frame (without its length). Raises InvalidValue for anything that the schema does not allow."""
    try:
        value = _DECODER.decode(str(body, "utf-8"))
    except (ValueError, RecursionError):
        raise InvalidValue("frame", bytes(body[:60]), "a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidValue("frame", value, "a JSON object")
    reader = _READERS.get(_text(value, "is"))
    if reader is None:
        raise InvalidValue("frame.is", value["is"], "one of " + ", ".join(_READERS))
    return reader(value)


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of all frames complete by now. Raises InvalidValue for a frame above the limit."""
        buffer = self._buffer
        buffer += data
        bodies: list[bytes] = []
        at = 0
        while len(buffer) - at >= 4:
            (length,) = _HEADER.unpack_from(buffer, at)
            if length > self._limit:
                raise InvalidValue("frame", f"{length} bytes", f"at most {self._limit} bytes")
            if len(buffer) - at - 4 < length:
                break
            bodies.append(bytes(buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        del buffer[:at]
        return bodies

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._buffer)


# -- the front's end


@dataclass(frozen=True, eq=False)
class BatchInput:
    """One input of a batch: C-contiguous arrays of `datatype`, alike but for their first dimension, to be put one
    after the other."""

    name: str
    datatype: str
    parts: Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class BatchDone:
    """What came of a batch: output tensors of all its rows. They are views of the arena, valid until
    `FrontLink.release(number)`."""

    number: int
    outputs: tuple[Tensor, ...]
    times: Times


class LinkHandler(Protocol):
    """Who acts on what an executor says. Called on the event loop; must not block."""

    def batch_done(self, link: FrontLink, done: BatchDone) -> None:
        """A batch is computed; call `link.release(done.number)` when its outputs are no longer needed."""

    def batch_failed(self, link: FrontLink, failed: Failed) -> None:
        """A batch failed; its place in the arena is free again."""

    def models_changed(self, link: FrontLink) -> None:
        """`link.models` has changed."""

    def link_lost(self, link: FrontLink, outstanding: tuple[int, ...], reason: str) -> None:
        """Called exactly once: the connection has ended; these batches will never be answered."""


@dataclass
class _Sent:
    block: int
    rows: int
    output_offset: int
    output_bytes: int


class FrontLink(asyncio.Protocol):
    """The front's end of one executor's link. Made by FrontServer; set `handler` when it is handed over."""

    def __init__(self, hello: Hello, arena: Arena, handler: LinkHandler | None = None) -> None:
        self.executor = hello.executor
        self.pid = hello.pid
        self.models: frozenset[str] = frozenset(hello.models)
        self.arena = arena
        self.handler = handler
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._running: dict[int, _Sent] = {}
        self._held: dict[int, int] = {}  # answered, outputs still in use: number -> block
        self._number = 0
        self._reason = "the executor ended its connection"
        self._lost = False

    @property
    def connected(self) -> bool:
        """True until the link is lost or closed."""
        return self._transport is not None and not self._lost

    @property
    def outstanding(self) -> int:
        """Batches sent and not answered."""
        return len(self._running)

    def send(self, model: str, version: str, inputs: Sequence[BatchInput], output_bytes: int) -> int:
        """Copy a batch's inputs into the arena and hand it to the executor; returns its number.

        `output_bytes` is the room for its outputs, each of which begins at a multiple of 64 bytes: `output_room`.
        Raises ArenaFull (no room now), Overloaded (too many outstanding), LinkLost, InvalidValue (parts that do not
        fit each other).
        """
        if self._transport is None or self._lost:
            raise LinkLost(f"executor {self.executor} is not connected")
        if len(self._running) >= MAX_OUTSTANDING:
            raise Overloaded(f"executor {self.executor} has {MAX_OUTSTANDING} batches outstanding")
        shapes, sizes = [], []
        rows = -1
        for given in inputs:
            shape = _joined_shape(given)
            if rows not in (-1, shape[0]):
                raise InvalidValue(f"{given.name}.shape[0]", shape[0], f"{rows} rows as the other inputs")
            rows = shape[0]
            shapes.append(shape)
            if given.datatype == "BYTES":
                sizes.append(sum(encoded_bytes(part) for part in given.parts))
            else:
                sizes.append(tensor_bytes(given.datatype, shape))
        input_bytes = sum(aligned(size) for size in sizes)
        block = self.arena.allocate(input_bytes + output_bytes)
        try:
            at = block
            placed = []
            for given, shape, size in zip(inputs, shapes, sizes, strict=True):
                self._put(given, shape, at, size)
                placed.append(Placed(given.name, given.datatype, shape, at, size))
                at += aligned(size)
            number = self._number + 1
            frame = encode(Batch(number, model, version, rows, tuple(placed), at, output_bytes))
        except BaseException:
            self.arena.free(block)
            raise
        self._number = number
        self._running[number] = _Sent(block, rows, at, output_bytes)
        self._transport.write(frame)
        return number

    def release(self, number: int) -> None:
        """The outputs of an answered batch are no longer needed; safe to repeat."""
        block = self._held.pop(number, None)
        if block is not None and not self._lost:
            self.arena.free(block)

    def close(self, reason: str = "closed by the front") -> None:
        """End the connection; `link_lost` follows."""
        if self._transport is not None and not self._lost:
            self._reason = reason
            self._transport.abort()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                if self._lost:
                    return
                self._take(decode(body))
        except InvalidValue as error:
            log.error("executor %s broke the protocol: %s", self.executor, error)
            self.close(f"the executor broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        outstanding = tuple(self._running)
        self._running.clear()
        if exc is not None and self._reason == "the executor ended its connection":
            self._reason = f"the connection broke: {exc}"
        try:
            if self.handler is not None:
                self.handler.link_lost(self, outstanding, self._reason)
        finally:
            self._held.clear()
            self.arena.close()

    # -- inside

    def _put(self, given: BatchInput, shape: tuple[int, ...], offset: int, size: int) -> None:
        if given.datatype == "BYTES":
            for part in given.parts:
                offset += self.arena.write("BYTES", part, offset, size)
            return
        target = self.arena.array(given.datatype, shape, offset)
        at = 0
        for part in given.parts:
            target[at : at + part.shape[0]] = part
            at += part.shape[0]

    def _take(self, message: Message) -> None:
        if isinstance(message, Done):
            self._done(message)
        elif isinstance(message, Failed):
            sent = self._running.pop(message.number, None)
            if sent is None:
                raise InvalidValue("failed.number", message.number, "a batch that is outstanding")
            self.arena.free(sent.block)
            if self.handler is not None:
                self.handler.batch_failed(self, message)
        elif isinstance(message, Loaded):
            self.models = frozenset(message.models)
            if self.handler is not None:
                self.handler.models_changed(self)
        else:
            raise InvalidValue("frame.is", type(message).__name__.lower(), "done, failed or loaded")

    def _done(self, message: Done) -> None:
        sent = self._running.get(message.number)
        if sent is None:
            raise InvalidValue("done.number", message.number, "a batch that is outstanding")
        tensors = []
        for n, out in enumerate(message.outputs):
            path = f"done.outputs[{n}]"
            if out.offset < sent.output_offset or out.offset + out.nbytes > sent.output_offset + sent.output_bytes:
                raise InvalidValue(f"{path}.offset", [out.offset, out.nbytes], "a place in the batch's own room")
            if not out.shape or out.shape[0] != sent.rows:
                raise InvalidValue(f"{path}.shape", list(out.shape), f"{sent.rows} rows")
            if out.datatype == "BYTES" and tensor_elements(out.shape) * 4 > out.nbytes:
                raise InvalidValue(f"{path}.shape", list(out.shape), f"what fits into {out.nbytes} bytes")
            array = self.arena.read(out.datatype, out.shape, out.offset, out.nbytes)
            tensors.append(Tensor(out.name, out.datatype, array))
        del self._running[message.number]
        self._held[message.number] = sent.block
        if self.handler is None:
            self.release(message.number)
        else:
            self.handler.batch_done(self, BatchDone(message.number, tuple(tensors), message.times))


def tensor_elements(shape: Sequence[int]) -> int:
    """Elements of a tensor."""
    count = 1
    for size in shape:
        count *= size
    return count


def output_room(sizes: Sequence[int]) -> int:
    """Room for outputs of these sizes in bytes, each beginning at a block of its own."""
    return sum(aligned(size) for size in sizes)


def _joined_shape(given: BatchInput) -> tuple[int, ...]:
    if not given.parts:
        raise InvalidValue(given.name, given.parts, "at least one part")
    first = given.parts[0]
    dtype = DATATYPES[given.datatype]
    for part in given.parts:
        if part.ndim == 0 or part.shape[1:] != first.shape[1:] or part.dtype != dtype:
            raise InvalidValue(
                given.name, [str(part.dtype), *part.shape], f"{dtype} (rows, {', '.join(map(str, first.shape[1:]))})"
            )
    return (sum(part.shape[0] for part in given.parts), *first.shape[1:])


class FrontServer:
    """Listens on a Unix socket (mode 0600); each executor that proves its token becomes a FrontLink.

    `on_executor(link)` is called on the event loop and must set `link.handler`. Only executors that were announced by
    `expect` are let in, and one at a time under each name.
    """

    def __init__(
        self,
        path: Path,
        on_executor: Callable[[FrontLink], None],
        arena_bytes: int = ARENA_BYTES,
        hello_s: float = HELLO_S,
    ) -> None:
        self.path = Path(path)
        self.refused = 0
        self._on_executor = on_executor
        self._arena_bytes, self._hello_s = arena_bytes, hello_s
        self._expected: dict[str, tuple[str, int]] = {}
        self._links: dict[str, FrontLink] = {}
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._strangers: set[asyncio.Task[None]] = set()

    def expect(self, executor: str, token: str, arena_bytes: int | None = None) -> None:
        """Let this executor in when it shows `token` (not empty); with an arena of that size."""
        if not token:
            raise InvalidValue("token", token, "a secret")
        self._expected[executor] = (token, self._arena_bytes if arena_bytes is None else arena_bytes)

    def forget(self, executor: str) -> None:
        """Let this executor in no more; a link that it has goes on."""
        self._expected.pop(executor, None)

    async def start(self) -> None:
        """Listen. Raises Unavailable if the socket cannot be made."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.setblocking(False)
        try:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            os.fchmod(listener.fileno(), 0o600)  # Linux: the name is then born with this mode
            with _short(self.path) as address:
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
        """From the first byte to a link, or to the door."""
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
                connection.send(encode(Refused(str(error)[:_MAX_TEXT])))
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            if link.connected:
                self._links[link.executor] = link
                self._on_executor(link)

    def _admit(self, hello: Hello) -> FrontLink:
        token, size = self._expected.get(hello.executor, ("", 0))
        shown = hello.token.encode("utf-8", "replace")  # JSON may hold half a surrogate pair
        if not token or not hmac.compare_digest(token.encode(), shown):
            raise Unavailable("unknown executor or wrong token")
        self._links = {name: link for name, link in self._links.items() if link.connected}
        if hello.executor in self._links:
            raise Unavailable(f"executor {hello.executor} is connected already")
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


# -- the executor's end


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
        """Connect and show the token. Raises Unavailable: nobody listens, the front refuses (why is in the message),
        or does not answer in time."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(timeout_s)
        fds: list[int] = []
        try:
            with _short(Path(path)) as address:
                connection.connect(address)
            connection.sendall(encode(Hello(executor, token, tuple(models), os.getpid())))
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
                raise Unavailable(f"the front refuses executor {executor}: {answer.reason}")
            if not isinstance(answer, Welcome) or len(fds) != 1:
                raise LinkLost("the front did not hand over an arena")
            link = ExecutorLink(connection, Mapped(fds.pop(), answer.arena_bytes))
            link._frames = frames
            link._waiting = [link._batch(body) for body in bodies[1:]]
            return link
        except (OSError, InvalidValue) as error:
            connection.close()
            raise Unavailable(f"no serving front answers at {Path(path).name}: {error}") from error
        except MagpieError:
            connection.close()
            raise
        finally:
            for fd in fds:
                os.close(fd)

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


def needed_room(outputs: Sequence[Tensor]) -> int:
    """Room in bytes that outputs take in the arena."""
    return output_room(
        [
            encoded_bytes(out.array) if out.datatype == "BYTES" else tensor_bytes(out.datatype, out.array.shape)
            for out in outputs
        ]
    )


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """An address for `path` that a socket takes: its name may have 107 bytes, a data folder's path more."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


# -- the schema


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _text(value: Mapping[str, Any], key: str, most: int = 512) -> str:
    given = value.get(key)
    if not isinstance(given, str) or len(given) > most:
        raise InvalidValue(f"frame.{key}", given, f"a text of at most {most} characters")
    return given


def _whole(value: Mapping[str, Any], key: str) -> int:
    given = value.get(key)
    if type(given) is not int or not 0 <= given < _LARGEST:
        raise InvalidValue(f"frame.{key}", given, "a whole number, 0 or more")
    return given


def _list(value: Mapping[str, Any], key: str, most: int) -> list[Any]:
    given = value.get(key)
    if not isinstance(given, list) or len(given) > most:
        raise InvalidValue(f"frame.{key}", given, f"a list of at most {most}")
    return given


def _names(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = _list(value, key, 4096)
    if not all(isinstance(name, str) and len(name) <= 512 for name in given):
        raise InvalidValue(f"frame.{key}", given, "a list of texts")
    return tuple(given)


def _times(value: Mapping[str, Any]) -> Times:
    given = _list(value, "times", 4)
    if len(given) != 4 or not all(type(t) in (int, float) and 0.0 <= t < 1e9 for t in given):
        raise InvalidValue("frame.times", given, "four numbers of seconds, 0 or more")
    return Times(*(float(t) for t in given))


def _placed(value: Mapping[str, Any], key: str) -> tuple[Placed, ...]:
    found = []
    for n, given in enumerate(_list(value, key, _MAX_TENSORS)):
        if not isinstance(given, list) or len(given) != 5:
            raise InvalidValue(f"frame.{key}[{n}]", given, "[name, datatype, shape, offset, bytes]")
        name, datatype, shape, offset, nbytes = given
        if not isinstance(name, str) or len(name) > 512 or not isinstance(datatype, str) or datatype not in DATATYPES:
            raise InvalidValue(f"frame.{key}[{n}]", [name, datatype], "a name and a datatype of the protocol")
        if (
            not isinstance(shape, list)
            or len(shape) > _MAX_DIMENSIONS
            or not all(type(size) is int and 0 <= size < 2**31 for size in shape)
        ):
            raise InvalidValue(f"frame.{key}[{n}].shape", shape, "whole numbers, 0 or more")
        for number in (offset, nbytes):
            if type(number) is not int or not 0 <= number < _LARGEST:
                raise InvalidValue(f"frame.{key}[{n}]", [offset, nbytes], "whole numbers, 0 or more")
        found.append(Placed(name, datatype, tuple(shape), offset, nbytes))
    return tuple(found)


def _places(tensors: Sequence[Placed]) -> list[Any]:
    return [[p.name, p.datatype, p.shape, p.offset, p.nbytes] for p in tensors]


def _seconds(times: Times) -> list[float]:
    return [round(t, 9) for t in (times.waited_s, times.input_s, times.infer_s, times.output_s)]


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_no_constant)

_WRITERS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Hello: lambda m: {
        "is": "hello", "executor": m.executor, "token": m.token, "models": list(m.models), "pid": m.pid,
    },
    Welcome: lambda m: {"is": "welcome", "arena_bytes": m.arena_bytes},
    Refused: lambda m: {"is": "refused", "reason": m.reason},
    Batch: lambda m: {
        "is": "batch", "number": m.number, "model": m.model, "version": m.version, "rows": m.rows,
        "inputs": _places(m.inputs), "output_offset": m.output_offset, "output_bytes": m.output_bytes,
    },
    Done: lambda m: {"is": "done", "number": m.number, "outputs": _places(m.outputs), "times": _seconds(m.times)},
    Failed: lambda m: {
        "is": "failed", "number": m.number, "code": m.code, "reason": m.reason[:_MAX_TEXT],
        "needed_bytes": m.needed_bytes, "times": _seconds(m.times),
    },
    Loaded: lambda m: {"is": "loaded", "models": list(m.models)},
}  # fmt: skip

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "hello": lambda v: Hello(_text(v, "executor"), _text(v, "token"), _names(v, "models"), _whole(v, "pid")),
    "welcome": lambda v: Welcome(_whole(v, "arena_bytes")),
    "refused": lambda v: Refused(_text(v, "reason", _MAX_TEXT)),
    "batch": lambda v: Batch(
        _whole(v, "number"), _text(v, "model"), _text(v, "version"), _whole(v, "rows"), _placed(v, "inputs"),
        _whole(v, "output_offset"), _whole(v, "output_bytes"),
    ),
    "done": lambda v: Done(_whole(v, "number"), _placed(v, "outputs"), _times(v)),
    "failed": lambda v: Failed(
        _whole(v, "number"), _text(v, "code"), _text(v, "reason", _MAX_TEXT), _whole(v, "needed_bytes"), _times(v)
    ),
    "loaded": lambda v: Loaded(_names(v, "models")),
}  # fmt: skip
