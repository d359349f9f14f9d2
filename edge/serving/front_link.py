"""The front's end of the link to one executor: batches go out, with their tensors in the executor's arena; answers come
in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from edge.core.errors import InvalidValue, Overloaded
from edge.core.oip import DATATYPES, Tensor
from edge.serving.arena import Arena, aligned, encoded_bytes, tensor_bytes
from edge.serving.link_messages import (
    Batch,
    Done,
    Failed,
    Frames,
    Hello,
    LinkLost,
    Loaded,
    Message,
    Placed,
    Times,
    decode,
    encode,
)

log = logging.getLogger(__name__)

#: Batches of one executor that may be outstanding: a bound against a front that forgets, not a scheduling rule.
MAX_OUTSTANDING = 64


@dataclass(frozen=True, eq=False)
class BatchInput:
    """One input of a batch: C-contiguous arrays of `datatype`, alike but for their first dimension, to be put one
    after the other."""

    name: str
    datatype: str
    parts: Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class BatchDone:
    """A batch's result: output tensors of all its rows. They are views of the arena, valid until
    `FrontLink.release(number)`."""

    number: int
    outputs: tuple[Tensor, ...]
    times: Times


class LinkHandler(Protocol):
    """The handler of an executor's messages. Called on the event loop; must not block."""

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
        self.executor = hello.name
        self.pid = hello.pid
        self.models: frozenset[str] = frozenset(hello.models)
        self.arena = arena
        self.handler = handler
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._running: dict[int, _Sent] = {}
        self._held: dict[int, int] = {}  # answered, outputs still in use: number -> block
        self._number = 0
        #: Why the front ended the connection, where it was the front.
        self._reason: str | None = None
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
        broke = "the executor ended its connection" if exc is None else f"the connection broke: {exc}"
        try:
            if self.handler is not None:
                self.handler.link_lost(self, outstanding, self._reason or broke)
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
